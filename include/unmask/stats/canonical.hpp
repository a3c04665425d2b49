// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/draw.hpp>

/// The fixed order in which a row is summed on every backend.
///
/// A row is cut into chunks of 2,048 columns, counted from the first column of the whole
/// vocabulary. Inside a chunk, column j belongs to lane j mod 64; a lane adds its columns in
/// ascending order, as powers of two relative to the chunk's `scale`; the lanes are added by
/// halving (i and i + 32, then 16, 8, 4, 2, 1). A chunk that does not fill whole rows of 64 lanes
/// is continued with -inf. Chunks are merged in a binary tree over their index: 0 with 1, 2 with 3,
/// then pairs of pairs; a node without a sibling moves up unchanged.
///
/// Neither the SIMD width, the number of threads, the batch nor the number of thread blocks occurs
/// in that order, so none of them can change a bit. 64 lanes are four AVX-512 registers, eight AVX2
/// registers or two columns for each thread of a warp; 2,048 floats are a quarter of a 32 KB cache.
namespace UNMASK_NAMESPACE::canonical {

/// A tree over 2^31 columns has at most 21 levels above its chunks.
inline constexpr int tree_levels = 22;

/// Number of chunks of a row of `columns`.
[[nodiscard]] UNMASK_HD constexpr index_t chunks_of(index_t columns) {
  return (columns + chunk_columns - 1) / chunk_columns;
}

/// Reference of the weights of a chunk's columns: column z weighs 2^t, at least 2^exp2_floor, with
///     t = (z - shift) log2(e) - exponent.
///
/// The sums of a chunk cannot wait for its maximum, or the chunk would be read twice. So the
/// maximum of its first 64 columns selects an integer exponent near it, which is exact and costs no
/// accuracy. The sums are computed again relative to the best column itself if that lies more than
/// `reach` above the exponent, if the first 64 columns have no finite logit, or if the logits are
/// so large that t would have no fraction. The choice depends on the chunk only.
struct scale {
  float shift = 0.0F;
  float exponent = 0.0F;

  /// The exponent of two of column z. NaN stays NaN.
  [[nodiscard]] UNMASK_HD float bits(float z) const {
    const float t = math::fma(math::difference(z, shift), math::log2_e, -exponent);
    return t < math::exp2_floor ? math::exp2_floor : t;
  }
};

/// Largest distance of the best column in powers of two. Of 1,000 chunks of 2,048 normally
/// distributed logits with a deviation of 4, 34 have a best further up; with a deviation of 2.5,
/// none. t <= 12 is rounded by 2^-21 at most, 3.3e-7 of the weight.
inline constexpr float reach = 12.0F;

/// Above this, log2(e) z has less than three fractional bits.
inline constexpr float moderate = 1048576.0F;

/// True if the largest of a chunk's first 64 logits, NaN ignored, can select the scale.
[[nodiscard]] UNMASK_HD inline bool opens_scale(float first_best) {
  return first_best > -moderate && first_best < moderate;
}
[[nodiscard]] UNMASK_HD inline scale opening_scale(float first_best) {
  return {0.0F, math::fma(first_best, math::log2_e, math::round_magic) - math::round_magic};
}

/// True if sums relative to `s` are valid for a chunk whose largest logit is `best`.
[[nodiscard]] UNMASK_HD inline bool reaches(const scale& s, float best) {
  return math::fma(best, math::log2_e, -s.exponent) <= reach;
}

/// Scale of a chunk whose best lies out of reach of the opening scale.
[[nodiscard]] UNMASK_HD inline scale closing_scale(float best) {
  return {best, 0.0F};
}

/// The sums over a chunk of 2^t, 2^t t and 2^2t.
struct chunk_sums {
  float sum = 0.0F;
  float weighted = 0.0F;
  float square = 0.0F;
};

/// Builds the record of one chunk from its best column, its runner-up and its sums.
///
/// The best column's share is subtracted from the sums by the operations that added it, so that a
/// chunk of one column leaves exactly zero.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> chunk_record(
    float best, token_id token, float second, const scale& reference, const chunk_sums& all) {
  record<S> r;
  r.best = best;
  r.token = token;
  if constexpr (provides_v<S, stat::margin>) {
    r.second = second;
  }
  if constexpr (provides_v<S, stat::confidence>) {
    const bool poisoned = math::is_nan(all.sum);
    const float nan = math::from_bits(0x7fc00000U);
    const float t = reference.bits(best);
    const float e = math::exp2(t);
    const float others = all.sum - e;
    r.rest = poisoned ? nan : math::divide(others, e);
    if constexpr (provides_v<S, stat::entropy>) {
      const float w = math::fma(-t, others, all.weighted - math::product(e, t));
      r.weighted = poisoned ? nan : math::product(math::divide(w, e), math::ln_2);
    }
    if constexpr (provides_v<S, stat::second_moment>) {
      r.square = poisoned ? nan : math::divide(all.square, math::product(e, e));
    }
  }
  return r;
}

/// The record of a chunk without a finite column; `poisoned` if it has a NaN.
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

