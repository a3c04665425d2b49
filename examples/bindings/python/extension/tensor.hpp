// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/any_rows.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <optional>
#include <stdexcept>
#include <string>

/// Tensors of any framework, taken as they are: views, never copies.
namespace unmask_python {

namespace nb = nanobind;

/// Tensors that a call only reads, and tensors that a session writes.
using tensor = nb::ndarray<nb::ro>;
using writable_tensor = nb::ndarray<>;

[[noreturn]] inline void
refuse(const std::string& name, const std::string& rule, const std::string& got) {
  throw std::invalid_argument(name + " must " + rule + ", got " + got);
}

[[nodiscard]] inline std::string shape_of(const auto& t) {
  std::string text = "shape (";
  for (std::size_t i = 0; i < t.ndim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(t.shape(i));
  }
  return text + ")";
}

[[nodiscard]] inline std::string dtype_of(const auto& t) {
  static constexpr const char* names[] = {
      "int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const int code = t.dtype().code;
  return (code <= 6 ? names[code] : "dtype ") + std::to_string(t.dtype().bits);
}

[[nodiscard]] inline bool is_of(const auto& t, nb::dlpack::dtype_code code, int bits) {
  return t.dtype().code == static_cast<std::uint8_t>(code) && t.dtype().bits == bits &&
         t.dtype().lanes == 1;
}

[[nodiscard]] inline unmask::memory space_of(const auto& t, const char* name) {
  switch (t.device_type()) {
  case nb::device::cpu::value:
  case nb::device::cuda_host::value:
    return unmask::memory::host;
  case nb::device::cuda::value:
  case nb::device::cuda_managed::value:
    return unmask::memory::device;
  default:
    refuse(name,
           "be in the memory of a CPU or of a CUDA device",
           "DLPack device type " + std::to_string(t.device_type()));
  }
}

inline void check_dense(const auto& t, const char* name, std::size_t dimensions) {
  if (t.ndim() != dimensions) {
    refuse(name, dimensions == 1 ? "have one dimension" : "be rows and columns", shape_of(t));
  }
  const std::size_t last = dimensions - 1;
  const bool is_empty = t.shape(0) == 0;  // whose strides NumPy gives as 0
  if (!is_empty && t.shape(last) > 1 && t.stride(last) != 1) {
    const bool is_transposed = dimensions == 2 && t.stride(0) == 1;
    refuse(name,
           "have a last stride of 1",
           std::to_string(t.stride(last)) +
               (is_transposed ? ": rows and columns look swapped; after a transposition call "
                              : ": call ") +
               ".contiguous(), or numpy.ascontiguousarray()");
  }
}

/// Rows of logits, or of what goes with them.
[[nodiscard]] inline unmask::any_rows rows_of(const auto& t, const char* name) {
  using code = nb::dlpack::dtype_code;
  check_dense(t, name, 2);
  unmask::any_rows rows;
  if (is_of(t, code::Float, 32)) {
    rows.kind = unmask::element_kind::f32;
  } else if (is_of(t, code::Bfloat, 16)) {
    rows.kind = unmask::element_kind::bf16;
  } else if (is_of(t, code::Float, 16)) {
    rows.kind = unmask::element_kind::f16;
  } else {
    refuse(name, "be float32, bfloat16 or float16", dtype_of(t));
  }
  rows.data = t.data();
  rows.space = space_of(t, name);
  rows.rows = static_cast<unmask::index_t>(t.shape(0));
  rows.columns = static_cast<unmask::index_t>(t.shape(1));
  rows.stride = static_cast<std::ptrdiff_t>(t.shape(0) == 0 ? t.shape(1) : t.stride(0));
  return rows;
}

/// Per-row inputs beside `logits`.
struct modifier_tensors {
  std::optional<tensor> allowed;
  std::optional<tensor> unconditional;
  float cfg_scale = 0.0F;

  [[nodiscard]] unmask::any_modifiers beside(const unmask::any_rows& logits,
                                             unmask::index_t vocab) const {
    unmask::any_modifiers modifiers;
    const auto check = [&](const tensor& t, const char* name, std::size_t columns) {
      check_dense(t, name, 2);
      if (t.shape(0) != static_cast<std::size_t>(logits.rows) || t.shape(1) < columns) {
        refuse(name,
               "have as many rows as the logits, " + std::to_string(logits.rows) +
                   ", and at least " + std::to_string(columns) + " columns",
               shape_of(t));
      }
      if (space_of(t, name) != logits.space) {
        refuse(name, "be in the memory of the logits", "another");
      }
    };
    const auto width = static_cast<std::size_t>(vocab);
    if (allowed) {
      check(*allowed, "allowed", (width + 31) / 32);
      if (!is_of(*allowed, nb::dlpack::dtype_code::Int, 32) &&
          !is_of(*allowed, nb::dlpack::dtype_code::UInt, 32)) {
        refuse("allowed", "be int32 or uint32, a bit a token", dtype_of(*allowed));
      }
      modifiers.allowed = static_cast<const std::uint32_t*>(allowed->data());
      modifiers.allowed_stride = static_cast<std::ptrdiff_t>(allowed->stride(0));
    }
    if (unconditional) {
      check(*unconditional, "unconditional", width);
      const unmask::any_rows rows = rows_of(*unconditional, "unconditional");
      if (rows.kind != logits.kind) {
        refuse("unconditional", "have the dtype of the logits", dtype_of(*unconditional));
      }
      modifiers.unconditional = rows.data;
      modifiers.unconditional_stride = rows.stride;
      modifiers.cfg_scale = cfg_scale;
    }
    return modifiers;
  }
};

}  // namespace unmask_python
