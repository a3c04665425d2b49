// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Not a header to include: the text of the drift kernel, which drift.hpp compiles once per
// instruction set, hence no #pragma once; see row_kernel.inl for why.
//
// UNMASK_SIMD    the vectors of the instruction set (simd.hpp)
// UNMASK_TARGET  its target attribute
template <>
struct drift_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::drift_lanes;

  struct sums {
    floats distance_1;
    floats distance_2;
    floats product;
    floats square;
    floats previous;
  };

  /// See host::drift.
  template <drift_terms Terms, element T>
  UNMASK_TARGET static drift_sums read(const T* now, const T* before, index_t columns) {
    static_assert(lanes % (2 * width) == 0);
    const index_t whole = columns / lanes * lanes;
    const index_t rest = columns - whole;
    // The end of the row, padded with zeros, which change no sum.
    T last_now[lanes] = {};
    T last_before[lanes] = {};
    std::copy_n(now + whole, rest, last_now);
    if (before != nullptr) {
      std::copy_n(before + whole, rest, last_before);
    }
    alignas(64) float distance_1[lanes] = {};
    alignas(64) float distance_2[lanes] = {};
    alignas(64) float product[lanes] = {};
    alignas(64) float square[lanes] = {};
    alignas(64) float previous[lanes] = {};
    const floats zero = simd::splat(0.0F);
    for (index_t lane = 0; lane < lanes; lane += 2 * width) {
      sums a{zero, zero, zero, zero, zero};
      sums b = a;
      if (before != nullptr) {
        for (index_t j = lane; j < whole; j += lanes) {
          add<Terms>(simd::load(now + j), simd::load(before + j), a);
          add<Terms>(simd::load(now + j + width), simd::load(before + j + width), b);
        }
      } else {
        for (index_t j = lane; j < whole; j += lanes) {
          add<Terms>(simd::load(now + j), zero, a);
          add<Terms>(simd::load(now + j + width), zero, b);
        }
      }
      if (rest > 0) {
        add<Terms>(simd::load(last_now + lane), simd::load(last_before + lane), a);
        add<Terms>(simd::load(last_now + lane + width), simd::load(last_before + lane + width), b);
      }
      store(a, lane, distance_1, distance_2, product, square, previous);
      store(b, lane + width, distance_1, distance_2, product, square, previous);
    }
    return {total<contains(Terms, drift_terms::distance_1)>(distance_1),
            total<contains(Terms, drift_terms::distance_2)>(distance_2),
            total<contains(Terms, drift_terms::product)>(product),
            total<contains(Terms, drift_terms::square)>(square),
            total<contains(Terms, drift_terms::previous)>(previous),
            columns};
  }

 private:
  template <drift_terms Terms>
  UNMASK_TARGET __attribute__((always_inline)) static void add(floats h, floats g, sums& s) {
    const floats apart = simd::sub(h, g);
    if constexpr (contains(Terms, drift_terms::distance_1)) {
      s.distance_1 = simd::add(s.distance_1, simd::max(simd::sub(g, h), apart));
    }
    if constexpr (contains(Terms, drift_terms::distance_2)) {
      s.distance_2 = simd::fma(apart, apart, s.distance_2);
    }
    if constexpr (contains(Terms, drift_terms::product)) {
      s.product = simd::fma(h, g, s.product);
    }
    if constexpr (contains(Terms, drift_terms::square)) {
      s.square = simd::fma(h, h, s.square);
    }
    if constexpr (contains(Terms, drift_terms::previous)) {
      s.previous = simd::fma(g, g, s.previous);
    }
  }

  UNMASK_TARGET __attribute__((always_inline)) static void store(const sums& s,
                                                                 index_t lane,
                                                                 float* distance_1,
                                                                 float* distance_2,
                                                                 float* product,
                                                                 float* square,
                                                                 float* previous) {
    simd::store(distance_1 + lane, s.distance_1);
    simd::store(distance_2 + lane, s.distance_2);
    simd::store(product + lane, s.product);
    simd::store(square + lane, s.square);
    simd::store(previous + lane, s.previous);
  }

  // Adds the lanes in the order of canonical::sum_of_lanes.
  template <bool Wanted>
  UNMASK_TARGET static float total(float* lane) {
    if constexpr (!Wanted) {
      return 0.0F;
    } else {
      for (index_t half = lanes / 2; half >= width; half /= 2) {
        for (index_t i = 0; i < half; i += width) {
          simd::store(lane + i, simd::add(simd::load(lane + i), simd::load(lane + i + half)));
        }
      }
      return simd::total(simd::load(lane));
    }
  }
};
