// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/stop.hpp>

#include <algorithm>
#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::stop_sequence_test {
namespace {

using text = std::vector<token_id>;

// Tokens 0, 1, 2; 3 ends, 4 masks.
constexpr model_info model{.vocab = 5, .mask_token = 4, .eos_token = 3};

struct outcome {
  text tokens;
  sequence_report report;
};

// Decodes `wanted` behind `prompt`, in the order of the most confident position first: `sure` has a
// logit for each position.
template <class Policy>
outcome decode(const Policy& p,
               const text& prompt,
               const text& wanted,
               const std::vector<float>& sure,
               index_t block_length,
               const model_info& m = model,
               std::vector<std::uint8_t> editable = {}) {
  outcome o;
  o.tokens = prompt;
  o.tokens.insert(o.tokens.end(), wanted.begin(), wanted.end());
  const auto start = static_cast<index_t>(prompt.size());
  const auto length = static_cast<index_t>(o.tokens.size());
  session<Policy> s(m, {.sequences = 1, .length = length, .window = length});
  start_options options;
  options.editable = editable;
  s.start(0,
          p,
          tokens_view<memory::host>(o.tokens),
          {.prompt_length = start, .length = length, .block_length = block_length},
          options);
  while (const auto request = s.next()) {
    const range rows = request->segments[0].rows;
    std::vector<float> logits;
    for (index_t r = rows.first; r < rows.last; ++r) {
      std::vector<float> z(5, 0.0F);
      z[static_cast<std::size_t>(wanted[static_cast<std::size_t>(r - start)])] =
          sure[static_cast<std::size_t>(r - start)];
      logits.insert(logits.end(), z.begin(), z.end());
    }
    s.supply(host_logits<float>(logits.data(), rows.size(), 5));
  }
  o.report = s.report();
  return o;
}

const std::vector<float> rising = {1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<float> falling = {8, 7, 6, 5, 4, 3, 2, 1};

TEST(stop_sequence, ends_a_text_and_fills_what_is_masked) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<2>{{1, 2}}});
  const outcome o = decode(p, {0}, {0, 1, 2, 0, 0, 0, 0, 0}, falling, 8);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.report.forwards, 3);
  EXPECT_EQ(o.report.committed, 3);
  EXPECT_EQ(o.tokens, (text{0, 0, 1, 2, 3, 3, 3, 3, 3})) << "the rest becomes the EOS token";
  EXPECT_EQ(o.report.committed_prefix, 9) << "filled positions are committed";
  EXPECT_EQ(o.report.masked, 0);
  EXPECT_EQ(o.report.answer_end, 4);
  EXPECT_EQ((stop_sequence<2>{{1, 2}}.find(o.tokens.data(), {1, 9})), 4) << "where the text ends";
}

TEST(stop_sequence, is_as_long_as_the_tokens_it_was_given) {
  const policy p{by_confidence{}, tokens_per_step{1}, stop_sequence<>{{1, 2}}};
  const outcome o = decode(p, {0}, {0, 1, 2, 0, 0, 0, 0, 0}, falling, 8);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.report.forwards, 3);
  EXPECT_EQ((stop_sequence<>{{1, 2}}.find(o.tokens.data(), {1, 9})), 4);
}

TEST(stop_sequence, leaves_masks_to_a_model_without_an_eos_token) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<2>{{1, 2}}});
  model_info endless = model;
  endless.eos_token = no_token;
  const outcome o = decode(p, {}, {0, 1, 2, 0, 0}, falling, 8, endless);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.tokens, (text{0, 1, 2, 4, 4}));
  EXPECT_EQ(o.report.committed_prefix, 3);
  EXPECT_EQ(o.report.answer_end, 3);
  EXPECT_EQ(o.report.masked, 2);
}

TEST(stop_sequence, waits_for_everything_left_of_it_and_keeps_what_is_right) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<2>{{1, 2}}});
  const outcome o = decode(p, {}, {0, 1, 2, 0, 1}, {1, 2, 3, 0.5F, 4}, 8);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.report.forwards, 4);
  EXPECT_EQ(o.tokens, (text{0, 1, 2, 3, 1}));
}

// The text that a caller streams, [shown, min(committed_prefix, answer_end)) after each step, is
// the answer: nothing committed behind the match, and no filler.
TEST(stop_sequence, ends_a_streamed_text_behind_the_match) {
  const auto steps = by_name(policy{by_confidence{}, tokens_per_step{2}, stop_sequence<2>{{1, 2}}});
  text tokens(8, 0);
  const text wanted = {0, 1, 2, 0, 1, 0, 0, 0};
  session s(steps, model, tokens, {.length = 8, .block_length = 8});
  EXPECT_EQ(s.report().answer_end, 8) << "while it runs";
  text shown;
  const auto show = [&] {
    const auto end = std::min(s.report().committed_prefix, s.report().answer_end);
    shown.insert(shown.end(), tokens.begin() + index_t(shown.size()), tokens.begin() + end);
  };
  while (const auto request = s.next()) {
    const range rows = request->segments[0].rows;
    std::vector<float> logits(std::size_t(5 * rows.size()), 0.0F);
    for (index_t p = rows.first; p < rows.last; ++p) {
      logits[std::size_t(5 * (p - rows.first) + wanted[std::size_t(p)])] = falling[std::size_t(p)];
    }
    s.supply(host_logits<float>(logits.data(), rows.size(), 5));
    show();
  }
  EXPECT_EQ(s.report().committed_prefix, 8);
  EXPECT_EQ(shown, (text{0, 1, 2}));
}

