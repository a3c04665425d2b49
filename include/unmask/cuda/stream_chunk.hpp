// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_chunk.hpp>

namespace UNMASK_NAMESPACE::device {

/// A piece of a chunk, which a warp has in registers where it needs each column once: as many
/// groups of 64 columns as a thread loads with 32 bytes.
template <element T>
inline constexpr index_t piece_groups = 16 / index_t{sizeof(T)};
template <element T>
inline constexpr index_t piece_columns = piece_groups<T> * canonical::lanes;

/// A thread's logits of a piece.
template <element T>
using piece_logits = float[2 * piece_groups<T>];

namespace detail {

// Finds out whether a statistic has a lifted field.
struct lift_search {
  bool& found;
  template <class Tag>
  UNMASK_HD constexpr void operator()(Tag /*of_field*/) const {
    found = found || field::lifted<typename Tag::type>;
  }
};
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr bool lifts_any() {
  bool found = false;
  for_each_field<S>(lift_search{found});
  return found;
}

}  // namespace detail

/// True if the records of chunks are made of the columns in the order in which they come, so that a
/// warp may hold a piece of a chunk instead of all of it: neither comparisons with another row,
/// held columns nor lifted fields. A draw weighs the columns by the chunk's best, so the chunk is
/// read again.
template <statistics S>
inline constexpr bool streams =
    !detail::lifts_any<S>() && !canonical::compares<S> && !provides_v<S, stat::kept>;

/// Blocks of read_threads that read these statistics for which a multiprocessor has registers: one
/// that streams has 64 for a thread.
template <statistics S>
inline constexpr int blocks_of_read = canonical::compares<S> || provides_v<S, stat::kept> ? 2
                                      : !streams<S>                                       ? 3
                                                                                          : 8;

namespace detail {

// True if a chunk is whole, its columns hold pairs and only `edit` changes them.
template <element T>
[[nodiscard]] UNMASK_HD bool
is_plain(const auto& b, const row_input<T>& row, token_id excluded, index_t first, index_t count) {
  const index_t column = excluded - row.first_token - first;
  return count == canonical::chunk_columns && holds_pairs(row.logits + first) &&
         row.unconditional == nullptr && row.allowed == nullptr &&
         row.excluded_count <= warp_threads && b.ballot(column >= 0 && column < count) == 0;
}

// Reads a chunk piece by piece: use(z, from, count) for the pieces from column `from` of the chunk,
// until it returns false. `Plain`: is_plain().
template <bool Plain, element T, class Edit>
UNMASK_HD void for_each_piece(const auto& b,
                              const row_input<T>& row,
                              const Edit& edit,
                              token_id excluded,
                              index_t first,
                              index_t count,
                              const auto& use) {
  bool goes_on = true;
#if defined(__CUDA_ARCH__)
#  pragma unroll 1
#endif
  for (index_t from = 0; from < count && goes_on; from += piece_columns<T>) {
    piece_logits<T> z;
    const index_t here = Plain ? piece_columns<T> : math::min(piece_columns<T>, count - from);
    if constexpr (Plain) {
      load_pairs<2 * piece_groups<T>>(
          b, row.logits + first + from, [&](index_t i, float x) { z[i] = x; });
      apply(b, edit, row.first_token + first + from, here, z);
    } else {
      stage(b, row, edit, excluded, first + from, here, z);
    }
    goes_on = use(z, from, here);
  }
}

// first_equal() in a chunk that is read again.
[[nodiscard]] UNMASK_HD place first_equal_again(const auto& b,
                                                const auto& for_each,
                                                float x,
                                                index_t skipped) {
  place found{canonical::chunk_columns, x};
  for_each([&]<index_t N>(const float (&z)[N], index_t from, index_t /*count*/) {
    constexpr index_t columns = warp_threads * N;
    const bool skips = skipped >= from && skipped < from + columns;
    const place here = first_equal(b, z, x, skips ? skipped - from : -1);
    if (here.column < columns) {
      found = {from + here.column, here.logit};
    }
    return here.column >= columns;
  });
  return found;
}

// largest() in a chunk that is read again.
[[nodiscard]] UNMASK_HD float
largest_again(const auto& b, const auto& for_each, const auto& counts) {
  float best = -math::infinity();
  for_each([&](const auto& z, index_t /*from*/, index_t /*count*/) {
    best = larger(best, largest(b, z, counts));
    return true;
  });
  return best;
}

// runner_up() in a chunk that is read again.
[[nodiscard]] UNMASK_HD float
runner_up_again(const auto& b, const auto& for_each, const place& best) {
  return runner_up(
      best,
      [&](float x, index_t skipped) { return first_equal_again(b, for_each, x, skipped); },
      [&](const auto& counts) { return largest_again(b, for_each, counts); });
}

// The two largest of a thread's columns, counted as often as they occur.
struct two_largest {
  float first[2] = {-math::infinity(), -math::infinity()};
  float second[2] = {-math::infinity(), -math::infinity()};

