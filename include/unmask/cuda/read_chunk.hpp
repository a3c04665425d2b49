// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/compare_chunk.hpp>
#include <unmask/cuda/draw_chunk.hpp>
#include <unmask/cuda/hold_chunk.hpp>
#include <unmask/cuda/stage_chunk.hpp>

namespace UNMASK_NAMESPACE::device {

namespace detail {

// The first column except `skipped` whose logit equals x; -1 skips none. A thread compares indices,
// which are constants: storing 64 columns would take more registers than a chunk leaves.
template <index_t N>
[[nodiscard]] UNMASK_HD place
first_equal(const auto& b, const float (&z)[N], float x, index_t skipped) {
  const index_t hole = skipped < 0 ? -1 : index_of(b, skipped);
  index_t at = N;
  float there = x;
  unrolled<N>([&](index_t n) {
    const index_t i = N - 1 - n;
    if (z[i] == x && i != hole) {
      at = i;
      there = z[i];
    }
  });
  place found{at < N ? column_of(b, at) : warp_threads * N, there};
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    const auto column =
        static_cast<index_t>(b.shuffle_xor(static_cast<std::uint32_t>(found.column), distance));
    const float logit = b.shuffle_xor(found.logit, distance);
    if (column < found.column) {
      found = {column, logit};
    }
  }
  return found;
}

// The largest logit x with counts(x); NaN is ignored.
template <index_t N>
[[nodiscard]] UNMASK_HD float largest(const auto& b, const float (&z)[N], const auto& counts) {
  float best = -math::infinity();
  unrolled<N>([&](index_t i) { best = z[i] > best && counts(z[i]) ? z[i] : best; });
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    best = larger(best, b.shuffle_xor(best, distance));
  }
  return best;
}

// The largest logit of a chunk's columns except `best.column`, the column of the maximum.
// equal_to(x, skipped) and largest_of(counts) are first_equal() and largest() of the chunk.
[[nodiscard]] UNMASK_HD inline float
runner_up(const place& best, const auto& equal_to, const auto& largest_of) {
  const place equal = equal_to(best.logit, best.column);
  if (equal.column < canonical::chunk_columns) {
    return equal.logit;
  }
  const float second = largest_of([&](float x) { return x < best.logit; });
  // The first column decides between -0 and +0.
  return second == 0.0F ? equal_to(second, best.column).logit : second;
}

// The record of a chunk that has NaN, or whose best is infinite.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> invalid_chunk(float best, token_id token, float second) {
  const float nan = math::from_bits(0x7fc00000U);
  return canonical::chunk_record<S>(best, token, second, {}, {nan, nan, nan});
}

struct lane_sums {
  float sum[2] = {0.0F, 0.0F};
  float weighted[2] = {0.0F, 0.0F};
  float square[2] = {0.0F, 0.0F};
};

// Adds the first `groups` columns of a thread's two lanes to their sums. `Usual`: all of them, with
// a scale that does not shift.
template <statistics S, bool Usual, class Exponential, index_t N>
UNMASK_HD void
add_weights(const float (&z)[N], const canonical::scale& reference, index_t groups, lane_sums& s) {
  unrolled<N>([&](index_t i) {
    if (Usual || i / 2 < groups) {
      const float x = Usual ? z[i] : math::difference(z[i], reference.shift);
      const float t = larger(math::fma(x, math::log2_e, -reference.exponent), math::exp2_floor);
      const float e = Exponential{}(t);
      s.sum[i % 2] += e;
      if constexpr (provides_v<S, stat::entropy>) {
        s.weighted[i % 2] = math::fma(e, t, s.weighted[i % 2]);
      }
      if constexpr (provides_v<S, stat::second_moment>) {
        s.square[i % 2] = math::fma(e, e, s.square[i % 2]);
      }
    }
  });
}

