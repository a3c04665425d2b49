// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_1.cu.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::branching_out)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::drawn)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::drawn_edited)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::asking)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::patient)>>;
template class unmask::on_stream::workspace<
    std::remove_const_t<decltype(policies::second_thoughts)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::stable)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::paced)>>;