  template <statistics S, index_t N>
  UNMASK_HD void push(const float (&z)[N]) {
    unrolled<N>([&](index_t i) {
      if constexpr (provides_v<S, stat::margin>) {
        second[i % 2] = larger(second[i % 2], smaller(first[i % 2], z[i]));
      }
      first[i % 2] = larger_or_nan(first[i % 2], z[i]);
    });
  }
  // NaN if a column is.
  [[nodiscard]] UNMASK_HD float largest() const { return larger_or_nan(first[0], first[1]); }
  // The second largest of a warp. No column is NaN.
  [[nodiscard]] UNMASK_HD float second_of_warp(const auto& b) const {
    float one = larger(first[0], first[1]);
    float two = larger(smaller(first[0], first[1]), larger(second[0], second[1]));
    for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
      const float other = b.shuffle_xor(one, distance);
      two = larger(larger(two, b.shuffle_xor(two, distance)), smaller(one, other));
      one = larger(one, other);
    }
    return two;
  }
};

// The record of a chunk with NaN, which is read again.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S>
poisoned_chunk(const auto& b, const auto& for_each, token_id first, float& best_before) {
  place best{0, largest_again(b, for_each, [](float) { return true; })};
  if (!(best.logit > -math::infinity())) {
    return canonical::empty_chunk<S>(true);
  }
  best = first_equal_again(b, for_each, best.logit, -1);
  float second = -math::infinity();
  if (best.logit > best_before) {
    best_before = best.logit;
    if constexpr (provides_v<S, stat::margin>) {
      second = runner_up_again(b, for_each, best);
    }
  }
  return invalid_chunk<S>(best.logit, first + best.column, second);
}

// stream_chunk() without its draw. `plain`: is_plain().
template <statistics S, class Exponential, element T, class Edit>
[[nodiscard]] UNMASK_HD record<S> fold_pieces(const auto& b,
                                              const row_input<T>& row,
                                              const Edit& edit,
                                              token_id excluded,
                                              index_t first,
                                              index_t count,
                                              bool plain,
                                              float& best_before) {
  const token_id chunk_token = row.first_token + first;
  const auto for_each = [&](const auto& use) {
    for_each_piece<false>(b, row, edit, excluded, first, count, use);
  };
  const auto groups_of = [](index_t columns) {
    return (columns + canonical::lanes - 1) / canonical::lanes;
  };
  two_largest held;
  place best{0, best_before};
  lane_sums sums;
  float first_best = 0.0F;
  bool poisoned = false;
  const auto fold = [&](const piece_logits<T>& z, index_t from, index_t here) {
    held.template push<S>(z);
    if constexpr (provides_v<S, stat::confidence>) {
      if (from == 0) {
        first_best = first_best_of(b, z);
      }
      const canonical::scale reference = canonical::opening_scale(first_best);
      if (here == piece_columns<T>) {
        add_weights<S, true, Exponential>(z, reference, piece_groups<T>, sums);
      } else {
        add_weights<S, false, Exponential>(z, reference, groups_of(here), sums);
      }
    }
    if (b.ballot(!(held.largest() <= best.logit)) != 0) {
      const float now =
          largest_of_warp(b, held.largest(), [](float x, float y) { return larger_or_nan(x, y); });
      poisoned = math::is_nan(now);
      if (!poisoned) {
        best = first_equal(b, z, now, -1);
        best.column += from;
      }
    }
    return !poisoned;
  };
  if (plain) {
    for_each_piece<true>(b, row, edit, excluded, first, count, fold);
  } else {
    for_each(fold);
  }
  if (poisoned) {
    return poisoned_chunk<S>(b, for_each, chunk_token, best_before);
  }

  float second = -math::infinity();
  if (best.logit > best_before) {
    best_before = best.logit;
    if constexpr (provides_v<S, stat::margin>) {
      second = held.second_of_warp(b);
      second = second == 0.0F ? runner_up_again(b, for_each, best) : second;
    }
  } else {
    best = {0, largest_of_warp(b, held.largest(), [](float x, float y) { return larger(x, y); })};
    if (best.logit == 0.0F) {  // the first of -0 and +0 is the best
      best = {0, first_equal_again(b, for_each, best.logit, -1).logit};
    }
  }
  if (!(best.logit > -math::infinity())) {
    return canonical::empty_chunk<S>(false);
  }
  const token_id token = chunk_token + best.column;
  if constexpr (!provides_v<S, stat::confidence>) {
    return canonical::chunk_record<S>(best.logit, token, second, {}, {});
  } else {
    if (!math::is_finite(best.logit)) {
      return invalid_chunk<S>(best.logit, token, second);
    }
    canonical::scale reference = canonical::opening_scale(first_best);
    if (!serves(first_best, best.logit)) {
      reference = canonical::closing_scale(best.logit);
      sums = {};
      for_each([&](const piece_logits<T>& z, index_t /*from*/, index_t here) {
        add_weights<S, false, Exponential>(z, reference, groups_of(here), sums);
        return true;
      });
    }
    return canonical::chunk_record<S>(
        best.logit, token, second, reference, sum_of_warp<S>(b, sums));
  }
}

}  // namespace detail

