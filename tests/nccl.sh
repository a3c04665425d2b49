#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compiles and links examples/nccl, and runs it where there are GPUs: bash tests/nccl.sh
#
# Needs nvcc 12 or newer. Takes the system's NCCL (libnccl-dev), or the one of the Python package
# nvidia-nccl-cu13.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libeigen3-dev nlohmann-json3-dev python3-venv
build=build/nccl
mkdir -p "$build"
if [[ -z ${NCCL_ROOT:-} && ! -e /usr/include/nccl.h ]]; then
  if [[ ! -d $build/python ]]; then
    python3 -m venv "$build/python"
    unmask_quietly "$build/python/bin/pip" install -q --no-deps nvidia-nccl-cu13
  fi
  NCCL_ROOT=$(echo "$PWD/$build"/python/lib/python3*/site-packages/nvidia/nccl)
  export NCCL_ROOT
fi
export PATH=$PATH:/usr/local/cuda/bin
unmask_configure "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DUNMASK_CUDA=ON \
  -DUNMASK_BUILD_EXAMPLES=ON -DUNMASK_EXAMPLES_NCCL=ON
unmask_build "$build" --parallel "${UNMASK_JOBS:-$(nproc)}" --target unmask_example_nccl_decode

status=0
"$build/examples/nccl/unmask_example_nccl_decode" || status=$?
if ((status == 77)); then
  echo "Compiled and linked; NOT run: it needs a GPU"
  exit 0
fi
exit $status