TEST(stop_sequence, the_first_of_several_ends_the_answer_whichever_part_ends_the_sequence) {
  // Both matches and an EOS token are committed in one step.
  const text wanted = {0, 1, 2, 0, 0, 3, 2, 2};
  const std::vector<float> sure(8, 9.0F);
  const auto end_with = [&](const auto&... stop) {
    return decode(by_name(policy{by_confidence{}, threshold{0.5F}, stop...}), {}, wanted, sure, 8)
        .report;
  };
  const stop_sequence<2> early{{1, 2}};
  const stop_sequence<2> late{{2, 2}};
  EXPECT_EQ(end_with(late, early).answer_end, 3);
  EXPECT_EQ(end_with(early, late).answer_end, 3);
  EXPECT_EQ(end_with(stop_at_eos{}, early).end, ending::eos_token);
  EXPECT_EQ(end_with(stop_at_eos{}, early).answer_end, 3);
  EXPECT_EQ(end_with(late, stop_at_eos{}).end, ending::stop_tokens);
  EXPECT_EQ(end_with(late, stop_at_eos{}).answer_end, 6);
  EXPECT_EQ(end_with(late).answer_end, 8);
  EXPECT_EQ(end_with(max_steps{8}).answer_end, 8) << "an EOS token that nothing stops at is text";
}

TEST(stop_sequence, crosses_blocks_but_not_the_prompt) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<3>{{1, 1, 2}}});
  const outcome o = decode(p, {1, 1}, {2, 0, 1, 1, 2, 0, 0, 0}, rising, 2);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.tokens, (text{1, 1, 2, 0, 1, 1, 2, 0, 3, 3}));
}

TEST(stop_sequence, finds_itself_behind_its_own_beginning) {
  const auto p =
      by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<4>{{1, 1, 1, 2}}});
  const outcome o = decode(p, {}, {1, 1, 1, 1, 2, 0, 0, 0}, falling, 3);
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.report.forwards, 5);
}

TEST(stop_sequence, may_hold_slots_that_the_caller_gave) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<2>{{1, 2}}});
  const outcome o = decode(p, {}, {0, 1, 2, 0, 0}, falling, 8, model, {1, 1, 0, 1, 1});
  EXPECT_EQ(o.report.end, ending::stop_tokens);
  EXPECT_EQ(o.report.forwards, 2);
}

TEST(stop_sequence, comes_several_times) {
  const auto p = by_name(policy{by_confidence{},
                                tokens_per_step{1},
                                stop_sequence<8>{.tokens = {2, 2, 2}, .count = 3},
                                stop_sequence<8>{.tokens = {1, 2}, .count = 2},
                                stop_at_eos{}});
  EXPECT_EQ(decode(p, {}, {0, 1, 2, 0, 0}, falling, 2).report.forwards, 3);
  EXPECT_EQ(decode(p, {}, {0, 2, 2, 2, 0}, falling, 2).report.forwards, 4);
  EXPECT_EQ(decode(p, {}, {0, 3, 2, 2, 0}, falling, 5).report.end, ending::eos_token);
}

TEST(stop_sequence, does_not_count_before_min_tokens) {
  const auto p = [](index_t least) {
    return by_name(policy{by_confidence{},
                          tokens_per_step{1},
                          stop_sequence<2>{.tokens = {1, 2}, .min_tokens = least}});
  };
  const text wanted = {1, 2, 0, 1, 2, 0, 1, 2};
  EXPECT_EQ(decode(p(2), {0, 0}, wanted, falling, 8).report.forwards, 2);
  EXPECT_EQ(decode(p(3), {0, 0}, wanted, falling, 8).report.forwards, 5);
  EXPECT_EQ(decode(p(6), {0, 0}, wanted, falling, 8).report.forwards, 8);
  EXPECT_EQ(decode(p(9), {0, 0}, wanted, falling, 8).report.end, ending::complete);
}

