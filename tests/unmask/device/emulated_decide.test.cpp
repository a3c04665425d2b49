// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The body that decides a step, run by thread groups of many lanes: it must do what one lane does,
// bit by bit, whatever the number of lanes, the order they come in, and what earlier steps left in
// the memory that each step writes anew.

#include <unmask/core/validate.hpp>
#include <unmask/cuda/decide_slot.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <typeinfo>
#include <vector>

#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "unmask/device/policies.hpp"
#include "unmask/device/texts.hpp"

namespace unmask::testing::emulated_decide_test {
namespace {

// Decides slot 0, in a block.
template <class Policy>
void decide(block_emulator& block,
            const device::session_device_view<Policy>& device_view,
            std::byte* scratch) {
  device::decide_space<Policy> space;
  block.run(
      [&](const emulated_block& b) { device::decide_slot(b, device_view, 0, scratch, space); });
}

/// A sequence in a slot of its own.
template <class Policy>
struct lone_slot {
  std::vector<token_id> tokens;
  std::vector<std::byte> memory;
  step::slot_status status;
  step::slot_memory<Policy> m;
  std::vector<std::uint32_t> supplied;
  device::session_device_view<Policy> device_view;

  lone_slot(const Policy& p, session_capacity capacity, const std::vector<token_id>& prompt)
      : tokens(prompt)
      , memory(step::slot_bytes<Policy>(step::needs_of(p, capacity), capacity) +
               step::slot_layout::alignment) {
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    at = (at + step::slot_layout::alignment - 1) / step::slot_layout::alignment *
         step::slot_layout::alignment;
    m = step::slot_at<Policy>(
        reinterpret_cast<std::byte*>(at), step::needs_of(p, capacity), capacity);
    m.status = &status;
    supplied.resize(static_cast<std::size_t>(1 + capacity.branches));
    device_view.slots = &m;
    device_view.branches = capacity.branches;
    device_view.supplied = supplied.data();
  }
  lone_slot(const lone_slot&) = delete;
  lone_slot& operator=(const lone_slot&) = delete;
};

/// Possible results of a read: few different values, so that ranks tie, and bad rows among them.
template <statistics S>
record<S> any_record(dice& d, index_t vocab) {
  record<S> r = record<S>::empty();
  if (d.chance(0.03)) {
    return r;
  }
  r.best = static_cast<float>(d.within(-3, 3));
  r.token = d.within(0, vocab - 1);
  const float rest = d.chance(0.05) ? -math::infinity() + math::infinity()
                                    : 0.25F * static_cast<float>(d.within(0, 12));
  if constexpr (provides_v<S, stat::confidence>) {
    r.rest = rest;
  }
  if constexpr (provides_v<S, stat::margin>) {
    r.second = r.best - 0.5F * static_cast<float>(d.within(0, 4));
  }
  if constexpr (provides_v<S, stat::entropy>) {
    r.weighted = -0.5F * rest;
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    r.square = 1.0F + 0.25F * rest;
  }
  return r;
}

/// Puts the same rows into both slots, as if they had been read.
template <class Policy>
void read_rows(const lone_slot<Policy>& a, const lone_slot<Policy>& b, index_t vocab, dice& d) {
  const plan& now = a.status.next;
  for (index_t branch = 0; branch <= now.branches; ++branch) {
    a.device_view.supplied[branch] = 1;
    b.device_view.supplied[branch] = 1;
    for (index_t i = 0; i < a.m.read_range().size(); ++i) {
      if (!a.m.reads(branch, i)) {
        continue;
      }
      a.m.row(branch, i) = any_record<Policy::required>(d, vocab);
      const tracked_logits kept = a.m.kept_apart(branch, i);
      const tracked_logits twin = b.m.kept_apart(branch, i);
      ASSERT_EQ(kept.count, twin.count);
      for (index_t k = 0; k < kept.count; ++k) {
        ASSERT_EQ(kept.tokens[k], twin.tokens[k]);
        kept.logits[k] = d.real(-3, 3);
        twin.logits[k] = kept.logits[k];
      }
      // Tracked tokens are not in the record, which is empty if they are all.
      const auto is_tracked = [&](token_id v) {
        return find_token(kept.tokens, kept.count, v) >= 0;
      };
      record<Policy::required>& row = a.m.row(branch, i);
      token_id v = 0;
      while (v < vocab && is_tracked(v)) {
        ++v;
      }
      while (row.token != no_token && v < vocab && is_tracked(row.token)) {
        row.token = d.within(0, vocab - 1);
      }
      row = v < vocab ? row : record<Policy::required>::empty();
      b.m.row(branch, i) = row;
    }
  }
}

/// Overwrites with random values what no step may read before it has written it.
template <class Policy>
void overwrite_scratch(const lone_slot<Policy>& slot, dice& d) {
  const step::slot_memory<Policy>& m = slot.m;
  const auto window = static_cast<std::size_t>(m.window);
  const auto rows = static_cast<std::size_t>(m.rows);
  const auto fill = [&d](auto* at, std::size_t count, auto value) {
    for (std::size_t k = 0; at != nullptr && k < count; ++k) {
      at[k] = value(d);
    }
  };
  const auto number = [](dice& from) { return from.real(-9, 9); };
  const auto coin = [](dice& from) { return from.chance(0.5); };
  const auto index = [&](dice& from) { return from.within(-1, m.window - 1); };
  fill(m.keys, static_cast<std::size_t>(step::sort_size(m.window)), [](dice& from) {
    return from.bits();
  });
  fill(m.roles, window, [](dice& from) { return static_cast<step::role>(from.within(0, 8)); });
  fill(m.cost_before, window, number);
  fill(m.largest_before, window, number);
  fill(m.ranks, window, index);
  fill(m.anchors, window, coin);
  fill(m.lookahead_scores, rows, number);
  fill(m.is_masked, rows, coin);
  fill(m.is_low, rows, coin);
  fill(m.branch_scores, static_cast<std::size_t>(1 + m.capacity.branches), number);
  fill(m.traced, window, [](dice&) { return candidate_entry{}; });
  fill(m.reasons, window, [&](dice& from) {
    return step::role_reason{from.within(-1, 9), from.chance(0.5)};
  });
  for (index_t k = slot.status.report.last_commits; k <= m.window; ++k) {
    m.entries[k] = {.position = index(d), .token = 0};
  }
  for (index_t branch = 0; static_cast<std::size_t>(branch * m.window) < rows; ++branch) {
    for (index_t i = 0; i < m.window; ++i) {
      const bool is_read = slot.status.next.active() && branch <= slot.status.next.branches &&
                           i < m.read_range().size() && m.reads(branch, i);
      if (!is_read) {
        m.row(branch, i) = any_record<Policy::required>(d, m.vocab);
      }
    }
  }
}

/// The elements of a step's arrays behind those of its scored positions.
template <class Policy>
std::vector<double> behind(const lone_slot<Policy>& slot, index_t scored) {
  const step::slot_memory<Policy>& m = slot.m;
  std::vector<double> all;
  const auto add = [&](const auto* at) {
    for (index_t i = scored; at != nullptr && i < m.window; ++i) {
      all.push_back(static_cast<double>(at[i]));
    }
  };
  for (index_t i = step::sort_size(scored); i < step::sort_size(m.window); ++i) {
    all.push_back(static_cast<double>(m.keys[i]));
  }
  add(m.roles);
  add(m.cost_before);
  add(m.largest_before);
  add(m.ranks);
  add(m.anchors);
  for (index_t first = 0; m.is_low != nullptr && first < m.rows; first += m.window) {
    add(m.lookahead_scores + first);
    add(m.is_masked + first);
    add(m.is_low + first);
  }
  return all;
}

void expect_equal(const plan& a, const plan& b) {
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.started, b.started);
  EXPECT_EQ(a.query, b.query);
  EXPECT_EQ(a.score, b.score);
  EXPECT_EQ(a.forced, b.forced);
  EXPECT_EQ(a.first_block, b.first_block);
  EXPECT_EQ(a.last_block, b.last_block);
  EXPECT_EQ(a.freeze, b.freeze);
  ASSERT_EQ(a.branches, b.branches);
  EXPECT_EQ(a.winner, b.winner);
  for (index_t i = 0; i < a.branches; ++i) {
    EXPECT_EQ(a.branch[i].position, b.branch[i].position);
    EXPECT_EQ(a.branch[i].token, b.branch[i].token);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(a.branch[i].lookahead_score),
              std::bit_cast<std::uint32_t>(b.branch[i].lookahead_score));
  }
}

