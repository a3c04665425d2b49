// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/record.hpp>

namespace unmask::testing {

inline constexpr statistics everything =
    stat::margin | stat::entropy | stat::second_moment | stat::top3_mass;

/// The record of one row of `columns` logits in host memory, read on the device by `run_chunks`
/// chunks a block, from an address `shift` elements behind one that suits every load.
template <element T>
[[nodiscard]] record<everything>
record_of_row(const T* logits, index_t columns, index_t shift, index_t run_chunks);

}  // namespace unmask::testing
