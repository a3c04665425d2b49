// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/record.hpp>

namespace UNMASK_NAMESPACE {

/// Reduces the logits of a row, in any grouping, to a record: a commutative monoid.
///
/// `{}` is the identity, `push` adds one column, `merge` adds another part of the same row,
/// `finish` returns the record. The host kernel, the device kernel and the merge of vocabulary
/// shards all use `merge`, so the arithmetic is defined once. Best, token and second are exact; the
/// sums are associative up to rounding, so the kernels merge in one fixed tree.
///
/// -inf columns count as absent. A NaN column never becomes the best and makes the sums NaN.
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
      const field::sampled& mine = state_;
      static_cast<field::sampled&>(sum) = mine.beats(b) ? mine : b;
    }
    state_ = sum;
  }

  /// The record of one column, without a draw.
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

  /// The record of all columns added so far.
  [[nodiscard]] UNMASK_HD const record<S>& finish() const { return state_; }

 private:
  // Adds `low`, whose best is at most that of `sum`, rescaled to the best of `sum`.
  UNMASK_HD static void absorb(record<S>& sum, const record<S>& low) {
    if constexpr (provides_v<S, stat::confidence>) {
      const float apart = low.best - sum.best;
      const float shift = apart < math::exp_floor ? math::exp_floor : apart;
      const field::lowering by{shift, math::exp_nonpositive(shift), low.rest + 1.0F};
      for_each_field<S>([&](auto tag) {
        using F = typename decltype(tag)::type;
        field::absorb<F>(sum, low, low.best, by);
      });
    }
  }

  record<S> state_;
};

}  // namespace unmask
