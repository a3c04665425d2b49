#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# All that needs a GPU: the tests that a machine without one executes from PTX, the same under the
# four tools of compute-sanitizer, a decode, a step beside the floor, and steps and reads beside those
# of others. Writes bench/results/<device>.md, to be committed.
#
#   bash tests/gpu.sh               builds for the first GPU of this machine and runs every step
#   bash tests/gpu.sh build 90      builds for compute capability 9.0; needs nvcc, and no GPU
#   bash tests/gpu.sh run [STEP]... runs what was built, here or on a machine that build/gpu was
#                                   copied to; needs neither packages nor a compiler
#
# Steps: suite decode time peers memcheck initcheck synccheck racecheck; all of them without names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/gpu
suite=$build/tests/unmask_tests_cuda
export PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64
all_steps=(suite decode time peers memcheck initcheck synccheck racecheck)

need_gpu() {
  if ! nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null; then
    echo "SKIPPED: nvidia-smi is not there or finds no GPU" >&2
    exit 77
  fi
}

build_for() {
  # shellcheck source=cmake/packages.sh
  source cmake/packages.sh
  command -v nvcc >/dev/null || {
    echo "SKIPPED: no nvcc on PATH or in /usr/local/cuda/bin" >&2
    exit 77
  }
  unmask_packages libgtest-dev libgmock-dev libbenchmark-dev libeigen3-dev nlohmann-json3-dev python3
  unmask_configure "$build" --preset cuda "-DCMAKE_CUDA_ARCHITECTURES=$1" \
    -DUNMASK_KERNELS_RUN=ON -DUNMASK_BUILD_BENCH=ON
  unmask_build "$build" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_tests_cuda \
    unmask_example_cuda_tiny_llada unmask_example_cuda_captured unmask_example_cuda_step_time \
    unmask_bench_cuda_steps unmask_bench_cuda_layers unmask_bench_cuda_primitives
}

# record <title> <lines> <command>...: runs it, and puts its last lines into the report.
record() {
  local title=$1 lines=$2 log result=0
  shift 2
  log=$(mktemp)
  echo "== $title"
  "$@" >"$log" 2>&1 || result=$?
  ((result == 0)) || status=1
  tail -n 40 "$log"
  {
    # shellcheck disable=SC2016
    printf '\n## %s\n\nstatus %s of `%s`\n\n```\n' "$title" "$result" "$*"
    tail -n "$lines" "$log"
    printf '```\n'
  } >>"$report"
  rm -f "$log"
}

sanitize() {
  record "compute-sanitizer $1" 6 compute-sanitizer --tool "$1" --error-exitcode 9 \
    --launch-timeout 0 "$suite" --gtest_brief=1 --gtest_filter="$2"
}

run_step() {
  case $1 in
    suite) record "The typed suite on the device" 6 "$suite" --gtest_brief=1 ;;
    decode)
      record "A decode of the tiny model" 6 "$build/examples/unmask_example_cuda_tiny_llada" \
        examples/tiny_llada/tiny-f16.gguf
      record "A decode in captured passes" 3 "$build/examples/unmask_example_cuda_captured"
      ;;
    time)
      record "A step beside the floor" 80 "$build/examples/unmask_example_cuda_step_time"
      ;;
    peers)
      record "Reads and steps beside those of others" 80 "$build/bench/unmask_bench_cuda_steps"
      record "Hooks inside a pass, and the keys that stay" 40 "$build/bench/unmask_bench_cuda_layers"
      record "Primitives by hand and by CUB" 40 "$build/bench/unmask_bench_cuda_primitives"
      if python3 -c 'import torch' 2>/dev/null; then
        record "Steps in PyTorch" 100 python3 bench/cuda/torch_steps.py
      fi
      ;;
    memcheck | synccheck) sanitize "$1" '*' ;;
    # Without tests that copy memory to the host of which a kernel has written a part.
    initcheck) sanitize "$1" '-DeviceMerge.*:EveryElement/KeyParity/*.ScoresHaveTheBitsOfTheHost' ;;
    # Of the policies by name, seven to eight seconds each, only some.
    racecheck)
      sanitize "$1" 'Block/*:Device*:EveryElement/*:composed/*:layer_parity_composed.*:*by_name*/[0-3]_*'
      ;;
  esac
}

run_steps() {
  local name step
  for step in "$@"; do
    [[ " ${all_steps[*]} " == *" $step "* ]] || {
      echo "tests/gpu.sh run: no step is called '$step'; they are: ${all_steps[*]}" >&2
      exit 2
    }
  done
  name=$(need_gpu)
  export CUDA_VISIBLE_DEVICES=0
  status=0
  report=bench/results/$(tr '[:upper:] ' '[:lower:]-' <<<"$name" | tr -cd 'a-z0-9-').md
  mkdir -p bench/results
  if [[ ! -e $report ]]; then
    {
      printf '# %s\n\n' "$name"
      # shellcheck disable=SC2016
      printf 'driver %s, compute capability %s, commit %s, %s, `bash tests/gpu.sh`\n' \
        "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)" \
        "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0)" \
        "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$(date -u +%F)"
    } >"$report"
  fi
  for step in "$@"; do
    run_step "$step"
  done
  echo "Written: $report"
  return $status
}

case ${1:-} in
  build)
    [[ ${2:-} =~ ^[0-9]+$ ]] || {
      echo "tests/gpu.sh build: which architecture? 80, 90, 100 or 120, not '${2:-}'" >&2
      exit 2
    }
    build_for "$2"
    ;;
  run)
    shift
    run_steps "${@:-${all_steps[@]}}"
    ;;
  "")
    need_gpu >/dev/null
    build_for "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d .)"
    run_steps "${all_steps[@]}"
    ;;
  *)
    sed -n '4,/^set/p' "${BASH_SOURCE[0]}" | grep '^#' >&2
    exit 2
    ;;
esac
