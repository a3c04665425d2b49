#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What takes long or much: 256 slots for many steps, long sequences, wide vocabularies, rows far apart,
# sessions on several threads, another locale. Then the threads once more under the thread sanitizer.
#
#   bash tests/soak.sh [STEPS]    1000000 by default: half an hour of a quiet core
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3 locales

# A locale with a decimal comma.
locales="$PWD/build/locales"
mkdir -p "$locales"
localedef -i de_DE -f UTF-8 "$locales/de_DE.UTF-8"

# run <folder> <flags> <arguments>...
run() {
  local folder=$1 flags=$2
  shift 2
  unmask_quietly cmake --preset release -B "$folder" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$flags"
  unmask_build "$folder" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_soak
  echo "$flags"
  LOCPATH="$locales" LC_ALL=de_DE.UTF-8 "$folder/tests/unmask_soak" "$@"
}
run build/soak "-O2" --steps "${1:-1000000}"
run build/soak_threads "-O1 -g1 -fsanitize=thread" --only threads --steps 1
