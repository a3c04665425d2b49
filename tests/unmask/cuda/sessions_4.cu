// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_1.cu: layered policies, and what else an engine launches there.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::skipping_rows)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::budgeted)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::refreshed)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::delayed)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::unsure)>>;
template class unmask::on_stream::workspace<
    std::remove_const_t<decltype(policies::skipping_ranked_last)>>;

template cudaError_t unmask::device::launch_copies(const row_copies<float>&, cudaStream_t) noexcept;
template cudaError_t unmask::device::launch_copies(const row_copies<bfloat16>&,
                                                   cudaStream_t) noexcept;

namespace unmask::device {

template cudaError_t launch_scores(const key_products<float>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_scores(const key_products<float16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<bfloat16>&, cudaStream_t) noexcept;
template cudaError_t launch_selection(const selection_arguments<float16>&, cudaStream_t) noexcept;

}  // namespace unmask::device
