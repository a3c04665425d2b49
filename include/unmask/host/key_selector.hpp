// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/fixed_array.hpp>
#include <unmask/host/drift.hpp>
#include <unmask/step/key_selection.hpp>

#include <span>

namespace UNMASK_NAMESPACE::host {

/// Scores of keys against a block's mean query: out[r] = query * row r, all heads together. With
/// several heads this is the sum over heads, which has the same order as the mean; repeat the keys
/// of grouped heads, or add up the queries of a group first.
///
/// The bits equal canonical::drift_of on every instruction set.
/// Cost: O(rows * columns).
template <element T>
void score_keys(const rows_view<T, memory::host>& keys,
                std::span<const T> query,
                std::span<float> out,
                instruction_set level = best_instruction_set()) {
  check_argument(query.size() == static_cast<std::size_t>(keys.columns),
                 "columns of the query",
                 query.size(),
                 "those of the keys, ",
                 keys.columns);
  check_argument(out.size() >= static_cast<std::size_t>(keys.rows),
                 "scores",
                 out.size(),
                 "at least as many as keys, ",
                 keys.rows);
  for (index_t r = 0; r < keys.rows; ++r) {
    out[static_cast<std::size_t>(r)] =
        drift<drift_terms::product>(keys.row(r), query.data(), keys.columns, level).product;
  }
}

/// Selects the keys that a layer keeps if a policy evicts some: an exact selection. Allocates in
/// its constructor only; one thread at a time may use it.
class key_selector {
 public:
  /// For sequences of up to `length` positions.
  explicit key_selector(index_t length)
      : keys_(static_cast<std::size_t>(length))
      , kept_(keys_.size()) {}

  /// Returns the kept positions outside [block.first, block.last), ascending: the int(keep *
  /// outside) of highest score, pooled as in key_eviction::pool. `scores` has one number for each
  /// position of the sequence; the numbers of the block are not read. Valid until the next call.
  ///
  /// Ties: the lower position; NaN ranks highest.
  /// Cost: O(keys * pool).
  /// Errors: std::invalid_argument for more positions than in the constructor, for a block that is
  /// not among them, and for keep or pool out of key_eviction's range.
  [[nodiscard]] std::span<const index_t>
  select(std::span<const float> scores, range block, double keep, index_t pool) {
    const step::key_selection<float> selection{
        scores.data(), unmask::detail::counted(scores.size()), block, keep, pool};
    selection.check(static_cast<index_t>(keys_.size()));
    for (index_t i = 0; i < selection.size(); ++i) {
      keys_[static_cast<std::size_t>(i)] = selection.pooled_key(i);
    }
    const index_t count =
        step::choose(keys_.data(), selection.size(), selection.kept(), kept_.data());
    for (index_t k = 0; k < count; ++k) {
      index_t& kept = kept_[static_cast<std::size_t>(k)];
      kept = selection.position(kept);
    }
    return {kept_.data(), static_cast<std::size_t>(count)};
  }

 private:
  fixed_array<std::uint32_t> keys_;
  fixed_array<index_t> kept_;
};

}  // namespace unmask::host
