// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/layer.hpp>

#include <type_traits>
#include <utility>

namespace UNMASK_NAMESPACE {

/// Stored rows in a row-major std::mdspan of rank 2, or any type with its interface, in host
/// memory: row r belongs to position first + r. The elements must not be const. Errors: as
/// as_rows().
template <detail::mdspan_like View>
  requires(!std::is_const_v<std::remove_reference_t<decltype(*std::declval<View>().data_handle())>>)
[[nodiscard]] constexpr auto as_state(const View& v, index_t first = 0) {
  const auto rows = as_rows(v);
  return state_view<typename decltype(rows)::element_type, memory::host>(
      v.data_handle(), range{first, first + rows.rows}, rows.columns, rows.stride);
}

}  // namespace unmask
