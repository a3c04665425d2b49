// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named/families.hpp>
#include <unmask/named/read_policy.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::stop_test {
namespace {

using tokens_of = std::vector<token_id>;

// Token 3 ends an answer.
constexpr model_info ending_model = {.vocab = small_vocab, .mask_token = 4, .eos_token = 3};

TEST(stop_at_eos, fills_what_is_masked_behind_a_committed_eos_token) {
  const std::vector<row> table = {row_with_confidence(0.9, 0),
                                  row_with_confidence(0.9, 3),
                                  row_with_confidence(0.5, 1),
                                  row_with_confidence(0.5, 2)};
  const history h = decode_rows(policy{by_confidence{}, threshold{0.8F}, stop_at_eos{}},
                                table,
                                {.block_length = 4},
                                ending_model);
  EXPECT_EQ(h.tokens, (tokens_of{0, 3, 3, 3}));
  EXPECT_EQ(h.report.end, ending::eos_token);
  EXPECT_EQ(h.report.forwards, 1);
  EXPECT_EQ(h.report.committed, 2) << "filled tokens are not committed";
  EXPECT_EQ(h.report.committed_prefix, 4);
  EXPECT_EQ(h.report.answer_end, 2) << "behind the EOS token";
  EXPECT_EQ(h.report.masked, 0);
}

// A schedule may end a sequence at an EOS token, too.
TEST(block_pipeline, reports_the_end_of_the_answer) {
  std::vector<row> table(12, row_with_confidence(0.9, 1));
  table[2] = row_with_confidence(0.9, 3);
  const policy p{by_confidence{}, threshold{0.5F}, block_pipeline{.at_once = 1}};
  const history h = decode_rows(p, table, {.block_length = 4}, ending_model);
  EXPECT_EQ(h.report.end, ending::eos_token);
  EXPECT_EQ(h.report.answer_end, 3);
}

// Nothing of a canvas is committed before its end, so that the part does not stop it.
TEST(stop_at_eos, finds_the_end_of_the_answer_on_a_canvas) {
  std::vector<row> table;
  for (const token_id token : {0, 3, 1, 2}) {
    table.push_back(row_with_confidence(1.0 - 1e-9, token));
  }
  const policy p{by_entropy{}, entropy_bound{9.0F}, canvas{.vocab = 4, .steps = 6}, stop_at_eos{}};
  const history h = decode_rows(p, table, {.block_length = 4}, ending_model);
  EXPECT_EQ(h.tokens, (tokens_of{0, 3, 1, 2}));
  EXPECT_EQ(h.report.end, ending::complete);
  EXPECT_EQ(h.report.answer_end, 2);
}

TEST(stop_at_eos, waits_until_everything_left_of_the_eos_token_is_committed) {
  const std::vector<row> table = {row_with_confidence(0.5, 0),
                                  row_with_confidence(0.4, 1),
                                  row_with_confidence(0.9, 3),
                                  row_with_confidence(0.3, 2)};
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}},
                                table,
                                {.block_length = 4},
                                ending_model);
  EXPECT_EQ(h.order(), (std::vector<index_t>{2, 0, 1}));
  EXPECT_EQ(h.tokens, (tokens_of{0, 1, 3, 3}));
  EXPECT_EQ(h.report.end, ending::eos_token);
}

TEST(stop_at_eos, leaves_tokens_committed_behind_the_eos_token_as_they_are) {
  const std::vector<row> table = {
      row_with_confidence(0.5, 3), row_with_confidence(0.9, 1), row_with_confidence(0.4, 2)};
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}},
                                table,
                                {.block_length = 3},
                                ending_model);
  EXPECT_EQ(h.tokens, (tokens_of{3, 1, 3}));
}

TEST(stop_at_eos, does_not_look_into_the_prompt) {
  std::vector<token_id> tokens = {3, 3, 0, 0};
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}}),
            ending_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 4, .block_length = 2}};
  EXPECT_EQ(s.report().end, ending::running);
  EXPECT_TRUE(s.next());
}

TEST(stop_at_eos, sees_an_eos_token_that_the_engine_fixed_in_the_answer) {
  std::vector<token_id> tokens = {0, 1, 3, 2, 2};
  const std::vector<std::uint8_t> editable = {0, 1, 0, 1, 0};
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}});
  session<std::remove_const_t<decltype(p)>> s(ending_model, {.length = 5, .window = 4});
  s.start(
      0, p, tokens, {.prompt_length = 1, .length = 5}, {.editable = editable, .suppressed = {}});
  ASSERT_TRUE(s.next());
  const row logits = packed(
      {row_with_confidence(0.5, 1), row_with_confidence(0.5, 1), row_with_confidence(0.5, 1)},
      {0, 3});
  s.supply(host_logits<float>(logits.data(), 3, small_vocab));
  EXPECT_EQ(s.report().end, ending::eos_token);
  EXPECT_EQ(tokens, (tokens_of{0, 1, 3, 3, 2})) << "position 4 was not masked";
}

