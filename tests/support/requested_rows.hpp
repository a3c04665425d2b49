// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <vector>

namespace unmask::testing {

/// The logits that a pass requests, segment by segment, of one sequence that holds `text`:
/// `row_of(x, r)` gives row r of a model that is shown x, the text of the segment's branch.
[[nodiscard]] std::vector<float>
requested_rows(const auto& request, const std::vector<token_id>& text, const auto& row_of) {
  std::vector<float> logits;
  for (const auto& part : request.segments) {
    std::vector<token_id> x = text;
    for (const auto& placed : part.placed) {
      x[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    for (index_t r = part.rows.first; r < part.rows.last; ++r) {
      const std::vector<float> z = row_of(x, r);
      logits.insert(logits.end(), z.begin(), z.end());
    }
  }
  return logits;
}

}  // namespace unmask::testing
