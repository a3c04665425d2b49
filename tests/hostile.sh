#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Random policies by name on random engines that go wrong, constraints among them, compiled with the
# optimiser and under the address and undefined behaviour sanitizers, then with bytes between the
# arrays of a slot that nothing may touch:
#
#   bash tests/hostile.sh [SEED [DECODES [DECODES under sanitizers]]]    1, 100000 and 10000 by default
#
# Prints the number of decodes, and each violated property with the policy, the shape and the engine
# that violate it, reduced. `unmask_hostile --seed SEED --case NUMBER` prints a case step by step.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3

seed=${1:-1}
status=0
# run <folder> <flags> <decodes>
run() {
  unmask_quietly cmake --preset release -B "$1" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$2"
  unmask_build "$1" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_hostile
  echo "$2"
  "$1/tests/unmask_hostile" --seed "$seed" --decodes "$3" || status=1
}
run build/hostile "-O2" "${2:-100000}"
run build/hostile_sanitized \
  "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
-DUNMASK_RED_ZONES" \
  "${3:-10000}"
exit "$status"
