#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds with warnings as errors and runs the tests: bash tests/run.sh [ctest options]
# The CUDA half is built too where there is an nvcc; tests/all.sh has the slow tests, too. Shown are
# progress, failures and CTest's summary, which names skipped tests; the rest is in
# build/tests/tests.log.
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
  preset=cuda minutes=12
  export CUDACXX=$nvcc
  cuda="The CUDA half was built with nvcc $nvcc_major; without a GPU its kernels are executed from their PTX."
elif [[ -n $nvcc ]]; then
  preset=release minutes=12
  cuda="The CUDA half was NOT built: $nvcc is older than 12."
else
  preset=release minutes=12
  cuda="The CUDA half was NOT built: no nvcc on PATH or in /usr/local/cuda/bin."
fi

build=build/tests
jobs=${UNMASK_JOBS:-$(nproc)}
echo "Building the tests with $jobs jobs: about $(((minutes + jobs - 1) / jobs)) minutes the first time"
slow=${UNMASK_SLOW_TESTS:-OFF}
unmask_configure "$build" --preset "$preset" -DUNMASK_TESTS_TOGETHER=ON -DUNMASK_EXAMPLE_NATIVE=ON \
  "-DUNMASK_SLOW_TESTS=$slow" "-DUNMASK_BUILD_BENCH=$slow" -DUNMASK_BENCH_UNTIMED=ON
unmask_build "$build" --parallel "$jobs"
echo "$cuda"
echo "Running them: about $(((5 + jobs - 1) / jobs)) minutes"
log=$build/tests.log
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "$@" </dev/null |
  python3 tests/progress.py "$log" || status=$?
python3 tests/times.py "$build" >"$build/times.txt"
echo
tail -n 1 "$build/times.txt"
echo "Every test is in $log, the slowest in $build/times.txt."
if ((status)); then
  echo "Only the failed ones: bash tests/run.sh --rerun-failed"
else
  echo "Next: bash examples/run.sh, in which a model decodes under many policies"
fi
exit "$status"
