// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/simd.hpp>

namespace UNMASK_NAMESPACE::host {

namespace detail {

template <class Work>
__attribute__((flatten)) void call_portable(const Work& work) {
  work();
}

#if defined(__x86_64__)
template <class Work>
__attribute__((target("avx2,fma,f16c"), flatten)) void call_avx2(const Work& work) {
  work();
}
template <class Work>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"), flatten)) void
call_avx512(const Work& work) {
  work();
}
#endif

}  // namespace detail

/// Calls work() with the instructions of a tier, which must be available: what it calls is compiled
/// into the tier's function, and a fused multiply-add is one instruction there instead of a call of
/// the C library. For plain code beside the kernels; the result is the same.
template <class Work>
void call_on_tier([[maybe_unused]] tier level, const Work& work) {
#if defined(__x86_64__)
  if (level == tier::avx512) {
    return detail::call_avx512(work);
  }
  if (level == tier::avx2) {
    return detail::call_avx2(work);
  }
#endif
  detail::call_portable(work);
}

}  // namespace unmask::host
