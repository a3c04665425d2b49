// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rule of a caller of the C interface: it decodes as the library's part with the same rule.
#include <unmask/c_parts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing::c_parts_test {
namespace {

constexpr std::int32_t vocab = 50;
constexpr std::int32_t length = 20;

// [rule]
// Commits what is certain, and at least `count` tokens a pass.
int32_t certain_or_first(void* context, const unmask_step* step, float* answers) {
  (void)context;
  for (int32_t i = 0; i < step->candidate_count; ++i) {
    const unmask_step_candidate* const c = &step->candidates[i];
    answers[i] = c->confidence > step->arguments[0] || c->rank < (int32_t)step->arguments[1];
  }
  return 0;  // another value is an error
}

unmask_status give_it_a_name(void) {
  const unmask_part_argument arguments[] = {{"value", 0.9, 0, 1, 0}, {"count", 1, 1, 64, 1}};
  unmask_part part = UNMASK_PART_INIT;
  part.name = "certain_or_first";
  part.about = "what is certain, and at least count tokens a pass";
  part.arguments = arguments;
  part.argument_count = 2;
  part.function = certain_or_first;
  return unmask_register_part(&part);  // then "certain_or_first(0.8, 2) + stop_at_eos" is a policy
}
// [/rule]

// Tokens and the number of passes.
std::vector<std::int32_t> decoded(const char* policy) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.length = o.window = length;
  const session_pointer s = made(policy, o);
  std::vector<std::int32_t> tokens(length, 3);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = length;
  q.prompt_length = 2;
  q.block_length = 9;
  EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), length, &q), UNMASK_OK) << unmask_last_error();
  const fake_model model{.seed = 3, .vocab = vocab};
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    std::vector<float> z;
    for (std::int32_t r = request.segments[0].row_first; r < request.segments[0].row_last; ++r) {
      z.resize(z.size() + std::size_t{vocab});
      model.row<float>(tokens, r, std::span(z).last(std::size_t{vocab}));
    }
    EXPECT_EQ(supply_lent(s.get(), z, vocab), UNMASK_OK) << unmask_last_error();
  }
  unmask_report report = UNMASK_REPORT_INIT;
  EXPECT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.end, UNMASK_COMPLETE);
  tokens.push_back(report.forwards);
  return tokens;
}

TEST(CParts, DecodeAsThePartsWithTheirRules) {
  ASSERT_EQ(give_it_a_name(), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(decoded("certain_or_first"), decoded("any_of(threshold(0.9), tokens_per_step(1))"));
  EXPECT_EQ(decoded("by_margin + certain_or_first(0.4, count=3)"),
            decoded("by_margin + any_of(threshold(0.4), tokens_per_step(3))"));
  EXPECT_THAT(unmask_describe_parts(),
              ::testing::HasSubstr("certain_or_first(value=0.9, count=1)\n    commit rule: what is "
                                   "certain, and at least count tokens a pass\n    value: in [0, "
                                   "1]\n    count: a whole number, in [1, 64]\n"));
  expect_fails(unmask_check_policy("certain_or_first(1.5)"),
               UNMASK_INVALID_ARGUMENT,
               {"value of certain_or_first must be in [0, 1], got 1.5"});
}

// A filter and a ranking with a context, and a stop.
TEST(CParts, OfOtherStages) {
  static float worst = 0.0F;
  unmask_part p = UNMASK_PART_INIT;
  p.stage = UNMASK_RANKING;
  p.name = "c_margins";
  p.context = &worst;
  p.function = [](void* context, const unmask_step* step, float* answers) {
    for (std::int32_t i = 0; i < step->candidate_count; ++i) {
      answers[i] = step->candidates[i].margin + *static_cast<float*>(context);
    }
    return 0;
  };
  ASSERT_EQ(unmask_register_part(&p), UNMASK_OK) << unmask_last_error();
  p.stage = UNMASK_FILTER;
  p.name = "c_odd_last";
  p.function = [](void*, const unmask_step* step, float* answers) {
    for (std::int32_t i = 0; i < step->candidate_count; ++i) {
      answers[i] = step->candidates[i].token % 2 != 0 ? UNMASK_RANKED_LAST : UNMASK_KEEP;
    }
    return 0;
  };
  ASSERT_EQ(unmask_register_part(&p), UNMASK_OK) << unmask_last_error();
  p.stage = UNMASK_STOP;
  p.name = "c_passes";
  p.function = [](void*, const unmask_step* step, float* answer) {
    *answer = step->step >= 100 ? UNMASK_MAX_STEPS : UNMASK_RUNNING;
    return 0;
  };
  ASSERT_EQ(unmask_register_part(&p), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(decoded("c_margins + tokens_per_step(2) + c_passes"),
            decoded("by_margin + tokens_per_step(2)"));
  EXPECT_NE(decoded("tokens_per_step(2) + c_odd_last"), decoded("tokens_per_step(2)"));
}

TEST(CParts, ThatFailAreNamedByTheCall) {
  unmask_part p = UNMASK_PART_INIT;
  p.name = "c_fails";
  p.function = [](void*, const unmask_step*, float*) { return std::int32_t{7}; };
  ASSERT_EQ(unmask_register_part(&p), UNMASK_OK) << unmask_last_error();
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.length = o.window = length;
  const session_pointer s = made("c_fails", o);
  std::vector<std::int32_t> tokens(length, 3);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = q.block_length = length;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), length, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(std::size_t{length} * vocab, 1.0F);
  expect_fails(
      supply_lent(s.get(), z, vocab),
      UNMASK_FAILED,
      {"the rule 'c_fails' failed in slot 0, whose sequence is cancelled: its function has "
       "returned 7"});
  unmask_report report = UNMASK_REPORT_INIT;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.end, UNMASK_CANCELLED);
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 0);
}

TEST(CParts, WithWrongMembersAreRefused) {
  const auto refused = [](const auto& change, const char* words) {
    unmask_part p = UNMASK_PART_INIT;
    p.name = "c_fine";
    p.function = [](void*, const unmask_step*, float*) { return std::int32_t{0}; };
    change(p);
    expect_fails(unmask_register_part(&p), UNMASK_INVALID_ARGUMENT, {words});
  };
  refused([](auto& p) { p.name = nullptr; }, "part->name must be a text, got null");
  refused([](auto& p) { p.name = "threshold"; }, "one that the library does not have");
  refused([](auto& p) { p.stage = 4; }, "part->stage must be one of unmask_stages, got 4");
  refused([](auto& p) { p.function = nullptr; }, "part->function must be a function, got null");
  refused([](auto& p) { p.argument_count = 5; }, "part->argument_count must be in [0, 4], got 5");
  refused([](auto& p) { p.argument_count = 1; }, "part->arguments must be a pointer, got null");
  refused([](auto& p) { p.step_size = 80; }, "part->step_size must be the sizeof");
  refused([](auto& p) { p.candidate_size = 0; }, "part->candidate_size must be the sizeof");
  refused([](auto& p) { p.struct_size = 8; }, "part->struct_size must be the sizeof");
  static const unmask_part_argument nameless[] = {{nullptr, 0, 0, 0, 0}};
  refused(
      [](auto& p) {
        p.argument_count = 1;
        p.arguments = nameless;
      },
      "part->arguments->name must be a text, got null");
  expect_fails(unmask_register_part(nullptr), UNMASK_INVALID_ARGUMENT, {"part"});
}

}  // namespace
}  // namespace unmask::testing::c_parts_test
