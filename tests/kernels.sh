#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Executes the CUDA tests from their PTX, as nvcc optimises it, under many schedules: tests/ptx.
#
#   bash tests/kernels.sh [--arch 75,90,100] [--seeds 8] [--filter GTEST_FILTER]
#
# Each architecture is run in order once and then under seeds, each with another number of resident
# blocks and multiprocessors (so rows above 8,192 columns have one run or many), and with streams
# that work late under every other seed. Needs nvcc and no GPU. Ends with status 1 if anything was
# reported.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

archs=75,90,100
seeds=8
filter='*'
while (($# > 0)); do
  case $1 in
    --arch) archs=$2 ;;
    --seeds) seeds=$2 ;;
    --filter) filter=$2 ;;
    *)
      sed -n '4,/^set/p' "${BASH_SOURCE[0]}" | grep '^#' >&2
      exit 2
      ;;
  esac
  shift 2
done

export PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || {
  echo "SKIPPED: no nvcc on PATH or in /usr/local/cuda/bin" >&2
  exit 77
}
CUDACXX=$(command -v nvcc)
export CUDACXX
unmask_packages libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev python3

status=0
for arch in ${archs//,/ }; do
  build=build/kernels/$arch
  unmask_configure "$build" --preset cuda "-DCMAKE_CUDA_ARCHITECTURES=$arch" \
    -DUNMASK_KERNELS_RUN=OFF -DUNMASK_PTX_LEVEL=3 -DUNMASK_BUILD_EXAMPLES=OFF
  unmask_build "$build" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_tests_cuda
  for ((seed = 0; seed <= seeds; ++seed)); do
    multiprocessors=(132 1 7 1000)
    export UNMASK_PTX_SEED=$seed UNMASK_PTX_RESIDENT=$((seed % 7 + 1)) UNMASK_PTX_LATE=$((seed % 2)) \
      UNMASK_PTX_MULTIPROCESSORS=${multiprocessors[seed % 4]}
    echo "== compute_$arch, seed $seed, $UNMASK_PTX_RESIDENT blocks at a time," \
      "$UNMASK_PTX_MULTIPROCESSORS multiprocessors"
    "$build/tests/unmask_tests_cuda" --gtest_brief=1 \
      --gtest_filter="$filter:-CudaError.IsThrownWhereThereIsNoDevice" || status=1
  done
done
exit $status