/// The sums of `count` columns relative to `reference`.
template <statistics S>
[[nodiscard]] UNMASK_HD chunk_sums sums_of(const float* z, index_t count, const scale& reference) {
  float sum[lanes] = {};
  float weighted[lanes] = {};
  float square[lanes] = {};
  const index_t whole = (count + lanes - 1) / lanes * lanes;
  for (index_t j = 0; j < whole; ++j) {
    const float t = reference.bits(j < count ? z[j] : -math::infinity());
    const float e = math::exp2(t);
    const index_t lane = j % lanes;
    sum[lane] += e;
    weighted[lane] = math::fma(e, t, weighted[lane]);
    square[lane] = math::fma(e, e, square[lane]);
  }
  return {sum_of_lanes(sum),
          provides_v<S, stat::entropy> ? sum_of_lanes(weighted) : 0.0F,
          provides_v<S, stat::second_moment> ? sum_of_lanes(square) : 0.0F};
}

/// Lifts the columns of a chunk whose best is `best`, except the first column equal to it.
template <class F>
struct lifter {
  float best;        ///< The largest logit of the chunk.
  F lifted = {};     ///< The field of the columns so far.
  bool met = false;  ///< True once the best was among them.

  /// Columns up to it change nothing.
  [[nodiscard]] UNMASK_HD float bar() const { return lifted.bar(); }
  /// Lifts a column.
  UNMASK_HD void push(float logit, token_id /*token*/ = no_token) { push_to(lifted, logit); }
  /// Lifts a column into one of several lanes.
  UNMASK_HD void push_to(F& lane, float logit) {
    if (logit == best && !met) {
      met = true;
    } else if (logit > -math::infinity()) {
      lane.add(logit, math::difference(logit, best));
    }
  }
};

/// Field F of a chunk: its columns except the best, in lanes if their order has an effect.
template <field::lifted F>
[[nodiscard]] UNMASK_HD F lift(const float* z, index_t count, float best) {
  lifter<F> all{best};
  if constexpr (field::barred<F>) {
    for (index_t j = 0; j < count; ++j) {
      if (z[j] > all.bar()) {
        all.push(z[j]);
      }
    }
    return all.lifted;
  } else {
    F lane[lanes] = {};
    for (index_t j = 0; j < count; ++j) {
      all.push_to(lane[j % lanes], z[j]);
    }
    for (index_t half = lanes / 2; half > 0; half /= 2) {
      for (index_t i = 0; i < half; ++i) {
        lane[i].join(lane[i + half]);
      }
    }
    return lane[0];
  }
}

/// The record of one chunk without its draw, column by column: the definition that the fast kernels
/// reproduce bit by bit. `count` <= chunk_columns edited logits; `first` is the token of column 0.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> fold_columns(const float* z, index_t count, token_id first) {
  float best = -math::infinity();
  float second = best;
  float first_best = best;  // of the first row of lanes
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
    first_best = j < lanes ? best : first_best;
  }
  if (token == no_token) {
    return empty_chunk<S>(poisoned);
  }
  scale reference = opening_scale(first_best);
  if (!opens_scale(first_best) || !reaches(reference, best)) {
    reference = closing_scale(best);
  }
  chunk_sums sums;
  if constexpr (provides_v<S, stat::confidence>) {
    sums = sums_of<S>(z, count, reference);
  }
  record<S> r = chunk_record<S>(best, token, second, reference, sums);
  for_each_field<S>([&](auto tag) {
    using F = typename decltype(tag)::type;
    if constexpr (field::lifted<F>) {
      static_cast<F&>(r) = lift<F>(z, count, best);
    }
  });
  return r;
}

/// Adds the draw `draw` to that record if S contains stat::sampled.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S>
fold_chunk(const float* z, index_t count, token_id first, const draw_request& draw = {}) {
  record<S> r = fold_columns<S>(z, count, first);
  if (r.token != no_token) {
    draw_column(r, draw, z, count, first, -math::infinity());
  }
  return r;
}

/// Merges chunk records, pushed in ascending order, in the canonical tree; also accepts the records
/// of equal, aligned power-of-two runs of chunks that were computed elsewhere.
///
/// The record of a chunk that does not exceed some chunk before it may have the token of its first
/// column, second = -inf and, if it does not exceed the bar() of what was lifted of some chunks
/// before it, an empty field. That has no effect on the record of the row:
///
///  - A merge compares the bests and, on a tie, the tokens; tokens of two chunks compare as the
///    chunks do, whichever columns they are of. Every merge therefore has the same result.
///  - The first chunk with the row's best exceeds all before it, so its record is complete. The
///    final token is its token, and `second` the larger of its second and the bests of the nodes
///    that it was merged with.
///  - Columns that do not exceed the bar of a part of the row change nothing together with that
///    part, and lifting is exact in any order.
template <statistics S>
class chunk_tree {
 public:
  /// Adds the next chunk or the next complete run of chunks.
  UNMASK_HD void push(const record<S>& chunk) {
    record<S> node = chunk;
    int level = 0;
    for (; ((count_ >> level) & 1) != 0; ++level) {
      node = merged(node_[level], node);
    }
    node_[level] = node;
    ++count_;
  }

  /// The record of all pushed chunks; the empty record if there are none.
  [[nodiscard]] UNMASK_HD record<S> finish() const {
    record<S> result = record<S>::empty();
    bool any = false;
    for (int level = 0; (count_ >> level) != 0; ++level) {
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