void expect_equal(const step::slot_status& a, const step::slot_status& b) {
  expect_equal(a.next, b.next);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.report.end, b.report.end);
  EXPECT_EQ(a.report.forwards, b.report.forwards);
  EXPECT_EQ(a.report.committed, b.report.committed);
  EXPECT_EQ(a.report.committed_prefix, b.report.committed_prefix);
  EXPECT_EQ(a.report.answer_end, b.report.answer_end);
  EXPECT_EQ(a.report.masked, b.report.masked);
  EXPECT_EQ(a.report.forced, b.report.forced);
  EXPECT_EQ(a.report.invalid_rows, b.report.invalid_rows);
  ASSERT_EQ(a.report.last_commits, b.report.last_commits);
}

template <class Policy>
void expect_equal(const lone_slot<Policy>& a, const lone_slot<Policy>& b) {
  expect_equal(a.status, b.status);
  EXPECT_EQ(a.tokens, b.tokens);
  for (index_t i = 0; i < a.status.report.last_commits; ++i) {
    EXPECT_EQ(a.m.entries[i].position, b.m.entries[i].position);
    EXPECT_EQ(a.m.entries[i].token, b.m.entries[i].token);
    EXPECT_EQ(a.m.entries[i].step, b.m.entries[i].step);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(a.m.entries[i].log_probability),
              std::bit_cast<std::uint32_t>(b.m.entries[i].log_probability));
  }
  EXPECT_EQ(a.status.report.last_candidates, b.status.report.last_candidates);
  for (index_t i = 0; a.m.traced != nullptr && i < a.status.report.last_candidates; ++i) {
    EXPECT_EQ(a.m.traced[i].position, b.m.traced[i].position);
    EXPECT_EQ(a.m.traced[i].token, b.m.traced[i].token);
    EXPECT_EQ(a.m.traced[i].committed, b.m.traced[i].committed);
    EXPECT_EQ(a.m.traced[i].outcome, b.m.traced[i].outcome);
    EXPECT_EQ(a.m.traced[i].part, b.m.traced[i].part);
    const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    EXPECT_EQ(bits(a.m.traced[i].confidence), bits(b.m.traced[i].confidence));
    EXPECT_EQ(bits(a.m.traced[i].margin), bits(b.m.traced[i].margin));
    EXPECT_EQ(bits(a.m.traced[i].entropy), bits(b.m.traced[i].entropy));
  }
}

