// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/part/layer.hpp>
#include <unmask/core/validate_rows.hpp>

#include <cstdint>
#include <span>

namespace UNMASK_NAMESPACE {

/// The element type of logits, as a value.
enum class element_kind : unsigned char { f32, bf16, f16 };

namespace detail {

[[nodiscard]] constexpr const char* name_of(element_kind kind) {
  constexpr const char* names[] = {"float32", "bfloat16", "float16"};
  return names[static_cast<int>(kind)];
}

[[nodiscard]] constexpr const char* name_of(memory space) {
  return space == memory::host ? "host" : "device";
}

[[nodiscard]] constexpr std::ptrdiff_t bytes_of(element_kind kind) {
  return kind == element_kind::f32 ? 4 : 2;
}

// The address of row `r`. Defined for rows and strides that were not checked yet.
[[nodiscard]] inline const void*
row_address(const void* data, index_t r, std::ptrdiff_t stride, std::ptrdiff_t bytes) {
  const auto number = [](auto x) { return static_cast<std::uintptr_t>(x); };
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) +
                                       number(r) * number(stride) * number(bytes));
}

}  // namespace detail

/// Rows of logits whose element type is known at run time only.
struct any_rows {
  const void* data = nullptr;             ///< First number of the first row.
  element_kind kind = element_kind::f32;  ///< Type of a number.
  memory space = memory::host;            ///< Memory that the rows are in.
  index_t rows = 0;                       ///< Number of rows.
  index_t columns = 0;                    ///< Numbers of a row that are read.
  /// Distance between rows, in elements.
  std::ptrdiff_t stride = 0;

  any_rows() = default;
  /// A view of any tensor that a session accepts.
  template <row_tensor Tensor>
  any_rows(const Tensor& tensor)  // NOLINT(google-explicit-constructor): a view of any tensor
      : any_rows(from(as_rows(tensor))) {}

  /// Rows [wanted.first, wanted.last) of this view.
  [[nodiscard]] any_rows subrows(range wanted) const {
    any_rows some = *this;
    some.data = detail::row_address(data, wanted.first, stride, detail::bytes_of(kind));
    some.rows = wanted.size();
    return some;
  }

 private:
  template <element T, memory M>
  [[nodiscard]] static any_rows from(const rows_view<T, M>& v) {
    any_rows r;
    r.data = v.data;
    r.kind = std::same_as<T, float>      ? element_kind::f32
             : std::same_as<T, bfloat16> ? element_kind::bf16
                                         : element_kind::f16;
    r.space = M;
    r.rows = v.rows;
    r.columns = v.columns;
    r.stride = v.stride;
    return r;
  }
};

/// Per-row inputs, as row_modifiers; `unconditional` has the element type of the logits.
struct any_modifiers {
  const std::uint32_t* allowed = nullptr;  ///< See row_modifiers::allowed.
  std::ptrdiff_t allowed_stride = 0;       ///< See row_modifiers::allowed_stride, in words.
  const void* unconditional = nullptr;     ///< See row_modifiers::unconditional.
  std::ptrdiff_t unconditional_stride =
      0;                   ///< See row_modifiers::unconditional_stride, in elements.
  float cfg_scale = 0.0F;  ///< See row_modifiers::cfg_scale.

  /// Like row_modifiers::from_row(), for logits of this kind.
  [[nodiscard]] any_modifiers from_row(index_t r, element_kind kind) const {
    any_modifiers rest = *this;
    if (allowed != nullptr) {
      rest.allowed = static_cast<const std::uint32_t*>(
          detail::row_address(allowed, r, allowed_stride, sizeof(*allowed)));
    }
    if (unconditional != nullptr) {
      rest.unconditional =
          detail::row_address(unconditional, r, unconditional_stride, detail::bytes_of(kind));
    }
    return rest;
  }
};

template <element T>
row_modifiers<T>::operator any_modifiers() const {
  return {allowed, allowed_stride, unconditional, unconditional_stride, cfg_scale};
}

