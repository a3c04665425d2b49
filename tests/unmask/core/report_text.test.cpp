// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/text/report_text.hpp>

#include <gtest/gtest.h>

#include <sstream>

namespace unmask::report_text_test {
namespace {

TEST(report_text, of_an_ordinary_decode_has_no_counts_of_unusual_events) {
  const sequence_report r{.end = ending::complete, .forwards = 5, .committed = 39};
  EXPECT_EQ(to_string(r), "complete, forwards=5, committed=39, masked=0");
}

TEST(report_text, shows_what_was_forced_invalid_rewritten_and_read_twice) {
  const sequence_report r{.end = ending::max_steps,
                          .forwards = 39,
                          .committed = 38,
                          .masked = 1,
                          .rewritten = 2,
                          .forced = 37,
                          .invalid_rows = 36,
                          .second_reads = 3};
  std::ostringstream out;
  out << r;
  EXPECT_EQ(out.str(),
            "max_steps, forwards=39, committed=38, masked=1, forced=37, invalid_rows=36, "
            "rewritten=2, second_reads=3");
}

}  // namespace
}  // namespace unmask::report_text_test
