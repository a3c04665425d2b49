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
    float best_so_far = -math::infinity();
    float key_so_far = -math::infinity();
    index_t blank = first_blank(row, row.first_token + chunks.first * canonical::chunk_columns);
    for (index_t chunk = chunks.first; chunk < chunks.last; ++chunk) {
      const index_t first = chunk * canonical::chunk_columns;
      const index_t count = math::min(canonical::chunk_columns, row.columns - first);
      const index_t padded = (count + lanes - 1) / lanes * lanes;
      const auto chunk_logits = stages::stage(row, edit, first, count, blank, buffer);
      const float* z = chunk_logits.z;
      float best = chunk_logits.best;
      if (!(best > -math::infinity())) {
        if constexpr (canonical::compares<S>) {
          std::copy(z, z + count, row.previous + first);
        }
        push(tree, canonical::empty_chunk<S>(contains_nan(z, padded)));
        continue;
      }
      if constexpr (provides_v<S, stat::kept>) {
        hold(row, z, padded, best, first);
      }
      token_id token = no_token;
      float second = -math::infinity();
      if (best > best_so_far || best == 0.0F) {  // which of -0 and +0 came first shows in the bits
        const index_t column = first_equal(z, padded, best, -1);
        best = z[column];
        if (best > best_so_far) {
          best_so_far = best;
          token = row.first_token + first + column;
          if constexpr (provides_v<S, stat::margin>) {
            second = runner_up(z, padded, best, column);
          }
        }
      }
      // The sums do not wait for memory: they fetch what the next chunk will read.
      const T* ahead = row.logits + first + canonical::chunk_columns;
      record<S> chunk_record = with_sums<S>(z, padded, best, token, second, ahead);
      if constexpr (provides_v<S, stat::sampled>) {
        if (canonical::draws<S>(row)) {
          draw(chunk_record, row.draw, z, count, row.first_token + first, key_so_far);
          key_so_far = math::max(key_so_far, chunk_record.key);
        }
      }
      if constexpr (canonical::compares<S>) {
        compare(chunk_record, z, row.previous + first, count, row.before);
      }
      push(tree, chunk_record);
    }
    record<S> result = tree.finish();
    if constexpr (provides_v<S, stat::drift>) {
      result.previous_square = row.before.seen ? row.before.square : 0.0F;
    }
    return result;
  }

 private:
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
  template <element T>
  UNMASK_TARGET static void
  hold(const row_input<T>& row, const float* z, index_t padded, float best, index_t first) {
    if (row.held == nullptr || !(best > row.held->threshold())) {
      return;
    }
    for (index_t j = 0; j < padded; j += width) {
      const floats x = simd::load(z + j);
      const floats least = simd::splat(row.held->threshold());
      std::uint32_t above = ~simd::equal(simd::max(x, least), least) & all_bits;
      for (; above != 0; above &= above - 1) {
        const index_t column = j + static_cast<index_t>(__builtin_ctz(above));
        row.held->push(z[column], row.first_token + first + column);
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

  UNMASK_TARGET static bool contains_nan(const float* z, index_t padded) {
    std::uint32_t found = 0;
    for (index_t j = 0; j < padded; j += width) {
      found |= simd::unordered(simd::load(z + j));
    }
    return found != 0;
  }

  // The first column but `skipped` that holds x, or -1.
  UNMASK_TARGET static index_t
  first_equal(const float* z, index_t padded, float x, index_t skipped) {
    const floats wanted = simd::splat(x);
    for (index_t j = 0; j < padded; j += width) {
      std::uint32_t found = simd::equal(simd::load(z + j), wanted);
      if (skipped >= j && skipped < j + width) {
        found &= ~(1U << static_cast<unsigned>(skipped - j));
      }
      if (found != 0) {
        return j + static_cast<index_t>(__builtin_ctz(found));
      }
    }
    return -1;
  }

  // The largest number of all columns but `column`, which holds `best`, the maximum of all.
  UNMASK_TARGET static float runner_up(const float* z, index_t padded, float best, index_t column) {
    index_t at = first_equal(z, padded, best, column);
    if (at < 0) {
      const floats top = simd::splat(best);
      floats second = simd::splat(-math::infinity());
      for (index_t j = 0; j < padded; j += width) {
        second = simd::max(simd::below(simd::load(z + j), top), second);
      }
      const float value = simd::largest(second);
      if (value != 0.0F) {
        return value;
      }
      at = first_equal(z, padded, value, column);
    }
    return z[at];  // the first of equals: it decides between -0 and +0
  }

  struct sums {
    floats sum;
    floats weighted;
    floats square;
  };

  // One vector on its way through canonical::fold_chunk: e^d is 2^n 2^f.
  struct exponent {
    floats d;
    floats magic;
    floats f;
  };

  UNMASK_TARGET __attribute__((always_inline)) static inline exponent reduced(const float* z,
                                                                              floats best) {
    const floats log2_e = simd::splat(math::log2_e);
    const floats round = simd::splat(math::round_magic);
    const floats d = simd::max(simd::splat(math::exp_floor), simd::sub(simd::load(z), best));
    const floats magic = simd::fma(d, log2_e, round);
    return {d, magic, simd::fms(d, log2_e, simd::sub(magic, round))};
  }

  // `seen` collects NaN: the integer addition to the exponent may make a number of a NaN.
  template <statistics S>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  add(const exponent& x, sums& s, simd::words& seen) {
    floats p = simd::fma(x.f, simd::splat(math::exp2_c5), simd::splat(math::exp2_c4));
    p = simd::fma(p, x.f, simd::splat(math::exp2_c3));
    p = simd::fma(p, x.f, simd::splat(math::exp2_c2));
    p = simd::fma(p, x.f, simd::splat(math::exp2_c1));
    p = simd::fma(p, x.f, simd::splat(1.0F));
    const floats e = simd::scaled(p, x.magic);
    seen = simd::joined(seen, x.magic);
    s.sum = simd::add(s.sum, e);
    if constexpr (provides_v<S, stat::entropy>) {
      s.weighted = simd::fma(e, x.d, s.weighted);
    }
    if constexpr (provides_v<S, stat::second_moment>) {
      s.square = simd::fma(e, e, s.square);
    }
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

  // The record of a chunk whose maximum is known. Sweeps over it, one vector of lanes at a time,
  // and asks meanwhile for the memory from `ahead` on.
  template <statistics S, element T>
  UNMASK_TARGET static record<S> with_sums(
      const float* z, index_t padded, float best, token_id token, float second, const T* ahead) {
    if constexpr (!provides_v<S, stat::confidence>) {
      return canonical::chunk_record<S>(best, token, second, 0.0F, 0.0F, 0.0F);
    } else {
      alignas(64) float sum[lanes];
      alignas(64) float weighted[lanes];
      alignas(64) float square[lanes];
      const floats top = simd::splat(best);
      const floats zero = simd::splat(0.0F);
      simd::words seen = simd::no_words();
      for (index_t lane = 0; lane < lanes; lane += width) {
        sums s{zero, zero, zero};
        // One vector ahead of the polynomial: the processor looks a limited number of instructions
        // forward, and the chain of one vector is long.
        exponent now = reduced(z + lane, top);
        for (index_t j = lane + lanes; j < padded; j += lanes) {
          __builtin_prefetch(ahead);
          ahead += width;
          const exponent next = reduced(z + j, top);
          add<S>(now, s, seen);
          now = next;
        }
        __builtin_prefetch(ahead);
        ahead += width;
        add<S>(now, s, seen);
        simd::store(sum + lane, s.sum);
        simd::store(weighted + lane, s.weighted);
        simd::store(square + lane, s.square);
      }
      if (simd::any_nan(seen)) {
        const float nan = math::from_bits(0x7fc00000U);
        return canonical::chunk_record<S>(best, token, second, nan, nan, nan);
      }
      return canonical::chunk_record<S>(best,
                                        token,
                                        second,
                                        total(sum),
                                        provides_v<S, stat::entropy> ? total(weighted) : 0.0F,
                                        provides_v<S, stat::second_moment> ? total(square) : 0.0F);
    }
  }
};

#endif
