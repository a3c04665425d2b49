// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

#include <iosfwd>
#include <string>

/// Texts of reports. Host only; allocates.
namespace UNMASK_NAMESPACE {

/// A report in one line, with the counts of unusual events where they are not 0: "complete,
/// forwards=39, committed=39, masked=0, forced=39, invalid_rows=39".
[[nodiscard]] inline std::string to_string(const sequence_report& r) {
  std::string text(name_of(r.end));
  const auto add = [&text](const char* name, index_t count) {
    text += ", " + std::string(name) + "=" + std::to_string(count);
  };
  add("forwards", r.forwards);
  add("committed", r.committed);
  add("masked", r.masked);
  const auto add_if_any = [&add](const char* name, index_t count) {
    if (count != 0) {
      add(name, count);
    }
  };
  add_if_any("forced", r.forced);
  add_if_any("invalid_rows", r.invalid_rows);
  add_if_any("rewritten", r.rewritten);
  add_if_any("second_reads", r.second_reads);
  return text;
}

/// Writes to_string(report).
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const sequence_report& report) {
  return out << to_string(report);
}

}  // namespace unmask
