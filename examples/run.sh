#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the demo and runs it: bash examples/run.sh [options of the demo]
# or the search for a policy:  bash examples/run.sh tune [options of unmask_tune]
# UNMASK_BUILD names another folder to build in than build/demo, UNMASK_CMAKE an option for CMake:
# UNMASK_CMAKE=-DUNMASK_OWN_PARTS=/path/my_parts.hpp adds your parts to the policies that it knows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libeigen3-dev nlohmann-json3-dev

program=unmask_demo
if [[ ${1:-} == tune ]]; then
  program=unmask_tune
  shift
fi
build=${UNMASK_BUILD:-build/demo}
if [[ ! -x $build/examples/$program ]]; then
  echo "Building $program: two to three minutes of one core, the first time only" >&2
fi
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_EXAMPLE_NATIVE=ON ${UNMASK_CMAKE:+"$UNMASK_CMAKE"}
unmask_build "$build" --target "$program" --parallel "${UNMASK_JOBS:-$(nproc)}"
exec "$build/examples/$program" "$@"
