// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/record.hpp>

namespace UNMASK_NAMESPACE {

/// Folds the logits of a row, in any grouping, into a record: a commutative monoid.
///
/// `{}` is the identity, `push` adds one column, `merge` adds another part of the same row,
/// `finish` gives the record. This is the one definition of the arithmetic: the host kernel, the
/// device kernel and the merge of vocabulary shards all go through `merge`. Best, token and second
/// are exact; the sums are associative up to rounding, so the kernels merge in one fixed tree.
///
/// -inf columns count as absent. A NaN column never becomes the best and poisons the sums.
/// Source: M. Milakov, N. Gimelshein, Online normalizer calculation for softmax (2018), section 3,
/// extended here by the runner-up and the moments.
template <statistics S>
class row_accumulator {
 public:
  UNMASK_HD row_accumulator()
      : state_(record<S>::empty()) {}
  UNMASK_HD explicit row_accumulator(const record<S>& state)
      : state_(state) {}

  /// Adds one column.
  UNMASK_HD void push(float logit, token_id token) { merge(row_accumulator{column(logit, token)}); }

  /// Adds the columns of `other`, which must be disjoint from this one's.
  UNMASK_HD void merge(const row_accumulator& other) {
    const record<S>& b = other.state_;
    const bool takes_over =
        b.best > state_.best || (b.best == state_.best && b.token < state_.token);
    const record<S> high = takes_over ? b : state_;
    const record<S> low = takes_over ? state_ : b;
    record<S> sum = high;
    if (!(low.best > -math::infinity())) {  // `low` has no finite column; it may still carry a NaN
      if constexpr (provides_v<S, stat::confidence>) {
        sum.rest = high.rest + low.rest;
      }
    } else {
      absorb(sum, low);
    }
    if constexpr (provides_v<S, stat::sampled>) {
      const bool keeps = wins_draw(state_, b);
      sum.key = keeps ? state_.key : b.key;
      sum.drawn = keeps ? state_.drawn : b.drawn;
      sum.drawn_logit = keeps ? state_.drawn_logit : b.drawn_logit;
    }
    state_ = sum;
  }

  /// The record of one column, which takes no part in a draw.
  [[nodiscard]] UNMASK_HD static record<S> column(float logit, token_id token) {
    record<S> r = record<S>::empty();
    if (math::is_nan(logit)) {
      if constexpr (provides_v<S, stat::confidence>) {
        r.rest = logit;
      }
    } else if (logit > -math::infinity()) {
      r.best = logit;
      r.token = token;
      if constexpr (provides_v<S, stat::second_moment>) {
        r.square = 1.0F;
      }
    }
    return r;
  }

  /// The record of everything added so far.
  [[nodiscard]] UNMASK_HD const record<S>& finish() const { return state_; }

 private:
  // The larger key wins a draw, the lower token between equal keys. A NaN loses to every number, so
  // that the order of the merges does not show.
  [[nodiscard]] UNMASK_HD static bool wins_draw(const record<S>& a, const record<S>& b) {
    const bool a_drew = !math::is_nan(a.key);
    const bool b_drew = !math::is_nan(b.key);
    if (a_drew != b_drew) {
      return a_drew;
    }
    return a.key > b.key || (!(b.key > a.key) && a.drawn < b.drawn);
  }

  // Adds `low`, whose best does not exceed that of `sum`, rescaled to the best of `sum`.
  UNMASK_HD static void absorb(record<S>& sum, const record<S>& low) {
    if constexpr (provides_v<S, stat::confidence>) {
      // Clamped as the exponential is: logits of -3e38 instead of -inf are common, and so great a
      // shift would make something of the little that they weigh.
      const float apart = low.best - sum.best;
      const float shift = apart < math::exp_floor ? math::exp_floor : apart;
      const float scale = math::exp_nonpositive(shift);
      const float weight = low.rest + 1.0F;
      sum.rest = math::fma(scale, weight, sum.rest);
      if constexpr (provides_v<S, stat::entropy>) {
        sum.weighted = math::fma(scale, math::fma(shift, weight, low.weighted), sum.weighted);
      }
      if constexpr (provides_v<S, stat::second_moment>) {
        sum.square = math::fma(scale * scale, low.square, sum.square);
      }
    }
    if constexpr (provides_v<S, stat::drift>) {
      sum.cross = math::fma(math::exp_nonpositive(low.best - sum.best), low.cross, sum.cross);
    }
    if constexpr (provides_v<S, stat::divergence>) {
      sum.shared = math::fma(math::exp_nonpositive(low.best - sum.best), low.shared, sum.shared);
    }
    if constexpr (provides_v<S, stat::margin>) {
      sum.second = math::max(sum.second, low.best);
    }
  }

  record<S> state_;
};

}  // namespace unmask
