#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# llama.cpp as the engine: builds it and its diffusion example once, then the adapter, and runs their
# tests: bash tests/llama_cpp.sh [ctest options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=examples/hosts/llama_cpp/install.sh
source examples/hosts/llama_cpp/install.sh

unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3
llama_cpp_diffusion

build=build/llama_cpp_tests
unmask_quietly cmake --preset release -B "$build" -DUNMASK_LLAMA_CPP=ON \
  -DCMAKE_PREFIX_PATH="$llama_cpp_prefix" -DUNMASK_LLAMA_CPP_SOURCE="$llama_cpp_source" \
  -DUNMASK_LLAMA_CPP_BUILD="$llama_cpp_build"
unmask_build "$build" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_tests_llama_cpp \
  unmask_llama_cpp unmask_llama_cpp_compare unmask_llama_cpp_race unmask_llama_cpp_tune unmask_demo \
  unmask_tune
ctest --test-dir "$build" --output-on-failure --no-tests=error --label-regex llama_cpp "$@" </dev/null
