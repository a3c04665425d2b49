// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/layer.hpp>

#include <cstring>
#include <span>

/// Copies of rows between a compact tensor, one row for each computed position, and an engine's
/// memory, one row for each position of the sequence.
namespace UNMASK_NAMESPACE::host {

namespace detail {

template <class T>
void copy_row(const T* from, index_t columns, T* to) {
  std::memmove(to, from, sizeof(T) * static_cast<std::size_t>(columns));
}

}  // namespace detail

/// Copies the listed rows of `from` to consecutive rows of `to`, `to_stride` numbers apart. `rows`
/// ascending, as layer_choice::rows: `to` may then be `from.data` with the same stride.
/// Cost: O(rows * columns).
template <element T>
void gather_rows(const rows_view<T, memory::host>& from,
                 std::span<const index_t> rows,
                 T* to,
                 std::ptrdiff_t to_stride) {
  std::ptrdiff_t k = 0;
  for (const index_t r : rows) {
    UNMASK_EXPECTS(0 <= r && r < from.rows);
    T* const place = to + k++ * to_stride;
    if (place != from.row(r)) {
      detail::copy_row(from.row(r), from.columns, place);
    }
  }
}

/// Copies row k of `from` to the row of positions[k] in `to`; positions outside of `to` are
/// skipped.
/// Cost: O(rows * columns).
template <element T>
void scatter_rows(const rows_view<T, memory::host>& from,
                  std::span<const index_t> positions,
                  const state_view<T, memory::host>& to) {
  index_t k = 0;
  for (const index_t p : positions) {
    if (to.positions.contains(p)) {
      detail::copy_row(from.row(k), from.columns, to.row(p));
    }
    ++k;
  }
}

}  // namespace unmask::host
