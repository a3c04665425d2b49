// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/layer.hpp>
#include <unmask/host/executor.hpp>
#include <unmask/host/instruction_set.hpp>

#if UNMASK_KERNELS
#  include <unmask/host/simd.hpp>
#  include <unmask/stats/drift.hpp>

#  include <algorithm>

namespace UNMASK_NAMESPACE::host::detail {

template <class Simd>
struct drift_kernel;

#  define UNMASK_KERNEL <unmask/host/drift_kernel.inl>
#  include <unmask/host/each_instruction_set.inl>

}  // namespace unmask::host::detail
#endif

namespace UNMASK_NAMESPACE::host {

/// Terms of the drift of a row from its predecessor, in one read of both; a null `before` counts as
/// zeros.
///
/// The bits equal canonical::drift_of on every instruction set, as long as no sum is NaN.
/// NaN or infinity in a row makes the sums that contain it NaN or infinite. `level` must be
/// available. Any alignment.
/// Cost: O(columns), a kilobyte of stack, no allocation.
template <drift_terms Terms, element T>
[[nodiscard]] drift_sums
drift(const T* now, const T* before, index_t columns, instruction_set level);

/// With fewer numbers in total, one thread is faster than waking a second one.
inline constexpr std::int64_t parallel_columns = std::int64_t{1} << 18;

/// Calls work(i) for each of `rows` rows of `columns` numbers, with the threads of `threads` if
/// there are enough numbers.
void for_each_row(index_t rows, index_t columns, auto& work, executor_ref threads) {
  if (threads.concurrency() <= 1 || std::int64_t{rows} * columns < parallel_columns) {
    serial_executor::run(rows, work);
  } else {
    threads.run(rows, work);
  }
}

#if UNMASK_KERNELS
template <drift_terms Terms, element T>
drift_sums drift(const T* now, const T* before, index_t columns, instruction_set level) {
  return with_vectors(level, [&]<class Simd>(Simd) {
    return detail::drift_kernel<Simd>::template read<Terms>(now, before, columns);
  });
}
#endif

#if defined(UNMASK_COMPILED)
// unmask::compiled contains drift() for the rules of this library and for key selection. The
// numbers are drift_terms.
#  define UNMASK_DRIFT(prefix, terms, type)                                                        \
    prefix template drift_sums drift<drift_terms{terms}, type>(                                    \
        const type*, const type*, index_t, instruction_set);
#  define UNMASK_DRIFTS_OF(prefix, terms)                                                          \
    UNMASK_DRIFT(prefix, terms, float)                                                             \
    UNMASK_DRIFT(prefix, terms, bfloat16)                                                          \
    UNMASK_DRIFT(prefix, terms, float16)
#  define UNMASK_DRIFTS(prefix)                                                                    \
    UNMASK_DRIFTS_OF(prefix, 4)                                                                    \
    UNMASK_DRIFTS_OF(prefix, 17) UNMASK_DRIFTS_OF(prefix, 28) UNMASK_DRIFTS_OF(prefix, 29)
UNMASK_DRIFTS(extern)
#endif

}  // namespace unmask::host
