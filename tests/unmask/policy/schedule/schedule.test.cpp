// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::schedule_test {
namespace {

using positions = std::vector<index_t>;
using steps = std::vector<positions>;

TEST(semi_autoregressive, opens_a_block_when_the_one_before_is_full) {
  const std::vector<row> table(7, row_with_confidence(0.9));
  const policy p{by_confidence{}, tokens_per_step{2}, semi_autoregressive{}};
  EXPECT_EQ(decode_rows(p, table, {.prompt_length = 1, .block_length = 3}).positions,
            (steps{{1, 2}, {3}, {4, 5}, {6}}));
}

TEST(semi_autoregressive, is_what_a_policy_without_a_schedule_does) {
  const std::vector<row> table = {row_with_confidence(0.9),
                                  row_with_confidence(0.3),
                                  row_with_confidence(0.5),
                                  row_with_confidence(0.95),
                                  row_with_confidence(0.4)};
  const sequence_shape g = {.block_length = 2};
  EXPECT_EQ(decode_rows(policy{by_confidence{}, threshold{0.6F}}, table, g).positions,
            decode_rows(policy{by_confidence{}, semi_autoregressive{}, threshold{0.6F}}, table, g)
                .positions);
}

TEST(semi_autoregressive, cuts_the_last_block_at_the_end) {
  const std::vector<row> table(8, row_with_confidence(0.9));
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{100}},
                                table,
                                {.prompt_length = 1, .block_length = 5});
  EXPECT_EQ(h.positions, (steps{{1, 2, 3, 4, 5}, {6, 7}}));
}

TEST(semi_autoregressive, takes_a_block_longer_than_the_answer_as_the_answer) {
  const std::vector<row> table(4, row_with_confidence(0.9));
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{100}},
                        table,
                        {.prompt_length = 1, .block_length = 1000})
                .positions,
            (steps{{1, 2, 3}}));
}

TEST(semi_autoregressive, plans_one_block_which_must_commit) {
  std::vector<token_id> tokens(8, 3);
  session s{by_name(policy{by_confidence{}, tokens_per_step{100}}),
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 8, .block_length = 4}};
  const plan first = s.planned();
  EXPECT_EQ(first.score, (range{2, 6}));
  EXPECT_EQ(first.query, (range{0, 8}));
  EXPECT_EQ(first.freeze, (range{0, 2}));
  EXPECT_EQ(first.forced, 1U);
  EXPECT_EQ(first.first_block, 0);
  EXPECT_EQ(first.last_block, 1);
  ASSERT_TRUE(s.next());
  const row logits = packed(std::vector<row>(4, row_with_confidence(0.5)), {0, 4});
  s.supply(host_logits<float>(logits.data(), 4, small_vocab));
  const plan second = s.planned();
  EXPECT_EQ(second.score, (range{6, 8}));
  EXPECT_EQ(second.freeze, (range{0, 6}));
  EXPECT_EQ(second.first_block, 1);
  EXPECT_EQ(second.last_block, 2);
}

TEST(semi_autoregressive, skips_blocks_without_a_masked_position) {
  std::vector<token_id> tokens(9, 3);
  const std::vector<std::uint8_t> editable = {1, 0, 1, 0, 0, 0, 0, 1, 0};
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{100}});
  session<std::remove_const_t<decltype(p)>> s(small_model, {.length = 9, .window = 3});
  s.start(0, p, tokens, {.length = 9, .block_length = 3}, {.editable = editable, .suppressed = {}});
  EXPECT_EQ(s.planned().score, (range{0, 3}));
  EXPECT_EQ(s.next()->segments[0].rows, (range{0, 3}));
  const row three = packed(std::vector<row>(3, row_with_confidence(0.5, 1)), {0, 3});
  s.supply(host_logits<float>(three.data(), 3, small_vocab));
  EXPECT_EQ(s.planned().score, (range{6, 9}));
  EXPECT_EQ(s.planned().first_block, 2);
  EXPECT_EQ(s.next()->segments[0].rows, (range{7, 8})) << "only the masked position";
  s.supply(host_logits<float>(three.data(), 1, small_vocab));
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(tokens, (std::vector<token_id>{1, 3, 1, 3, 3, 3, 3, 1, 3}));
}

