// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.inl includes, once per instruction set like itself, hence no #pragma once:
// the columns of a chunk as the sums read them, from memory or through a mask.
template <>
struct columns_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;

  // Masked columns: the argument of read_chunk() instead of a pointer. Bit `column` of the words,
  // counted from `allowed`, is the first column's.
  template <element T>
  struct masked {
    const T* logits;
    const std::uint32_t* allowed;
    index_t column;

    masked operator+(index_t n) const { return {logits + n, allowed, column + n}; }
    // Bits of the given number of vectors, from a multiple of them on; higher bits are undefined.
    template <index_t Vectors>
    [[nodiscard]] auto bits() const {
      const auto bit = static_cast<std::uint32_t>(column);
      const std::uint32_t* const word = allowed + bit / 32;
      if constexpr (Vectors * width == 64) {
        return word[0] | std::uint64_t{word[1]} << 32U;
      } else if constexpr (Vectors * width == 32) {
        return *word;
      } else {
        return *word >> bit % 32;
      }
    }
  };

  // Vector number `Vector` of masked columns, whose bits begin with those of the first.
  template <index_t Vector, element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline floats kept(const masked<T>& z,
                                                                         auto bits) {
    constexpr index_t first = Vector * width;
    return simd::template kept<first % 32>(simd::load(z.logits + first),
                                           static_cast<std::uint32_t>(bits >> (first / 32 * 32)));
  }

  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline floats load(const T* z) {
    return simd::load(z);
  }
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline floats load(const masked<T>& z) {
    return kept<0>(z, z.template bits<1>());
  }
  // Two vectors of columns: simd::load_pair(), or in memory order.
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  load_two(const T* z, floats& a, floats& b) {
    simd::load_pair(z, a, b);
  }
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  load_two(const masked<T>& z, floats& a, floats& b) {
    const auto bits = z.template bits<2>();
    a = kept<0>(z, bits);
    b = kept<1>(z, bits);
  }
  // Four vectors of columns: two simd::load_pair(), or in memory order.
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  load_four(const T* z, floats& a, floats& b, floats& c, floats& d) {
    simd::load_pair(z, a, b);
    simd::load_pair(z + 2 * width, c, d);
  }
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline void
  load_four(const masked<T>& z, floats& a, floats& b, floats& c, floats& d) {
    const auto bits = z.template bits<4>();
    a = kept<0>(z, bits);
    b = kept<1>(z, bits);
    c = kept<2>(z, bits);
    d = kept<3>(z, bits);
  }
  // The order of columns after load_four() is that for elements of this type.
  template <element T>
  static T order_of(const T*);
  template <element T>
  static float order_of(const masked<T>&);

  template <element T>
  [[nodiscard]] static float at(const T* z, index_t column) {
    return math::to_float(z[column]);
  }
  template <element T>
  [[nodiscard]] static float at(const masked<T>& z, index_t column) {
    const bool is_allowed = allowed_bits(z.allowed, z.column + column, 1) != 0;
    return is_allowed ? math::to_float(z.logits[column]) : -math::infinity();
  }

  // The largest of some columns, a multiple of `width`; NaN is ignored.
  template <class Z>
  UNMASK_TARGET static float largest_of(Z z, index_t count) {
    floats even = simd::splat(-math::infinity());
    floats odd = even;
    index_t j = 0;
    for (; j + 4 * width <= count; j += 4 * width) {
      floats a;
      floats b;
      floats c;
      floats d;
      load_four(z + j, a, b, c, d);
      even = simd::max(c, simd::max(a, even));  // the order of the operands drops NaN
      odd = simd::max(d, simd::max(b, odd));
    }
    for (; j < count; j += width) {
      even = simd::max(load(z + j), even);
    }
    return simd::largest(simd::max(even, odd));
  }

  // The minimum over the 64 lanes of each lane's maximum.
  template <class Z>
  UNMASK_TARGET static float least_of_lanes(Z z, index_t padded) {
    alignas(64) float largest[canonical::lanes];
    for (index_t lane = 0; lane < canonical::lanes; lane += width) {
      floats best = simd::splat(-math::infinity());
      for (index_t j = lane; j < padded; j += canonical::lanes) {
        best = simd::max(load(z + j), best);
      }
      simd::store(largest + lane, best);
    }
    return *std::min_element(largest, largest + canonical::lanes);
  }

  // Prefetches the columns one chunk further on in the row, or behind it, where the next row may
  // begin, while a chunk is summed: the exponentials keep the processor from reaching these loads
  // early enough, and the hardware's stream prefetch stops at each page. In memory order, which the
  // sweeps over a chunk are not.
  template <std::size_t Size>  // of a logit
  class next_chunk {
   public:
    UNMASK_TARGET explicit next_chunk(const void* chunk)
        : at_(reinterpret_cast<std::uintptr_t>(chunk) + canonical::chunk_columns * Size) {}

    // Prefetches the next vectors of columns.
    template <index_t Vectors>
    UNMASK_TARGET __attribute__((always_inline)) inline void ask_for() {
      constexpr std::size_t line = 64;
      constexpr std::size_t bytes = Vectors * std::size_t{width} * Size;
      for (std::size_t byte = 0; byte < bytes; byte += line) {
        __builtin_prefetch(reinterpret_cast<const void*>(at_ + byte));
      }
      at_ += bytes;
    }

   private:
    std::uintptr_t at_;  // a pointer may not point behind its array
  };
};
