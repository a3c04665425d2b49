// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Ways to cut a vocabulary among ranks.

#include <unmask/stats/canonical.hpp>

#include <algorithm>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

/// First columns of `ranks` shards at random places and, last, `vocab`; at multiples of `unit`.
/// Some shards may be empty.
[[nodiscard]] inline std::vector<index_t>
random_cuts(dice& d, index_t vocab, index_t ranks, index_t unit) {
  std::vector<index_t> cuts{0, vocab};
  for (index_t r = 1; r < ranks; ++r) {
    cuts.push_back(std::min(d.within(0, (vocab + unit - 1) / unit) * unit, vocab));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// The same, with each chunk cut once at most and every piece of at least three columns.
[[nodiscard]] inline std::vector<index_t> sparse_cuts(dice& d, index_t vocab, index_t ranks) {
  std::vector<index_t> cuts = random_cuts(d, vocab, ranks, canonical::chunk_columns);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t r = 1; r + 1 < cuts.size(); ++r) {
    const index_t room = std::min(canonical::chunk_columns, cuts[r + 1] - cuts[r]);
    cuts[r] += room > 6 ? d.within(3, room - 3) : 0;
  }
  return cuts;
}

}  // namespace unmask::testing
