#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the demo and compares policies on rxnmapper and antiberty: bash bench/masked_lms.sh [options of masked_lms.py]
# The models must lie in build/masked_lms: examples/masked_lms/README.md. UNMASK_BUILD names another folder to build in
# than build/judge.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libeigen3-dev nlohmann-json3-dev

build=${UNMASK_BUILD:-build/judge}
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_EXAMPLE_NATIVE=ON
unmask_build "$build" --target unmask_demo --parallel "${UNMASK_JOBS:-$(nproc)}"
exec python3 bench/masked_lms.py --demo "$build/examples/unmask_demo" "$@"
