// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_some.cu: two files, so that they compile side by side.

#include "unmask/device/policies.hpp"

#include <unmask/cuda.cuh>

#include <type_traits>

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::drawn)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::drawn_edited)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::asking)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::patient)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::second_thoughts)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::branching_out)>>;