// The sums of a chunk's 64 lanes.
template <statistics S>
[[nodiscard]] UNMASK_HD canonical::chunk_sums sum_of_warp(const auto& b, const lane_sums& s) {
  canonical::chunk_sums all;
  all.sum = sum_of_lanes(b, s.sum[0], s.sum[1]);
  if constexpr (provides_v<S, stat::entropy>) {
    all.weighted = sum_of_lanes(b, s.weighted[0], s.weighted[1]);
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    all.square = sum_of_lanes(b, s.square[0], s.square[1]);
  }
  return all;
}

// The largest of a warp's numbers by `of_two`.
[[nodiscard]] UNMASK_HD float largest_of_warp(const auto& b, float x, const auto& of_two) {
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    x = of_two(x, b.shuffle_xor(x, distance));
  }
  return x;
}

// The largest of the first 64 columns of a chunk, NaN ignored.
template <index_t N>
[[nodiscard]] UNMASK_HD float first_best_of(const auto& b, const float (&z)[N]) {
  return largest_of_warp(b, larger(z[0], z[1]), [](float x, float y) { return larger(x, y); });
}

// True if the first 64 columns select the scale of a chunk with this best.
[[nodiscard]] UNMASK_HD inline bool serves(float first_best, float best) {
  return canonical::opens_scale(first_best) &&
         canonical::reaches(canonical::opening_scale(first_best), best);
}

// No logit is NaN, and `best` is finite.
template <statistics S, class Exponential>
[[nodiscard]] UNMASK_HD record<S> with_sums(
    const auto& b, const chunk_logits& z, index_t count, float best, token_id token, float second) {
  const float first_best = first_best_of(b, z);
  const canonical::scale reference = serves(first_best, best) ? canonical::opening_scale(first_best)
                                                              : canonical::closing_scale(best);
  lane_sums s;
  if (count == canonical::chunk_columns && reference.shift == 0.0F) {
    add_weights<S, true, Exponential>(z, reference, lane_columns, s);
  } else {
    const index_t groups = (count + canonical::lanes - 1) / canonical::lanes;
    add_weights<S, false, Exponential>(z, reference, groups, s);
  }
  return canonical::chunk_record<S>(best, token, second, reference, sum_of_warp<S>(b, s));
}

// The field of another thread of the warp.
template <class F>
[[nodiscard]] UNMASK_HD F shuffled(const auto& b, const F& f, index_t distance) {
  static_assert(sizeof(F) % sizeof(std::uint32_t) == 0 && std::is_trivially_copyable_v<F>);
  std::uint32_t words[sizeof(F) / sizeof(std::uint32_t)];
  memcpy(words, &f, sizeof(F));
  for (std::uint32_t& word : words) {
    word = b.shuffle_xor(word, distance);
  }
  F other;
  memcpy(&other, words, sizeof(F));
  return other;
}

// canonical::lift, by a warp.
template <class F>
[[nodiscard]] UNMASK_HD F lift(const auto& b, const chunk_logits& z, float best) {
  const index_t hole = index_of(b, first_equal(b, z, best, -1).column);
  F even;
  F odd;
  unrolled<2 * lane_columns>([&](index_t i) {
    if (z[i] > -math::infinity() && i != hole) {
      (i % 2 == 0 ? even : odd).add(z[i], math::difference(z[i], best));
    }
  });
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    even.join(shuffled(b, even, distance));
    odd.join(shuffled(b, odd, distance));
  }
  even.join(odd);
  return even;
}

}  // namespace detail