TEST(single_block, scores_the_answer_whatever_the_block_length) {
  std::vector<token_id> tokens(8, 3);
  session s{by_name(policy{by_confidence{}, tokens_per_step{2}, single_block{}}),
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 8, .block_length = 3}};
  EXPECT_EQ(s.capacity().window, 6);
  EXPECT_EQ(s.planned().score, (range{2, 8}));
  EXPECT_EQ(s.planned().first_block, 0);
  EXPECT_EQ(s.planned().last_block, 1);
  EXPECT_EQ(s.planned().forced, 1U);
}

TEST(single_block, commits_wherever_it_is_surest) {
  const std::vector<row> table = {row_with_confidence(0.5),
                                  row_with_confidence(0.6),
                                  row_with_confidence(0.7),
                                  row_with_confidence(0.8),
                                  row_with_confidence(0.9)};
  EXPECT_EQ(decode_rows(policy{single_block{}, by_confidence{}, tokens_per_step{2}},
                        table,
                        {.prompt_length = 1, .block_length = 2})
                .positions,
            (steps{{3, 4}, {1, 2}}));
}

TEST(single_block, spreads_scheduled_over_the_whole_answer) {
  const std::vector<row> table(10, row_with_confidence(0.9));
  const history h = decode_rows(
      policy{by_confidence{}, steps_per_block{4}, single_block{}}, table, {.block_length = 2});
  EXPECT_EQ(h.counts(), (std::vector<std::size_t>{3, 3, 2, 2}));
}

// A schedule of a user: blocks from the last to the first, with state of its own.
struct backwards {
  struct sequence_state {
    index_t blocks_left;
    index_t asked;
  };
  static constexpr statistics required = stat::none;
  void schedule(sequence_view& q, plan& next, auto& context) const {
    index_t& left = context.sequence.blocks_left;
    if (context.sequence.asked++ == 0) {
      left = q.blocks();
    }
    while (left > 1 && q.masked_in(q.block(left - 1)) == 0) {
      --left;
    }
    next.score = q.block(left - 1);
    next.first_block = left - 1;
    next.last_block = left;
    next.forced = 1;
  }
};
static_assert(scheduling<backwards>);

TEST(schedule, of_a_user_decides_the_order_of_blocks) {
  const std::vector<row> table(7, row_with_confidence(0.9));
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{2}, backwards{}},
                        table,
                        {.prompt_length = 1, .block_length = 3})
                .positions,
            (steps{{4, 5}, {6}, {1, 2}, {3}}));
}

// Two blocks at a time, both of which must commit.
struct in_pairs {
  static constexpr statistics required = stat::none;
  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    return std::min(2 * g.block_length, g.length - g.prompt_length);
  }
  void schedule(sequence_view& q, plan& next, auto&) const {
    index_t b = 0;
    while (q.masked_in(q.block(b)) == 0) {
      ++b;
    }
    next.first_block = b;
    next.last_block = std::min(b + 2, q.blocks());
    next.score = {q.block(b).first, q.block(next.last_block - 1).last};
    next.forced = next.last_block - b == 2 ? 3U : 1U;
  }
};

TEST(schedule, with_two_forced_blocks_commits_the_best_of_each) {
  const std::vector<row> table = {row_with_confidence(0.8),
                                  row_with_confidence(0.9),
                                  row_with_confidence(0.7),
                                  row_with_confidence(0.3),
                                  row_with_confidence(0.4),
                                  row_with_confidence(0.5)};
  const history h = decode_rows(
      policy{by_confidence{}, threshold{0.99F}, in_pairs{}}, table, {.block_length = 3});
  EXPECT_EQ(h.positions, (steps{{1, 5}, {0, 4}, {2, 3}}));
  EXPECT_EQ(h.report.forced, 6);
}

TEST(schedule, forces_only_the_block_in_which_nothing_was_committed) {
  const std::vector<row> table = {row_with_confidence(0.8),
                                  row_with_confidence(0.9),
                                  row_with_confidence(0.3),
                                  row_with_confidence(0.4)};
  const history h =
      decode_rows(policy{by_confidence{}, threshold{0.7F}, in_pairs{}}, table, {.block_length = 2});
  EXPECT_EQ(h.positions, (steps{{0, 1, 3}, {2}}));
  EXPECT_EQ(h.report.forced, 2);
}

}  // namespace
}  // namespace unmask::testing::schedule_test
