#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds everything with warnings as errors and runs every test: bash tests/run.sh [ctest options]
# The CUDA half is built too where there is an nvcc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libgtest-dev libgmock-dev libbenchmark-dev libeigen3-dev nlohmann-json3-dev python3

# nvcc is often installed and not on PATH.
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
nvcc_major=0
if [[ -n $nvcc ]]; then
  nvcc_major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
fi
if ((${nvcc_major:-0} >= 12)); then
  preset=cuda
  export CUDACXX=$nvcc
  cuda="The CUDA half was built with nvcc $nvcc_major; without a GPU its kernels are executed from their PTX."
elif [[ -n $nvcc ]]; then
  preset=release
  cuda="The CUDA half was NOT built: $nvcc is older than 12."
else
  preset=release
  cuda="The CUDA half was NOT built: no nvcc on PATH or in /usr/local/cuda/bin."
fi

build=build/tests
jobs=${UNMASK_JOBS:-$(nproc)}
echo "Configuring $build (preset $preset)"
unmask_configure "$build" --preset "$preset" -DUNMASK_BUILD_BENCH=ON -DUNMASK_BENCH_UNTIMED=ON
echo "Building with $jobs jobs"
unmask_build "$build" --parallel "$jobs"
echo "$cuda"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "$@" </dev/null ||
  status=$?
python3 tests/times.py "$build"
exit "$status"