TEST(stop_at_eos, refuses_a_model_without_an_eos_token) {
  const policy p{by_confidence{}, tokens_per_step{1}, stop_at_eos{}};
  const auto expect_refused = [](auto& s, const auto& start) {
    const std::vector<token_id> before(4, 1);
    std::vector<token_id> tokens = before;
    try {
      start(s, tokens);
      FAIL() << "accepted";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("model_info::eos_token must be a token"),
                std::string::npos)
          << e.what();
    }
    EXPECT_EQ(tokens, before);
  };
  session<policy<by_confidence, tokens_per_step, stop_at_eos>> typed({.vocab = 5, .mask_token = 4},
                                                                     {.length = 4, .window = 4});
  expect_refused(
      typed, [&](auto& s, std::vector<token_id>& tokens) { s.start(0, p, tokens, {.length = 4}); });
  stop_family rules;
  rules.push(stop_at_eos{}, -1);
  const policy by_value{by_confidence{}, tokens_per_step{1}, rules};
  session<policy<by_confidence, tokens_per_step, stop_family>> named({.vocab = 5, .mask_token = 4},
                                                                     {.length = 4, .window = 4});
  expect_refused(named, [&](auto& s, std::vector<token_id>& tokens) {
    s.start(0, by_value, tokens, {.length = 4});
  });
}

TEST(stop_at_eos, ends_the_blocks_that_were_not_reached) {
  const std::vector<row> table(12, row_with_confidence(0.9, 3));
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}},
                                table,
                                {.block_length = 4},
                                ending_model);
  EXPECT_EQ(h.report.forwards, 1);
  EXPECT_EQ(h.tokens, tokens_of(12, 3));
}

TEST(max_steps, ends_a_sequence_and_fills_it) {
  const std::vector<row> table(6, row_with_confidence(0.9, 1));
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{1}, max_steps{2}},
                                table,
                                {.block_length = 3},
                                ending_model);
  EXPECT_EQ(h.report.end, ending::max_steps);
  EXPECT_EQ(h.report.forwards, 2);
  EXPECT_EQ(h.report.committed, 2);
  EXPECT_EQ(h.tokens, (tokens_of{1, 1, 3, 3, 3, 3}));
  EXPECT_EQ(h.report.masked, 0);
  EXPECT_EQ(h.report.committed_prefix, 6);
  EXPECT_EQ(h.report.answer_end, 2) << "no decision committed what is after it";
}

// Shows [shown, min(committed_prefix, answer_end)) after each pass, and marks what decisions
// committed.
struct streamed {
  std::vector<bool> decided;
  index_t shown = 0;

  template <class Session>
  void see(Session& s, index_t slot) {
    for (const commit_entry& c : s.committed(slot)) {
      decided[std::size_t(c.position)] = true;
    }
    see(s.report(slot));
  }
  void see(const sequence_report& r) {
    const index_t end = std::min(r.committed_prefix, r.answer_end);
    for (; shown < end; ++shown) {
      EXPECT_TRUE(decided[std::size_t(shown)]) << "position " << shown << " of " << r.answer_end;
    }
    if (r.end != ending::running) {
      const auto first = std::find(decided.begin(), decided.end(), false);
      EXPECT_LE(r.answer_end, first - decided.begin());
    }
  }
};

// Certain of positions 0, 7, 2, 5, ... in turn: holes remain at every step.
std::vector<row> scattered_rows() {
  std::vector<row> rows;
  for (const double p : {0.95, 0.6, 0.9, 0.55, 0.5, 0.85, 0.45, 0.93}) {
    rows.push_back(row_with_confidence(p, 1));
  }
  return rows;
}

TEST(answer_end, never_shows_a_token_that_no_decision_committed) {
  const std::vector<row> rows = scattered_rows();
  for (const index_t eos : {index_t(3), no_token}) {
    for (const char* const text : {"tokens_per_step(1)",
                                   "tokens_per_step(1) + max_steps(3)",
                                   "tokens_per_step(2) + max_steps(1)",
                                   "tokens_per_step(1) + max_steps(5) + stop_sequence([2])",
                                   "tokens_per_step(1) + dual_cache + max_steps(3)",
                                   "threshold(0.7) + drafts(3) + max_steps(2)",
                                   "threshold(0.7) + beam(2) + max_steps(2)"}) {
      for (int cancel_after = 0; cancel_after <= 4; ++cancel_after) {
        SCOPED_TRACE(std::string(text) + ", EOS " + std::to_string(eos) + ", cancelled after " +
                     std::to_string(cancel_after));
        std::vector<token_id> tokens(8, 0);
        named_session s(read_policy(text),
                        {.vocab = small_vocab, .mask_token = 4, .eos_token = eos},
                        tokens,
                        {.length = 8, .block_length = 8});
        streamed seen{std::vector<bool>(8, false)};
        for (int pass = 0;; ++pass) {
          if (pass == cancel_after) {
            s.cancel(0);
            seen.see(s.report());
          }
          const auto request = s.next();
          if (!request) {
            break;
          }
          std::vector<float> logits;
          for (const segment& part : request->segments) {
            for (index_t p = part.rows.first; p < part.rows.last; ++p) {
              logits.insert(logits.end(), rows[std::size_t(p)].begin(), rows[std::size_t(p)].end());
            }
          }
          s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
          seen.see(s, 0);
        }
        EXPECT_NE(s.report().end, ending::running);
      }
    }
  }
}

