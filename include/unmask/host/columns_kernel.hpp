// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.hpp includes, once per instruction set like itself, hence no #pragma once:
// the columns of a chunk as the sums read them, from memory or through a mask. Included alone, this
// file is empty.
#if defined(UNMASK_SIMD)

template <>
struct columns_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;

  // Masked columns: the argument of read_chunk() in place of a pointer. Bit `column` of the words,
  // counted from `allowed`, is the first column's.
  template <element T>
  struct masked {
    const T* logits;
    const std::uint32_t* allowed;
    index_t column;

    masked operator+(index_t n) const { return {logits + n, allowed, column + n}; }
    // Bits of `width` columns from a multiple of it on; higher bits are undefined.
    [[nodiscard]] std::uint32_t bits() const {
      const auto bit = static_cast<std::uint32_t>(column);
      return allowed[bit / 32] >> bit % 32;
    }
    // Bits of four vectors, from a multiple of that on.
    [[nodiscard]] std::uint64_t group() const {
      if constexpr (4 * width == 64) {
        const std::uint32_t* const word = allowed + static_cast<std::uint32_t>(column) / 32;
        return word[0] | std::uint64_t{word[1]} << 32U;
      } else {
        return bits();
      }
    }
  };

  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline floats load(const T* z) {
    return simd::load(z);
  }
  template <element T>
  UNMASK_TARGET __attribute__((always_inline)) static inline floats load(const masked<T>& z) {
    return simd::kept(simd::load(z.logits), z.bits());
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
    a = load(z);
    b = load(z + width);
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
    const std::uint64_t bits = z.group();
    const auto from = [bits](index_t vector) {
      return static_cast<std::uint32_t>(bits >> static_cast<unsigned>(vector * width));
    };
    a = simd::kept(simd::load(z.logits), from(0));
    b = simd::kept(simd::load(z.logits + width), from(1));
    c = simd::kept(simd::load(z.logits + 2 * width), from(2));
    d = simd::kept(simd::load(z.logits + 3 * width), from(3));
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
    return ((z + column).bits() & 1U) != 0 ? math::to_float(z.logits[column]) : -math::infinity();
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

#endif
