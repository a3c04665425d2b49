// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part/layer.hpp>

#include <Eigen/Core>

#include <concepts>

namespace UNMASK_NAMESPACE::detail {

/// Row-major Eigen expressions of float without an inner stride: the columns of a row are
/// contiguous. Not a column vector, which would be rows of one column.
template <class Derived>
concept eigen_rows = bool(Derived::IsRowMajor) && int(Derived::InnerStrideAtCompileTime) == 1 &&
                     std::same_as<typename Derived::Scalar, float>;

}  // namespace unmask::detail

/// Makes row-major Eigen matrices, maps and blocks of float row tensors: session.supply(matrix),
/// pass.at_layer(layer, matrix, as_state(stored)).
namespace Eigen {

template <class Derived>
  requires unmask::detail::eigen_rows<Derived>
[[nodiscard]] unmask::rows_view<float, unmask::memory::host>
as_rows(const PlainObjectBase<Derived>& m) {
  return {m.data(),
          unmask::detail::counted(static_cast<std::size_t>(m.rows())),
          unmask::detail::counted(static_cast<std::size_t>(m.cols())),
          m.outerStride()};
}

template <class Derived>
  requires unmask::detail::eigen_rows<Derived>
[[nodiscard]] unmask::rows_view<float, unmask::memory::host>
as_rows(const MapBase<Derived, ReadOnlyAccessors>& m) {
  return {m.data(),
          unmask::detail::counted(static_cast<std::size_t>(m.rows())),
          unmask::detail::counted(static_cast<std::size_t>(m.cols())),
          m.outerStride()};
}

/// Stored rows of an engine: row r belongs to position first + r.
template <class Derived>
  requires unmask::detail::eigen_rows<Derived>
[[nodiscard]] unmask::state_view<float, unmask::memory::host> as_state(PlainObjectBase<Derived>& m,
                                                                       unmask::index_t first = 0) {
  const auto rows = as_rows(m);
  return {m.data(), unmask::range{first, first + rows.rows}, rows.columns, rows.stride};
}

/// Overload for a writable map or block.
template <class Derived>
  requires unmask::detail::eigen_rows<Derived>
[[nodiscard]] unmask::state_view<float, unmask::memory::host>
as_state(const MapBase<Derived, WriteAccessors>& m, unmask::index_t first = 0) {
  const auto rows = as_rows(m);
  return {const_cast<float*>(m.data()),
          unmask::range{first, first + rows.rows},
          rows.columns,
          rows.stride};
}

}  // namespace Eigen
