// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field.hpp>
#include <unmask/core/part/truncated.hpp>
#include <unmask/core/top3_mass.hpp>

namespace UNMASK_NAMESPACE {

/// The statistics of a record in the order of its fields. A new statistic is one more line here.
using statistic_fields = field_list<field::confidence,
                                    field::margin,
                                    field::entropy,
                                    field::second_moment,
                                    field::sampled,
                                    field::drift,
                                    field::divergence,
                                    field::top3_mass,
                                    field::truncated>;

/// Calls use(field_tag<F>{}) for each field F of a record of S.
template <statistics S, class Use>
UNMASK_HD constexpr void for_each_field(const Use& use) {
  statistic_fields::for_each<S>(use);
}

template <statistics S>
struct record;

/// Copies the best column and the statistics in `Which` of one record to another.
template <statistics Which, statistics From, statistics To>
  requires provides<From, Which> && provides<To, Which>
UNMASK_HD void copy_statistics(const record<From>& from, record<To>& to) {
  to.best = from.best;
  to.token = from.token;
  for_each_field<Which>([&](auto tag) {
    using F = typename decltype(tag)::type;
    static_cast<F&>(to) = static_cast<const F&>(from);
  });
}

/// Statistics of one row of logits: 8 bytes, and 4 more for each number of a statistic in `S`.
///
/// With z the logits and m = max z: `best` = m, `token` = the lowest id that reaches it, `rest` =
/// sum of e^(z-m) over all columns but that one, `second` = the second largest logit counted with
/// multiplicity, `weighted` = sum of e^(z-m) (z-m), `square` = sum of e^(2(z-m)); `drawn` the token
/// of a random draw, with its logit and the key that won it the draw (12 bytes); `cross` = sum of
/// e^(z-m) e^(z'-m') with the row z' of the step before, whose `square` is `previous_square`;
/// `shared` = sum of e^(z-m) ln p'; `next` the second and third largest logits, with multiplicity;
/// `kept_count`, `kept_share` and `least_share` what the truncation after the read keeps.
///
/// A record of no column at all has best = -inf and token = no_token. NaN logits never become the
/// best; one NaN makes `rest` NaN and the record invalid.
template <statistics S>
struct record : statistic_fields::of<S> {
  static constexpr statistics contents = S;  ///< The statistics that the record holds.

  float best = 0.0F;          ///< The best logit.
  token_id token = no_token;  ///< The token of the best logit, the lowest of equals.

  /// The record of an empty row: the identity of the merge.
  [[nodiscard]] UNMASK_HD static record empty() {
    record r;
    r.best = -math::infinity();
    for_each_field<S>([&r](auto tag) {
      using F = typename decltype(tag)::type;
      if constexpr (requires { F::empty(); }) {
        static_cast<F&>(r) = F::empty();
      }
    });
    return r;
  }

  /// True when the row may be used for a decision: its best logit and its sums are finite.
  [[nodiscard]] UNMASK_HD bool valid() const {
    if constexpr (provides_v<S, stat::confidence>) {
      return math::is_finite(best) && math::is_finite(this->rest);
    } else {
      return math::is_finite(best);
    }
  }

  /// Sum of e^(z-m) over the row, at least 1.
  [[nodiscard]] UNMASK_HD float total() const
    requires provides<S, stat::confidence> {
    return 1.0F + this->rest;
  }

  /// Softmax probability of `token`, in (0, 1].
  [[nodiscard]] UNMASK_HD float confidence() const
    requires provides<S, stat::confidence> {
    return math::divide(1.0F, total());
  }

  /// Natural logarithm of confidence(), in nats, <= 0.
  [[nodiscard]] UNMASK_HD float log_probability() const
    requires provides<S, stat::confidence> {
    return 0.0F - math::log1p(this->rest);  // not -0 for a row of one token
  }

  /// ln of the sum of e^z.
  [[nodiscard]] UNMASK_HD float log_partition() const
    requires provides<S, stat::confidence> {
    return best + math::log1p(this->rest);
  }

  /// Softmax probability of the runner-up, in [0, 1/2]; 0 when there is none.
  [[nodiscard]] UNMASK_HD float second_probability() const
    requires provides<S, stat::margin> {
    if (!runner_up()) {
      return 0.0F;
    }
    const float share = math::divide(math::exp_nonpositive(this->second - best), total());
    return math::min(share, 0.5F);  // rounding may take half of two equal tokens above it
  }

  /// confidence() - second_probability(), in [0, 1].
  [[nodiscard]] UNMASK_HD float margin() const
    requires provides<S, stat::margin> {
    const float ratio = runner_up() ? math::exp_nonpositive(this->second - best) : 0.0F;
    return math::divide(1.0F - ratio, total());
  }

  /// Shannon entropy of the row's distribution in nats, >= 0.
  [[nodiscard]] UNMASK_HD float entropy() const
    requires provides<S, stat::entropy> {
    // A column at -inf has a weight of at most 2^exp2_floor: 150,000 of them sum to 6e-31, which
    // counts as no uncertainty.
    const float h = math::log1p(this->rest) - math::divide(this->weighted, total());
    return h < 1e-30F ? 0.0F : h;
  }

