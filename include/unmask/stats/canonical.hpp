// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/draw.hpp>

/// The one order in which a row is summed, whatever reads it.
///
/// A row is cut into chunks of 2,048 columns, counted from the first column of the whole
/// vocabulary. Inside a chunk, column j belongs to lane j mod 64; a lane adds its columns in
/// ascending order, relative to the chunk's own maximum; the lanes are added by halving (i and
/// i + 32, then 16, 8, 4, 2, 1). A chunk that does not fill whole rows of 64 lanes is continued
/// with -inf. Chunks are merged in a binary tree over their index: 0 with 1, 2 with 3, then pairs
/// of pairs; a node without a sibling moves up unchanged.
///
/// Neither the SIMD width, the number of threads, the batch nor the number of thread blocks occurs
/// in that order, so none of them can change a bit. 64 lanes are four AVX-512 registers, eight AVX2
/// registers or two columns for each thread of a warp; 2,048 floats are a quarter of a 32 KB cache.
namespace UNMASK_NAMESPACE::canonical {

inline constexpr index_t lanes = 64;

/// A tree over 2^31 columns has at most 21 levels above its chunks.
inline constexpr int tree_levels = 22;

/// Number of chunks of a row of `columns`.
[[nodiscard]] UNMASK_HD constexpr index_t chunks_of(index_t columns) {
  return (columns + chunk_columns - 1) / chunk_columns;
}

/// Builds the record of one chunk from its maximum, its runner-up and the lane sums, where `sum`
/// still contains the 1 of the best column.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S>
chunk_record(float best, token_id token, float second, float sum, float weighted, float square) {
  record<S> r;
  r.best = best;
  r.token = token;
  if constexpr (provides_v<S, stat::confidence>) {
    r.rest = sum - 1.0F;
  }
  if constexpr (provides_v<S, stat::margin>) {
    r.second = second;
  }
  if constexpr (provides_v<S, stat::entropy>) {
    r.weighted = weighted;
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    r.square = square;
  }
  return r;
}

/// The record of a chunk without a finite column; `poisoned` if it holds a NaN.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> empty_chunk(bool poisoned) {
  record<S> r = record<S>::empty();
  if constexpr (provides_v<S, stat::confidence>) {
    if (poisoned) {
      r.rest = math::from_bits(0x7fc00000U);
    }
  }
  return r;
}

/// Adds `lanes` numbers by halving.
[[nodiscard]] UNMASK_HD inline float sum_of_lanes(float* lane) {
  for (index_t half = lanes / 2; half > 0; half /= 2) {
    for (index_t i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

/// The record of one chunk, column by column: the definition that the fast kernels reproduce bit by
/// bit. `count` <= chunk_columns edited logits; `first` is the token of column 0; `draw` is used
/// where S holds stat::sampled.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S>
fold_chunk(const float* z, index_t count, token_id first, const draw_request& draw = {}) {
  float best = -math::infinity();
  float second = best;
  token_id token = no_token;
  bool poisoned = false;
  for (index_t j = 0; j < count; ++j) {
    poisoned = poisoned || math::is_nan(z[j]);
    if (z[j] > best) {
      second = best;
      best = z[j];
      token = first + j;
    } else if (z[j] > second) {
      second = z[j];
    }
  }
  if (token == no_token) {
    return empty_chunk<S>(poisoned);
  }
  float sum[lanes] = {};
  float weighted[lanes] = {};
  float square[lanes] = {};
  if constexpr (provides_v<S, stat::confidence>) {
    const index_t whole = (count + lanes - 1) / lanes * lanes;
    for (index_t j = 0; j < whole; ++j) {
      const float z_j = j < count ? z[j] : -math::infinity();
      const float shift = z_j - best;
      const float d = shift < math::exp_floor ? math::exp_floor : shift;
      const float e = math::exp_nonpositive(d);
      const index_t lane = j % lanes;
      sum[lane] += e;
      weighted[lane] = math::fma(e, d, weighted[lane]);
      square[lane] = math::fma(e, e, square[lane]);
    }
  }
  record<S> r = chunk_record<S>(
      best, token, second, sum_of_lanes(sum), sum_of_lanes(weighted), sum_of_lanes(square));
  draw_column(r, draw, z, count, first, -math::infinity());
  return r;
}

/// Merges chunk records, pushed in ascending order, in the canonical tree; also merges equal,
/// aligned power-of-two runs of chunks that were folded elsewhere.
template <statistics S>
class chunk_tree {
 public:
  /// Adds the next chunk or the next whole run of chunks.
  UNMASK_HD void push(const record<S>& chunk) {
    record<S> node = chunk;
    int level = 0;
    for (; ((count_ >> level) & 1) != 0; ++level) {
      node = merged(node_[level], node);
    }
    node_[level] = node;
    ++count_;
  }

  /// The record of everything pushed; the empty record if nothing was.
  [[nodiscard]] UNMASK_HD record<S> finish() const {
    record<S> result = record<S>::empty();
    bool any = false;
    for (int level = 0; level < tree_levels; ++level) {
      if (((count_ >> level) & 1) != 0) {
        result = any ? merged(node_[level], result) : node_[level];
        any = true;
      }
    }
    return result;
  }

 private:
  [[nodiscard]] UNMASK_HD static record<S> merged(const record<S>& a, const record<S>& b) {
    row_accumulator<S> sum{a};
    sum.merge(row_accumulator<S>{b});
    return sum.finish();
  }

  record<S> node_[tree_levels];
  index_t count_ = 0;
};

}  // namespace unmask::canonical
