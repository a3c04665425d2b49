#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds what decodes and compares policies with their controls: bash bench/judge.sh [options of judge.py]
# With --model chains those of judge_chains.py, with --model waiting those of judge_waiting.py. board.sh starts another script by UNMASK_JUDGE.
# UNMASK_BUILD names another folder to build in than build/judge.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libeigen3-dev nlohmann-json3-dev libbenchmark-dev

build=${UNMASK_BUILD:-build/judge}
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_BUILD_BENCH=ON -DUNMASK_EXAMPLE_NATIVE=ON
unmask_build "$build" --target unmask_demo unmask_bench_layer_controls --parallel "${UNMASK_JOBS:-$(nproc)}"
script=${UNMASK_JUDGE:-bench/judge.py}
for model in chains waiting; do
  [[ " $* " == *" --model $model "* ]] && script=bench/judge_$model.py
done
exec python3 "$script" --demo "$build/examples/unmask_demo" --layers "$build/bench/layer_controls" \
  --work "$build/decoded" "$@"
