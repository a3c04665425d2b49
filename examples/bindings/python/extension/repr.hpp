// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <string>
#include <utility>

namespace unmask_python {

/// "Name(first=1, second='two')", with the value of each field as Python shows it.
template <class... Fields>
[[nodiscard]] std::string shown(const char* name, const Fields&... fields) {
  namespace nb = nanobind;
  std::string text = std::string(name) + "(";
  const auto add = [&text](const char* field, const auto& value) {
    text += (text.back() == '(' ? "" : ", ") + std::string(field) + "=" +
            nb::cast<std::string>(nb::repr(nb::cast(value)));
  };
  (add(fields.first, fields.second), ...);
  return text + ")";
}

}  // namespace unmask_python
