// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of a policy that decodes with constraints.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace policies = unmask::testing;

template class unmask::on_stream::workspace<std::remove_const_t<decltype(policies::constrained)>>;
