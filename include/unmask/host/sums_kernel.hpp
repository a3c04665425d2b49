// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.hpp includes, once per instruction set like itself, hence no #pragma once:
// the sums of a chunk and their scale. Included alone, this file is empty.
#if defined(UNMASK_SIMD)

template <>
struct sums_kernel<UNMASK_SIMD> : columns_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;
  // Vectors in a sweep: 16 registers hold the sums of two, 32 those of four.
  static constexpr index_t together = width == 8 ? 2 : 4;

  // canonical::chunk_sums and the maximum of a few lanes.
  struct lane_sums {
    floats sum;
    floats weighted;
    floats square;
    floats best;
  };

  // Adds two vectors of columns, each as canonical::sums_of does, step by step in turns: one alone
  // is a chain of operations that wait for each other.
  template <statistics S>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  add(floats x, floats y, floats exponent, lane_sums& s, lane_sums& u) {
    s.best = simd::max(x, s.best);
    u.best = simd::max(y, u.best);
    const floats xs = simd::fma(x, simd::splat(math::log2_e), exponent);
    const floats ys = simd::fma(y, simd::splat(math::log2_e), exponent);
    const floats t = simd::max(simd::splat(math::exp2_floor), xs);
    const floats v = simd::max(simd::splat(math::exp2_floor), ys);
    const floats n = simd::rounded(t);
    const floats m = simd::rounded(v);
    const floats f = simd::sub(t, n);
    const floats g = simd::sub(v, m);
    floats p = simd::fma(f, simd::splat(math::exp2_c5), simd::splat(math::exp2_c4));
    floats q = simd::fma(g, simd::splat(math::exp2_c5), simd::splat(math::exp2_c4));
    p = simd::fma(p, f, simd::splat(math::exp2_c3));
    q = simd::fma(q, g, simd::splat(math::exp2_c3));
    p = simd::fma(p, f, simd::splat(math::exp2_c2));
    q = simd::fma(q, g, simd::splat(math::exp2_c2));
    p = simd::fma(p, f, simd::splat(math::exp2_c1));
    q = simd::fma(q, g, simd::splat(math::exp2_c1));
    p = simd::fma(p, f, simd::splat(1.0F));
    q = simd::fma(q, g, simd::splat(1.0F));
    const floats e = simd::scaled(p, n);
    const floats d = simd::scaled(q, m);
    s.sum = simd::add(s.sum, e);
    u.sum = simd::add(u.sum, d);
    if constexpr (provides_v<S, stat::entropy>) {
      s.weighted = simd::fma(e, t, s.weighted);
      u.weighted = simd::fma(d, v, u.weighted);
    }
    if constexpr (provides_v<S, stat::second_moment>) {
      s.square = simd::fma(e, e, s.square);
      u.square = simd::fma(d, d, u.square);
    }
  }

  // canonical::sums_of of columns from which any shift was already subtracted, and the maximum of
  // the chunk, in sweeps over two or four vectors of lanes.
  template <statistics S, class Z, std::size_t Size, class Simd = simd>
  UNMASK_TARGET static float sums_of(Z z,
                                     index_t padded,
                                     const next_chunk<Size>& next,
                                     float scale_exponent,
                                     canonical::chunk_sums& out) {
    using order = decltype(order_of(z));
    alignas(64) float sum[lanes];
    alignas(64) float weighted[lanes];
    alignas(64) float square[lanes];
    const floats exponent = simd::splat(-scale_exponent);
    const floats zero = simd::splat(0.0F);
    const floats none = simd::splat(-math::infinity());
    floats best = none;
    for (index_t lane = 0; lane < lanes; lane += together * width) {
      lane_sums s[together];
      for (lane_sums& each : s) {
        each = {zero, zero, zero, none};
      }
      for (index_t j = lane; j < padded; j += lanes) {
        floats x[together];
        next.template ask_for<together>(j);
        if constexpr (together == 4) {
          load_four(z + j, x[0], x[1], x[2], x[3]);
        } else {
          load_two(z + j, x[0], x[1]);
        }
        add<S>(x[0], x[1], exponent, s[0], s[1]);
        if constexpr (together == 4) {
          add<S>(x[2], x[3], exponent, s[2], s[3]);
        }
      }
      for (const lane_sums& each : s) {
        best = simd::max(best, each.best);
      }
      if constexpr (together * width == lanes) {  // they never leave the registers
        const auto total = [&](floats lane_sums::* of) UNMASK_TARGET {
          return Simd::template total_of_lanes<order>(s[0].*of, s[1].*of, s[2].*of, s[3].*of);
        };
        out.sum = total(&lane_sums::sum);
        out.weighted = provides_v<S, stat::entropy> ? total(&lane_sums::weighted) : 0.0F;
        out.square = provides_v<S, stat::second_moment> ? total(&lane_sums::square) : 0.0F;
      } else {
        for (index_t k = 0; k < together; k += 2) {
          const index_t at = lane + k * width;
          Simd::template store_pair<order>(sum + at, s[k].sum, s[k + 1].sum);
          Simd::template store_pair<order>(weighted + at, s[k].weighted, s[k + 1].weighted);
          Simd::template store_pair<order>(square + at, s[k].square, s[k + 1].square);
        }
      }
    }
    if constexpr (together * width != lanes) {
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

  // The sums of a chunk, their scale, and the maximum; -inf if there is none. flatten: the scale
  // uses fused multiply-adds.
  template <statistics S, class Z, std::size_t Size>
  UNMASK_TARGET __attribute__((flatten)) static float with_sums(Z z,
                                                                index_t padded,
                                                                const next_chunk<Size>& next,
                                                                canonical::scale& reference,
                                                                canonical::chunk_sums& sums) {
    const float first_best = largest_of(z, lanes);
    float best = -math::infinity();
    if (canonical::opens_scale(first_best)) {
      reference = canonical::opening_scale(first_best);
      best = sums_of<S>(z, padded, next, reference.exponent, sums);
      if (canonical::reaches(reference, best)) {
        return best;
      }
    } else {
      best = largest_of(z, padded);
    }
    if (best > -math::infinity()) {
      reference = canonical::closing_scale(best);
      shifted_sums<S>(z, padded, next, reference, sums);
    }
    return best;
  }

  // The sums relative to a scale with a shift, which few chunks need: computed from a shifted copy.
  template <statistics S, class Z, std::size_t Size>
  UNMASK_TARGET __attribute__((noinline)) static void shifted_sums(Z z,
                                                                   index_t padded,
                                                                   const next_chunk<Size>& next,
                                                                   const canonical::scale& to,
                                                                   canonical::chunk_sums& sums) {
    alignas(64) float copy[canonical::chunk_columns];
    const floats shift = simd::splat(to.shift);
    for (index_t j = 0; j < padded; j += width) {
      simd::store(copy + j, simd::sub(load(z + j), shift));
    }
    const float* const shifted = copy;
    sums_of<S>(shifted, padded, next, to.exponent, sums);
  }
};

#endif
