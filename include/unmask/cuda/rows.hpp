// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/copy_row.hpp>

#include <cuda_runtime_api.h>

/// host/rows.hpp for lists on the device: copies of rows between a compact tensor, one row for each
/// computed position, and an engine's memory, one row for each position of the sequence.
///
/// Declared here and defined by rows.cuh: call them from a .cu file, or from C++ with `template
/// cudaError_t unmask::device::launch_copies(const row_copies<float>&, cudaStream_t);` in one .cu
/// file. Any stride; does not synchronise.
/// Cost: one launch of list.most blocks; the blocks after the end of the list have no effect;
/// 16 bytes an access if `from` and `to` have the same distance to a multiple of 16, otherwise one
/// number.
namespace UNMASK_NAMESPACE::device {

/// Enqueues copy_row() for all rows of the lists.
template <element T>
[[nodiscard]] cudaError_t launch_copies(const row_copies<T>& copies, cudaStream_t stream) noexcept;

/// Copies the listed rows of `from` to consecutive rows of `to`, `to_stride` numbers apart, which
/// do not overlap the rows of `from`.
template <element T>
[[nodiscard]] cudaError_t gather_rows(const rows_view<T, memory::device>& from,
                                      const device_list& rows,
                                      T* to,
                                      std::ptrdiff_t to_stride,
                                      cudaStream_t stream) noexcept {
  const device_list consecutive{nullptr, rows.count, rows.most};
  return launch_copies<T>({from, rows, consecutive, {to, {0, rows.most}, from.columns, to_stride}},
                          stream);
}

/// Copies row k of `from` to the row of positions[k] in `to`; positions outside of `to` are
/// skipped.
template <element T>
[[nodiscard]] cudaError_t scatter_rows(const rows_view<T, memory::device>& from,
                                       const device_list& positions,
                                       const state_view<T, memory::device>& to,
                                       cudaStream_t stream) noexcept {
  const device_list consecutive{nullptr, positions.count, positions.most};
  return launch_copies<T>({from, consecutive, positions, to}, stream);
}

}  // namespace unmask::device
