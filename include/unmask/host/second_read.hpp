// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/read_row.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/stats/truncate.hpp>

#include <algorithm>

/// The second read of a row of which the first one did not prove what is kept: four sweeps at the
/// most find where the kept tokens end, one more draws among them.
namespace UNMASK_NAMESPACE::host {

namespace detail {

// Descending logits as ascending numbers; -0 is +0, as it is for a comparison.
[[nodiscard]] inline std::uint32_t descending_bits(float z) {
  const std::uint32_t bits = math::bits_of(z + 0.0F);
  return (bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U);
}

// Calls use(logits, count, token of the first) for each chunk of a row, with the watched tokens
// back in their places. One tier will do: all stage the same numbers.
template <element T, class Edit, class Use>
void sweep(const row_input<T>& row,
           const Edit& edit,
           const watched_logits& watched,
           const Use& use) {
  alignas(64) float buffer[canonical::chunk_columns];
  row_input<T> again = row;
  again.blanked_logits = nullptr;
  index_t blank = first_blank(again, again.first_token);
  index_t k = 0;
  for (index_t first = 0; first < row.columns; first += canonical::chunk_columns) {
    const index_t count = math::min(canonical::chunk_columns, row.columns - first);
    stage_kernel<portable_vectors>::stage(again, edit, first, count, blank, buffer);
    const token_id token = row.first_token + first;
    for (; k < watched.count && watched.tokens[k] < token + count; ++k) {
      const bool returns =
          find_token(watched.suppressed, watched.suppressed_count, watched.tokens[k]) < 0;
      if (returns && watched.tokens[k] >= token) {
        buffer[watched.tokens[k] - token] = watched.logits[k];
      }
    }
    use(buffer, count, token);
  }
}

// The last column that is kept: every column that does not rank behind it is.
template <element T, class Edit>
[[nodiscard]] ranked_token last_kept(const row_input<T>& row,
                                     const Edit& edit,
                                     const watched_logits& watched,
                                     const canonical::row_limits& limits) {
  constexpr int bits_of_digit[] = {11, 11, 10};
  index_t counts[2048];
  canonical::mass_units masses[2048];
  index_t tokens = 0;  // before the digits found so far, and their mass
  canonical::mass_units mass = 0;
  std::uint32_t found = 0;
  index_t in_bin = 0;
  int shift = 32;
  for (const int digit : bits_of_digit) {
    const std::uint32_t known =
        shift == 32 ? 0U : ~std::uint32_t{0} << static_cast<unsigned>(shift);
    shift -= digit;
    std::fill(std::begin(counts), std::end(counts), 0);
    std::fill(std::begin(masses), std::end(masses), canonical::mass_units{0});
    sweep(row, edit, watched, [&](const float* z, index_t count, token_id) {
      for (index_t j = 0; j < count; ++j) {
        const std::uint32_t bits = descending_bits(z[j]);
        if ((bits & known) == found && limits.reaches(z[j])) {
          const std::uint32_t bin = (bits & ~known) >> static_cast<unsigned>(shift);
          ++counts[bin];
          masses[bin] += limits.mass_of(z[j]);
        }
      }
    });
    std::uint32_t bin = 0;
    const std::uint32_t bins = 1U << static_cast<unsigned>(digit);
    while (bin < bins && !limits.end_after(tokens + counts[bin], mass + masses[bin])) {
      tokens += counts[bin];
      mass += masses[bin];
      ++bin;
    }
    if (bin == bins) {  // no rule but the ratio's ends the walk
      return {-math::infinity(), no_token};
    }
    in_bin = counts[bin];
    found |= bin << static_cast<unsigned>(shift);
  }
  // All that is left is equal: `logit`, in_bin times. Token after token, until a rule ends it.
  const float logit = math::from_bits((found & 0x80000000U) != 0 ? found : ~found & 0x7fffffffU);
  const canonical::mass_units each = limits.mass_of(logit);
  index_t kept = 0;
  do {
    ++kept;
    mass += each;
  } while (kept < in_bin && !limits.end_after(tokens + kept, mass));
  token_id last = no_token;
  sweep(row, edit, watched, [&](const float* z, index_t count, token_id token) {
    for (index_t j = 0; j < count && kept > 0; ++j) {
      if (z[j] == logit && --kept == 0) {
        last = token + j;
      }
    }
  });
  return {logit, last};
}

}  // namespace detail

/// Finishes the record of a row by reading the row again: what step::keep_held() does, for any
/// number of kept tokens and with the same result where both can say.
///
/// `watched` are the tokens kept apart with their edited logits, `whole` the record of the row with
/// them. O(columns) five times at the most, and one Gumbel number a kept token; 42 KB of stack, no
/// allocation.
template <statistics S, element T, class Edit>
void read_again(record<S>& whole,
                const row_input<T>& row,
                const Edit& edit,
                const watched_logits& watched,
                const truncation& rules) {
  constexpr statistics sums = canonical::row_sums<S>;
  const auto limits = canonical::row_limits::of(rules, whole.best, whole.total());
  const ranked_token last = detail::last_kept(row, edit, watched, limits);
  canonical::kept_race race{.best = whole.best, .draw = row.draw};
  canonical::chunk_tree<sums> tree;
  float kept[canonical::chunk_columns];
  detail::sweep(row, edit, watched, [&](const float* z, index_t count, token_id token) {
    for (index_t j = 0; j < count; ++j) {
      const bool keeps = limits.reaches(z[j]) && !ranks_before(last, {z[j], token + j});
      kept[j] = keeps ? z[j] : -math::infinity();
      if (provides_v<S, stat::sampled> && keeps) {
        race.join(z[j], token + j);
      }
    }
    if (rules.renormalises) {
      tree.push(canonical::fold_chunk<sums>(kept, count, token));
    }
  });
  if constexpr (provides_v<S, stat::sampled>) {
    whole.key = race.key;
    whole.drawn = race.winner.token;
    whole.drawn_logit = race.winner.logit;
  }
  if (rules.renormalises) {
    canonical::renormalise(whole, tree.finish());
  }
}

}  // namespace unmask::host
