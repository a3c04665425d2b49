// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of for_some_policies(), for session.test.cpp: what a user of the library writes.

#include "unmask/device/policies.hpp"

#include <unmask/cuda.cuh>

#include <type_traits>

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::sure_ones)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::in_steps)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::credited)>>;
