// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/host/instruction_set.hpp>

#include <cstdint>

#if defined(__aarch64__)
#  include <arm_neon.h>

/// The vectors of instruction_set::neon; simd.hpp describes the members. Every AArch64 processor
/// has them, so they need no target attribute.
namespace UNMASK_NAMESPACE::host::detail {

struct neon_vectors {
  static constexpr instruction_set level = instruction_set::neon;
  using floats = float32x4_t;
  using words = uint32x4_t;
  static constexpr index_t width = 4;

  static floats splat(float x) { return vdupq_n_f32(x); }
  static floats load(const float* p) { return vld1q_f32(p); }
  static floats load(const bfloat16* p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves(p)), 16));
  }
  static floats load(const float16* p) { return vcvt_f32_f16(vreinterpret_f16_u16(halves(p))); }
  template <class T>
  static void load_pair(const T* p, floats& a, floats& b) {
    a = load(p);
    b = load(p + width);
  }
  static void store(float* p, floats x) { vst1q_f32(p, x); }
  template <class T>
  static void store_pair(float* p, floats a, floats b) {
    store(p, a);
    store(p + width, b);
  }
  static floats add(floats a, floats b) { return vaddq_f32(a, b); }
  static floats sub(floats a, floats b) { return vsubq_f32(a, b); }
  static floats fma(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }
  // Not FMAX, which returns NaN if either argument is NaN.
  static floats max(floats a, floats b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static floats rounded(floats a) { return vrndnq_f32(a); }
  static floats scaled(floats p, floats n) {  // NaN becomes 0
    const int32x4_t exponent = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
  }
  static std::uint32_t equal(floats a, floats b) {
    return vaddvq_u32(vandq_u32(vceqq_f32(a, b), bits()));
  }
  static std::uint32_t unordered(floats a) {
    return vaddvq_u32(vbicq_u32(bits(), vceqq_f32(a, a)));
  }
  static floats where_above(floats a, floats b, floats c) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgtq_f32(b, c)));
  }
  template <int First = 0>
  static floats kept(floats a, std::uint32_t which) {
    const words keep = vtstq_u32(vdupq_n_u32(which >> First), bits());
    return vbslq_f32(keep, a, splat(-math::infinity()));
  }
  static float largest(floats a) { return vmaxvq_f32(a); }
  static float total(floats a) { return vaddv_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a))); }

 private:
  template <class Half>
  static uint16x4_t halves(const Half* p) {
    return vld1_u16(reinterpret_cast<const std::uint16_t*>(p));
  }
  static words bits() {
    const std::uint32_t each[] = {1, 2, 4, 8};
    return vld1q_u32(each);
  }
};

}  // namespace unmask::host::detail

#endif
