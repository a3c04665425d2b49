// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of the composed policies of the parity suite, and of those that ranks decode as one
// session does: what a user of the library writes.

#include <unmask/cuda.cuh>
#include <unmask/policy/presets/released.hpp>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::sure_ones)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::of_kept_three)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::credited)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::drawn)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::branching_out)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::gated)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::stable)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::changing_rows)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::skipping_rows)>>;

namespace unmask::testing {
namespace {

template <class Policy>
void decide_with(const Policy&) {
  device::decide_slots<<<1, 32>>>(device::session_device_view<Policy>{}, false);
}

}  // namespace

// A rule of released code that no text names: compiled, so that it calls nothing that kernels
// cannot call, and not launched.
void decide_as_released();
void decide_as_released() {
  decide_with(released::dinfer_threshold(0.9F));
}

}  // namespace unmask::testing