namespace detail {

// The rows with the element type that `kind` names.
template <class View>
[[nodiscard]] View typed(const any_rows& r) {
  return {static_cast<const typename View::element_type*>(r.data), r.rows, r.columns, r.stride};
}
template <class Modifiers>
[[nodiscard]] Modifiers typed(const any_modifiers& r) {
  return {r.allowed,
          r.allowed_stride,
          static_cast<decltype(Modifiers::unconditional)>(r.unconditional),
          r.unconditional_stride,
          r.cfg_scale};
}

// A list of them, converted one by one.
template <class To, class From>
struct typed_list {
  std::span<const From> all;
  [[nodiscard]] std::size_t size() const { return all.size(); }
  [[nodiscard]] To operator[](std::size_t i) const { return typed<To>(all[i]); }
};

}  // namespace detail

/// Rows that an engine passes to a call, whose element type is known at run time only.
struct any_state {
  void* data = nullptr;                   ///< First number of the first row.
  element_kind kind = element_kind::f32;  ///< Type of a number.
  memory space = memory::host;            ///< Memory that the rows are in.
  range positions;                        ///< Positions of the rows.
  index_t columns = 0;                    ///< Numbers of a row.
  /// Distance between rows, in elements.
  std::ptrdiff_t stride = 0;

  any_state() = default;
  /// A view of any rows of an engine.
  template <element T, memory M>
  any_state(const state_view<T, M>& v)  // NOLINT(google-explicit-constructor): a view of any state
      : data(v.data)
      , kind(any_rows(rows_view<T, M>()).kind)
      , space(M)
      , positions(v.positions)
      , columns(v.columns)
      , stride(v.stride) {}
};

namespace detail {

// Checks rows of at least `vocab` columns.
inline void validate(const any_rows& r, index_t vocab) {
  const auto check = [&]<element T>(T) {
    unmask::validate(typed<rows_view<T, memory::host>>(r), vocab, "model_info::vocab = ");
  };
  r.kind == element_kind::f32 ? check(float{}) : check(bfloat16{});
}

template <element T, memory M>
[[nodiscard]] state_view<T, M> typed(const any_state& s) {
  return {static_cast<T*>(s.data), s.positions, s.columns, s.stride};
}

// Checks stored rows against the rows at a layer of a session in memory Space.
template <memory Space>
void check_kind(const any_state& previous, const any_rows& now) {
  check_argument(previous.space == Space,
                 "memory space of the stored rows",
                 name_of(previous.space),
                 "that of the session's backend");
  check_argument(previous.kind == now.kind,
                 "element type of the stored rows",
                 name_of(previous.kind),
                 "that of the rows at the layer, ",
                 name_of(now.kind));
}

// Calls `use` with a view of the rows in their element type. Errors: std::invalid_argument for rows
// in another memory space than Space.
template <memory Space>
void with_element_type(const any_rows& rows, const char* space_name, const auto& use) {
  check_argument(
      rows.space == Space, space_name, name_of(rows.space), "that of the session's backend");
  switch (rows.kind) {
  case element_kind::bf16:
    return use(typed<rows_view<bfloat16, Space>>(rows));
  case element_kind::f16:
    return use(typed<rows_view<float16, Space>>(rows));
  case element_kind::f32:
    break;
  }
  use(typed<rows_view<float, Space>>(rows));
}

// Calls `use` with lists of typed tensors and modifiers. Errors: std::invalid_argument for tensors
// of different types or in another memory space.
template <memory Space>
void with_element_types(std::span<const any_rows> tensors,
                        std::span<const any_modifiers> modifiers,
                        const auto& use) {
  any_rows first;
  first.space = Space;
  first = tensors.empty() ? first : tensors.front();
  for (const any_rows& rows : tensors) {
    check_argument(rows.kind == first.kind,
                   "element type of the logits of a segment",
                   name_of(rows.kind),
                   "that of the first segment's, ",
                   name_of(first.kind));
    check_argument(rows.space == first.space,
                   "memory space of the logits of a segment",
                   name_of(rows.space),
                   "that of the first segment's");
  }
  with_element_type<Space>(
      first, "memory space of the logits", [&]<element T, memory M>(const rows_view<T, M>&) {
        use(typed_list<rows_view<T, M>, any_rows>{tensors},
            typed_list<row_modifiers<T>, any_modifiers>{modifiers});
      });
}

}  // namespace detail

}  // namespace unmask
