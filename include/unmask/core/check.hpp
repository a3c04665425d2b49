// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <sstream>
#include <stdexcept>
#include <string_view>

namespace UNMASK_NAMESPACE {

/// Throws std::invalid_argument "<name> must be <rule>, got <value>" unless `holds`. The rule may
/// come in pieces, which are put together, and memory asked for, only then. Host only.
template <class T, class... Rule>
void check_argument(bool holds, std::string_view name, const T& value, const Rule&... rule) {
  if (!holds) {
    std::ostringstream text;
    text << name << " must be ";
    (text << ... << rule);
    text << ", got " << value;
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
