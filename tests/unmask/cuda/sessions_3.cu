// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As sessions_1.cu.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::redrawn)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::rewriting)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::penalised)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::late_end)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::in_runs)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::listed)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::prefixed)>>;
template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::evicted)>>;
