// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>

#include <Eigen/Core>

/// Makes row-major Eigen matrices and maps of float row tensors: session.supply(matrix).
namespace Eigen {

template <class Derived>
  requires(Derived::IsRowMajor || Derived::IsVectorAtCompileTime) &&
          std::same_as<typename Derived::Scalar, float>
[[nodiscard]] unmask::rows_view<float, unmask::memory::host> as_rows(
    const PlainObjectBase<Derived>& m) {
  return {m.data(), static_cast<unmask::index_t>(m.rows()), static_cast<unmask::index_t>(m.cols()),
          m.outerStride()};
}

template <class Derived>
  requires(Derived::IsRowMajor || Derived::IsVectorAtCompileTime) &&
          std::same_as<typename Derived::Scalar, float>
[[nodiscard]] unmask::rows_view<float, unmask::memory::host> as_rows(
    const MapBase<Derived, ReadOnlyAccessors>& m) {
  return {m.data(), static_cast<unmask::index_t>(m.rows()), static_cast<unmask::index_t>(m.cols()),
          m.outerStride()};
}

}  // namespace Eigen
