// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <initializer_list>

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

#if defined(__x86_64__) && !defined(UNMASK_NO_AVX2)
#  define UNMASK_HAS_AVX2 true
#else
#  define UNMASK_HAS_AVX2 false
#endif
#if defined(__x86_64__) && !defined(UNMASK_NO_AVX512)
#  define UNMASK_HAS_AVX512 true
#else
#  define UNMASK_HAS_AVX512 false
#endif

namespace UNMASK_NAMESPACE::host {

/// An instruction set for which the host kernels are compiled, independent of the program's flags.
///
/// Every instruction set gives the same bits; they differ in speed only. A session's is selected in
/// its constructor. Each adds to the compile time: -DUNMASK_NO_AVX512 and -DUNMASK_NO_AVX2, for the
/// whole program, leave some out, which are then not available.
enum class instruction_set : unsigned char {
  portable,  ///< plain C++, any machine
  avx2,      ///< AVX2, FMA and F16C
  avx512,    ///< AVX-512 F, BW, DQ and VL
  neon       ///< AArch64
};

/// True if this processor and its operating system can run `level`.
[[nodiscard]] inline bool available([[maybe_unused]] instruction_set level) {
#if defined(__x86_64__)
  if (level == instruction_set::portable || level == instruction_set::neon) {
    return level == instruction_set::portable;
  }
  // Not every compiler's __builtin_cpu_supports accepts F16C: CPUID leaf 1, bit 29 of ECX.
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && ((c >> 29U) & 1U) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (level == instruction_set::avx2) {
    return UNMASK_HAS_AVX2 && avx2;
  }
  return UNMASK_HAS_AVX512 && avx2 && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  return level == instruction_set::portable || level == instruction_set::neon;
#else
  return level == instruction_set::portable;
#endif
}

/// The fastest instruction set of this machine. Executes CPUID, which virtual machines intercept:
/// call it once.
[[nodiscard]] inline instruction_set best_instruction_set() {
  for (const instruction_set level :
       {instruction_set::avx512, instruction_set::avx2, instruction_set::neon}) {
    if (available(level)) {
      return level;
    }
  }
  return instruction_set::portable;
}

}  // namespace unmask::host

#if defined(__x86_64__)
// Targets of functions for these instruction sets: __attribute__((UNMASK_AVX2)).
#  define UNMASK_AVX2 target("avx2,fma,f16c")
#  define UNMASK_AVX512 target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif
