// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.inl includes, once per instruction set like itself, hence no #pragma once:
// the sums of a chunk and their scale.
template <>
struct sums_kernel<UNMASK_SIMD> : columns_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;

  // canonical::chunk_sums of a vector of lanes.
  struct lane_sums {
    floats sum;
    floats weighted;
    floats square;
  };

  // canonical::scale::bits() of a vector of columns from which any shift was subtracted.
  UNMASK_TARGET __attribute__((always_inline)) static inline floats bits(floats z,
                                                                         floats exponent) {
    return simd::max(simd::splat(math::exp2_floor),
                     simd::fma(z, simd::splat(math::log2_e), exponent));
  }

  // 2^(f + n) of a fraction and an integer, as math::exp2 does.
  UNMASK_TARGET __attribute__((always_inline)) static inline floats power_of_two(floats f,
                                                                                 floats n) {
    floats p = simd::fma(f, simd::splat(math::exp2_c5), simd::splat(math::exp2_c4));
    p = simd::fma(p, f, simd::splat(math::exp2_c3));
    p = simd::fma(p, f, simd::splat(math::exp2_c2));
    p = simd::fma(p, f, simd::splat(math::exp2_c1));
    p = simd::fma(p, f, simd::splat(1.0F));
    return simd::scaled(p, n);
  }

  // Adds a vector of columns with these bits, as canonical::sums_of does.
  template <statistics S>
  UNMASK_TARGET __attribute__((always_inline)) static inline void add(floats t, lane_sums& s) {
    const floats n = simd::rounded(t);
    const floats e = power_of_two(simd::sub(t, n), n);
    s.sum = simd::add(s.sum, e);
    if constexpr (provides_v<S, stat::entropy>) {
      s.weighted = simd::fma(e, t, s.weighted);
    }
    if constexpr (provides_v<S, stat::second_moment>) {
      s.square = simd::fma(e, e, s.square);
    }
  }

  // canonical::sums_of of columns from which any shift was already subtracted, and the maximum of
  // the chunk, in sweeps over two vectors of lanes: their sums, and what is between two columns,
  // fit into 16 registers. Software pipelining: the next column starts before the current one is
  // added, to hide the latency of its operations.
  template <statistics S, class Z, std::size_t Size>
  UNMASK_TARGET static float sums_of(Z z,
                                     index_t padded,
                                     next_chunk<Size> next,
                                     float scale_exponent,
                                     canonical::chunk_sums& out) {
    using order = decltype(order_of(z));
    alignas(64) float sum[lanes];
    alignas(64) float weighted[lanes];
    alignas(64) float square[lanes];
    const floats exponent = simd::splat(-scale_exponent);
    const floats zero = simd::splat(0.0F);
    floats best = simd::splat(-math::infinity());
    for (index_t lane = 0; lane < lanes; lane += 2 * width) {
      lane_sums a = {zero, zero, zero};
      lane_sums b = a;
      floats x;
      floats y;
      next.template ask_for<2>();
      load_two(z + lane, x, y);
      best = simd::max(y, simd::max(x, best));  // the order of the operands drops NaN
      floats t = bits(x, exponent);
      floats u = bits(y, exponent);
      for (index_t j = lane + lanes; j < padded; j += lanes) {
        next.template ask_for<2>();
        load_two(z + j, x, y);
        best = simd::max(x, best);
        const floats v = bits(x, exponent);
        add<S>(t, a);
        t = v;
        best = simd::max(y, best);
        const floats w = bits(y, exponent);
        add<S>(u, b);
        u = w;
      }
      add<S>(t, a);
      add<S>(u, b);
      simd::store_pair<order>(sum + lane, a.sum, b.sum);
      simd::store_pair<order>(weighted + lane, a.weighted, b.weighted);
      simd::store_pair<order>(square + lane, a.square, b.square);
    }
    out.sum = total(sum);
    out.weighted = provides_v<S, stat::entropy> ? total(weighted) : 0.0F;
    out.square = provides_v<S, stat::second_moment> ? total(square) : 0.0F;
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

  // math::exp_nonpositive. g++ makes no vectors of it for AVX2: its loops are written out here.
  UNMASK_TARGET __attribute__((always_inline)) static inline floats exp_nonpositive(floats x) {
    const floats magic = simd::splat(math::round_magic);
    const floats log2_e = simd::splat(math::log2_e);
    const floats d = simd::max(simd::splat(math::exp_floor), x);  // in this order NaN stays
    const floats n = simd::sub(simd::fma(d, log2_e, magic), magic);
    return power_of_two(simd::fma(d, log2_e, simd::sub(simd::splat(0.0F), n)), n);
  }

  // canonical::weight_of_columns of columns that are padded to whole groups with -inf.
  UNMASK_TARGET __attribute__((noinline)) static float
  weight_of(const float* z, index_t count, float best, float inverse_temperature) {
    const floats zero = simd::splat(0.0F);
    alignas(64) float lane[lanes];
    for (index_t first = 0; first < lanes; first += width) {
      floats sum = zero;
      for (index_t j = first; j < count; j += lanes) {
        const floats x = simd::load(z + j);
        const floats below = simd::sub(x, simd::splat(best));
        const floats e = exp_nonpositive(simd::fma(below, simd::splat(inverse_temperature), zero));
        sum = simd::add(sum, simd::where_above(e, x, simd::splat(-math::infinity())));
      }
      simd::store(lane + first, sum);
    }
    return total(lane);
  }

  // The sums of canonical::compare_chunk, of columns that are padded to whole groups with -inf;
  // `cross` is for stat::drift alone.
  struct comparison {
    float cross;
    float shared;
  };
  template <bool Drift>
  UNMASK_TARGET __attribute__((noinline)) static comparison
  compared(const float* z, float* previous, index_t count, float best, const previous_row& before) {
    const float none = -math::infinity();
    const floats old_best = simd::splat(before.best);
    alignas(64) float cross[lanes] = {};
    alignas(64) float shared[lanes] = {};
    for (index_t first = 0; first < count; first += lanes) {
      const index_t inside = math::min(lanes, count - first);
      alignas(64) float padded[lanes];
      const float* then = previous + first;
      if (!before.seen || inside < lanes) {
        std::fill(std::copy_n(then, before.seen ? inside : 0, padded), padded + lanes, none);
        then = padded;
      }
      for (index_t i = 0; i < lanes; i += width) {
        const floats e = exp_nonpositive(simd::sub(simd::load(z + first + i), simd::splat(best)));
        const floats below = simd::sub(simd::load(then + i), old_best);
        const floats log_p = simd::max(simd::splat(canonical::log_of_least_probability),
                                       simd::sub(below, simd::splat(before.log_total)));
        if constexpr (Drift) {
          const floats old_e = before.seen ? exp_nonpositive(below) : simd::splat(0.0F);
          simd::store(cross + i, simd::fma(e, old_e, simd::load(cross + i)));
        }
        simd::store(shared + i, simd::fma(e, log_p, simd::load(shared + i)));
      }
      std::copy_n(z + first, inside, previous + first);
    }
    return {total(cross), total(shared)};
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
