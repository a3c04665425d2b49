// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/host/instruction_set.hpp>
#include <unmask/host/intrinsics.hpp>
#include <unmask/host/neon.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

/// The vectors with which row_kernel.inl is written, one struct per instruction set with the same
/// members:
///
///   level               the instruction set
///   floats, width       `width` numbers in a register
///   splat, load, store  load also converts from bfloat16 and float16, in the order of memory
///   load_pair           2 width columns in two registers, in the order that costs least;
///   store_pair          the inverse of its order, for two registers of lanes
///   add, sub, fma       fma(a, b, c) = a b + c, rounded once
///   max                 a > b ? a : b, hence b if either is NaN
///   rounded             to the nearest integer, the even one between two
///   scaled              p 2^n, n an integer, the result a normal number; NaN stays NaN
///   equal, unordered    one bit per number
///   where_above         a where b > c, else 0
///   kept                a where the bit is set, -inf elsewhere; kept<n> begins with bit n
///   largest, total      over one register; `total` adds i and i + width / 2, and so on down to 1
///
/// The portable set has only the members that staging and drift use: it reads rows in plain code.
/// Every member has the target attribute of its set: g++ inlines an always_inline function only
/// into a caller with at least its instruction set.
namespace UNMASK_NAMESPACE::host::detail {

struct portable_vectors {
  static constexpr instruction_set level = instruction_set::portable;
  // Four lanes, the width of SSE2 and NEON. Both compilers accept the type on any machine.
  using floats = float __attribute__((vector_size(16)));
  static constexpr index_t width = 4;

  static floats splat(float x) { return floats{x, x, x, x}; }
  static floats load(const float* p) {
    floats r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  static floats load(const bfloat16* p) { return converted(p); }
  static floats load(const float16* p) { return converted(p); }
  static void store(float* p, floats x) { std::memcpy(p, &x, sizeof x); }
  static floats add(floats a, floats b) { return a + b; }
  static floats sub(floats a, floats b) { return a - b; }
  static floats fma(floats a, floats b, floats c) {
    return floats{math::fma(a[0], b[0], c[0]),
                  math::fma(a[1], b[1], c[1]),
                  math::fma(a[2], b[2], c[2]),
                  math::fma(a[3], b[3], c[3])};
  }
  static floats max(floats a, floats b) {
    return floats{a[0] > b[0] ? a[0] : b[0],
                  a[1] > b[1] ? a[1] : b[1],
                  a[2] > b[2] ? a[2] : b[2],
                  a[3] > b[3] ? a[3] : b[3]};
  }
  template <int First = 0>
  static floats kept(floats a, std::uint32_t from) {
    const std::uint32_t bits = from >> First;
    const float none = -math::infinity();
    return floats{(bits & 1U) != 0 ? a[0] : none,
                  (bits & 2U) != 0 ? a[1] : none,
                  (bits & 4U) != 0 ? a[2] : none,
                  (bits & 8U) != 0 ? a[3] : none};
  }
  static float total(floats a) { return (a[0] + a[2]) + (a[1] + a[3]); }

 private:
  template <class Half>
  static floats converted(const Half* p) {
    return floats{
        math::to_float(p[0]), math::to_float(p[1]), math::to_float(p[2]), math::to_float(p[3])};
  }
};

#if defined(__x86_64__)

#  define UNMASK_INLINE __attribute__((always_inline, UNMASK_AVX2)) static

struct avx2_vectors {
  static constexpr instruction_set level = instruction_set::avx2;
  using floats = __m256;
  using words = __m256i;
  static constexpr index_t width = 8;

  UNMASK_INLINE floats splat(float x) { return _mm256_set1_ps(x); }
  UNMASK_INLINE floats load(const float* p) { return _mm256_loadu_ps(p); }
  UNMASK_INLINE floats load(const bfloat16* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  UNMASK_INLINE floats load(const float16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  UNMASK_INLINE void store(float* p, floats x) { _mm256_storeu_ps(p, x); }
  template <class T>
  UNMASK_INLINE void load_pair(const T* p, floats& a, floats& b) {
    if constexpr (std::is_same_v<T, bfloat16>) {  // even columns, odd columns
      const words both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
      a = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
      b = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(-65536)));
    } else {
      a = load(p);
      b = load(p + width);
    }
  }
  template <class T>
  UNMASK_INLINE void store_pair(float* p, floats a, floats b) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      const floats low = _mm256_unpacklo_ps(a, b);  // columns 0 to 3, 8 to 11
      const floats high = _mm256_unpackhi_ps(a, b);
      a = _mm256_permute2f128_ps(low, high, 0x20);
      b = _mm256_permute2f128_ps(low, high, 0x31);
    }
    store(p, a);
    store(p + width, b);
  }
  UNMASK_INLINE floats add(floats a, floats b) { return _mm256_add_ps(a, b); }
  UNMASK_INLINE floats sub(floats a, floats b) { return _mm256_sub_ps(a, b); }
  UNMASK_INLINE floats fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
  UNMASK_INLINE floats max(floats a, floats b) { return _mm256_max_ps(a, b); }
  UNMASK_INLINE floats rounded(floats a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  UNMASK_INLINE floats scaled(floats p, floats n) {  // NaN becomes 2^31, and that << 23 nothing
    const words exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  }
  UNMASK_INLINE std::uint32_t equal(floats a, floats b) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
  }
  UNMASK_INLINE std::uint32_t unordered(floats a) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
  }
  UNMASK_INLINE floats where_above(floats a, floats b, floats c) {
    return _mm256_and_ps(a, _mm256_cmp_ps(b, c, _CMP_GT_OQ));
  }
  template <int First = 0>
  UNMASK_INLINE floats kept(floats a, std::uint32_t bits) {
    constexpr int up = 31 - First;  // to the sign, by which the blend selects
    const words keep = _mm256_sllv_epi32(
        _mm256_set1_epi32(static_cast<int>(bits)),
        _mm256_setr_epi32(up, up - 1, up - 2, up - 3, up - 4, up - 5, up - 6, up - 7));
    return _mm256_blendv_ps(splat(-math::infinity()), a, _mm256_castsi256_ps(keep));
  }
  UNMASK_INLINE float largest(floats a) {
    __m128 r = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    r = _mm_max_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_max_ss(r, _mm_movehdup_ps(r)));
  }
  UNMASK_INLINE float total(floats a) {
    __m128 r = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    r = _mm_add_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
  }
};