/// Decodes one random sequence with one lane and with `lanes`. Returns the number of steps. The one
/// lane is emulated, too: emulated_session.test.cpp compares with solo.
template <class Policy>
int decode_with(const Policy& p, index_t lanes, dice& d) {
  model_info model;
  model.vocab = d.within(20, 60);
  model.mask_token = d.within(0, model.vocab - 1);
  model.eos_token = d.chance(0.5) ? no_token : d.within(0, model.vocab - 1);
  model.logits_shift = d.within(0, 1);
  sequence_shape g;
  g.prompt_length = d.within(0, 7);
  g.length = g.prompt_length + d.within(1, 70);
  g.block_length = d.within(1, 40);
  g.seed = d.bits();
  const session_capacity capacity{.sequences = 1,
                                  .length = g.length + d.within(0, 9),
                                  .window = detail::policy_reach(p, g) + d.within(0, 9),
                                  .branches = detail::policy_branches(p),
                                  .vocab = model.vocab,
                                  .trace = d.chance(0.5)};
  std::vector<token_id> prompt;
  std::vector<std::uint8_t> editable;
  for (index_t i = 0; i < g.length; ++i) {
    prompt.push_back(d.within(0, model.vocab - 1));
    editable.push_back(d.chance(0.8) ? 1 : 0);
  }
  start_options options;
  const std::vector<token_id> suppressed = {d.within(0, model.vocab - 1)};
  options.suppressed = suppressed;

  lone_slot<Policy> alone(p, capacity, prompt);
  lone_slot<Policy> together(p, capacity, prompt);
  device::start_arguments<Policy> arguments{p, model, g};
  arguments.suppressed_count = suppressed_tokens(model, options, arguments.suppressed);
  arguments.editable = d.chance(0.5) ? editable.data() : nullptr;
  block_emulator one(1);
  block_emulator block(lanes, d.bits());
  const std::size_t scratch = device::scratch_bytes<Policy>(capacity.window);
  EXPECT_GT(scratch, 0U);
  std::vector<std::byte> shared(scratch + step::slot_layout::alignment);

  arguments.tokens = alone.tokens.data();
  one.run([&](const emulated_block& b) { device::start_slot(b, arguments, alone.device_view, 0); });
  arguments.tokens = together.tokens.data();
  block.run(
      [&](const emulated_block& b) { device::start_slot(b, arguments, together.device_view, 0); });
  expect_equal(alone, together);

  int steps = 0;
  while (alone.status.next.active() && !::testing::Test::HasFailure() && steps < 60) {
    read_rows(alone, together, model.vocab, d);
    overwrite_scratch(together, d);
    const index_t scored = together.status.next.score.size();
    const std::vector<double> untouched = behind(together, scored);
    decide(one, alone.device_view, nullptr);
    void* at = shared.data();
    std::size_t room = shared.size();
    auto* const base =
        static_cast<std::byte*>(std::align(step::slot_layout::alignment, scratch, at, room));
    std::byte* const faster = steps % 2 == 0 ? base : nullptr;
    decide(block, together.device_view, faster);
    expect_equal(alone, together);
    EXPECT_EQ(behind(together, scored), untouched);
    EXPECT_EQ(std::count(together.supplied.begin(), together.supplied.end(), 0U),
              std::ssize(together.supplied));
    ++steps;
  }
  return steps;
}

