// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sessions on a CUDA stream for the library of c_library.hpp: one .cu file, which is that library's
// with UNMASK_C_API_CUDA defined in both, says
//
//   #define UNMASK_C_IMPLEMENTATION
//   #include <unmask/cuda/c_library.cuh>
#pragma once

#if defined(UNMASK_C_IMPLEMENTATION)

#  include <unmask/cuda.cuh>
#  include <unmask/named_policy.hpp>

namespace UNMASK_NAMESPACE {

template class on_stream::workspace<named_policy>;

namespace device {

template cudaError_t launch_scores(const key_products<float>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<float16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float>&, cudaStream_t) noexcept;

}  // namespace device

}  // namespace UNMASK_NAMESPACE

#endif
