// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/held_list.hpp>
#include <unmask/stats/draw.hpp>
#include <unmask/stats/row.hpp>

/// Truncation: which columns of a row are kept, computed exactly, and the draw among them.
///
/// Columns are walked in order, larger logit first and lower token between equals. The first is
/// kept; the walk ends before the column that one of the rules excludes. Masses are whole numbers,
/// so their sums do not depend on the order of the additions: the list of one read and the
/// histograms of a second one end at the same column. The draw takes the maximum over the kept
/// tokens, each with random numbers of its own, so that it depends on the kept tokens only.
namespace UNMASK_NAMESPACE::canonical {

/// Probability mass in units of 2^-38 of the best token's; 33 million columns cannot overflow it.
using mass_units = std::uint64_t;
inline constexpr float units_of_mass = 0x1p38F;

/// The rules for a row whose best logit is `best`.
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

  /// True if the rule of the ratio keeps a column.
  [[nodiscard]] UNMASK_HD bool reaches(float z) const {
    return z > -math::infinity() && z - best >= depth;
  }
  [[nodiscard]] UNMASK_HD mass_units mass_of(float z) const {
    return static_cast<mass_units>(math::exp_nonpositive(z - best) * units_of_mass);
  }
  /// True if nothing is kept after `count` tokens with the mass `before`.
  [[nodiscard]] UNMASK_HD bool end_after(index_t count, mass_units before) const {
    return count >= tokens || before > mass;
  }
};

/// Number of the first columns of a row that are kept, -1 if the read does not determine it. `held`
/// are the columns that the read held, `head` the same and the tracked columns, with the mass of
/// each.
/// Cost: O(size of head).
template <index_t Capacity, index_t Held>
[[nodiscard]] UNMASK_HD index_t kept_of(const held_list<Capacity>& head,
                                        const held_list<Held>& held,
                                        const mass_units* masses,
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
    mass += masses[i];
  }
  return !held.full() || limits.end_after(head.size(), mass) ? head.size() : -1;
}

/// The draw among the kept tokens: the largest (z - best) / T + Gumbel number of the token wins,
/// the lower token between equals.
struct kept_race {
  float best = 0.0F;
  draw_request draw;
  float key = -math::infinity();
  ranked_token winner = {};

  /// A key that would lose may be -inf.
  [[nodiscard]] UNMASK_HD float key_of(float logit, token_id token) const {
    return draw_key_alone(logit - best, 1.0F, token, draw, key);
  }
  /// `own` is the token's key.
  UNMASK_HD void join(float own, float logit, token_id token) {
    if (own > key || (own == key && token < winner.token)) {
      key = own;
      winner = {logit + 0.0F, token};  // as a list holds it
    }
  }
  template <statistics S>
  UNMASK_HD void write_to(record<S>& row) const {
    if constexpr (provides_v<S, stat::sampled>) {
      row.key = key;
      row.drawn = winner.token;
      row.drawn_logit = winner.logit;
    }
  }
};

/// Number, mass and least logit of the kept tokens, exact in any order; nothing for records that do
/// not hold them.
template <statistics S>
struct kept_totals {
  UNMASK_HD void join(float /*logit*/, mass_units /*mass*/) {}
  UNMASK_HD void merge(const kept_totals& /*other*/) {}
  UNMASK_HD void write_to(record<S>& /*row*/) const {}
};
template <statistics S>
  requires provides<S, stat::truncated>
struct kept_totals<S> {
  mass_units mass = 0;
  index_t tokens = 0;
  float least = math::infinity();

  UNMASK_HD void join(float logit, mass_units own) { merge({own, 1, logit}); }
  UNMASK_HD void merge(const kept_totals& other) {
    mass += other.mass;
    tokens += other.tokens;
    least = math::min(least, other.least);
  }
  /// `row` is the whole row's record: before renormalise().
  UNMASK_HD void write_to(record<S>& row) const {
    const float weight = static_cast<float>(mass) * (1.0F / units_of_mass);
    row.kept_count = tokens;
    row.kept_share = math::min(math::divide(weight, row.total()), 1.0F);
    row.least_share = math::divide(math::exp_nonpositive(least - row.best), row.total());
  }
};

