// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launches of a session as nvcc compiles them.

#include "unmask/interposed/kernels.hpp"

#include <unmask/cuda.cuh>

template class unmask::on_stream::workspace<unmask::testing::launched_policy>;
template class unmask::on_stream::shard_workspace<unmask::testing::launched_policy>;
template class unmask::on_stream::workspace<unmask::testing::launched_layers_policy>;
template cudaError_t unmask::device::launch_scores(const key_products<float>&,
                                                   cudaStream_t) noexcept;
template cudaError_t unmask::device::launch_selection(const selection_arguments<float>&,
                                                      cudaStream_t) noexcept;

namespace unmask::testing {

namespace {

template <class... Arguments>
const void* address_of(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

kernel_addresses addresses_of_kernels() {
  using device::exact_exponential;
  return {address_of(device::read_rows<float,
                                       exact_exponential,
                                       launched_policy::required.bits,
                                       false,
                                       launched_policy>),
          address_of(device::read_rows<bfloat16,
                                       exact_exponential,
                                       launched_policy::required.bits,
                                       false,
                                       launched_policy>),
          address_of(device::decide_slots<launched_policy>),
          address_of(device::start_one<launched_policy>),
          address_of(device::read_shards<float, exact_exponential, launched_policy>),
          address_of(device::merge_shards<launched_policy>)};
}

layer_kernel_addresses addresses_of_layer_kernels() {
  using p = launched_layers_policy;
  return {
      address_of(device::read_rows<float, device::exact_exponential, p::required.bits, false, p>),
      address_of(device::decide_slots<p>),
      address_of(device::start_one<p>),
      address_of(device::choose_at_layer<float, p>),
      address_of(device::store_at_layer<float, p>)};
}

key_kernel_addresses addresses_of_key_kernels() {
  return {address_of(device::score_rows<float>), address_of(device::keep_highest_keys<float>)};
}

}  // namespace unmask::testing
