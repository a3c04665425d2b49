#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Goal C5: the read of a program built with plain -O2 beside one built for this very machine, and
# g++ beside clang++; their programs run in turns.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/flags
mkdir -p "$build"
names=()
compile() {  # compile <name> <compiler> <option>...
  command -v "$2" >/dev/null || { echo "$2 is not installed: left out"; return 0; }
  "$2" -std=c++20 "${@:3}" -Iinclude -Ibench bench/read.cpp -o "$build/$1" -pthread
  names+=("$1")
}
compile g++_O2 g++ -O2
compile g++_native g++ -O3 -march=native
compile clang++_O2 clang++ -O2
compile clang++_native clang++ -O3 -march=native
for _ in 1 2 3 4 5 6 7 8 9; do
  for name in "${names[@]}"; do
    "$build/$name" f32 8 126464 1 | tr -dc '0-9\n' >>"$build/$name.times"
  done
done
for name in "${names[@]}"; do
  printf '%-16s %s ns\n' "$name" "$(sort -n "$build/$name.times" | sed -n 5p)"
  rm "$build/$name.times"
done
