// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of policies by name, as the C library has them, and what else an engine launches at
// its layers.

#define UNMASK_C_IMPLEMENTATION
#include <unmask/cuda/c_library.cuh>

namespace unmask::device {

template cudaError_t launch_copies(const row_copies<float>&, cudaStream_t) noexcept;
template cudaError_t launch_copies(const row_copies<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float16>&, cudaStream_t) noexcept;

}  // namespace unmask::device
