// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/beside.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::session_test {
namespace {

using greedy = policy<by_confidence, threshold>;
using tokens_of = std::vector<token_id>;

/// One row of small_model, repeated.
row repeated(const row& z, index_t rows) {
  return packed(std::vector<row>(static_cast<std::size_t>(rows), z), {0, rows});
}

TEST(session, is_used_in_two_lines) {
  tokens_of tokens = {2, 2, 0, 0, 0};
  session s{policy{by_confidence{}, threshold{0.9F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 5}};
  const row logits = repeated(row_with_confidence(0.95, 1), 3);
  while (const auto request = s.next()) {
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  }
  EXPECT_EQ(tokens, (tokens_of{2, 2, 1, 1, 1}));
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(session, has_the_type_of_a_constant_policy) {
  constexpr greedy p{by_confidence{}, threshold{0.9F}};
  tokens_of tokens = {2, 0, 0};
  session<decltype(p)> s(
      p, small_model, tokens_view<memory::host>(tokens), {.prompt_length = 1, .length = 3});
  const row logits = repeated(row_with_confidence(0.95, 1), 2);
  ASSERT_EQ(s.next()->rows, 2);
  s.supply(host_logits<float>(logits.data(), 2, small_vocab));
  EXPECT_EQ(tokens, (tokens_of{2, 1, 1}));
}

TEST(session, writes_the_mask_token_where_it_masks) {
  tokens_of tokens = {0, 1, 2, 3, 0, 1, 2};
  const session s{greedy{by_confidence{}, threshold{}},
                  small_model,
                  tokens_view<memory::host>(tokens),
                  sequence_shape{.prompt_length = 2, .length = 5}};
  EXPECT_EQ(tokens, (tokens_of{0, 1, 4, 4, 4, 1, 2})) << "nothing behind sequence_shape::length";
}

TEST(session, masks_only_what_is_editable) {
  tokens_of tokens = {0, 1, 2, 3, 0};
  const std::vector<std::uint8_t> editable = {1, 1, 1, 0, 1};
  session<greedy> s(small_model, {.length = 5, .window = 4});
  s.start(0,
          {by_confidence{}, threshold{0.0F}},
          tokens,
          {.prompt_length = 1, .length = 5},
          {.editable = editable, .suppressed = {}});
  EXPECT_EQ(tokens, (tokens_of{0, 4, 4, 3, 4})) << "the prompt stays closed";
  EXPECT_EQ(s.report().masked, 3);
  const row logits = repeated(row_with_confidence(0.9, 2), 4);
  ASSERT_EQ(s.next()->rows, 4);
  s.supply(host_logits<float>(logits.data(), 4, small_vocab));
  EXPECT_EQ(tokens, (tokens_of{0, 2, 2, 3, 2}));
}

TEST(session, never_touches_a_mask_token_of_the_prompt) {
  tokens_of tokens = {4, 1, 4, 0, 0};
  session s{greedy{by_confidence{}, threshold{0.0F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 3, .length = 5}};
  EXPECT_EQ(s.report().masked, 2);
  const row logits = repeated(row_with_confidence(0.9, 2), 2);
  ASSERT_EQ(s.next()->segments[0].rows, (range{3, 5}));
  s.supply(host_logits<float>(logits.data(), 2, small_vocab));
  EXPECT_EQ(tokens, (tokens_of{4, 1, 4, 2, 2}));
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(session, never_touches_a_mask_token_that_the_engine_fixed_in_the_answer) {
  tokens_of tokens = {4, 4, 4};
  const std::vector<std::uint8_t> editable = {1, 0, 1};
  session<greedy> s(small_model, {.length = 3, .window = 3});
  s.start(0,
          {by_confidence{}, threshold{0.0F}},
          tokens,
          {.length = 3},
          {.editable = editable, .suppressed = {}});
  ASSERT_TRUE(s.next());
  const row logits = repeated(row_with_confidence(0.9, 2), 3);
  s.supply(host_logits<float>(logits.data(), 3, small_vocab));
  EXPECT_EQ(tokens, (tokens_of{2, 4, 2}));
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(session, of_an_empty_answer_is_complete_at_once) {
  tokens_of tokens = {0, 1};
  session s{greedy{by_confidence{}, threshold{}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 2}};
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(s.report().forwards, 0);
  EXPECT_EQ(s.report().tokens_per_forward(), 0.0);
}

TEST(session, with_nothing_editable_is_complete_at_once) {
  tokens_of tokens = {0, 1, 2};
  const std::vector<std::uint8_t> editable = {0, 0, 0};
  session<policy<by_confidence, tokens_per_step, single_block>> s(small_model,
                                                                  {.length = 3, .window = 3});
  s.start(0,
          {by_confidence{}, tokens_per_step{}, single_block{}},
          tokens,
          {.length = 3},
          {.editable = editable, .suppressed = {}});
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(tokens, (tokens_of{0, 1, 2}));
}

TEST(session, that_was_given_nothing_asks_for_nothing) {
  session<greedy> s(small_model, {.sequences = 3, .length = 4, .window = 4});
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report(2).end, ending::idle);
  EXPECT_EQ(s.report(2).forwards, 0);
  EXPECT_TRUE(s.committed(1).empty());
  EXPECT_FALSE(s.planned(0).active());
}

TEST(session, gives_the_same_request_until_it_is_supplied) {
  tokens_of tokens(4);
  session s{greedy{by_confidence{}, threshold{0.99F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 4}};
  const row logits = repeated(row_with_confidence(0.5, 1), 4);
  for (int step = 0; step < 4; ++step) {
    SCOPED_TRACE(step);
    const tokens_of before = tokens;
    const auto first = s.next();
    ASSERT_TRUE(first);
    for (int again = 0; again < 3; ++again) {
      const auto same = s.next();
      ASSERT_TRUE(same);
      EXPECT_EQ(same->rows, first->rows);
      EXPECT_EQ(same->segments.data(), first->segments.data());
      EXPECT_EQ(same->segments[0].rows, (range{step, 4}));
    }
    EXPECT_EQ(tokens, before) << "asking changes nothing";
    EXPECT_EQ(s.report().forwards, step);
    s.supply(host_logits<float>(logits.data(), first->rows, small_vocab));
  }
  EXPECT_FALSE(s.next());
  EXPECT_FALSE(s.next());
}

TEST(session, asks_for_no_row_outside_the_first_and_last_masked_position) {
  tokens_of tokens(10);
  session s{policy{by_confidence{}, tokens_per_step{2}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 1, .length = 10, .block_length = 9}};
  std::vector<row> table(10, row_with_confidence(0.4));
  table[1] = table[2] = row_with_confidence(0.9);
  table[9] = table[5] = row_with_confidence(0.8);
  table[8] = table[7] = row_with_confidence(0.7);
  const range expected[] = {{1, 10}, {3, 10}, {3, 9}, {3, 7}};
  for (const range& wanted : expected) {
    const auto request = s.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->segments[0].rows, wanted);
    EXPECT_EQ(request->segments[0].query, (range{0, 10}));
    const row logits = packed(table, wanted);
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  }
}

TEST(session, of_a_shifted_model_asks_for_the_rows_before) {
  model_info dream = small_model;
  dream.logits_shift = 1;
  tokens_of tokens(6);
  session s{policy{left_to_right{}, tokens_per_step{2}},
            dream,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 6, .block_length = 3}};
  // Position p reads row p - 1, and position 0 reads row 0, too.
  const std::vector<row> table = {row_with_confidence(0.9, 0),
                                  row_with_confidence(0.9, 1),
                                  row_with_confidence(0.9, 2),
                                  row_with_confidence(0.9, 3),
                                  row_with_confidence(0.9, 1),
                                  row_with_confidence(0.9, 2)};
  const range expected[] = {{0, 2}, {1, 2}, {2, 5}, {4, 5}};
  for (const range& wanted : expected) {
    const auto request = s.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->segments[0].rows, wanted);
    const row logits = packed(table, wanted);
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  }
  EXPECT_EQ(tokens, (tokens_of{0, 0, 1, 2, 3, 1}));
  EXPECT_FALSE(s.next());
}

TEST(session, reads_only_the_columns_of_the_vocabulary) {
  tokens_of tokens(2);
  session s{greedy{by_confidence{}, threshold{0.5F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 2}};
  row logits;
  for (int r = 0; r < 2; ++r) {
    const row z = row_with_confidence(0.9, 1);
    logits.insert(logits.end(), z.begin(), z.end());
    logits.push_back(std::numeric_limits<float>::quiet_NaN());
    logits.push_back(1e9F);
  }
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(logits.data(), 2, small_vocab + 2));
  EXPECT_EQ(tokens, (tokens_of{1, 1}));
  EXPECT_EQ(s.report().invalid_rows, 0);
}

TEST(session, reports_what_became_of_a_sequence) {
  tokens_of tokens(6);
  session s{greedy{by_confidence{}, threshold{0.8F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 1, .length = 6, .block_length = 5}};
  EXPECT_EQ(s.report().committed_prefix, 1);
  EXPECT_EQ(s.report().masked, 5);
  const std::vector<row> table = {row_with_confidence(0.5),
                                  row_with_confidence(0.9),
                                  row_with_confidence(0.3),
                                  row_with_confidence(0.9),
                                  row_with_confidence(0.9),
                                  row_with_confidence(0.5)};
  const auto step = [&] {
    const auto request = s.next();
    const row logits = packed(table, request->segments[0].rows);
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  };
  step();
  EXPECT_EQ(s.report().forwards, 1);
  EXPECT_EQ(s.report().committed, 3);
  EXPECT_EQ(s.report().last_commits, 3);
  EXPECT_EQ(s.report().committed_prefix, 2);
  EXPECT_EQ(s.report().masked, 2);
  EXPECT_EQ(s.report().forced, 0);
  EXPECT_EQ(s.report().tokens_per_forward(), 3.0);
  step();
  EXPECT_EQ(s.report().committed_prefix, 2) << "position 2 is still masked";
  EXPECT_EQ(s.report().forced, 1);
  step();
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(s.report().committed_prefix, 6);
  EXPECT_EQ(s.report().forced, 2);
  EXPECT_EQ(s.report().tokens_per_forward(), 5.0 / 3.0);
}

TEST(session, lists_what_a_step_committed_in_ascending_positions) {
  tokens_of tokens(5);
  session s{greedy{by_confidence{}, threshold{0.55F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 1, .length = 5}};
  const std::vector<row> table = {row_with_confidence(0.5),
                                  row_with_confidence(0.6, 3),
                                  row_with_confidence(0.3),
                                  row_with_confidence(0.9, 2),
                                  row_with_confidence(0.8, 1)};
  ASSERT_TRUE(s.next());
  EXPECT_TRUE(s.committed().empty());
  const row logits = packed(table, {1, 5});
  s.supply(host_logits<float>(logits.data(), 4, small_vocab));
  const auto entries = s.committed();
  ASSERT_EQ(entries.size(), 3U);
  const index_t positions[] = {1, 3, 4};
  const token_id proposed[] = {3, 2, 1};
  const double confidences[] = {0.6, 0.9, 0.8};
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(entries[i].slot, 0);
    EXPECT_EQ(entries[i].position, positions[i]);
    EXPECT_EQ(entries[i].token, proposed[i]);
    EXPECT_EQ(entries[i].step, 0);
    EXPECT_NEAR(entries[i].log_probability, std::log(confidences[i]), 1e-6);
  }
}

TEST(session, lists_nothing_for_a_sequence_that_took_no_part_in_the_step) {
  session<greedy> s(small_model, {.sequences = 2, .length = 3, .window = 3});
  tokens_of brief(1);
  tokens_of longer(3);
  s.start(0, {by_confidence{}, threshold{0.99F}}, brief, {.length = 1});
  s.start(1, {by_confidence{}, threshold{0.99F}}, longer, {.length = 3});
  const row logits = repeated(row_with_confidence(0.5, 1), 4);
  ASSERT_EQ(s.next()->rows, 4);
  s.supply(host_logits<float>(logits.data(), 4, small_vocab));
  EXPECT_EQ(s.committed(0).size(), 1U);
  EXPECT_EQ(s.committed(1).size(), 1U);
  EXPECT_EQ(s.report(0).end, ending::complete);
  ASSERT_EQ(s.next()->rows, 2);
  s.supply(host_logits<float>(logits.data(), 2, small_vocab));
  EXPECT_TRUE(s.committed(0).empty()) << "it was listed after the step before";
  EXPECT_EQ(s.committed(1).size(), 1U);
}

TEST(session, ends_a_sequence_as_it_is_when_cancelled) {
  session<greedy> s(small_model, {.sequences = 2, .length = 3, .window = 3});
  tokens_of first(3);
  tokens_of second(3);
  const greedy p{by_confidence{}, threshold{0.99F}};
  s.start(0, p, first, {.length = 3});
  s.start(1, p, second, {.length = 3});
  const row logits = repeated(row_with_confidence(0.5, 1), 6);
  ASSERT_EQ(s.next()->segments.size(), 2U);
  s.supply(host_logits<float>(logits.data(), 6, small_vocab));
  s.cancel(0);
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  EXPECT_EQ(s.report(0).committed, 1);
  EXPECT_EQ(first, (tokens_of{1, 4, 4}));
  const auto request = s.next();
  ASSERT_TRUE(request);
  ASSERT_EQ(request->segments.size(), 1U);
  EXPECT_EQ(request->segments[0].slot, 1);
  s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  EXPECT_EQ(first, (tokens_of{1, 4, 4}));
  EXPECT_EQ(second, (tokens_of{1, 1, 4}));
}

TEST(session, keeps_the_end_of_a_sequence_that_is_cancelled_afterwards) {
  tokens_of tokens(1);
  session s{greedy{by_confidence{}, threshold{}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 1}};
  const row logits = row_with_confidence(0.5, 1);
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(logits.data(), 1, small_vocab));
  s.cancel(0);
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(session, can_be_cancelled_in_a_slot_that_was_never_started) {
  session<greedy> s(small_model, {.sequences = 2, .length = 3, .window = 3});
  s.cancel(1);
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report(1).end, ending::idle);
}

TEST(session, of_one_token_that_is_the_mask_token_waits_for_its_budget) {
  const model_info model = {.vocab = 1, .mask_token = 0, .suppress_mask = false};
  tokens_of tokens(3);
  session s{policy{by_confidence{}, tokens_per_step{3}, max_steps{4}},
            model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 3}};
  const row logits = {1.0F, 2.0F, 3.0F};
  int steps = 0;
  while (const auto request = s.next()) {
    ++steps;
    s.supply(host_logits<float>(logits.data(), request->rows, 1));
    EXPECT_TRUE(s.committed().empty());
  }
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(s.report().end, ending::max_steps);
  EXPECT_EQ(s.report().masked, 3);
}

TEST(session, never_commits_the_mask_token) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t vocab = d.within(2, 6);
    const model_info model = {.vocab = vocab, .mask_token = d.within(0, vocab - 1)};
    tokens_of tokens(12);
    session s{policy{by_confidence{}, threshold{d.real(0, 1)}},
              model,
              tokens_view<memory::host>(tokens),
              sequence_shape{.length = 12, .block_length = 5}};
    fake_model fake{.seed = seed, .vocab = vocab};
    fake.trouble.nan_rows = 0.1;
    fake.trouble.empty_rows = 0.1;
    while (const auto request = s.next()) {
      packed_rows<float> rows(request->rows, vocab, 0);
      for (index_t r = 0; r < request->rows; ++r) {
        fake.row<float>(tokens, request->segments[0].rows.first + r, rows.row(r));
      }
      s.supply(rows.view());
    }
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), model.mask_token), 0);
  }
}

