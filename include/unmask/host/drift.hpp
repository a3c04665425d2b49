// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/executor.hpp>
#include <unmask/host/on_instruction_set.hpp>
#include <unmask/stats/drift.hpp>

#include <algorithm>

namespace UNMASK_NAMESPACE::host::detail {

template <class Simd>
struct drift_kernel;

#define UNMASK_KERNEL <unmask/host/drift_kernel.hpp>
#include <unmask/host/each_instruction_set.hpp>

}  // namespace unmask::host::detail

namespace UNMASK_NAMESPACE::host {

/// Terms of the drift of a row from its predecessor, in one read of both; a null `before` counts as
/// zeros.
///
/// The bits are those of canonical::drift_of on every instruction set, as long as no sum is NaN.
/// NaN or infinity in a row makes the sums that contain it NaN or infinite. `level` must be
/// available. Any alignment.
/// Cost: O(columns), a kilobyte of stack, no allocation.
template <drift_terms Terms, element T>
[[nodiscard]] drift_sums
drift(const T* now, const T* before, index_t columns, instruction_set level) {
  return with_vectors(level, [&]<class Simd>(Simd) {
    return detail::drift_kernel<Simd>::template read<Terms>(now, before, columns);
  });
}

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

}  // namespace unmask::host
