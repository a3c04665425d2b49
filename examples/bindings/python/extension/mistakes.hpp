// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/any_rows.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "tensor.hpp"

/// Warnings about rows that a session accepts and that decode nothing of use. Each is given once
/// for a session. For the thread that has the GIL.
namespace unmask_python {

/// Signs of mistakes in the rows and reports of a session so far.
class mistakes {
 public:
  /// Warns about probabilities in place of logits: reads the first rows of the first supplies, in
  /// host memory. Errors: that of the warning, if the filters of `warnings` make it one.
  void check_rows(const unmask::any_rows& rows, unmask::index_t vocab) {
    if (supplies_ >= most_supplies || rows.space != unmask::memory::host || rows.rows < 1 ||
        rows.columns < vocab) {
      return;
    }
    ++supplies_;
    for (unmask::index_t r = 0; r < std::min(rows.rows, most_rows); ++r) {
      if (!is_distribution(rows, r, vocab)) {
        return;
      }
    }
    supplies_ = most_supplies;
    warn("the rows of logits lie in [0, 1] and add up to 1, as probabilities do: supply logits or "
         "log-probabilities, from before the softmax, or the policy decides about other "
         "probabilities than the model's");
  }

  /// Warns about rows that were NaN or infinite. Errors: as check_rows().
  void check_report(unmask::index_t slot, unmask::index_t invalid_rows) {
    if (invalid_rows > 0 && !std::exchange(has_invalid_rows_, true)) {
      warn("rows of logits were NaN or infinite, or had no allowed token: report(" +
           std::to_string(slot) + ").invalid_rows is " + std::to_string(invalid_rows) +
           ", and what such rows commit means nothing");
    }
  }

 private:
  static constexpr int most_supplies = 2;
  static constexpr unmask::index_t most_rows = 2;

  static void warn(const std::string& text) {
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) < 0) {
      throw nb::python_error();
    }
  }

  [[nodiscard]] static float number(const unmask::any_rows& rows, std::ptrdiff_t i) {
    if (rows.kind == unmask::element_kind::f32) {
      return static_cast<const float*>(rows.data)[i];
    }
    const std::uint32_t bits = static_cast<const std::uint16_t*>(rows.data)[i];
    if (rows.kind == unmask::element_kind::bf16) {
      return std::bit_cast<float>(bits << 16U);
    }
    const std::uint32_t exponent = bits >> 10U & 31U;
    const std::uint32_t fraction = bits & 1023U;
    if ((bits & 0x8000U) != 0 || exponent == 31U) {
      return bits == 0x8000U ? 0.0F : -1.0F;  // below 0, or not finite: not in [0, 1]
    }
    return exponent == 0
               ? std::ldexp(static_cast<float>(fraction), -24)
               : std::ldexp(static_cast<float>(fraction + 1024U), static_cast<int>(exponent) - 25);
  }

  // True if the numbers of a row are those of a distribution. The first number of most rows of
  // logits says no.
  [[nodiscard]] static bool
  is_distribution(const unmask::any_rows& rows, unmask::index_t r, unmask::index_t vocab) {
    double sum = 0.0;
    for (unmask::index_t v = 0; v < vocab; ++v) {
      const float p = number(rows, r * rows.stride + v);
      if (!(p >= 0.0F && p <= 1.0F)) {
        return false;
      }
      sum += static_cast<double>(p);
    }
    return std::abs(sum - 1.0) < (rows.kind == unmask::element_kind::f32 ? 1e-3 : 0.05);
  }

  int supplies_ = 0;
  bool has_invalid_rows_ = false;
};

/// Refuses logits whose rows and columns are exchanged.
inline void check_not_swapped(const unmask::any_rows& rows, unmask::index_t vocab) {
  if (rows.columns < vocab && rows.rows >= vocab) {
    refuse("logits",
           "have a column for each of the vocab = " + std::to_string(vocab) + " tokens",
           "shape (" + std::to_string(rows.rows) + ", " + std::to_string(rows.columns) +
               "): rows and columns look swapped");
  }
}

}  // namespace unmask_python