/// The record of a chunk as read_chunk() gives it, with the bits of canonical::fold_columns, for
/// statistics that stream. Holds a piece of the chunk at a time; reads it again where its first 64
/// columns did not select its scale, where it has NaN, where its best or its runner-up is a zero
/// whose sign another column may decide, and where a token is drawn at a temperature other than 1.
template <statistics S, class Exponential, element T, class Edit>
  requires streams<S>
[[nodiscard]] UNMASK_HD record<S> stream_chunk(const auto& b,
                                               const row_input<T>& row,
                                               const Edit& edit,
                                               token_id excluded,
                                               index_t chunk,
                                               float& best_before) {
  const index_t first = chunk * canonical::chunk_columns;
  const index_t count = math::min(canonical::chunk_columns, row.columns - first);
  const bool plain = detail::is_plain(b, row, excluded, first, count);
  record<S> r =
      detail::fold_pieces<S, Exponential>(b, row, edit, excluded, first, count, plain, best_before);
  if constexpr (provides_v<S, stat::sampled>) {
    if (r.best > -math::infinity() && canonical::draws<S>(row)) {
      detail::draw_chunk(b, row.draw, row.first_token + first, r, [&](auto& weights) {
        const auto add = [&](const auto& z, index_t /*from*/, index_t /*here*/) {
          weights.add(z);
          return true;
        };
        if (plain) {
          detail::for_each_piece<true>(b, row, edit, excluded, first, count, add);
        } else {
          detail::for_each_piece<false>(b, row, edit, excluded, first, count, add);
        }
      });
    }
  }
  return r;
}

}  // namespace unmask::device
