// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of ranks.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::shard_workspace<
    std::remove_const_t<decltype(policies::sure_ones)>>;
template class unmask::on_stream::shard_workspace<
    std::remove_const_t<decltype(policies::credited)>>;
template class unmask::on_stream::shard_workspace<std::remove_const_t<decltype(policies::drawn)>>;
template class unmask::on_stream::shard_workspace<
    std::remove_const_t<decltype(policies::branching_out)>>;