/// Decodes with modifiers beside the naive decoder.
template <element T>
void compare_modifiers(std::uint64_t seed, int decodes, const fake_modifiers& modifiers) {
  comparisons sum;
  for (int i = 0; i < decodes; ++i) {
    dice d(mixed(seed, static_cast<std::uint64_t>(i)));
    SCOPED_TRACE(i);
    const index_t vocab = d.one_of(std::vector<index_t>{2, 5, 31, 32, 33, 64, 65, 500});
    const threshold a{d.real(0.0, 1.0)};
    naive_request request;
    request.model = {
        .vocab = vocab, .mask_token = d.within(0, vocab - 1), .logits_shift = d.within(0, 1)};
    request.geometry = {
        .prompt_length = d.within(0, 3), .length = 12, .block_length = d.within(1, 9)};
    request.score = naive(by_entropy{});
    request.rule = naive(a);
    tokens_of tokens(12, 0);
    naive_decoder beside(request, tokens);
    session s{policy{by_entropy{}, a},
              request.model,
              tokens_view<memory::host>(tokens),
              request.geometry};
    fake_model model{.seed = d.bits(), .vocab = vocab};
    // c - u of two -inf is NaN, which is the engine's affair.
    model.trouble.absent_columns = modifiers.cfg_scale != 0.0 ? 0.0 : 0.02;
    decode_beside<T>(s, tokens, beside, model, modifiers, unedited{}, sum);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(sum.commits, 6 * decodes);
  EXPECT_LE(sum.excused, sum.steps / 100);
}

TEST(session, guides_its_rows_away_from_unconditional_ones) {
  compare_modifiers<float>(1, 150, {.cfg_scale = 1.5, .unconditional_seed = 5});
  compare_modifiers<bfloat16>(2, 80, {.cfg_scale = 0.5, .unconditional_seed = 6});
  compare_modifiers<float16>(3, 80, {.cfg_scale = -0.75, .unconditional_seed = 7});
}

TEST(session, proposes_only_allowed_tokens) {
  compare_modifiers<float>(4, 150, {.forbidden = 0.4});
  compare_modifiers<bfloat16>(5, 80, {.forbidden = 0.05});
}

TEST(session, takes_a_row_in_which_nothing_is_allowed_as_invalid) {
  compare_modifiers<float>(6, 60, {.forbidden = 0.97});
}

TEST(session, guides_and_forbids_at_once) {
  compare_modifiers<float>(7, 100, {.cfg_scale = 2.0, .unconditional_seed = 8, .forbidden = 0.3});
}

TEST(session, applies_the_modifiers_of_a_row_to_that_row) {
  // Two sequences, three rows each, and every row allows one token of its own.
  const policy p{by_confidence{}, tokens_per_step{3}};
  const token_id only[] = {3, 1, 0, 2, 0, 1};
  std::vector<std::uint32_t> allowed(2 * 6, 0xffffffffU);  // a word too many in each row
  for (std::size_t r = 0; r < 6; ++r) {
    allowed[2 * r] = std::uint32_t{1} << static_cast<unsigned>(only[r]);
  }
  const row logits = repeated(row_with_confidence(0.9, 2), 6);
  const row_modifiers<float> modifiers = {.allowed = allowed.data(), .allowed_stride = 2};
  for (const bool at_once : {true, false}) {
    SCOPED_TRACE(at_once);
    session<policy<by_confidence, tokens_per_step>> s(small_model,
                                                      {.sequences = 3, .length = 3, .window = 3});
    tokens_of first(3);
    tokens_of second(3);
    s.start(0, p, first, {.length = 3});
    s.start(2, p, second, {.length = 3});
    const auto request = s.next();
    ASSERT_EQ(request->rows, 6);
    const host_logits<float> all(logits.data(), 6, small_vocab);
    if (at_once) {
      s.supply(all, modifiers);
    } else {
      s.read(1, all.subrows({3, 6}), modifiers.from_row(3));
      s.read(0, all.subrows({0, 3}), modifiers);
      s.decide();
    }
    EXPECT_EQ(first, (tokens_of{3, 1, 0}));
    EXPECT_EQ(second, (tokens_of{2, 0, 1}));
  }
}

TEST(session, guides_each_row_by_its_own_unconditional_one) {
  // z = u + 2 (c - u) with c the same everywhere: the token that u dislikes most gains most.
  session<policy<by_confidence, tokens_per_step>> s(small_model,
                                                    {.sequences = 2, .length = 2, .window = 2});
  tokens_of first(2);
  tokens_of second(2);
  s.start(0, {by_confidence{}, tokens_per_step{2}}, first, {.length = 2});
  s.start(1, {by_confidence{}, tokens_per_step{2}}, second, {.length = 2});
  ASSERT_EQ(s.next()->rows, 4);
  const row conditional(4 * small_vocab, 0.0F);
  const token_id disliked[] = {1, 0, 3, 2};
  row unconditional(4 * 7, 0.0F);
  for (std::size_t r = 0; r < 4; ++r) {
    unconditional[7 * r + static_cast<std::size_t>(disliked[r])] = -5.0F;
  }
  const row_modifiers<float> modifiers = {
      .unconditional = unconditional.data(), .unconditional_stride = 7, .cfg_scale = 1.0F};
  s.supply(host_logits<float>(conditional.data(), 4, small_vocab), modifiers);
  EXPECT_EQ(first, (tokens_of{1, 0}));
  EXPECT_EQ(second, (tokens_of{3, 2}));
}

}  // namespace
}  // namespace unmask::testing::session_test
