// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/cuda.cuh>
#include <unmask/named_policy.hpp>

template class unmask::on_stream::workspace<unmask::named_policy>;
