#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The arithmetic and the row kernels on AArch64, and the recorded decodes of unmask_hostile:
# cross-compiled, and run by an emulator. What is compared is bits, so an emulator is as good as a
# processor; it does not measure speed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages g++-aarch64-linux-gnu qemu-user libgtest-dev

build=build/aarch64
googletest=/usr/src/googletest/googletest
mkdir -p "$build"
objects=()
compile() {  # compile <source> [option]...
  local object
  object=$build/$(echo "$1" | tr / _).o
  objects+=("$object")
  echo "Compiling $1"
  aarch64-linux-gnu-g++ -std=c++20 -O2 -c "$1" -o "$object" "${@:2}"
}
for source in "$googletest"/src/gtest-all.cc "$googletest"/src/gtest_main.cc; do
  compile "$source" -I"$googletest" -I"$googletest/include"
done
for source in tests/unmask/core/math.test.cpp tests/unmask/stats/*.test.cpp \
  tests/unmask/host/drift.test.cpp tests/unmask/host/read_row.test.cpp \
  tests/unmask/host/row_options.test.cpp tests/unmask/step/sort.test.cpp; do
  compile "$source" -Wall -Wextra -Werror -Iinclude -Itests -I"$googletest/include"
done
aarch64-linux-gnu-g++ -static "${objects[@]}" -o "$build/tests" -pthread
qemu-aarch64 "$build/tests" --gtest_brief=1 "$@"

objects=()
for source in tests/hostile/*.cpp; do
  compile "$source" -Wno-psabi -Iinclude -Itests
done
aarch64-linux-gnu-g++ -static "${objects[@]}" -o "$build/hostile" -pthread
qemu-aarch64 "$build/hostile" --recorded tests/data/hostile_decisions.txt
