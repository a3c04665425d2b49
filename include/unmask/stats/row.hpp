// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/watch_list.hpp>
#include <unmask/stats/draw.hpp>

namespace UNMASK_NAMESPACE {

/// Logits that the read of one row excluded from its sums: tracked tokens, ascending, with their
/// logits. Suppressed tokens are in the list, too, and are never added back.
struct watched_logits {
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
  UNMASK_HD revisable_row(const record<All>& unwatched,
                          const watched_logits& watched,
                          const draw_request& draw = {})
      : unwatched_(unwatched)
      , watched_(watched)
      , draw_(draw) {}

  /// The record of the whole row with the edits made so far. Cost: O(tracked).
  [[nodiscard]] UNMASK_HD record<All> total() const {
    row_accumulator<All> sum{unwatched_};
    for (index_t i = 0; i < watched_.count; ++i) {
      const token_id token = watched_.tokens[i];
      if (find_token(watched_.suppressed, watched_.suppressed_count, token) < 0) {
        canonical::push_alone(sum, watched_.logits[i], token, draw_);
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
    if (find_token(watched_.suppressed, watched_.suppressed_count, token) >= 0) {
      return -math::infinity();
    }
    const index_t i = find_token(watched_.tokens, watched_.count, token);
    return i < 0 ? math::from_bits(0x7fc00000U) : watched_.logits[i];
  }

  [[nodiscard]] UNMASK_HD bool watches(token_id token) const {
    return find_token(watched_.tokens, watched_.count, token) >= 0;
  }

  /// True while the row has untracked columns.
  [[nodiscard]] UNMASK_HD bool has_unwatched() const {
    return unwatched_.best > -math::infinity();
  }

  /// Excludes every token but these, which must be tracked, from the row. Cost: O(tracked * count).
  UNMASK_HD void keep_only(const auto* tokens, index_t count) {
    take_out_unwatched();
    for (index_t i = 0; i < watched_.count; ++i) {
      bool kept = false;
      for (index_t k = 0; k < count; ++k) {
        kept = kept || watched_.tokens[i] == tokens[k];
      }
      if (!kept) {
        watched_.logits[i] = -math::infinity();
      }
    }
  }

  /// Excludes the tokens of an invalid row without allows(token); untracked tokens all together, by
  /// their best token. The row stays invalid.
  UNMASK_HD void keep_allowed(const auto& allows) {
    for (index_t i = 0; i < watched_.count; ++i) {
      if (!allows(watched_.tokens[i])) {
        watched_.logits[i] = -math::infinity();
      }
    }
    if (has_unwatched() && !allows(unwatched_.token)) {
      take_out_unwatched();
    }
    if constexpr (provides_v<All, stat::confidence>) {
      unwatched_.rest = math::from_bits(0x7fc00000U);
    }
  }

  /// Adds `delta` to the logit of a tracked token, or raises (delta >= 0) the best token of the row
  /// although it is untracked. Any other token cannot be edited exactly: it is left unchanged, and
  /// debug builds report it (UNMASK_EXPECTS).
  UNMASK_HD void add(token_id token, float delta) {
    const index_t i = find_token(watched_.tokens, watched_.count, token);
    if (i >= 0) {
      watched_.logits[i] += delta;
    } else if (token == unwatched_.token && delta > 0.0F) {
      raise_best(delta);
    } else {
      UNMASK_EXPECTS(token == unwatched_.token && !(delta < 0.0F));
    }
  }

 private:
  // Raised by x, the best token gains the weight e^(best / T) (1 - e^(-x / T)) over that in its
  // chunk.
  UNMASK_HD void join_draw_with_gain(record<All>& whole) const {
    if (gained_ > 0.0F) {
      const float inverse = math::divide(1.0F, draw_.temperature);
      const float share = 1.0F - math::exp_nonpositive(-math::product(gained_, inverse));
      const float key = canonical::draw_key_alone(unwatched_.best, share, unwatched_.token, draw_);
      if (key > whole.key || (key == whole.key && unwatched_.token < whole.drawn)) {
        whole.key = key;
        whole.drawn = unwatched_.token;
        whole.drawn_logit = unwatched_.best;
      }
    }
  }

  // A token that was named for a row without a finite logit (step::name_token) is kept.
  UNMASK_HD void take_out_unwatched() {
    const token_id name = has_unwatched() ? no_token : unwatched_.token;
    unwatched_ = record<All>::empty();
    unwatched_.token = name;
    gained_ = 0.0F;
  }

  UNMASK_HD void raise_best(float delta) {
    unwatched_.best += delta;
    if constexpr (provides_v<All, stat::sampled>) {
      gained_ += delta;
      if (unwatched_.drawn == unwatched_.token) {
        unwatched_.drawn_logit = unwatched_.best;
      }
    }
    if constexpr (provides_v<All, stat::confidence>) {
      const field::lowering by{-delta, math::exp_nonpositive(-delta), unwatched_.rest};
      for_each_field<All>([&](auto tag) {
        using F = typename decltype(tag)::type;
        field::rise<F>(unwatched_, by);
      });
    }
  }

  record<All> unwatched_;
  watched_logits watched_;
  draw_request draw_;
  float gained_ = 0.0F;
};

/// A row with access to the statistics that one part declared only, and without access to single
/// tokens for a part that does not declare `watches`.
template <statistics S, statistics All, bool Watched>
class narrowed_row {
 public:
  UNMASK_HD explicit narrowed_row(revisable_row<All>& whole)
      : whole_(whole) {}

  [[nodiscard]] UNMASK_HD record<S> total() const { return whole_.total().template narrowed<S>(); }
  [[nodiscard]] UNMASK_HD float logit(token_id token) const {
    check_watched();
    return whole_.logit(token);
  }
  [[nodiscard]] UNMASK_HD bool watches(token_id token) const {
    check_watched();
    return whole_.watches(token);
  }
  UNMASK_HD void add(token_id token, float delta) {
    check_watched();
    whole_.add(token, delta);
  }
  UNMASK_HD void keep_only(const auto* tokens, index_t count) {
    check_watched();
    whole_.keep_only(tokens, count);
  }

 private:
  UNMASK_HD static constexpr void check_watched() {
    static_assert(Watched,
                  "a part that asks for single tokens of a row, or edits them, names them before "
                  "the row is read: watch(list, own) and static constexpr index_t watches = ...; 0 "
                  "without watch() for a part that only raises the best token");
  }

  revisable_row<All>& whole_;
};

}  // namespace unmask
