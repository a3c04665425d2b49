// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// A set of quantities of one row of logits, known at compile time.
///
/// Every part of a policy declares those it reads as `static constexpr statistics required`. The
/// union selects the kernel that is compiled; the row is read once for any set.
struct statistics {
  unsigned bits = 0;  ///< A bit for each quantity.

  /// True if every quantity of `other` is in this set.
  [[nodiscard]] UNMASK_HD constexpr bool contains(statistics other) const {
    return (bits & other.bits) == other.bits;
  }
  /// The union of two sets.
  friend UNMASK_HD constexpr statistics operator|(statistics a, statistics b) {
    return {a.bits | b.bits};
  }
  /// Equal if they hold the same quantities.
  friend constexpr bool operator==(const statistics&, const statistics&) = default;
};

/// A list of sets of statistics.
template <statistics... S>
struct statistics_list {
  static constexpr std::size_t size = sizeof...(S);  ///< Number of sets.
};

/// A kernel that reads rows.
struct row_read {
  statistics contents;     ///< The statistics that it reads.
  bool transforms = true;  ///< Whether parts may transform logits.

  /// Returns both members as one word.
  [[nodiscard]] UNMASK_HD constexpr std::uint32_t bits() const {
    return contents.bits | (transforms ? 1U << 31U : 0U);
  }
};

/// A list of such kernels.
template <row_read... R>
struct row_reads {
  /// row_read::bits() of kernel `index`.
  [[nodiscard]] static constexpr std::uint32_t bits_of(index_t index) {
    std::uint32_t found = 0;
    index_t i = 0;
    ((found = i++ == index ? R.bits() : found), ...);
    return found;
  }
};

namespace stat {

/// The best logit and its token. Always present.
inline constexpr statistics none{0U};
/// The softmax probability of the best token, and log-probabilities.
inline constexpr statistics confidence{1U};
/// The second best logit (with multiplicity): margin and second probability.
inline constexpr statistics margin{2U | 1U};
/// The Shannon entropy in nats.
inline constexpr statistics entropy{4U | 1U};
/// The sum of squared probabilities.
inline constexpr statistics second_moment{8U | 1U};
/// A token drawn from the row's distribution; it becomes the candidate's proposed token.
inline constexpr statistics sampled{16U | 1U};
/// Change of the row's distribution since the previous step: 1 - cosine. The session keeps the
/// previous row of each position.
inline constexpr statistics drift{32U | 8U | 1U};
/// Kullback-Leibler divergence from the row of the previous step, in nats. The session keeps the
/// previous row, as for drift.
inline constexpr statistics divergence{64U | 4U | 1U};
/// The columns of largest logit, stored in addition to the record; a truncation is computed from
/// them. Read by the parts of policy/logits/truncation.hpp.
inline constexpr statistics kept{128U | 1U};
/// The sum of the three largest probabilities.
inline constexpr statistics top3_mass{256U | 1U};
/// The number of tokens that a truncation keeps, their mass and the least probability among them.
/// For a policy with top_k, top_p or min_p.
inline constexpr statistics truncated{512U | 128U | 1U};

}  // namespace stat

/// True when the set `Have` offers everything in `Want`.
template <statistics Have, statistics Want>
inline constexpr bool provides_v = Have.contains(Want);

/// Requirement of accessors: the set `Have` offers everything in `Want`. A part that reads an
/// undeclared statistic fails here, with both sets in the message.
template <statistics Have, statistics Want>
concept provides = provides_v<Have, Want>;

}  // namespace unmask
