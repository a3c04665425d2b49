#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds llama.cpp once, the program that decodes with it, and runs that:
# bash examples/llama_cpp/run.sh [options of the program; --help lists them]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=examples/llama_cpp/install.sh
source examples/llama_cpp/install.sh

unmask_packages libeigen3-dev nlohmann-json3-dev python3
llama_cpp_install

build=build/llama_cpp
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_LLAMA_CPP=ON \
  -DCMAKE_PREFIX_PATH="$llama_cpp_prefix"
unmask_build "$build" --target unmask_llama_cpp --parallel "${UNMASK_JOBS:-$(nproc)}"
exec "$build/examples/llama_cpp/unmask_llama_cpp" "$@"
