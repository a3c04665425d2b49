// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/slot.hpp>

/// Runs: maximal sequences of candidates at consecutive positions. A position that is not masked,
/// or whose row is invalid, ends a span. Compiled only into policies with a span_aware part.
namespace UNMASK_NAMESPACE::step {

/// Better-ranked candidates in the span of scored position i. O(length of the span).
template <class Policy>
[[nodiscard]] UNMASK_HD index_t span_rank_of(const slot_memory<Policy>& m, index_t i) {
  const index_t size = m.status->next.score.size();
  const index_t own = m.ranks[i];
  index_t better = 0;
  for (index_t j = i - 1; j >= 0 && m.ranks[j] >= 0; --j) {
    better += m.ranks[j] < own ? 1 : 0;
  }
  for (index_t j = i + 1; j < size && m.ranks[j] >= 0; ++j) {
    better += m.ranks[j] < own ? 1 : 0;
  }
  return better;
}

}  // namespace unmask::step