  /// Sum of squared probabilities, in (0, 1].
  [[nodiscard]] UNMASK_HD float second_moment() const
    requires provides<S, stat::second_moment> {
    return math::divide(math::divide(this->square, total()), total());
  }

  /// Sum of the three largest probabilities, in (0, 1], independent of the choice among tied
  /// tokens; with one or two tokens the sum of all. 0 for a candidate that a part ranks last.
  [[nodiscard]] UNMASK_HD float top3_mass() const
    requires provides<S, stat::top3_mass> {
    return math::min(math::divide(this->weight_of_three(best), total()), 1.0F);
  }

  /// Number of tokens that the truncation keeps: k for top_k(k), the size of the nucleus for top_p;
  /// the vocabulary's size where its rules keep every row whole. 0 for an invalid row and for a
  /// candidate that a part ranks last.
  [[nodiscard]] UNMASK_HD index_t kept_tokens() const
    requires provides<S, stat::truncated> {
    return this->kept_count;
  }

  /// Sum of the kept tokens' probabilities in the whole row, in (0, 1], also after
  /// confidence_after_truncation{}: the top-k mass. 0 where kept_tokens() is 0.
  [[nodiscard]] UNMASK_HD float kept_mass() const
    requires provides<S, stat::truncated> {
    return this->kept_share;
  }

  /// Probability in the whole row of the least probable kept token, in [0, 1]: the k-th probability
  /// for top_k(k). 0 where the rules keep every row whole, and where kept_tokens() is 0.
  [[nodiscard]] UNMASK_HD float least_kept_probability() const
    requires provides<S, stat::truncated> {
    return this->least_share;
  }

  /// 1 - cosine of the angle between this distribution and the previous step's, in [0, 1]; 1
  /// if there was none.
  [[nodiscard]] UNMASK_HD float drift() const
    requires provides<S, stat::drift> {
    const float lengths =
        math::square_root(this->square) * math::square_root(this->previous_square);
    const float turned = lengths > 0.0F ? 1.0F - math::divide(this->cross, lengths) : 1.0F;
    return math::clamp(turned, 0.0F, 1.0F);
  }

  /// Kullback-Leibler divergence sum p ln(p / p') from the distribution p' of the previous step, in
  /// nats, >= 0. Values of p' below 1e-12 count as 1e-12; without a previous step all of them do.
  [[nodiscard]] UNMASK_HD float divergence() const
    requires provides<S, stat::divergence> {
    const float difference = this->weighted - this->shared;
    const float d = math::divide(difference, total()) - math::log1p(this->rest);
    return d < 0.0F ? 0.0F : d;
  }

  /// Returns the row with the statistics of `Fewer` only: the view of a part that declared `Fewer`.
  template <statistics Fewer>
    requires provides<S, Fewer>
  [[nodiscard]] UNMASK_HD record<Fewer> narrowed() const {
    if constexpr (Fewer == S) {
      return *this;
    } else {
      record<Fewer> r;
      copy_statistics<Fewer>(*this, r);
      return r;
    }
  }

 private:
  [[nodiscard]] UNMASK_HD bool runner_up() const
    requires provides<S, stat::margin> {
    return this->second > -math::infinity();
  }
};

/// One masked position with its proposed token and the statistics in `S`.
///
/// The proposed token is the best one, or the drawn one if the policy samples and the row's draw
/// has a finite key. confidence() and log_probability() are of the proposed token, the other
/// statistics of the row.
template <statistics S>
struct candidate : record<S> {
  index_t position = 0;  ///< Position of the candidate.
  /// Current token of the position: the mask token if it is masked.
  token_id current = no_token;
  /// Logit of the proposed token.
  float logit = 0.0F;

  /// The candidate of a row at a position that holds token `now`.
  UNMASK_HD static candidate of(const record<S>& row, index_t at, token_id now) {
    candidate c{row, at, now, row.best};
    if constexpr (provides_v<S, stat::sampled>) {
      if (math::is_finite(row.key)) {  // no key is where z / T leaves the range of float
        c.token = row.drawn;
        c.logit = row.drawn_logit;
      }
    }
    return c;
  }

  /// Softmax probability of the proposed token, in [0, 1].
  [[nodiscard]] UNMASK_HD float confidence() const
    requires provides<S, stat::confidence> {
    const float ratio = logit == this->best ? 1.0F : math::exp_nonpositive(logit - this->best);
    return math::divide(ratio, this->total());
  }

  /// Natural logarithm of confidence(), in nats, <= 0.
  [[nodiscard]] UNMASK_HD float log_probability() const
    requires provides<S, stat::confidence> {
    return (logit - this->best) - math::log1p(this->rest);
  }

  /// Returns the candidate with fewer statistics.
  template <statistics Fewer>
    requires provides<S, Fewer>
  [[nodiscard]] UNMASK_HD candidate<Fewer> as() const {
    return {this->template narrowed<Fewer>(), position, current, logit};
  }
};

}  // namespace unmask
