#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# All that needs a GPU, once: bash tests/gpu.sh [--quick]
#
# Builds for the first GPU of the machine, runs the tests that a machine without one skips, the same
# under the four tools of compute-sanitizer, and measures a step beside the floor. Writes
# bench/results/<device>.md, to be committed. --quick leaves the sanitizer out. Takes about half an
# hour, most of it under racecheck; has not been run yet, for want of a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

quick=0
[[ ${1:-} == --quick ]] && quick=1
export PATH=$PATH:/usr/local/cuda/bin
for tool in nvcc nvidia-smi; do
  command -v "$tool" >/dev/null || {
    echo "SKIPPED: no $tool, so there is no GPU to run on" >&2
    exit 77
  }
done
if ! name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null); then
  echo "SKIPPED: nvidia-smi finds no GPU" >&2
  exit 77
fi
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d .)
export CUDA_VISIBLE_DEVICES=0

build=build/gpu
jobs=${UNMASK_JOBS:-$(nproc)}
unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3
unmask_quietly cmake --fresh --preset cuda -B "$build" "-DCMAKE_CUDA_ARCHITECTURES=$capability"
unmask_build "$build" --parallel "$jobs" --target unmask_tests_cuda \
  unmask_example_cuda_tiny_llada unmask_example_cuda_step_time

report=bench/results/$(tr '[:upper:] ' '[:lower:]-' <<<"$name" | tr -cd 'a-z0-9-').md
mkdir -p bench/results
status=0
# step <title> <command>...: runs it, and puts its last lines into the report.
step() {
  local title=$1 log result=0
  shift
  log=$(mktemp)
  echo "== $title"
  "$@" >"$log" 2>&1 || result=$?
  ((result == 0)) || status=1
  tail -n 40 "$log"
  {
    # shellcheck disable=SC2016
    printf '\n## %s\n\nstatus %s of `%s`\n\n```\n' "$title" "$result" "$*"
    tail -n "${lines:-6}" "$log"
    printf '```\n'
  } >>"$report"
  rm -f "$log"
}

{
  printf '# %s\n\n' "$name"
  # shellcheck disable=SC2016
  printf 'driver %s, compute capability %s, nvcc %s, commit %s, %s, `bash tests/gpu.sh %s`\n' \
    "$driver" "$capability" "$(nvcc --version | sed -n 's/.* V//p')" \
    "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$(date -u +%F)" "$*"
} >"$report"

suite=$build/tests/unmask_tests_cuda
step "The typed suite on the device" "$suite" --gtest_brief=1
step "A decode of the tiny model" "$build/examples/unmask_example_cuda_tiny_llada"
if ((!quick)); then
  for tool in memcheck initcheck synccheck racecheck; do
    # The largest vocabularies are left to the plain run: under a tool they take hours.
    step "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --launch-timeout 0 "$suite" --gtest_brief=1 --gtest_filter='*WithFloat:*Session*'
  done
fi
lines=80 step "A step beside the floor" "$build/examples/unmask_example_cuda_step_time"
echo "Written: $report"
exit $status
