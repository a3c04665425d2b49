// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/instruction_set.hpp>

namespace UNMASK_NAMESPACE::host {

namespace detail {

template <class Work>
__attribute__((flatten)) void call_portable(const Work& work) {
  work();
}

#if UNMASK_HAS_AVX2
template <class Work>
__attribute__((UNMASK_AVX2, flatten)) void call_avx2(const Work& work) {
  work();
}
#endif
#if UNMASK_HAS_AVX512
template <class Work>
__attribute__((UNMASK_AVX512, flatten)) void call_avx512(const Work& work) {
  work();
}
#endif

}  // namespace detail

/// Calls work() with an available instruction set: the calls in it are compiled into a function
/// with this target, in which a fused multiply-add is one instruction instead of a call of the C
/// library. For plain code beside the kernels; the result is the same on every instruction set.
template <class Work>
void call_on_instruction_set([[maybe_unused]] instruction_set level, const Work& work) {
#if UNMASK_HAS_AVX512
  if (level == instruction_set::avx512) {
    return detail::call_avx512(work);
  }
#endif
#if UNMASK_HAS_AVX2
  if (level == instruction_set::avx2) {
    return detail::call_avx2(work);
  }
#endif
  detail::call_portable(work);
}

}  // namespace unmask::host
