// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of policies by name, and what else an engine launches at its layers.

#include <unmask/cuda.cuh>
#include <unmask/named_policy.hpp>

template class unmask::on_stream::workspace<unmask::named_policy>;

namespace unmask::device {

template cudaError_t launch_copies(const row_copies<float>&, cudaStream_t) noexcept;
template cudaError_t launch_copies(const row_copies<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<float>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<float16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float16>&, cudaStream_t) noexcept;

}  // namespace unmask::device
