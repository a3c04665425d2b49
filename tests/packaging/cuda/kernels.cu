// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/cuda.cuh>

static_assert(__cplusplus >= 202002L, "the package must ask nvcc for C++20");
