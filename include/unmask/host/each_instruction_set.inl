// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Not a header to include: compiles the text of a kernel once for each instruction set of this
// processor's family, hence no #pragma once; see row_kernel.inl for why it is text. Used inside
// unmask::host::detail:
//
//   #define UNMASK_KERNEL <unmask/host/row_kernel.inl>
//   #include <unmask/host/each_instruction_set.inl>
//
// With UNMASK_KERNEL_IS_PLAIN_ELSEWHERE, the portable instruction set is left out. simd.hpp comes
// before it. host::with_vectors calls what it made.
#if !defined(UNMASK_KERNEL_IS_PLAIN_ELSEWHERE)
#  define UNMASK_SIMD portable_vectors
#  define UNMASK_TARGET
#  include UNMASK_KERNEL
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD
#endif

#if defined(__aarch64__)
#  define UNMASK_SIMD neon_vectors
#  define UNMASK_TARGET
#  include UNMASK_KERNEL
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD
#endif

#if UNMASK_HAS_AVX2
#  define UNMASK_SIMD avx2_vectors
#  define UNMASK_TARGET __attribute__((UNMASK_AVX2))
#  include UNMASK_KERNEL
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD
#endif

#if UNMASK_HAS_AVX512
#  define UNMASK_SIMD avx512_vectors
#  define UNMASK_TARGET __attribute__((UNMASK_AVX512))
#  include UNMASK_KERNEL
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD
#endif

#undef UNMASK_KERNEL
#undef UNMASK_KERNEL_IS_PLAIN_ELSEWHERE
