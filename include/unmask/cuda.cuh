// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The definitions of <unmask/cuda.hpp>, for nvcc.

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda.hpp>
#include <unmask/cuda/backend.cuh>
