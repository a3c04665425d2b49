#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The tests of tests/run.sh and the slow ones: bash tests/all.sh [ctest options]
# Policies of many parts as types of their own; each header alone; times of compilation; the corpora
# of the fuzz targets; the same decisions with unmask::compiled and without; benchmarks. With an nvcc,
# too: kernels as emulated blocks, launches on a runtime of the tests' own, examples and benchmarks
# executed from their PTX, and -use_fast_math.
set -euo pipefail
UNMASK_SLOW_TESTS=ON exec bash "$(dirname "${BASH_SOURCE[0]}")/run.sh" "$@"
