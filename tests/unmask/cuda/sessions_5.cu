// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_1.cu: policies that truncate, whose kernels take longest.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::nucleus)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::cut_off)>>;
