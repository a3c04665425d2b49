// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/tracked_list.hpp>
#include <unmask/stats/draw.hpp>

namespace UNMASK_NAMESPACE {

/// Logits that the read of one row excluded from its sums: tracked tokens, ascending, with their
/// logits. Suppressed tokens are also in the list and are never added back.
struct tracked_logits {
  const token_id* tokens = nullptr;
  float* logits = nullptr;
  index_t count = 0;
  const token_id* suppressed = nullptr;
  index_t suppressed_count = 0;
};

/// One row after its read, as given to a logits processor: the record of all untracked tokens, and
/// the tracked tokens with logits that may still be edited.
///
/// If a token is drawn, the tracked tokens take part in the draw with their edited logits, and a
/// best token that was raised takes part a second time with the weight it gained: the draw is exact
/// for the edited row.
///
/// `S` is the set that the part declared; other statistics are updated but not accessible.
template <statistics All>
class revisable_row {
 public:
  UNMASK_HD revisable_row(const record<All>& untracked,
                          const tracked_logits& tracked,
                          const draw_request& draw = {})
      : untracked_(untracked)
      , tracked_(tracked)
      , draw_(draw) {}

  /// The record of the whole row with the edits made so far. Cost: O(tracked).
  [[nodiscard]] UNMASK_HD record<All> total() const {
    row_accumulator<All> sum{untracked_};
    for (index_t i = 0; i < tracked_.count; ++i) {
      const token_id token = tracked_.tokens[i];
      if (find_token(tracked_.suppressed, tracked_.suppressed_count, token) < 0) {
        canonical::push_alone(sum, tracked_.logits[i], token, draw_);
      }
    }
    record<All> whole = sum.finish();
    if constexpr (provides_v<All, stat::sampled>) {
      join_draw_with_gain(whole);
    }
    return whole;
  }

  /// The edited logit of a tracked token, -inf if it is suppressed; NaN for any other token.
  [[nodiscard]] UNMASK_HD float logit(token_id token) const {
    if (find_token(tracked_.suppressed, tracked_.suppressed_count, token) >= 0) {
      return -math::infinity();
    }
    const index_t i = find_token(tracked_.tokens, tracked_.count, token);
    return i < 0 ? math::from_bits(0x7fc00000U) : tracked_.logits[i];
  }

  [[nodiscard]] UNMASK_HD bool tracks(token_id token) const {
    return find_token(tracked_.tokens, tracked_.count, token) >= 0;
  }

  /// True while the row has untracked columns.
  [[nodiscard]] UNMASK_HD bool has_untracked() const { return untracked_.best > -math::infinity(); }

  /// Excludes every token but these, which must be tracked, from the row. Cost: O(tracked * count).
  UNMASK_HD void keep_only(const auto* tokens, index_t count) {
    take_out_untracked();
    for (index_t i = 0; i < tracked_.count; ++i) {
      bool kept = false;
      for (index_t k = 0; k < count; ++k) {
        kept = kept || tracked_.tokens[i] == tokens[k];
      }
      if (!kept) {
        tracked_.logits[i] = -math::infinity();
      }
    }
  }

  /// Excludes the tokens of an invalid row without allows(token); untracked tokens all together, by
  /// their best token. The row stays invalid.
  UNMASK_HD void keep_allowed(const auto& allows) {
    for (index_t i = 0; i < tracked_.count; ++i) {
      if (!allows(tracked_.tokens[i])) {
        tracked_.logits[i] = -math::infinity();
      }
    }
    if (has_untracked() && !allows(untracked_.token)) {
      take_out_untracked();
    }
    if constexpr (provides_v<All, stat::confidence>) {
      untracked_.rest = math::from_bits(0x7fc00000U);
    }
  }

  /// Adds `delta` to the logit of a tracked token, or raises (delta >= 0) the best token of the row
  /// although it is untracked. Any other token cannot be edited exactly: it is left unchanged, and
  /// debug builds report it (UNMASK_EXPECTS).
  UNMASK_HD void add(token_id token, float delta) {
    const index_t i = find_token(tracked_.tokens, tracked_.count, token);
    if (i >= 0) {
      tracked_.logits[i] += delta;
    } else if (token == untracked_.token && delta > 0.0F) {
      raise_best(delta);
    } else {
      UNMASK_EXPECTS(token == untracked_.token && !(delta < 0.0F));
    }
  }

 private:
  // Raised by x, the best token gains the weight e^(best / T) (1 - e^(-x / T)) over that in its
  // chunk.
  UNMASK_HD void join_draw_with_gain(record<All>& whole) const {
    if (gained_ > 0.0F) {
      const float inverse = math::divide(1.0F, draw_.temperature);
      const float share = 1.0F - math::exp_nonpositive(-math::product(gained_, inverse));
      const float key = canonical::draw_key_alone(untracked_.best, share, untracked_.token, draw_);
      if (key > whole.key || (key == whole.key && untracked_.token < whole.drawn)) {
        whole.key = key;
        whole.drawn = untracked_.token;
        whole.drawn_logit = untracked_.best;
      }
    }
  }

  // A token that was named for a row without a finite logit (step::name_token) is kept.
  UNMASK_HD void take_out_untracked() {
    const token_id name = has_untracked() ? no_token : untracked_.token;
    untracked_ = record<All>::empty();
    untracked_.token = name;
    gained_ = 0.0F;
  }

  UNMASK_HD void raise_best(float delta) {
    untracked_.best += delta;
    if constexpr (provides_v<All, stat::sampled>) {
      gained_ += delta;
      if (untracked_.drawn == untracked_.token) {
        untracked_.drawn_logit = untracked_.best;
      }
    }
    if constexpr (provides_v<All, stat::confidence>) {
      const field::lowering by{-delta, math::exp_nonpositive(-delta), untracked_.rest};
      for_each_field<All>([&](auto tag) {
        using F = typename decltype(tag)::type;
        field::rise<F>(untracked_, by);
      });
    }
  }

  record<All> untracked_;
  tracked_logits tracked_;
  draw_request draw_;
  float gained_ = 0.0F;
};

/// A row with access to the statistics that one part declared only, and without access to single
/// tokens for a part that does not declare `tracks`.
template <statistics S, statistics All, bool Tracked>
class narrowed_row {
 public:
  UNMASK_HD explicit narrowed_row(revisable_row<All>& whole)
      : whole_(whole) {}

  [[nodiscard]] UNMASK_HD record<S> total() const { return whole_.total().template narrowed<S>(); }
  [[nodiscard]] UNMASK_HD float logit(token_id token) const {
    check_tracked();
    return whole_.logit(token);
  }
  [[nodiscard]] UNMASK_HD bool tracks(token_id token) const {
    check_tracked();
    return whole_.tracks(token);
  }
  UNMASK_HD void add(token_id token, float delta) {
    check_tracked();
    whole_.add(token, delta);
  }
  UNMASK_HD void keep_only(const auto* tokens, index_t count) {
    check_tracked();
    whole_.keep_only(tokens, count);
  }

 private:
  UNMASK_HD static constexpr void check_tracked() {
    static_assert(
        Tracked,
        "a part that reads single tokens of a row, or edits them, names them before "
        "the row is read: track(list, context) and static constexpr index_t tracks = ...; 0 "
        "without track() for a part that only raises the best token");
  }

  revisable_row<All>& whole_;
};

}  // namespace unmask
