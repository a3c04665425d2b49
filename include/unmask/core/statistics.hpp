// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// A set of quantities of one row of logits, known at compile time.
///
/// Every part of a policy declares the ones it reads as `static constexpr statistics required`. The
/// union decides which streaming kernel is compiled; the row is read once whatever is in it.
struct statistics {
  unsigned bits = 0;

  [[nodiscard]] UNMASK_HD constexpr bool contains(statistics other) const {
    return (bits & other.bits) == other.bits;
  }
  friend UNMASK_HD constexpr statistics operator|(statistics a, statistics b) {
    return {a.bits | b.bits};
  }
  friend constexpr bool operator==(const statistics&, const statistics&) = default;
};

namespace stat {

/// The best logit and its token. Always there.
inline constexpr statistics none{0U};
/// The softmax probability of the best token, and log-probabilities.
inline constexpr statistics confidence{1U};
/// The second best logit (with multiplicity): margin and second probability.
inline constexpr statistics margin{2U | 1U};
/// The Shannon entropy in nats.
inline constexpr statistics entropy{4U | 1U};
/// The sum of squared probabilities.
inline constexpr statistics second_moment{8U | 1U};
/// A token drawn from the row's distribution, which then is the candidate's token.
inline constexpr statistics sampled{16U | 1U};
/// How far the row's distribution turned since the step before: 1 - cosine. The session keeps the
/// previous row of each position.
inline constexpr statistics drift{32U | 8U | 1U};
/// Kullback-Leibler divergence from the row of the step before, in nats. As drift.
inline constexpr statistics divergence{64U | 4U | 1U};
/// The columns of largest logit, held beside the record, from which a truncation is decided: what
/// the parts of policy/logits/keep.hpp read.
inline constexpr statistics kept{128U | 1U};

}  // namespace stat

/// True when the set `Have` offers everything in `Want`.
template <statistics Have, statistics Want>
inline constexpr bool provides_v = Have.contains(Want);

/// A requirement for accessors: the set `Have` offers everything in `Want`. A part that reads an
/// undeclared statistic fails here, and the message names both sets.
template <statistics Have, statistics Want>
concept provides = provides_v<Have, Want>;

}  // namespace unmask
