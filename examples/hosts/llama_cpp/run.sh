#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds llama.cpp once, the program that decodes with it, and runs that:
# bash examples/hosts/llama_cpp/run.sh [options of the program; --help lists them]
# or the search for a policy: bash examples/hosts/llama_cpp/run.sh tune [options of unmask_tune]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=examples/hosts/llama_cpp/install.sh
source examples/hosts/llama_cpp/install.sh

unmask_packages libeigen3-dev nlohmann-json3-dev python3
llama_cpp_install

program=unmask_llama_cpp
if [[ ${1:-} == tune ]]; then
  program=unmask_llama_cpp_tune
  shift
fi
build=build/llama_cpp
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_LLAMA_CPP=ON \
  -DCMAKE_PREFIX_PATH="$llama_cpp_prefix"
unmask_build "$build" --target "$program" --parallel "${UNMASK_JOBS:-$(nproc)}"
exec "$build/examples/hosts/llama_cpp/$program" "$@"
