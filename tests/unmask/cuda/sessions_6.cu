// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_1.cu: schedules whose blocks move, rankings by token frequency, and masking of the
// least certain.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::finishing)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::by_place)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::judged)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::looping)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::doubtful)>>;
