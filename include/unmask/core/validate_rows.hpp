// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/logits.hpp>

#include <cstdint>
#include <string_view>

/// Checks of the memory that an engine passes to a call. Cost: a few comparisons a call, whatever
/// the number of rows. Host only. Errors: each throws std::invalid_argument that names the
/// argument, its value and the rule.
namespace UNMASK_NAMESPACE {

namespace detail {

// Host or device data: the address is passed as a number.
UNMASK_LIBRARY void
check_address(std::uintptr_t address, std::size_t alignment, std::string_view of);
template <class T>
void check_address(const T* data, std::string_view of) {
  check_address(reinterpret_cast<std::uintptr_t>(data), alignof(T), of);
}

// Checks the stride of rows of `row_size` elements of `bytes` each.
UNMASK_LIBRARY void check_stride(std::ptrdiff_t stride,
                                 index_t rows,
                                 std::ptrdiff_t bytes,
                                 std::int64_t row_size,
                                 const char* rule,
                                 std::string_view of);

// Rows without their element type; an element has `bytes` bytes.
struct untyped_rows {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  index_t rows = 0;
  index_t columns = 0;
  std::ptrdiff_t stride = 0;
};
UNMASK_LIBRARY void
validate(const untyped_rows& v, index_t columns, const char* rule, std::string_view of);

#if UNMASK_DEFINES
UNMASK_LIBRARY void
check_address(std::uintptr_t address, std::size_t alignment, std::string_view of) {
  if (address == 0 || address % alignment != 0) {
    const message name = message().add("address of ").add(of);
    check_argument(address != 0, name, address, "that of the data");
    check_argument(false, name, address, "a multiple of ", alignment, ", as its elements need");
  }
}

UNMASK_LIBRARY void check_stride(std::ptrdiff_t stride,
                                 index_t rows,
                                 std::ptrdiff_t bytes,
                                 std::int64_t row_size,
                                 const char* rule,
                                 std::string_view of) {
  if (rows > 1 && stride < row_size) {
    check_argument(
        false, message().add("stride of ").add(of), stride, rule, row_size, ", or rows overlap");
  }
  if (rows > 1 && stride > PTRDIFF_MAX / bytes / rows) {
    check_argument(false,
                   message().add("stride of ").add(of),
                   stride,
                   "at most ",
                   PTRDIFF_MAX / bytes / rows,
                   ", or there is no address for the last of ",
                   rows,
                   " rows");
  }
}

UNMASK_LIBRARY void
validate(const untyped_rows& v, index_t columns, const char* rule, std::string_view of) {
  if (v.columns < columns) {
    check_argument(
        false, message().add("columns of ").add(of), v.columns, "at least ", rule, columns);
  }
  check_stride(v.stride,
               v.rows,
               static_cast<std::ptrdiff_t>(v.bytes),
               v.columns,
               "at least the number of columns, ",
               of);
  if (v.rows > 0) {
    check_address(v.address, v.bytes, of);
  }
}
#endif

}  // namespace detail

/// Checks for rows of at least `columns` columns that do not overlap; `rule` explains that number
/// in messages.
template <element T, memory M>
void validate(const rows_view<T, M>& v,
              index_t columns,
              const char* rule,
              std::string_view of = "the logits") {
  static_assert(sizeof(T) == alignof(T));
  detail::validate(
      {reinterpret_cast<std::uintptr_t>(v.data), sizeof(T), v.rows, v.columns, v.stride},
      columns,
      rule,
      of);
}

/// Checks the per-row inputs of `rows` rows. A stride of 0 gives all rows the same words, or the
/// same row.
template <element T>
void validate(const row_modifiers<T>& r, index_t rows, index_t vocab, index_t columns) {
  if (r.allowed != nullptr) {
    detail::check_address(r.allowed, "row_modifiers::allowed");
    detail::check_stride(r.allowed_stride,
                         r.allowed_stride == 0 ? 0 : rows,
                         sizeof(*r.allowed),
                         (std::int64_t{vocab} + 31) / 32,
                         "0 or at least the words of a row, ",
                         "row_modifiers::allowed");
  }
  if (r.unconditional != nullptr) {
    detail::check_address(r.unconditional, "row_modifiers::unconditional");
    detail::check_stride(r.unconditional_stride,
                         r.unconditional_stride == 0 ? 0 : rows,
                         sizeof(T),
                         columns,
                         "0 or at least the columns that are read, ",
                         "row_modifiers::unconditional");
  }
}

}  // namespace unmask
