// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of released code where their recorded traces have no case, by their descriptions.
#include <unmask/policy/presets/released.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"
#include "support/part_of.hpp"

namespace unmask::testing::released_test {
namespace {

float bits(std::uint32_t x) {
  return math::from_bits(x);
}

TEST(bf16, rounds_to_the_nearest_and_ties_to_even) {
  EXPECT_EQ(released::bf16_rounded(bits(0x3f007fff)), bits(0x3f000000));
  EXPECT_EQ(released::bf16_rounded(bits(0x3f008000)), bits(0x3f000000));
  EXPECT_EQ(released::bf16_rounded(bits(0x3f008001)), bits(0x3f010000));
  EXPECT_EQ(released::bf16_rounded(bits(0x3f018000)), bits(0x3f020000));
  EXPECT_EQ(released::bf16_rounded(1.0F), 1.0F);
}

TEST(fast_dllm, has_the_values_of_its_release) {
  auto over = released::fast_dllm_threshold(0.8F);
  EXPECT_EQ(part_of<threshold>(over).value, 0.8F);
  EXPECT_TRUE(part_of<threshold>(over).inclusive);
  EXPECT_EQ(part_of<released::fast_dllm_blocks>(over).least, 1);
  auto factored = released::fast_dllm_factor(0.5F, 2);
  EXPECT_EQ(part_of<factor>(factored).value, 0.5F);
  EXPECT_TRUE(part_of<factor>(factored).accept_last);
  EXPECT_EQ(part_of<released::fast_dllm_blocks>(factored).least, 2);
}

TEST(dream, ends_after_its_steps) {
  auto p = released::dream(by_entropy{}, 5);
  EXPECT_EQ(part_of<timesteps>(p).steps, 5);
  EXPECT_EQ(part_of<max_steps>(p).steps, 5);
}

TEST(dynamic_dllm, has_the_values_of_its_release) {
  auto cache = released::dynamic_dllm_cache();
  EXPECT_EQ(cache.prompt_period, 5000);
  EXPECT_EQ(cache.answer_period, 5000);
  EXPECT_EQ(part_of<adaptive_threshold>(released::dynamic_dllm_per_token()).begin, 1);
  const auto expect = [](const auto& rule, index_t stride) {
    EXPECT_EQ(rule.budget, 32);
    EXPECT_EQ(rule.window, 32);
    EXPECT_EQ(rule.full_layers, 1);
    EXPECT_EQ(rule.share, sharing::released);
    EXPECT_EQ(rule.scope, budget_scope::outside_window);
    EXPECT_TRUE(rule.answer_only);
    EXPECT_TRUE(rule.latest_only);
    EXPECT_TRUE(rule.whole_window);
    EXPECT_EQ(rule.refresh_stride, stride);
  };
  expect(released::cache_budget_released<feature::value>(), 0);
  expect(released::cache_budget_released<feature::input>(), 4);
}

TEST(es_dllm, has_the_values_of_its_release) {
  const auto expect = [](const auto& p) {
    const early_skip& skip = part_of<early_skip>(p);
    EXPECT_EQ(skip.weight, 0.5F);
    EXPECT_TRUE(skip.floor);
    EXPECT_TRUE(skip.cap);
    EXPECT_EQ(skip.first_masked, 5.0F);
    EXPECT_EQ(skip.committed, 3.0F);
    EXPECT_EQ(skip.confident, 2.0F);
    EXPECT_TRUE(skip.forgets_held);
    const block_cache& cache = part_of<block_cache>(p);
    EXPECT_EQ(cache.prompt_period, 64);
    EXPECT_EQ(cache.block_period, 16);
    EXPECT_TRUE(cache.reaches_back);
    EXPECT_TRUE(cache.aligned);
    EXPECT_TRUE(part_of<eos_gate>(p).until_first);
  };
  auto fixed = released::es_dllm_fixed(2);
  expect(fixed);
  EXPECT_EQ(part_of<tokens_per_step>(fixed).count, 2);
  EXPECT_EQ(part_of<threshold>(fixed).value, 0.0F);
  auto parallel = released::es_dllm_parallel(0.8F);
  expect(parallel);
  EXPECT_EQ(part_of<threshold>(parallel).value, 0.8F);
  EXPECT_FALSE(part_of<threshold>(parallel).inclusive);
}

/// Plans a branch that has placed the token of position 0, of 66 blocks of one position, beside an
/// anchor with 63 of them. The first `full` blocks are complete in the branch.
plan planned_for_a_branch(index_t full, index_t begun = 0) {
  std::vector<mark> marks(66, mark::masked);
  std::fill_n(marks.begin(), full, mark::committed);
  const std::vector<token_id> tokens(66, 0);
  sequence_view branch;
  branch.tokens = tokens.data();
  branch.marks = marks.data();
  branch.length = 66;
  branch.masked_count = 66 - full;
  const block_pipeline::sequence_state anchor{.first = begun, .last = 63};
  struct {
    released::d2f_blocks::sequence_state sequence;
  } context{{anchor, anchor}};
  plan next;
  next.last_block = 63;
  released::d2f_blocks{.add = 0.0F}.replan(branch, next, context);
  EXPECT_EQ(context.sequence.now.last, next.last_block);
  return next;
}

TEST(lopa, plans_as_many_blocks_for_a_branch_as_a_plan_can_have) {
  const plan one_more = planned_for_a_branch(1);
  EXPECT_EQ(one_more.last_block, max_active_blocks);
  EXPECT_EQ(one_more.score.last, max_active_blocks);
  EXPECT_EQ(one_more.query.last, max_active_blocks);
  EXPECT_EQ(planned_for_a_branch(64).last_block, 63);  // it would need 65
  EXPECT_EQ(planned_for_a_branch(64, 1).last_block, 65);
  EXPECT_THROW(released::d2f_blocks{.add = 2.0F}.check({.length = 8, .block_length = 4}),
               std::invalid_argument);
}

TEST(lopa, lets_a_complete_branch_win) {
  auto p = released::lopa({.branches = 2}, 0.8F);
  EXPECT_TRUE(part_of<lookahead_by<by_entropy>>(p).complete_wins);
  EXPECT_EQ(part_of<lookahead_by<by_entropy>>(p).branches, 2);
  EXPECT_EQ(part_of<threshold>(p).value, 0.8F);
}

// 3 blocks of 4 behind the prompt, of which the last has 2 positions.
constexpr sequence_shape shape{.prompt_length = 3, .length = 13, .block_length = 4};

TEST(released, declares_the_passes_of_its_loops) {
  EXPECT_EQ(released::fast_dllm_blocks{2}.extra_forwards(shape), 3 * 2);
  EXPECT_EQ(most_forwards(released::llada_low_confidence(5), shape), 10 + 3 * 5);
  EXPECT_EQ((released::quota_above{7, 0.9F}.extra_forwards(shape)), 7);
  EXPECT_EQ(released::es_dllm_blocks{}.extra_forwards(shape), 4);  // of the last block
  EXPECT_EQ(released::d2f_blocks{}.extra_forwards(shape), 3);
  EXPECT_EQ(released::dinfer_blocks{.unroll = 5}.extra_forwards(shape), 4 * 5);  // may be aligned
  // One block more, because they are aligned; in each a pass that finds it complete and one that
  // decides nothing. The first and the last may have positions outside the answer.
  EXPECT_EQ(released::sglang_blocks{}.extra_forwards(shape), 4 * 2 + 2 * 4);
  EXPECT_EQ(released::sglang_edited_blocks{6}.extra_forwards(shape), 4 * (6 + 2) + 2 * 4);
}

TEST(released, declares_the_positions_that_a_step_scores) {
  EXPECT_EQ(released::llada_blocks{}.reach(shape), 10);
  EXPECT_EQ(released::quota_above{}.reach(shape), 10);
  EXPECT_EQ(released::d2f_blocks{}.reach(shape), 10);
  const sequence_shape longer{.prompt_length = 3, .length = 300, .block_length = 4};
  EXPECT_EQ(released::d2f_blocks{}.reach(longer), max_active_blocks * 4);
}

/// Decodes rows with the confidence .95, and expects that the keys before each block are final.
template <class Policy>
sequence_report expect_frozen_prefixes(const Policy& p, index_t origin) {
  std::vector<token_id> tokens(13);
  session s{by_name(p), small_model, tokens_view<memory::host>(tokens), shape};
  const std::vector<row> table(13, row_with_confidence(0.95));
  while (const auto request = s.next()) {
    const index_t behind = s.planned().score.last - 1 - origin;
    EXPECT_EQ(s.planned().freeze, (range{0, origin + behind / 4 * 4}));
    const row logits = packed(table, request->segments[0].rows);
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  }
  return s.report();
}

TEST(released, freezes_the_keys_before_a_block) {
  EXPECT_EQ(expect_frozen_prefixes(released::fast_dllm_threshold(0.9F), 3).end, ending::complete);
  EXPECT_EQ(expect_frozen_prefixes(released::dinfer_threshold(0.9F), 3).end, ending::complete);
  EXPECT_EQ(expect_frozen_prefixes(released::sglang_low_confidence(0.9F), 0).end, ending::complete);
  EXPECT_EQ(expect_frozen_prefixes(released::sglang_joint_threshold(0.9F, 0.9F), 0).end,
            ending::complete);
}

TEST(dinfer, ends_with_an_eos_token) {
  model_info model = small_model;
  model.eos_token = 0;
  for (const bool early_stop : {true, false}) {
    const auto p = released::dinfer_threshold(0.9F, {.early_stop = early_stop});
    const history h =
        decode_rows(p, std::vector<row>(13, row_with_confidence(0.95)), {.block_length = 4}, model);
    EXPECT_EQ(h.report.end, ending::eos_token);
    EXPECT_EQ(h.report.committed, 4);
  }
}

TEST(dinfer, does_not_take_a_given_eos_token_of_the_next_block_for_one_of_this) {
  model_info model = small_model;
  model.eos_token = 3;
  std::vector<token_id> tokens(8, 3);
  std::vector<std::uint8_t> editable(8, 1);
  editable[4] = 0;
  const auto p = released::dinfer_threshold(0.9F, {.early_stop = true});
  session<std::remove_const_t<decltype(p)>> s{model, {.length = 8, .window = 4}};
  s.start(0, p, tokens, {.length = 8, .block_length = 4}, {.editable = editable, .suppressed = {}});
  std::vector<index_t> committed;
  while (const auto request = s.next()) {
    const range rows = request->segments[0].rows;
    const row logits = packed(std::vector<row>(8, row_with_confidence(0.95)), rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    for (const commit_entry& e : s.committed()) {
      committed.push_back(e.position);
    }
  }
  EXPECT_EQ(committed, (std::vector<index_t>{0, 1, 2, 3, 5, 6, 7}));
}

TEST(quota_above, commits_nothing_where_there_are_more_steps_than_positions) {
  const history h =
      decode_confidences(released::dream_confidence_threshold(4, 0.9F), {0.95, 0.95, 0.95});
  EXPECT_EQ(h.counts(), (std::vector<std::size_t>{0, 0, 0, 0}));
  EXPECT_EQ(h.report.end, ending::max_steps);
}

TEST(quota_above, postpones_what_is_below_the_threshold) {
  const std::vector<double> same(5, 0.5);
  const auto counts = [&](float threshold, index_t steps) {
    return decode_confidences(released::dream_confidence_threshold(steps, threshold), same)
        .counts();
  };
  using steps = std::vector<std::size_t>;
  // 5 / 2 a step: what the division leaves is never committed, the postponed in steps of their own.
  EXPECT_EQ(counts(0.9F, 2), (steps{1, 1, 1, 1}));
  EXPECT_EQ(counts(confidence_of(row_with_confidence(0.5)), 1), steps{5}) << "inclusive";
}

TEST(quota_above, does_not_commit_a_postponed_position_whose_row_is_invalid) {
  std::vector<token_id> tokens(2);
  session s{released::dream_confidence_threshold(1, 0.9F),
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 2, .block_length = 2}};
  row second(small_vocab, std::numeric_limits<float>::quiet_NaN());
  for (const row& z : {row_with_confidence(0.5), second}) {
    const range rows = s.next().value().segments[0].rows;
    const row logits = packed({z, z}, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
  }
  EXPECT_EQ(tokens, (std::vector<token_id>{0, 4}));
  EXPECT_EQ(s.report().end, ending::max_steps);
}

TEST(quota_above, counts_as_postponed_what_follows_the_last_one_above) {
  // .6 and .6 reach the threshold, so that 3 of 5 are postponed to a second step.
  const float threshold = confidence_of(row_with_confidence(0.6));
  const history h = decode_confidences(released::dream_confidence_threshold(1, threshold),
                                       {0.6, 0.5, 0.6, 0.5, 0.5});
  EXPECT_EQ(h.counts(), (std::vector<std::size_t>{2, 1, 1, 1}));
}

/// Decodes blocks of two with rows whose best token is that of the pass; -1: the mask token.
template <class Policy>
history decode_passes(const Policy& p, const std::vector<token_id>& best, std::size_t length = 2) {
  model_info model = small_model;
  model.suppress_mask = false;
  history h;
  h.tokens.assign(length, 0);
  const auto positions = static_cast<index_t>(length);
  session s{
      p, model, tokens_view<memory::host>(h.tokens), {.length = positions, .block_length = 2}};
  for (std::size_t pass = 0; const auto request = s.next(); ++pass) {
    row logits;
    for (index_t r = 0; r < request->rows; ++r) {
      row z(small_vocab, 0.0F);
      const token_id token = best[std::min(pass, best.size() - 1)];
      z[static_cast<std::size_t>(token < 0 ? model.mask_token : token)] = 9.0F;
      logits.insert(logits.end(), z.begin(), z.end());
    }
    EXPECT_EQ(request->rows, s.planned().score.size()) << "of a pass that decides nothing, too";
    s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
  }
  h.report = s.report();
  return h;
}

TEST(sglang_blocks, gives_each_block_up_that_stays_masked) {
  // In each block 2 + 1 passes decide, and propose the mask token; one more decides nothing.
  const history h = decode_passes(released::sglang_low_confidence(0.5F), {-1}, 4);
  EXPECT_EQ(h.tokens, (std::vector<token_id>{4, 4, 4, 4}));
  EXPECT_EQ(h.report.forwards, 8);
}

TEST(sglang_edited_blocks, edits_a_complete_block_so_often) {
  // Every pass proposes other tokens: one commits, one edits, and the next decides nothing.
  const history h =
      decode_passes(released::sglang_joint_threshold(0.5F, 0.5F, 1), {0, 1, 2, 3, 0, 1}, 4);
  EXPECT_EQ(h.tokens, (std::vector<token_id>{1, 1, 0, 0}));
  EXPECT_EQ(h.report.forwards, 2 * 3);
}

TEST(sglang_edited_blocks, gives_a_block_up_that_stays_masked) {
  // In each block 2 + 1 + 1 passes decide, and propose the mask token; one more decides nothing.
  const history h = decode_passes(
      released::sglang_joint_threshold(0.5F, 0.5F, 1), {-1, -1, -1, -1, 2, -1, -1, -1, -1, 2}, 4);
  EXPECT_EQ(h.tokens, (std::vector<token_id>{4, 4, 4, 4}));
  EXPECT_EQ(h.report.forwards, 2 * 5);
  EXPECT_EQ(h.report.end, ending::max_steps);
}

/// A candidate of some confidence, and the context of a rule that has found nothing yet.
struct sure_candidate {
  float sure = 0.0F;
  token_id token = 1;
  token_id current = 4;
  [[nodiscard]] float confidence() const { return sure; }
};

TEST(threshold_or_best, commits_from_the_threshold_itself_on) {
  const released::threshold_or_best rule{0.5F};
  const float below = std::nextafter(0.5F, 0.0F);
  const rank_info first{.rank = 0};
  rank_info second{.rank = 1};
  second.largest_before = 0.9F;
  EXPECT_TRUE(rule.commits(sure_candidate{0.5F}, second));
  EXPECT_FALSE(rule.commits(sure_candidate{below}, second));
  EXPECT_TRUE(rule.commits(sure_candidate{below}, first));  // the best one
  second.largest_before = 0.25F;
  const float close = 0.25F - 1e-5F;
  EXPECT_TRUE(rule.commits(sure_candidate{close}, second));
  EXPECT_FALSE(rule.commits(sure_candidate{std::nextafter(close, 0.0F)}, second));
  EXPECT_FALSE(rule.commits(sure_candidate{0.9F, 4}, first));  // proposes the mask token
}

TEST(falling_threshold, commits_from_the_threshold_itself_on) {
  using rule = released::falling_threshold;
  struct {
    rule::sequence_state sequence;
    rule::step_reduction step_reduction;
    step_info at;
  } context;
  const rule r{.start = 0.5F, .lower = 0.25F, .raise = 0.0F};
  EXPECT_TRUE(r.commits(sure_candidate{0.5F}, rank_info{}, context));
  EXPECT_FALSE(r.commits(sure_candidate{std::nextafter(0.5F, 0.0F)}, rank_info{}, context));
  context.step_reduction = {.count = 2, .clear = 2.0F, .drift = 1.0F};
  EXPECT_EQ(r.threshold(context), 0.25F);
  EXPECT_TRUE(r.commits(sure_candidate{0.25F}, rank_info{}, context));
  EXPECT_FALSE(r.commits(sure_candidate{std::nextafter(0.25F, 0.0F)}, rank_info{}, context));
}

TEST(es_dllm_blocks, gives_each_block_up_after_as_many_passes_as_it_has_positions) {
  // Every pass proposes the mask token, which commits nothing.
  const policy p{by_confidence{}, threshold{0.9F}, released::es_dllm_blocks{}};
  const history h = decode_passes(p, {-1}, 5);
  EXPECT_EQ(h.tokens, (std::vector<token_id>(5, 4)));
  EXPECT_EQ(h.report.forwards, 2 + 2 + 2);
  EXPECT_EQ(h.report.masked, 5);
}

}  // namespace
}  // namespace unmask::testing::released_test