// After every step of many random texts: it runs on exactly as long as no match is committed, also
// when committed tokens are remasked and replaced.
TEST(stop_sequence, ends_exactly_when_a_match_is_committed) {
  int stops = 0;
  int rewrites = 0;
  const auto run = [&](std::uint64_t seed, const auto& p, const auto& stop) {
    chances c(seed + 77);
    dense_request q = random_dense_request(c, 5);
    q.model = model;
    q.logits.sharpness = 3.0;
    const sequence_shape& g = q.geometry;
    text tokens(static_cast<std::size_t>(g.length));
    for (token_id& v : tokens) {
      v = c.within(0, 2);
    }
    session s{by_name(p), q.model, tokens_view<memory::host>(tokens), g};
    text before;
    while (const auto request = s.next()) {
      const index_t prefix = s.report().committed_prefix;
      const auto begin = tokens.begin() + g.prompt_length;
      EXPECT_EQ(std::search(begin, tokens.begin() + prefix, stop.tokens, stop.tokens + stop.count),
                tokens.begin() + prefix)
          << "a match is committed and it runs on";
      before = tokens;
      std::vector<float> logits;
      for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
        const std::vector<float> z = q.logits.row(tokens, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
      s.supply(host_logits<float>(logits.data(), request->rows, 5));
    }
    for (const commit_entry& e : s.committed()) {
      before[static_cast<std::size_t>(e.position)] = e.token;
    }
    const auto open = std::find(before.begin() + g.prompt_length, before.end(), model.mask_token);
    const bool matches =
        std::search(
            before.begin() + g.prompt_length, open, stop.tokens, stop.tokens + stop.count) != open;
    EXPECT_EQ(s.report().end == ending::stop_tokens, matches);
    stops += matches ? 1 : 0;
    rewrites += s.report().rewritten;
  };
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    stop_sequence<3> stop{.count = c.within(1, 3)};
    for (listed_token& v : stop.tokens) {
      v = c.within(0, 2);
    }
    const tokens_per_step commits{c.within(1, 4)};
    run(seed, by_name(policy{by_confidence{}, commits, stop}), stop);
    run(seed, by_name(policy{by_confidence{}, commits, stop, remask_current_below{0.5F, 5}}), stop);
    run(seed,
        by_name(
            policy{by_entropy{}, commits, stop, edit_committed{0.4F}, remask_current_below{0.3F}}),
        stop);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(stops, 200);
  EXPECT_GT(rewrites, 200);
}

// The scan resumes at the first position that was rewritten.
TEST(stop_at_eos, sees_an_eos_token_written_over_another_token) {
  sequence_view q;
  text tokens = {0, 0, 0, 4};
  std::vector<mark> marks = {mark::committed, mark::committed, mark::committed, mark::masked};
  q.tokens = tokens.data();
  q.marks = marks.data();
  q.length = q.rewritten = 4;
  q.eos_token = 3;
  q.committed_prefix = 3;
  struct {
    stop_at_eos::sequence_state sequence;
  } context;
  EXPECT_EQ(stop_at_eos{}.stop(q, context), ending::running);
  tokens[1] = 3;
  q.rewritten = 1;
  EXPECT_EQ(stop_at_eos{}.stop(q, context), ending::eos_token);
}

TEST(stop_sequence, starts_anew_with_its_slot) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, stop_sequence<2>{{1, 2}}});
  session<by_name_type<decltype(p)>> s(model, {.sequences = 1, .length = 4, .window = 4});
  for (int round = 0; round < 3; ++round) {
    text tokens(4, 0);
    s.start(0, by_name(p), tokens_view<memory::host>(tokens), {.length = 4, .block_length = 4});
    int steps = 0;
    while (const auto request = s.next()) {
      const std::vector<float> logits = {0, 9, 0, 0, 0, 0, 0, 8, 0, 0,
                                         7, 0, 0, 0, 0, 6, 0, 0, 0, 0};
      const range rows = request->segments[0].rows;
      s.supply(host_logits<float>(logits.data() + rows.first * 5, rows.size(), 5));
      ++steps;
    }
    EXPECT_EQ(steps, 2);
    EXPECT_EQ(s.report().end, ending::stop_tokens);
  }
}

TEST(stop_sequence, refuses_knobs_outside_their_range) {
  EXPECT_NO_THROW((check_part(stop_sequence<4>{.tokens = {1, 2}, .count = 2}, sequence_shape{})));
  EXPECT_THROW((check_part(stop_sequence<4>{.tokens = {1, 2}, .count = 0}, sequence_shape{})),
               std::invalid_argument);
  EXPECT_THROW((check_part(stop_sequence<4>{.tokens = {1, 2}, .count = 5}, sequence_shape{})),
               std::invalid_argument);
  EXPECT_THROW((check_part(stop_sequence<2>{.tokens = {1, -2}}, sequence_shape{})),
               std::invalid_argument);
  EXPECT_THROW((check_part(stop_sequence<2>{.tokens = {no_token, 1}}, sequence_shape{})),
               std::invalid_argument);
  EXPECT_THROW((check_part(stop_sequence<2>{}, sequence_shape{})), std::invalid_argument);
  EXPECT_THROW((check_part(stop_sequence<1>{.tokens = {1}, .min_tokens = -1}, sequence_shape{})),
               std::invalid_argument);
}

TEST(stop_sequence, names_the_count_of_a_sequence_of_no_tokens) {
  try {
    check_part(stop_sequence<4>{.tokens = {1, 2}, .count = 0}, sequence_shape{});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "stop_sequence::count must be in [1, Length = 4], got 0");
  }
}

}  // namespace
}  // namespace unmask::testing::stop_sequence_test
