// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <sstream>
#include <stdexcept>
#include <string_view>

namespace UNMASK_NAMESPACE {

/// Throws std::invalid_argument "<name> must be <rule>, got <value>" unless `holds`. Host only.
template <class T>
void check_argument(bool holds, std::string_view name, const T& value, std::string_view rule) {
  if (!holds) {
    std::ostringstream text;
    text << name << " must be " << rule << ", got " << value;
    throw std::invalid_argument(text.str());
  }
}

/// Throws std::logic_error with `message` unless `holds`: a call out of order. Host only.
inline void check_order(bool holds, const char* message) {
  if (!holds) {
    throw std::logic_error(message);
  }
}

}  // namespace unmask
