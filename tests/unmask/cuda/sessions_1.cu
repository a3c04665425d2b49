// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of the parity suite, a share in each of these files, so that they compile side by
// side: what a user of the library writes.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::sure_ones)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::in_steps)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::credited)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::adaptive)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::profiled)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::loose)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::asking)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::leftmost)>>;
