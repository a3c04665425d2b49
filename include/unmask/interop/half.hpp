// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>

namespace UNMASK_NAMESPACE {

/// Rows of another library's 16-bit type as bfloat16: `__nv_bfloat16`, `std::bfloat16_t`,
/// `Eigen::bfloat16` and similar types. The bytes are read without conversion.
///
///     session.supply(unmask::bfloat16_rows<unmask::memory::device>(ptr, rows, vocab, stride));
template <memory M, class Foreign>
  requires(sizeof(Foreign) == sizeof(bfloat16))
[[nodiscard]] rows_view<bfloat16, M>
bfloat16_rows(const Foreign* data, index_t rows, index_t columns, std::ptrdiff_t stride) {
  return {reinterpret_cast<const bfloat16*>(data), rows, columns, stride};
}

/// Rows of another library's IEEE half precision type as float16: `__half`, `_Float16`,
/// `Eigen::half`.
template <memory M, class Foreign>
  requires(sizeof(Foreign) == sizeof(float16))
[[nodiscard]] rows_view<float16, M>
float16_rows(const Foreign* data, index_t rows, index_t columns, std::ptrdiff_t stride) {
  return {reinterpret_cast<const float16*>(data), rows, columns, stride};
}

}  // namespace unmask