class EmulatedDecide : public ::testing::TestWithParam<index_t> {};

TEST_P(EmulatedDecide, EqualsOneLaneBitByBit) {
  const index_t lanes = GetParam();
  const auto decode_some = [lanes](const auto& p) {
    dice d(mixed(7, static_cast<std::uint64_t>(lanes)));
    int steps = 0;
    for (int round = 0; round < (lanes > 32 ? 3 : 8) && !HasFailure(); ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      steps += decode_with(p, lanes, d);
    }
    EXPECT_GT(steps, 3);
  };
  for (const char* const text : decoded_texts) {
    SCOPED_TRACE(text);
    decode_some(read_policy(text).of_model({.vocab = 20}));
  }
  for_each_of(composed{}, [&](const auto& p) {
    SCOPED_TRACE(typeid(p).name());
    decode_some(p);
  });
}

INSTANTIATE_TEST_SUITE_P(Lanes, EmulatedDecide, ::testing::Values(1, 2, 7, 32, 64, 256));

TEST(EmulatedDecide, AnIdleSlotIsLeftAlone) {
  const session_capacity capacity{.sequences = 1, .length = 8, .window = 4};
  lone_slot<std::remove_const_t<decltype(sure_ones)>> slot(
      sure_ones, capacity, {1, 2, 3, 4, 5, 6, 7, 8});
  block_emulator block(32);
  decide(block, slot.device_view, nullptr);
  EXPECT_FALSE(slot.status.next.started);
  EXPECT_EQ(slot.tokens, (std::vector<token_id>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(EmulatedDecide, AStepWhoseLogitsAreNotThereIsNotTaken) {
  const session_capacity capacity{.sequences = 1, .length = 4, .window = 4, .branches = 1};
  lone_slot<std::remove_const_t<decltype(sure_ones)>> slot(sure_ones, capacity, {1, 2, 3, 4});
  device::start_arguments<std::remove_const_t<decltype(sure_ones)>> arguments{
      sure_ones, {.vocab = 9, .mask_token = 8}, {.length = 4}, slot.tokens.data()};
  block_emulator block(32);
  block.run(
      [&](const emulated_block& b) { device::start_slot(b, arguments, slot.device_view, 0); });
  slot.supplied[1] = 1;  // only those of a branch that the plan does not have
  decide(block, slot.device_view, nullptr);
  EXPECT_EQ(slot.status.report.forwards, 0);
  EXPECT_EQ(slot.status.report.masked, 4);
  EXPECT_EQ(slot.supplied, (std::vector<std::uint32_t>{0, 0}));
}

TEST(Scratch, ThatDoesNotFitStaysInGlobalMemory) {
  using p = std::remove_const_t<decltype(sure_ones)>;
  EXPECT_GT(device::scratch_bytes<p>(1024), 0U);
  EXPECT_LE(device::scratch_bytes<p>(1024), device::shared_bytes);
  EXPECT_EQ(device::scratch_bytes<p>(1 << 20), 0U);
}

}  // namespace
}  // namespace unmask::testing::emulated_decide_test