/// The statistics of S that depend on the columns of a row only.
template <statistics S>
inline constexpr statistics row_sums = [] {
  constexpr unsigned beside =
      (stat::sampled | stat::drift | stat::divergence | stat::truncated).bits;
  return statistics{S.bits & ~(beside & ~(stat::entropy | stat::second_moment).bits)};
}();

/// Overwrites the statistics of the row by the statistics of the kept columns.
template <statistics S>
UNMASK_HD void renormalise(record<S>& row, const record<row_sums<S>>& kept) {
  copy_statistics<row_sums<S>>(kept, row);
}

/// Completes the record of a row that keeps the first columns of a head, with a whole thread
/// group: the group's shared data.
template <index_t Capacity>
struct head_cut {
  held_list<Capacity> head;
  mass_units masses[Capacity];
  float keys[Capacity];
  index_t count;

  /// Counts the kept columns: kept_of(). Every lane gets the number. `held` are the columns that
  /// the read held.
  template <index_t Held>
  UNMASK_HD index_t measure(const auto& t, const held_list<Held>& held, const row_limits& limits) {
    for (index_t i = t.lane(); i < head.size(); i += t.lanes()) {
      masses[i] = limits.mass_of(head[i].logit);
    }
    t.sync();
    if (t.lane() == 0) {
      count = kept_of(head, held, masses, limits);
    }
    t.sync();
    return count;
  }

  /// Completes the record with the columns that measure() counted. Lane 0 writes it, and the others
  /// see it after the group's next barrier.
  template <statistics S>
  UNMASK_HD void
  finish(const auto& t, record<S>& row, const draw_request& draw, bool renormalises) {
    kept_race race{.best = row.best, .draw = draw};
    if constexpr (provides_v<S, stat::sampled>) {
      for (index_t i = t.lane(); i < count; i += t.lanes()) {
        keys[i] = race.key_of(head[i].logit, head[i].token);
      }
    }
    t.sync();
    if (t.lane() == 0) {
      row_accumulator<row_sums<S>> kept;
      kept_totals<S> totals;
      for (index_t i = 0; i < count; ++i) {
        totals.join(head[i].logit, masses[i]);
        if constexpr (provides_v<S, stat::sampled>) {
          race.join(keys[i], head[i].logit, head[i].token);
        }
        if (renormalises) {
          kept.push(head[i].logit, head[i].token);
        }
      }
      race.write_to(row);
      totals.write_to(row);
      if (renormalises) {
        renormalise(row, kept.finish());
      }
    }
  }
};

/// Completes the record of a row from the columns that the read held; returns false, in every lane,
/// if these do not determine the truncation. `tracked` are the tracked tokens, which are not among
/// the held columns.
template <statistics S, index_t Capacity>
[[nodiscard]] UNMASK_HD bool cut_held(const auto& t,
                                      record<S>& row,
                                      const held_tokens& held,
                                      const tracked_logits& tracked,
                                      const truncation& rules,
                                      const draw_request& draw,
                                      head_cut<Capacity>& cut) {
  if (t.lane() == 0) {
    cut.head.clear();
    cut.head.merge(held);
    for (index_t k = 0; k < tracked.count; ++k) {
      if (find_token(tracked.suppressed, tracked.suppressed_count, tracked.tokens[k]) < 0) {
        cut.head.push(tracked.logits[k], tracked.tokens[k]);
      }
    }
  }
  t.sync();
  if (cut.measure(t, held, row_limits::of(rules, row.best, row.total())) < 0) {
    return false;
  }
  cut.finish(t, row, draw, rules.renormalises);
  return true;
}

}  // namespace unmask::canonical