/// The record of a chunk of `count` logits that starts at token `first`, in the registers of one
/// warp; every thread of the warp gets it.
///
/// `best_before` is the largest logit that this warp has read of the row, initially -inf; it is
/// updated. A chunk that does not exceed it lacks what has no effect on the record of the row, see
/// canonical::chunk_tree; everything else has the bits of canonical::fold_chunk. `valid`: the chunk
/// has neither NaN nor an infinite best.
template <statistics S, class Exponential>
[[nodiscard]] UNMASK_HD record<S> fold_chunk(const auto& b,
                                             const chunk_logits& z,
                                             index_t count,
                                             token_id first,
                                             float& best_before,
                                             bool& valid) {
  float even = -math::infinity();
  float odd = even;
  unrolled<lane_columns>([&](index_t k) {
    even = larger_or_nan(even, z[2 * k]);
    odd = larger_or_nan(odd, z[2 * k + 1]);
  });
  detail::place best{canonical::chunk_columns, larger_or_nan(even, odd)};
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    best.logit = larger_or_nan(best.logit, b.shuffle_xor(best.logit, distance));
  }
  const bool poisoned = math::is_nan(best.logit);
  if (poisoned) {
    best.logit = detail::largest(b, z, [](float) { return true; });
  }
  valid = !poisoned && math::is_finite(best.logit);
  if (!(best.logit > -math::infinity())) {
    return canonical::empty_chunk<S>(poisoned);
  }

  token_id token = first;
  float second = -math::infinity();
  if (best.logit > best_before || best.logit == 0.0F) {  // the first of -0 and +0 is the best
    best = detail::first_equal(b, z, best.logit, -1);
    if (best.logit > best_before) {
      best_before = best.logit;
      token = first + best.column;
      if constexpr (provides_v<S, stat::margin>) {
        second = detail::runner_up(
            best,
            [&](float x, index_t skipped) { return detail::first_equal(b, z, x, skipped); },
            [&](const auto& counts) { return detail::largest(b, z, counts); });
      }
    }
  }
  record<S> r;
  if constexpr (!provides_v<S, stat::confidence>) {
    return canonical::chunk_record<S>(best.logit, token, second, {}, {});
  } else if (!valid) {
    r = detail::invalid_chunk<S>(best.logit, token, second);
  } else {
    r = detail::with_sums<S, Exponential>(b, z, count, best.logit, token, second);
  }
  for_each_field<S>([&](auto tag) {
    using F = typename decltype(tag)::type;
    if constexpr (field::lifted<F>) {
      static_cast<F&>(r) = detail::lift<F>(b, z, best.logit);
    }
  });
  return r;
}

/// The record of chunk `chunk` of a row, read by one warp: its fold_chunk(), and its draw,
/// comparison and held columns. If a token is drawn, `drawn` is the first token of the chunk and
/// drawn_logit is not set until read_row() picks the column. `holder` is the warp's, for held
/// columns.
template <statistics S, class Exponential, element T, class Edit>
[[nodiscard]] UNMASK_HD record<S> read_chunk(const auto& b,
                                             const row_input<T>& row,
                                             const Edit& edit,
                                             index_t chunk,
                                             float& best_before,
                                             [[maybe_unused]] auto& holder) {
  const index_t first = chunk * canonical::chunk_columns;
  const index_t count = math::min(canonical::chunk_columns, row.columns - first);
  const token_id chunk_token = row.first_token + first;
  chunk_logits z;
  stage(b, row, edit, detail::excluded_of(b, row, 0), first, count, z);
  bool valid = false;
  record<S> r = fold_chunk<S, Exponential>(b, z, count, chunk_token, best_before, valid);
  if (!(r.best > -math::infinity())) {
    if constexpr (canonical::compares<S>) {
      detail::replace_previous(b, row, first, count, z);
    }
    return r;
  }
  if constexpr (provides_v<S, stat::kept>) {
    if (row.held != nullptr) {
      holder.push_chunk(z, r.best, chunk_token);
    }
  }
  if constexpr (provides_v<S, stat::sampled>) {
    if (canonical::draws<S>(row)) {
      detail::draw_chunk(
          b, row.draw, chunk_token, r, [&](detail::lane_weights& weights) { weights.add(z); });
    }
  }
  if constexpr (canonical::compares<S>) {
    detail::compare(b, row, first, count, z, valid, r);
  }
  return r;
}

}  // namespace unmask::device
