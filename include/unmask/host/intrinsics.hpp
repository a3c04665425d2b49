// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The intrinsics of the x86 tiers. <immintrin.h> declares thousands, a quarter of what including
// this library would cost; these headers have those of AVX2, FMA, F16C and AVX-512 F. Compilers
// want them included through <immintrin.h>, whose guard is therefore defined meanwhile: a later
// <immintrin.h> adds the rest. Only with compilers that this was tried with.
#if defined(__x86_64__)
#  if !defined(_IMMINTRIN_H_INCLUDED) && !defined(__clang__) && __GNUC__ == 12
#    define _IMMINTRIN_H_INCLUDED
#    define UNMASK_IMMINTRIN_GUARD
#  elif !defined(__IMMINTRIN_H) && defined(__clang__) && __clang_major__ == 14
#    define __IMMINTRIN_H
#    define UNMASK_IMMINTRIN_GUARD
#  endif
#  if defined(UNMASK_IMMINTRIN_GUARD)
#    undef UNMASK_IMMINTRIN_GUARD
#    include <smmintrin.h>
// clang-format off: the order is that of <immintrin.h>.
#    include <avxintrin.h>
#    include <avx2intrin.h>
#    include <f16cintrin.h>
#    include <fmaintrin.h>
#    include <avx512fintrin.h>
// clang-format on
#    if defined(__clang__)
#      undef __IMMINTRIN_H
#    else
#      undef _IMMINTRIN_H_INCLUDED
#    endif
#  else
#    include <immintrin.h>
#  endif
#endif
