#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Fuzz targets with the address and undefined behaviour sanitizers, one after the other:
#
#   bash tests/fuzz.sh [SECONDS [TARGET]...]    600 seconds for each target of tests/fuzz by default
#
# Starts with the corpus in tests/fuzz/corpus and with what earlier runs found (build/fuzz/found).
# Stops at the first broken promise: prints it, and the file of the input, which
#   build/fuzz/tests/fuzz/unmask_fuzz_TARGET FILE
# runs again. Prints the number of executions of each target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

export CXX=${CXX:-clang++}
unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3
major=$("$CXX" -dumpversion)
major=${major%%.*}
if [[ ! -e $("$CXX" -print-file-name="libclang_rt.fuzzer-$(uname -m).a") ]] &&
  ! compgen -G "$("$CXX" -print-resource-dir)/lib/*/libclang_rt.fuzzer*.a" >/dev/null; then
  unmask_packages "libclang-rt-$major-dev"
fi

seconds=${1:-600}
shift || true
targets=("$@")
if ((!${#targets[@]})); then
  for folder in tests/fuzz/corpus/*/; do
    targets+=("$(basename "$folder")")
  done
fi

build=build/fuzz
unmask_quietly cmake --preset release -B "$build" -DCMAKE_BUILD_TYPE=None -DUNMASK_FUZZ=ON \
  -DUNMASK_CUDA=OFF \
  -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
unmask_build "$build" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_fuzz_dictionary \
  "${targets[@]/#/unmask_fuzz_}"
"$build/tests/fuzz/unmask_fuzz_dictionary" >"$build/policy_text.dict"

for target in "${targets[@]}"; do
  found=$build/found/$target
  mkdir -p "$found"
  options=(-max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -print_final_stats=1
    -artifact_prefix="$build/$target-")
  [[ $target != policy_text ]] || options+=(-dict="$build/policy_text.dict")
  echo "$target"
  if ! "$build/tests/fuzz/unmask_fuzz_$target" "${options[@]}" "$found" \
    "tests/fuzz/corpus/$target" >"$build/$target.log" 2>&1; then
    grep -v '^#[0-9]' "$build/$target.log" >&2
    exit 1
  fi
  grep -E '^(Done|stat::number)' "$build/$target.log"
done
