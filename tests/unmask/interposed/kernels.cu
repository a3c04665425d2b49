// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launches of a session as nvcc compiles them.

#include <unmask/cuda.cuh>

#include "unmask/interposed/kernels.hpp"

template class unmask::on_stream::workspace<unmask::testing::launched_policy>;

namespace unmask::testing {

namespace {

template <class... Arguments>
const void* address_of(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

kernel_addresses addresses_of_kernels() {
  using device::exact_exponential;
  return {address_of(device::read_rows<float, exact_exponential, launched_policy>),
          address_of(device::read_rows<bfloat16, exact_exponential, launched_policy>),
          address_of(device::decide_slots<launched_policy>),
          address_of(device::start_one<launched_policy>)};
}

}  // namespace unmask::testing
