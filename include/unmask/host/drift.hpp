// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/executor.hpp>
#include <unmask/host/simd.hpp>
#include <unmask/stats/drift.hpp>

#include <algorithm>

namespace UNMASK_NAMESPACE::host::detail {

template <class Simd>
struct drift_kernel;

#define UNMASK_SIMD portable_vectors
#define UNMASK_TARGET
#include <unmask/host/drift_kernel.hpp>
#undef UNMASK_TARGET
#undef UNMASK_SIMD

#if defined(__x86_64__)

#  define UNMASK_SIMD avx2_vectors
#  define UNMASK_TARGET __attribute__((target("avx2,fma,f16c")))
#  include <unmask/host/drift_kernel.hpp>
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD

#  define UNMASK_SIMD avx512_vectors
#  define UNMASK_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#  include <unmask/host/drift_kernel.hpp>
#  undef UNMASK_TARGET
#  undef UNMASK_SIMD

#endif

}  // namespace unmask::host::detail

namespace UNMASK_NAMESPACE::host {

/// Terms of the drift of a row from its predecessor, in one read of both; a null `before` stands
/// for zeros.
///
/// The bits of canonical::drift_of on every tier, as long as no sum is NaN. A NaN or an infinity in
/// a row makes the sums that it enters NaN or infinite. `level` must be available. Any alignment.
/// O(columns), a kilobyte of stack, no allocation.
template <drift_terms Terms, element T>
[[nodiscard]] drift_sums drift(const T* now, const T* before, index_t columns, tier level) {
#if defined(__x86_64__)
  if (level == tier::avx512) {
    return detail::drift_kernel<detail::avx512_vectors>::template read<Terms>(now, before, columns);
  }
  if (level == tier::avx2) {
    return detail::drift_kernel<detail::avx2_vectors>::template read<Terms>(now, before, columns);
  }
#else
  static_cast<void>(level);
#endif
  return detail::drift_kernel<detail::portable_vectors>::template read<Terms>(now, before, columns);
}

/// Below this many numbers in all, one thread is faster than waking a second.
inline constexpr std::int64_t parallel_columns = std::int64_t{1} << 18;

/// Calls work(i) for each of `rows` rows of `columns` numbers, with the threads of `threads` if
/// that is worth waking them.
void for_each_row(index_t rows, index_t columns, auto& work, executor_ref threads) {
  if (threads.concurrency() <= 1 || std::int64_t{rows} * columns < parallel_columns) {
    serial_executor::run(rows, work);
  } else {
    threads.run(rows, work);
  }
}

}  // namespace unmask::host
