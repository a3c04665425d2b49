// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/math.hpp>

#include <cstdint>
#include <cstring>

/// Functions of core/math.hpp for which the device has one instruction. Every function gives the
/// same bits on both sides except the payload of a NaN and the sign of a zero.
namespace UNMASK_NAMESPACE::device {

/// The larger of two numbers; if one is NaN, the other one.
[[nodiscard]] UNMASK_HD inline float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b);
#else
  return math::is_nan(a) || a < b ? b : a;
#endif
}

/// The smaller of two numbers; if one is NaN, the other one.
[[nodiscard]] UNMASK_HD inline float smaller(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fminf(a, b);
#else
  return math::is_nan(a) || b < a ? b : a;
#endif
}

/// The larger of two numbers; NaN if either is NaN.
[[nodiscard]] UNMASK_HD inline float larger_or_nan(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return math::is_nan(a) || !(a < b || math::is_nan(b)) ? a : b;
#endif
}

/// Number of bits that are set.
[[nodiscard]] UNMASK_HD inline index_t count_bits(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return __popc(x);
#else
  return __builtin_popcount(x);
#endif
}

[[nodiscard]] UNMASK_HD inline float to_float(float x) {
  return x;
}
[[nodiscard]] UNMASK_HD inline float to_float(bfloat16 x) {
  return math::to_float(x);
}
[[nodiscard]] UNMASK_HD inline float to_float(float16 x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  return math::to_float(x);
#endif
}

/// Loads two adjacent logits; `p` is aligned to both.
UNMASK_HD inline void load_pair(const float* p, float& first, float& second) {
#if defined(__CUDA_ARCH__)
  const float2 pair = __ldcs(reinterpret_cast<const float2*>(p));  // read once: first to be evicted
  first = pair.x;
  second = pair.y;
#else
  first = p[0];
  second = p[1];
#endif
}
template <class Half>
UNMASK_HD inline void load_pair(const Half* p, float& first, float& second) {
#if defined(__CUDA_ARCH__)
  const std::uint32_t pair = __ldcs(reinterpret_cast<const unsigned*>(p));
  first = device::to_float(Half{static_cast<std::uint16_t>(pair & 0xffffU)});
  second = device::to_float(Half{static_cast<std::uint16_t>(pair >> 16U)});
#else
  first = device::to_float(p[0]);
  second = device::to_float(p[1]);
#endif
}

/// Bytes that one access of a thread can move.
inline constexpr index_t widest_access = 16;

/// Copies `widest_access` bytes between addresses aligned to it.
UNMASK_HD inline void copy_widest(const void* from, void* to) {
#if defined(__CUDA_ARCH__)
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#else
  memcpy(to, from, static_cast<std::size_t>(widest_access));
#endif
}

/// math::exp2 for a number exp2_floor <= t < 127, bit by bit.
struct exact_exponential {
  [[nodiscard]] UNMASK_HD float operator()(float t) const {
    const float magic = t + math::round_magic;
    const float f = math::difference(t, magic - math::round_magic);
    float p = math::fma(f, math::exp2_c5, math::exp2_c4);
    p = math::fma(p, f, math::exp2_c3);
    p = math::fma(p, f, math::exp2_c2);
    p = math::fma(p, f, math::exp2_c1);
    p = math::fma(p, f, 1.0F);
    return math::from_bits(math::bits_of(p) + (math::bits_of(magic) << 23U));
  }
};

/// The hardware's power of two: fewer instructions, error below 2e-7. Not equal to the host's bits,
/// but the same on every device.
struct hardware_exponential {
  [[nodiscard]] UNMASK_HD float operator()(float t) const {
#if defined(__CUDA_ARCH__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(t));
    return result;
#else
    return exact_exponential{}(t);
#endif
  }
};

}  // namespace unmask::device
