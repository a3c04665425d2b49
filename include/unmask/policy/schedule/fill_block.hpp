// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/rewriting.hpp>

/// Writes the masked positions of a block: shared by the rules that find the length of an answer.
namespace UNMASK_NAMESPACE::detail {

/// The most probable token of row i other than the mask token.
[[nodiscard]] UNMASK_HD auto without_mask(const auto& rows, index_t i) {
  return rows.best(i, [mask = rows.mask_token()](token_id v) { return v == mask; });
}

/// The masked position of rows [inner.first, inner.last) that is most certain of a token if the
/// mask token is excluded; -1 if none is masked.
[[nodiscard]] UNMASK_HD index_t most_certain_without_mask(const auto& rows, range inner) {
  index_t best = -1;
  float confidence = 0.0F;
  for (index_t i = inner.first; i < inner.last; ++i) {
    if (rows.is_masked(i)) {
      const auto c = without_mask(rows, i);
      const float own =
          math::divide(c.probability, 1.0F - rows.best(i).probability);  // which is the mask's
      if (best < 0 || own > confidence) {
        best = i;
        confidence = own;
      }
    }
  }
  return best;
}

/// Writes the masked positions of rows [inner.first, inner.last) whose best token is not the mask
/// token and has a probability above `high` or, if there is none, the best of them. Calls
/// wrote(i, token) for those, and held(i, probability of the best token) for those that are not
/// above. Returns the position that was written because none is above, or -1.
UNMASK_HD index_t
fill_block(const auto& rows, range inner, float high, const auto& wrote, const auto& held) {
  index_t best = -1;
  float best_confidence = 0.0F;
  bool any = false;
  for (index_t i = inner.first; i < inner.last; ++i) {
    if (!rows.is_masked(i)) {
      continue;
    }
    const auto c = rows.best(i);
    const bool is_mask = c.token == rows.mask_token();
    if (!is_mask && c.probability > high) {
      rows.write(i, c.token, c.probability);
      wrote(i, c.token);
      any = true;
      continue;
    }
    if (!is_mask && (best < 0 || c.probability > best_confidence)) {
      best = i;
      best_confidence = c.probability;
    }
    held(i, c.probability);
  }
  if (any) {
    return -1;
  }
  best = best >= 0 ? best : most_certain_without_mask(rows, inner);
  if (best >= 0) {
    const auto c = without_mask(rows, best);
    rows.write(best, c.token, c.probability);
    wrote(best, c.token);
  }
  return best;
}

}  // namespace unmask::detail
