// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Not a header to include: the text of the row kernel, which read_row.hpp compiles once per tier,
// hence no #pragma once. A function template cannot take its target attribute from a template
// parameter, and g++ inlines intrinsics only into functions that have their target; so the text is
// one and the attribute is a macro. Included alone, this file is empty.
//
// UNMASK_SIMD    the vectors of the tier (simd.hpp)
// UNMASK_TARGET  its target attribute
#if defined(UNMASK_SIMD)

#  include <unmask/host/stage_kernel.hpp>

template <>
struct row_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  using stages = stage_kernel<UNMASK_SIMD>;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;
  static constexpr std::uint32_t all_bits = ~std::uint32_t{0} >> (32U - unsigned{width});

  /// See host::read_run.
  template <statistics S, element T, class Edit>
  UNMASK_TARGET static record<S> read_run(const row_input<T>& row, range chunks, const Edit& edit) {
    // What canonical::fold_chunk gives, with two shortcuts that the record of the run cannot show:
    // a chunk that does not beat every earlier chunk of this run keeps token = no_token and
    // second = -inf. Let w be the first chunk that reaches the run's maximum: it beat all before
    // it, so it is complete. In the tree, `takes_over` compares best first, and on a tie takes the
    // lower token; the later side of a tie never beat the earlier one, so it has no_token and
    // stays below, as its larger true token would. Every merge therefore goes the way it would with
    // complete records. The best and the token that come out are w's, and `second` is the larger
    // of w's second and the best of each node that w met, all of which are exact.
    alignas(64) float buffer[canonical::chunk_columns];
    canonical::chunk_tree<S> tree;
    leader so_far;
    index_t blank = first_blank(row, row.first_token + chunks.first * canonical::chunk_columns);
    for (index_t chunk = chunks.first; chunk < chunks.last; ++chunk) {
      const index_t first = chunk * canonical::chunk_columns;
      const index_t count = math::min(canonical::chunk_columns, row.columns - first);
      if constexpr (reads_memory<S, T>) {
        if (stages::plain(row, edit, first, count, blank)) {
          push(tree, read_chunk<S>(row, row.logits + first, first, count, so_far));
          continue;
        }
      }
      stages::stage(row, edit, first, count, blank, buffer);
      const float* const staged = buffer;
      push(tree, read_chunk<S>(row, staged, first, count, so_far));
    }
    record<S> result = tree.finish();
    if constexpr (provides_v<S, stat::drift>) {
      result.previous_square = row.before.seen ? row.before.square : 0.0F;
    }
    return result;
  }

 private:
  // True if plain logits are used where they are. Draws and comparisons want floats.
  template <statistics S, element T>
  static constexpr bool reads_memory =
      std::is_same_v<T, float> || !(provides_v<S, stat::sampled> || canonical::compares<S>);

  // The best logit and the best key of the chunks of a run so far.
  struct leader {
    float best = -math::infinity();
    float key = -math::infinity();
  };

  // The record of the chunk at column `first`, whose logits, padded to whole groups, are `z`.
  template <statistics S, element T, element Z>
  UNMASK_TARGET static record<S>
  read_chunk(const row_input<T>& row, const Z* z, index_t first, index_t count, leader& so_far) {
    const index_t padded = (count + lanes - 1) / lanes * lanes;
    canonical::scale reference;
    canonical::chunk_sums sums;
    float best = -math::infinity();
    if constexpr (provides_v<S, stat::confidence>) {
      best = with_sums<S>(z, padded, reference, sums);
    } else {
      best = largest_of(z, padded);
    }
    if (!(best > -math::infinity())) {
      if constexpr (canonical::compares<S>) {
        std::copy(z, z + count, row.previous + first);
      }
      return canonical::empty_chunk<S>(contains_nan(z, padded));
    }
    if constexpr (provides_v<S, stat::kept>) {
      hold(row, z, padded, best, first);
    }
    token_id token = no_token;
    float second = -math::infinity();
    if (best > so_far.best || best == 0.0F) {  // which of -0 and +0 came first shows in the bits
      const index_t column = first_equal(z, best, -1);
      best = math::to_float(z[column]);
      if (best > so_far.best) {
        so_far.best = best;
        token = row.first_token + first + column;
        if constexpr (provides_v<S, stat::margin>) {
          second = runner_up(z, padded, column);
        }
      }
    }
    record<S> chunk = finished<S>(best, token, second, reference, sums);
    if constexpr (provides_v<S, stat::sampled>) {
      if (canonical::draws<S>(row)) {
        draw(chunk, row.draw, z, count, row.first_token + first, so_far.key);
        so_far.key = math::max(so_far.key, chunk.key);
      }
    }
    if constexpr (canonical::compares<S>) {
      compare(chunk, z, row.previous + first, count, row.before);
    }
    return chunk;
  }

  // flatten: the merge is full of fused multiply-adds, calls of the C library without the target.
  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static void push(canonical::chunk_tree<S>& tree,
                                                          const record<S>& chunk) {
    tree.push(chunk);
  }

  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static void draw(record<S>& chunk,
                                                          const draw_request& request,
                                                          const float* z,
                                                          index_t count,
                                                          token_id first,
                                                          float to_beat) {
    canonical::draw_column(chunk, request, z, count, first, to_beat);
  }

  // Adds the largest columns of a chunk to what is held of the row.
  template <element T, element Z>
  UNMASK_TARGET __attribute__((flatten)) static void
  hold(const row_input<T>& row, const Z* z, index_t padded, float best, index_t first) {
    if (row.held == nullptr || !(best > row.held->threshold())) {
      return;
    }
    for (index_t j = 0; j < padded; j += width) {
      const floats x = simd::load(z + j);
      const floats least = simd::splat(row.held->threshold());
      std::uint32_t above = ~simd::equal(simd::max(x, least), least) & all_bits;
      for (; above != 0; above &= above - 1) {
        const index_t column = j + static_cast<index_t>(__builtin_ctz(above));
        row.held->push(math::to_float(z[column]), row.first_token + first + column);
      }
    }
  }

  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static void compare(record<S>& chunk,
                                                             const float* z,
                                                             float* previous,
                                                             index_t count,
                                                             const previous_row& before) {
    canonical::compare_chunk(chunk, z, previous, count, before);
  }

  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static record<S>
  finished(float best,
           token_id token,
           float second,
           const canonical::scale& reference,
           const canonical::chunk_sums& sums) {
    return canonical::chunk_record<S>(best, token, second, reference, sums);
  }

  template <element Z>
  UNMASK_TARGET static bool contains_nan(const Z* z, index_t padded) {
    std::uint32_t found = 0;
    for (index_t j = 0; j < padded; j += width) {
      found |= simd::unordered(simd::load(z + j));
    }
    return found != 0;
  }

  // The first column but `skipped` that holds x, which must be there.
  template <element Z>
  UNMASK_TARGET static index_t first_equal(const Z* z, float x, index_t skipped) {
    const floats wanted = simd::splat(x);
    for (index_t j = 0;; j += width) {
      std::uint32_t found = simd::equal(simd::load(z + j), wanted);
      if (skipped >= j && skipped < j + width) {
        found &= ~(1U << static_cast<unsigned>(skipped - j));
      }
      if (found != 0) {
        return j + static_cast<index_t>(__builtin_ctz(found));
      }
    }
  }

  // The largest number of all columns but `column`; -inf if there is none.
  template <element Z>
  UNMASK_TARGET static float runner_up(const Z* z, index_t padded, index_t column) {
    const index_t home = column / width * width;
    const std::uint32_t others = ~(1U << static_cast<unsigned>(column - home));
    const floats none = simd::splat(-math::infinity());
    const floats near = simd::max(simd::kept(simd::load(z + home), others), none);
    const index_t behind = home + width;
    const float value =
        math::max(simd::largest(near),
                  math::max(largest_of(z, home), largest_of(z + behind, padded - behind)));
    // The first of equals decides between -0 and +0.
    return value == 0.0F ? math::to_float(z[first_equal(z, value, column)]) : value;
  }

  // The largest of some columns, a multiple of `width`; NaN never is.
  template <element Z>
  UNMASK_TARGET static float largest_of(const Z* z, index_t count) {
    floats even = simd::splat(-math::infinity());
    floats odd = even;
    index_t j = 0;
    for (; j + 2 * width <= count; j += 2 * width) {
      floats a;
      floats b;
      simd::load_pair(z + j, a, b);
      even = simd::max(a, even);  // the order of the operands drops NaN
      odd = simd::max(b, odd);
    }
    if (j < count) {
      even = simd::max(simd::load(z + j), even);
    }
    return simd::largest(simd::max(even, odd));
  }

  // canonical::chunk_sums and the maximum of a few lanes.
  struct lane_sums {
    floats sum;
    floats weighted;
    floats square;
    floats best;
  };

  // One vector of columns on its way through canonical::sums_of.
  template <statistics S, bool Shifted>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  add(floats x, floats shift, floats exponent, lane_sums& s) {
    s.best = simd::max(x, s.best);
    if constexpr (Shifted) {
      x = simd::sub(x, shift);
    }
    const floats scaled = simd::fma(x, simd::splat(math::log2_e), exponent);
    const floats t = simd::max(simd::splat(math::exp2_floor), scaled);
    const floats n = simd::rounded(t);
    const floats f = simd::sub(t, n);
    floats p = simd::fma(f, simd::splat(math::exp2_c5), simd::splat(math::exp2_c4));
    p = simd::fma(p, f, simd::splat(math::exp2_c3));
    p = simd::fma(p, f, simd::splat(math::exp2_c2));
    p = simd::fma(p, f, simd::splat(math::exp2_c1));
    p = simd::fma(p, f, simd::splat(1.0F));
    const floats e = simd::scaled(p, n);
    s.sum = simd::add(s.sum, e);
    if constexpr (provides_v<S, stat::entropy>) {
      s.weighted = simd::fma(e, t, s.weighted);
    }
    if constexpr (provides_v<S, stat::second_moment>) {
      s.square = simd::fma(e, e, s.square);
    }
  }

  // canonical::sums_of and the maximum of the chunk, in sweeps over four vectors of lanes.
  template <statistics S, bool Shifted, element Z, class Simd = simd>
  UNMASK_TARGET static float sums_of(const Z* z,
                                     index_t padded,
                                     const canonical::scale& reference,
                                     canonical::chunk_sums& out) {
    alignas(64) float sum[lanes];
    alignas(64) float weighted[lanes];
    alignas(64) float square[lanes];
    const floats shift = simd::splat(reference.shift);
    const floats exponent = simd::splat(-reference.exponent);
    const floats zero = simd::splat(0.0F);
    const floats none = simd::splat(-math::infinity());
    floats best = none;
    for (index_t lane = 0; lane < lanes; lane += 4 * width) {
      lane_sums a{zero, zero, zero, none};
      lane_sums b = a;
      lane_sums c = a;
      lane_sums d = a;
      for (index_t j = lane; j < padded; j += lanes) {
        floats x0;
        floats x1;
        floats x2;
        floats x3;
        simd::load_pair(z + j, x0, x1);
        simd::load_pair(z + j + 2 * width, x2, x3);
        add<S, Shifted>(x0, shift, exponent, a);
        add<S, Shifted>(x1, shift, exponent, b);
        add<S, Shifted>(x2, shift, exponent, c);
        add<S, Shifted>(x3, shift, exponent, d);
      }
      best = simd::max(best, simd::max(simd::max(a.best, b.best), simd::max(c.best, d.best)));
      if constexpr (4 * width == lanes) {  // they never leave the registers
        out.sum = Simd::template total_of_lanes<Z>(a.sum, b.sum, c.sum, d.sum);
        if constexpr (provides_v<S, stat::entropy>) {
          out.weighted =
              Simd::template total_of_lanes<Z>(a.weighted, b.weighted, c.weighted, d.weighted);
        }
        if constexpr (provides_v<S, stat::second_moment>) {
          out.square = Simd::template total_of_lanes<Z>(a.square, b.square, c.square, d.square);
        }
      } else {
        Simd::template store_pair<Z>(sum + lane, a.sum, b.sum);
        Simd::template store_pair<Z>(sum + lane + 2 * width, c.sum, d.sum);
        Simd::template store_pair<Z>(weighted + lane, a.weighted, b.weighted);
        Simd::template store_pair<Z>(weighted + lane + 2 * width, c.weighted, d.weighted);
        Simd::template store_pair<Z>(square + lane, a.square, b.square);
        Simd::template store_pair<Z>(square + lane + 2 * width, c.square, d.square);
      }
    }
    if constexpr (4 * width != lanes) {
      out.sum = total(sum);
      out.weighted = provides_v<S, stat::entropy> ? total(weighted) : 0.0F;
      out.square = provides_v<S, stat::second_moment> ? total(square) : 0.0F;
    }
    return simd::largest(best);
  }

  // Adds 64 lanes in the order of canonical::sum_of_lanes.
  UNMASK_TARGET static float total(float* lane) {
    for (index_t half = lanes / 2; half >= width; half /= 2) {
      for (index_t i = 0; i < half; i += width) {
        simd::store(lane + i, simd::add(simd::load(lane + i), simd::load(lane + i + half)));
      }
    }
    return simd::total(simd::load(lane));
  }

  // The sums of a chunk, the scale they are relative to, and the maximum; -inf if there is none.
  // flatten: the scale needs fused multiply-adds.
  template <statistics S, element Z>
  UNMASK_TARGET __attribute__((flatten)) static float
  with_sums(const Z* z, index_t padded, canonical::scale& reference, canonical::chunk_sums& sums) {
    const float first_best = largest_of(z, lanes);
    float best = -math::infinity();
    if (canonical::opens_scale(first_best)) {
      reference = canonical::opening_scale(first_best);
      best = sums_of<S, false>(z, padded, reference, sums);
      if (canonical::reaches(reference, best)) {
        return best;
      }
    } else {
      best = largest_of(z, padded);
    }
    if (best > -math::infinity()) {
      reference = canonical::closing_scale(best);
      sums_of<S, true>(z, padded, reference, sums);
    }
    return best;
  }
};

#endif
