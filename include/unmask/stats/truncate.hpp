// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/held_list.hpp>
#include <unmask/stats/draw.hpp>

/// Which columns of a row are kept, decided exactly, and the draw among them.
///
/// Columns are walked in order, larger logit first and lower token between equals. The first is
/// kept; the walk ends before the column that one of the rules forbids. Masses are whole numbers,
/// so their sums do not depend on the order of the additions: the list of one read and the
/// histograms of a second one agree on where the walk ends. The draw is a race of the kept tokens,
/// each with random numbers of its own, so that it depends on what is kept and on nothing else.
namespace UNMASK_NAMESPACE::canonical {

/// Probability mass in units of 2^-38 of the best token's; 33 million columns cannot overflow it.
using mass_units = std::uint64_t;
inline constexpr float units_of_mass = 0x1p38F;

/// The rules as they apply to a row whose best logit is `best`.
struct row_limits {
  float best = 0.0F;
  /// Smallest z - best that is kept.
  float depth = 0.0F;
  mass_units mass = 0;
  index_t tokens = 0;

  /// `total` is the sum of e^(z - best) over the whole row.
  [[nodiscard]] UNMASK_HD static row_limits of(const truncation& t, float best, float total) {
    row_limits l;
    l.best = best;
    l.depth = t.ratio > 1e-37F ? math::log(t.ratio) : -math::infinity();
    const float limit = t.mass * total;
    l.mass = t.mass < 1.0F && limit < 0x1p25F ? static_cast<mass_units>(limit * units_of_mass)
                                              : ~mass_units{0};
    l.tokens = t.tokens;
    return l;
  }

  /// True for a column that the rule of the ratio allows.
  [[nodiscard]] UNMASK_HD bool reaches(float z) const {
    return z > -math::infinity() && z - best >= depth;
  }
  [[nodiscard]] UNMASK_HD mass_units mass_of(float z) const {
    return static_cast<mass_units>(math::exp_nonpositive(z - best) * units_of_mass);
  }
  /// True when nothing is kept behind so many tokens of such a mass.
  [[nodiscard]] UNMASK_HD bool end_after(index_t count, mass_units before) const {
    return count >= tokens || before > mass;
  }
};

/// How many of the first columns of a row are kept, -1 if that is not proved. `held` is what the
/// read holds, `head` the same and the columns that were kept apart. O(size of head).
template <index_t Capacity, index_t Held>
[[nodiscard]] UNMASK_HD index_t kept_of(const held_list<Capacity>& head,
                                        const held_list<Held>& held,
                                        const row_limits& limits) {
  mass_units mass = 0;
  for (index_t i = 0; i < head.size(); ++i) {
    if (i > 0 && limits.end_after(i, mass)) {
      return i;
    }
    if (held.full() && ranks_before(held[Held - 1], head[i])) {
      return -1;  // one that was dropped may come first
    }
    if (i > 0 && !limits.reaches(head[i].logit)) {
      return i;
    }
    mass += limits.mass_of(head[i].logit);
  }
  return !held.full() || limits.end_after(head.size(), mass) ? head.size() : -1;
}

/// The race of the kept tokens: the largest (z - best) / T + Gumbel number of the token wins, the
/// lower token between equals.
struct kept_race {
  float best = 0.0F;
  draw_request draw;
  float key = -math::infinity();
  ranked_token winner = {};

  UNMASK_HD void join(float logit, token_id token) {
    const float own = draw_key_alone(logit - best, 1.0F, token, draw);
    if (own > key || (own == key && token < winner.token)) {
      key = own;
      winner = {logit + 0.0F, token};  // as a list holds it
    }
  }
};

/// The statistics of S that are sums over a row.
template <statistics S>
inline constexpr statistics row_sums{S.bits &
                                     (stat::margin | stat::entropy | stat::second_moment).bits};

/// Writes the statistics of the kept columns over those of the row.
template <statistics S>
UNMASK_HD void renormalise(record<S>& row, const record<row_sums<S>>& kept) {
  row.best = kept.best;
  row.token = kept.token;
  row.rest = kept.rest;
  if constexpr (provides_v<S, stat::margin>) {
    row.second = kept.second;
  }
  if constexpr (provides_v<S, stat::entropy>) {
    row.weighted = kept.weighted;
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    row.square = kept.square;
  }
}

/// Finishes the record of a row of which the first `count` columns of `head` are kept.
template <statistics S, index_t Capacity>
UNMASK_HD void keep_first(record<S>& row,
                          const held_list<Capacity>& head,
                          index_t count,
                          const draw_request& draw,
                          bool renormalises) {
  kept_race race{.best = row.best, .draw = draw};
  row_accumulator<row_sums<S>> kept;
  for (index_t i = 0; i < count; ++i) {
    if constexpr (provides_v<S, stat::sampled>) {
      race.join(head[i].logit, head[i].token);
    }
    if (renormalises) {
      kept.push(head[i].logit, head[i].token);
    }
  }
  if constexpr (provides_v<S, stat::sampled>) {
    row.key = race.key;
    row.drawn = race.winner.token;
    row.drawn_logit = race.winner.logit;
  }
  if (renormalises) {
    renormalise(row, kept.finish());
  }
}

}  // namespace unmask::canonical
