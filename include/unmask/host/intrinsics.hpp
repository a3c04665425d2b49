// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The intrinsics of the x86 instruction sets. <immintrin.h> declares thousands, a quarter of the
// compile time of this library's headers; these five headers have those of AVX2, FMA, F16C and
// AVX-512 F. Compilers require them to be included through <immintrin.h>, so its guard is defined
// meanwhile: a later <immintrin.h> adds the rest. Only for compilers with which this was tested.
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