#  undef UNMASK_INLINE
#  define UNMASK_INLINE __attribute__((always_inline, UNMASK_AVX512)) static

struct avx512_vectors {
  static constexpr instruction_set level = instruction_set::avx512;
  using floats = __m512;
  using words = __m512i;
  static constexpr index_t width = 16;

  UNMASK_INLINE floats splat(float x) { return _mm512_set1_ps(x); }
  UNMASK_INLINE floats load(const float* p) { return _mm512_loadu_ps(p); }
  UNMASK_INLINE floats load(const bfloat16* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(every, _mm512_maskz_cvtepu16_epi32(every, half), 16));
  }
  UNMASK_INLINE floats load(const float16* p) {
    return _mm512_maskz_cvtph_ps(every, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  UNMASK_INLINE void store(float* p, floats x) { _mm512_storeu_ps(p, x); }
  template <class T>
  UNMASK_INLINE void load_pair(const T* p, floats& a, floats& b) {
    if constexpr (std::is_same_v<T, bfloat16>) {  // even columns, odd columns
      const words both = _mm512_loadu_si512(p);
      a = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(every, both, 16));
      b = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-65536)));
    } else {
      a = load(p);
      b = load(p + width);
    }
  }
  template <class T>
  UNMASK_INLINE void store_pair(float* p, floats a, floats b) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      const words first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      const words last = _mm512_add_epi32(first, _mm512_set1_epi32(8));
      const floats low = _mm512_permutex2var_ps(a, first, b);
      b = _mm512_permutex2var_ps(a, last, b);
      a = low;
    }
    store(p, a);
    store(p + width, b);
  }
  UNMASK_INLINE floats add(floats a, floats b) { return _mm512_add_ps(a, b); }
  UNMASK_INLINE floats sub(floats a, floats b) { return _mm512_sub_ps(a, b); }
  UNMASK_INLINE floats fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
  UNMASK_INLINE floats max(floats a, floats b) { return _mm512_maskz_max_ps(every, a, b); }
  UNMASK_INLINE floats rounded(floats a) {
    return _mm512_maskz_roundscale_ps(every, a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  UNMASK_INLINE floats scaled(floats p, floats n) { return _mm512_maskz_scalef_ps(every, p, n); }
  UNMASK_INLINE std::uint32_t equal(floats a, floats b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  UNMASK_INLINE std::uint32_t unordered(floats a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  UNMASK_INLINE floats where_above(floats a, floats b, floats c) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(b, c, _CMP_GT_OQ), a);
  }
  template <int First = 0>
  UNMASK_INLINE floats kept(floats a, std::uint32_t bits) {
    const words number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const words lanes = _mm512_maskz_sllv_epi32(every, _mm512_set1_epi32(1 << First), number);
    const words all = _mm512_set1_epi32(static_cast<int>(bits));
    return _mm512_mask_mov_ps(splat(-math::infinity()), _mm512_test_epi32_mask(all, lanes), a);
  }
  UNMASK_INLINE float largest(floats a) {
    return avx2_vectors::largest(_mm256_max_ps(half<0>(a), half<1>(a)));
  }
  UNMASK_INLINE float total(floats a) {
    return avx2_vectors::total(_mm256_add_ps(half<0>(a), half<1>(a)));
  }

 private:
  // g++ 12 warns of an uninitialised variable in its own header for the unmasked forms of some
  // intrinsics; with a mask of ones they compile to the same instruction.
  static constexpr __mmask16 every = 0xffffU;

  template <int Half>
  UNMASK_INLINE __m256 half(floats a) {
    return _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xfU, _mm512_castps_pd(a), Half));
  }
};

#  undef UNMASK_INLINE
#endif

}  // namespace unmask::host::detail

namespace UNMASK_NAMESPACE::host {

/// Returns call(vectors{}) with the vectors of an available instruction set: selects a kernel that
/// each_instruction_set.inl compiled.
template <class Call>
[[nodiscard]] auto with_vectors([[maybe_unused]] instruction_set level, const Call& call) {
#if UNMASK_HAS_AVX512
  if (level == instruction_set::avx512) {
    return call(detail::avx512_vectors{});
  }
#endif
#if UNMASK_HAS_AVX2
  if (level == instruction_set::avx2) {
    return call(detail::avx2_vectors{});
  }
#endif
#if defined(__aarch64__)
  if (level == instruction_set::neon) {
    return call(detail::neon_vectors{});
  }
#endif
  return call(detail::portable_vectors{});
}

}  // namespace unmask::host