TEST(max_steps, leaves_masks_where_there_is_no_eos_token_to_fill_with) {
  const std::vector<row> table(3, row_with_confidence(0.9, 1));
  const history h = decode_rows(
      policy{by_confidence{}, tokens_per_step{1}, max_steps{1}}, table, {.block_length = 3});
  EXPECT_EQ(h.tokens, (tokens_of{1, 4, 4}));
  EXPECT_EQ(h.report.masked, 2);
  EXPECT_EQ(h.report.committed_prefix, 1);
  EXPECT_EQ(h.report.answer_end, 1);
}

TEST(max_steps, that_is_just_enough_lets_the_sequence_be_complete) {
  const std::vector<row> table(3, row_with_confidence(0.9, 1));
  const history h = decode_rows(
      policy{by_confidence{}, tokens_per_step{1}, max_steps{3}}, table, {.block_length = 3});
  EXPECT_EQ(h.report.end, ending::complete);
}

TEST(max_steps, ends_a_sequence_with_a_single_mask_left) {
  const std::vector<row> table(3, row_with_confidence(0.9, 1));
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{1}, max_steps{2}},
                                table,
                                {.block_length = 3},
                                ending_model);
  EXPECT_EQ(h.report.end, ending::max_steps);
  EXPECT_EQ(h.tokens, (tokens_of{1, 1, 3}));
}

// A stop rule of a user, with state: ends after `most` steps that committed a single token.
struct stop_when_slow {
  index_t most = 2;
  struct sequence_state {
    index_t open_before;
    index_t slow_steps;
  };
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto& context) const {
    auto& [before, slow] = context.sequence;
    slow += before - q.masked_count == 1 ? 1 : 0;
    before = q.masked_count;
    return slow >= most ? ending::stop_tokens : ending::running;
  }
};
static_assert(stopping<stop_when_slow>);

TEST(stop, of_a_user_keeps_state_from_step_to_step) {
  const std::vector<row> table = {row_with_confidence(0.9, 1),
                                  row_with_confidence(0.9, 1),
                                  row_with_confidence(0.5, 1),
                                  row_with_confidence(0.5, 1),
                                  row_with_confidence(0.5, 1),
                                  row_with_confidence(0.5, 1)};
  const history h = decode_rows(policy{by_confidence{}, threshold{0.8F}, stop_when_slow{3}},
                                table,
                                {.block_length = 6},
                                ending_model);
  EXPECT_EQ(h.report.forwards, 4);
  EXPECT_EQ(h.report.end, ending::stop_tokens);
  EXPECT_EQ(h.report.committed, 5);
  EXPECT_EQ(h.tokens.back(), 3);
}

// A stop rule that never stops, and records the highest position of the last step.
struct latest_witness {
  std::vector<index_t>* latest = nullptr;
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto&) const {
    latest->push_back(q.latest);
    return ending::running;
  }
};

TEST(stop, of_a_user_is_told_the_highest_position_of_the_last_step) {
  std::vector<index_t> latest;
  const std::vector<row> table = {
      row_with_confidence(0.9), row_with_confidence(0.5), row_with_confidence(0.9)};
  const policy p{by_confidence{}, threshold{0.8F}, latest_witness{&latest}};
  EXPECT_EQ(decode_rows(p, table, {.block_length = 3}).report.end, ending::complete);
  EXPECT_EQ(latest, (std::vector<index_t>{-1, 2, 1}));
}

TEST(stop, of_several_rules_the_first_that_ends_decides) {
  const std::vector<row> table(4, row_with_confidence(0.9, 3));
  const sequence_shape g = {.block_length = 4};
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{1}, max_steps{1}, stop_at_eos{}},
                        table,
                        g,
                        ending_model)
                .report.end,
            ending::max_steps);
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{1}, stop_at_eos{}, max_steps{1}},
                        table,
                        g,
                        ending_model)
                .report.end,
            ending::eos_token);
}

}  // namespace
}  // namespace unmask::testing::stop_test
