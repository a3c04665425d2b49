// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of an engine's scheduler: session::abandon() and cancel_request(), for a forward pass that
// failed, and session::next(slots), which leaves sequences out of a pass.
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "support/by_name.hpp"

namespace {

using namespace unmask;
using unmask::testing::by_name;

constexpr model_info model{.vocab = 13, .mask_token = 0};
constexpr sequence_shape shape{.prompt_length = 2, .length = 18, .block_length = 6};

// Logits that depend on the tokens, the slot and the row.
std::vector<float> forward(const forward_request& request,
                           const std::vector<std::vector<token_id>>& tokens) {
  std::vector<float> out;
  for (const segment& s : request.segments) {
    std::vector<token_id> seen = tokens[static_cast<std::size_t>(s.slot)];
    for (const auto& placed : s.placed) {
      seen[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    unsigned long hash = 7 + static_cast<unsigned long>(s.slot);
    for (const token_id t : seen) {
      hash = hash * 31 + static_cast<unsigned long>(t) + 1;
    }
    for (index_t r = s.rows.first; r < s.rows.last; ++r) {
      for (index_t v = 0; v < model.vocab; ++v) {
        const unsigned long mixed = (hash + static_cast<unsigned long>(r * 97 + v)) * 2654435761U;
        out.push_back(static_cast<float>(mixed % 4093U) / 512.0F);
      }
    }
  }
  return out;
}

// Decodes two sequences; pass k is abandoned first `failures(k)` times.
template <class Policy>
std::vector<std::vector<token_id>> decode(const Policy& p, const auto& failures) {
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(18, 3));
  session<Policy> s(model, {.sequences = 2, .length = 18, .window = 18, .branches = 4});
  for (index_t slot = 0; slot < 2; ++slot) {
    s.start(slot, p, {tokens[static_cast<std::size_t>(slot)].data(), 18}, shape);
  }
  for (int pass = 0; s.next(); ++pass) {
    for (int k = 0; k < failures(pass); ++k) {
      s.abandon();
      EXPECT_TRUE(s.next());
    }
    const auto request = s.next();
    const std::vector<float> logits = forward(*request, tokens);
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
  }
  return tokens;
}

void expect_no_effect(const auto& composed) {
  const auto p = by_name(composed);
  EXPECT_EQ(decode(p, [](int) { return 0; }), decode(p, [](int pass) { return pass % 3; }));
}

TEST(Abandon, ChangesNoDecode) {
  expect_no_effect(policy{by_confidence{}, threshold{0.4F}});
  expect_no_effect(policy{by_confidence{}, trace_credit<>{}, threshold{0.4F}});
  expect_no_effect(policy{by_entropy{}, tokens_per_step{2}, sampling{}, temperature{0.7F}});
  expect_no_effect(policy{by_confidence{}, threshold{0.4F} || tokens_per_step{1}, lookahead{3}});
  expect_no_effect(policy{by_confidence{}, adaptive_threshold{.start = 0.5F, .lower = 0.1F}});
}

TEST(Abandon, LetsSequencesLeaveAndJoinInMidStep) {
  const auto greedy = by_name(policy{by_confidence{}, tokens_per_step{1}});
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(18, 3));
  session<std::remove_const_t<decltype(greedy)>> s(model,
                                                   {.sequences = 2, .length = 18, .window = 6});
  s.start(0, greedy, {tokens[0].data(), 18}, shape);
  s.start(1, greedy, {tokens[1].data(), 18}, shape);
  ASSERT_EQ(s.next()->segments.size(), 2U);
  s.abandon();
  s.cancel(0);
  ASSERT_EQ(s.next()->segments.size(), 1U);
  EXPECT_EQ(s.next()->segments[0].slot, 1);
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  s.abandon();
  s.start(0, greedy, {tokens[0].data(), 18}, shape);
  EXPECT_EQ(s.next()->segments.size(), 2U);
}

TEST(Abandon, IsRefusedWithoutARequestAndAfterRead) {
  const auto greedy = by_name(policy{by_confidence{}, tokens_per_step{1}});
  std::vector<token_id> tokens(18, 3);
  session s(greedy, model, tokens_view<memory::host>{tokens.data(), 18}, shape);
  EXPECT_THROW(s.abandon(), std::logic_error);
  const auto request = s.next();
  const std::vector<float> logits = forward(*request, {tokens});
  s.read(0, host_logits<float>(logits.data(), request->rows, model.vocab));
  EXPECT_THROW(s.abandon(), std::logic_error);
  s.decide();
  EXPECT_THROW(s.abandon(), std::logic_error);
  EXPECT_EQ(s.report().forwards, 1);
  ASSERT_TRUE(s.next());
  s.abandon();  // the next request can be
}

TEST(CancelRequest, EndsItsSequencesAndFreesTheirSlots) {
  const auto branches =
      by_name(policy{by_confidence{}, threshold{0.4F} || tokens_per_step{1}, lookahead{2}});
  std::vector<std::vector<token_id>> tokens(3, std::vector<token_id>(18, 3));
  session<std::remove_const_t<decltype(branches)>> s(
      model, {.sequences = 3, .length = 18, .window = 6, .branches = 2});
  EXPECT_THROW(s.cancel_request(), std::logic_error);
  for (index_t slot = 0; slot < 3; ++slot) {
    s.start(slot, branches, {tokens[std::size_t(slot)].data(), 18}, shape);
  }
  std::vector<index_t> some{0, 2};
  const auto pass = [&](const forward_request& request) {
    const std::vector<float> logits = forward(request, tokens);
    s.supply(host_logits<float>(logits.data(), request.rows, model.vocab));
  };
  pass(*s.next());
  const auto request = s.next(some);
  ASSERT_TRUE(request);
  const std::size_t segments = request->segments.size();
  ASSERT_GT(segments, 2U);  // branches
  const std::vector<float> logits = forward(*request, tokens);
  const host_logits<float> all(logits.data(), request->rows, model.vocab);
  s.read(0, all.subrows({0, request->segments[0].rows.size()}));
  EXPECT_THROW(s.abandon(), std::logic_error);
  const auto cancelled = s.cancel_request();
  ASSERT_EQ(cancelled.size(), segments);
  EXPECT_EQ(cancelled.front().slot, 0);
  EXPECT_EQ(cancelled.back().slot, 2);
  EXPECT_THROW(s.cancel_request(), std::logic_error);
  EXPECT_THROW(s.decide(), std::logic_error);
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  EXPECT_EQ(s.report(1).end, ending::running);
  EXPECT_EQ(s.report(2).end, ending::cancelled);

  // Slots 0 and 2 decode as in a new session, and slot 1 as if nothing had happened.
  std::vector<std::vector<token_id>> expected(3, std::vector<token_id>(18, 3));
  decltype(s) fresh(model, {.sequences = 3, .length = 18, .window = 6, .branches = 2});
  for (index_t slot = 0; slot < 3; ++slot) {
    fresh.start(slot, branches, {expected[std::size_t(slot)].data(), 18}, shape);
  }
  while (const auto wanted = fresh.next()) {
    const std::vector<float> rows = forward(*wanted, expected);
    fresh.supply(host_logits<float>(rows.data(), wanted->rows, model.vocab));
  }
  for (const index_t slot : some) {
    tokens[std::size_t(slot)].assign(18, 3);
    s.start(slot, branches, {tokens[std::size_t(slot)].data(), 18}, shape);
  }
  while (const auto wanted = s.next()) {
    pass(*wanted);
  }
  EXPECT_EQ(tokens, expected);
}

using slots = std::vector<index_t>;

// Decodes three sequences, of which pass k computes those of chosen(k).
template <class Policy>
std::vector<std::vector<token_id>> decode_some(const Policy& p, const auto& chosen) {
  std::vector<std::vector<token_id>> tokens(3, std::vector<token_id>(18, 3));
  session<Policy> s(model, {.sequences = 3, .length = 18, .window = 18, .branches = 4});
  for (index_t slot = 0; slot < 3; ++slot) {
    s.start(slot, p, {tokens[static_cast<std::size_t>(slot)].data(), 18}, shape);
  }
  for (int pass = 0; !s.finished() && pass < 1000; ++pass) {
    const slots some = chosen(pass);
    const auto request = s.next(some);
    if (!request) {
      continue;
    }
    std::vector<index_t> before;
    for (index_t slot = 0; slot < 3; ++slot) {
      before.push_back(s.report(slot).forwards);
    }
    for (const segment& part : request->segments) {
      EXPECT_NE(std::find(some.begin(), some.end(), part.slot), some.end());
    }
    const std::vector<float> logits = forward(*request, tokens);
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
    for (index_t slot = 0; slot < 3; ++slot) {
      const bool is_in = std::any_of(request->segments.begin(),
                                     request->segments.end(),
                                     [&](const segment& part) { return part.slot == slot; });
      EXPECT_EQ(s.report(slot).forwards, before[static_cast<std::size_t>(slot)] + (is_in ? 1 : 0));
      EXPECT_TRUE(is_in || s.committed(slot).empty());
    }
  }
  EXPECT_TRUE(s.finished());
  return tokens;
}

void expect_equal_in_parts(const auto& composed) {
  const auto p = by_name(composed);
  const auto together = decode_some(p, [](int) { return slots{0, 1, 2}; });
  EXPECT_EQ(together, decode_some(p, [](int pass) { return slots{pass % 3}; }));
  EXPECT_EQ(together, decode_some(p, [](int pass) {
              return pass < 4 ? slots{2, 0} : pass % 2 == 0 ? slots{1} : slots{0, 1, 2};
            }));
  EXPECT_EQ(together,
            decode_some(p, [](int pass) { return pass < 30 ? slots{1} : slots{2, 1, 0}; }));
}

TEST(NextOfSlots, DecodesEachSequenceAsInAFullBatch) {
  expect_equal_in_parts(policy{by_confidence{}, threshold{0.4F}});
  expect_equal_in_parts(policy{by_confidence{}, trace_credit<>{}, threshold{0.4F}});
  expect_equal_in_parts(policy{by_entropy{}, tokens_per_step{2}, sampling{}, temperature{0.7F}});
  expect_equal_in_parts(
      policy{by_confidence{}, threshold{0.4F} || tokens_per_step{1}, lookahead{3}});
  expect_equal_in_parts(policy{by_confidence{}, stable_and_confident{}});
  expect_equal_in_parts(policy{by_confidence{}, steady_leader{2} || threshold{0.4F}});
  expect_equal_in_parts(policy{by_confidence{}, tokens_per_step{2}, sampling{}, top_p{0.9F}});
}

TEST(NextOfSlots, ReturnsNothingIfNoneOfThemRuns) {
  const auto greedy = by_name(policy{by_confidence{}, tokens_per_step{1}});
  std::vector<token_id> tokens(18, 3);
  session<std::remove_const_t<decltype(greedy)>> s(model,
                                                   {.sequences = 2, .length = 18, .window = 6});
  s.start(0, greedy, {tokens.data(), 18}, shape);
  EXPECT_FALSE(s.next(slots{1}));
  EXPECT_FALSE(s.next(slots{}));
  EXPECT_FALSE(s.finished());
  EXPECT_EQ(s.next(slots{0})->segments.size(), 1U);
}

TEST(NextOfSlots, RefusesWrongSlotsAndARequestThatIsOut) {
  const auto greedy = by_name(policy{by_confidence{}, tokens_per_step{1}});
  std::vector<token_id> tokens(18, 3);
  session<std::remove_const_t<decltype(greedy)>> s(model,
                                                   {.sequences = 2, .length = 18, .window = 6});
  s.start(0, greedy, {tokens.data(), 18}, shape);
  EXPECT_THROW(static_cast<void>(s.next(slots{2})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(s.next(slots{-1})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(s.next(slots{0, 0})), std::invalid_argument);
  ASSERT_TRUE(s.next());
  EXPECT_THROW(static_cast<void>(s.next(slots{0})), std::logic_error);
  s.abandon();
  EXPECT_TRUE(s.next(slots{0}));
  s.abandon();
  EXPECT_TRUE(s.next());  // leaves no slot out
}

}  // namespace
