// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/step/pending_request.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

namespace unmask::testing::pending_request_test {
namespace {

using step::pending_request;
using step::slot_status;

slot_status running(range scored, range rows) {
  slot_status s;
  s.next.started = true;
  s.next.score = scored;
  s.next.query = s.next.keys = {0, scored.last};
  s.next.branch_last[0] = scored.last;
  s.rows = rows;
  return s;
}

/// A branch has the rows of its own scored positions, which are fewer if it ends before the others:
/// of position p row p - shift, and row 0 of the first.
TEST(pending_request, has_the_rows_of_each_branch) {
  for (const index_t shift : {0, 1}) {
    for (index_t last = 1; last <= 4; ++last) {
      slot_status s = running({0, 4}, {0, 4 - shift});
      s.next.logits_shift = shift;
      s.next.branches = 1;
      s.next.branch[0] = {.position = 0, .token = 7};
      s.next.branch_last[1] = last;
      pending_request request(1, 1);
      ASSERT_TRUE(request.make({&s, 1}));
      const auto segments = request.view().segments;
      ASSERT_EQ(segments.size(), 2U);
      EXPECT_EQ(segments[0].rows, (range{0, 4 - shift}));
      EXPECT_EQ(segments[1].rows, (range{0, std::max(last - 1 - shift, 0) + 1}));
      EXPECT_EQ(segments[1].query, (range{0, last}));
      EXPECT_EQ(segments[1].keys, (range{0, last}));
      EXPECT_EQ(segments[1].placed.front().token, 7);
      EXPECT_EQ(segments[1].first_row, 4 - shift);
      EXPECT_EQ(request.view().rows, 4 - shift + segments[1].rows.size());
    }
  }
}

TEST(pending_request, leaves_out_all_but_the_chosen_slots) {
  const std::vector<slot_status> statuses(4, running({0, 2}, {0, 2}));
  pending_request request(4, 0);
  const auto slots_of = [&] {
    std::vector<index_t> slots;
    if (request.make(statuses)) {
      for (const segment& s : request.segments()) {
        slots.push_back(s.slot);
      }
      request.abandon();
    }
    return slots;
  };
  const auto choose = [&](const std::vector<index_t>& slots) { request.choose(slots); };
  EXPECT_EQ(slots_of(), (std::vector<index_t>{0, 1, 2, 3}));
  choose({3, 0});
  EXPECT_EQ(slots_of(), (std::vector<index_t>{0, 3}));
  choose({1});
  EXPECT_EQ(slots_of(), (std::vector<index_t>{1}));
  for (const std::vector<index_t>& wrong : {std::vector<index_t>{4}, {-1}, {0, 2, 0}, {0, 4}}) {
    EXPECT_THROW(choose(wrong), std::invalid_argument);
    EXPECT_EQ(slots_of(), (std::vector<index_t>{1})) << "an error changes nothing";
  }
  choose({});
  EXPECT_EQ(slots_of(), (std::vector<index_t>{}));
  request.choose_all();
  EXPECT_EQ(slots_of(), (std::vector<index_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace unmask::testing::pending_request_test
