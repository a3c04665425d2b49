// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <stdexcept>
#include <string>

namespace example {

/// The number of an option. Throws std::invalid_argument for a text that is none, or less.
inline int whole_number(const std::string& name, const std::string& text, int least) {
  std::size_t end = 0;
  int value = -1;
  try {
    value = std::stoi(text, &end);
  } catch (const std::exception&) {  // the message below says it better
  }
  if (end != text.size() || value < least) {
    throw std::invalid_argument(name + " must be a whole number of at least " +
                                std::to_string(least) + ", got '" + text + "'");
  }
  return value;
}

}  // namespace example
