// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Capacities and shapes up to the largest number there is: each is decoded with, or refused by its
// name before any memory is requested.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/presets/released/dynamic_dllm.hpp>
#include <unmask/policy/presets/released/es_dllm.hpp>
#include <unmask/policy/presets/released/sglang.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/by_name.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing::sizes_test {
namespace {

constexpr index_t largest = std::numeric_limits<index_t>::max();

using plain = policy<by_confidence, threshold>;
using comparing = policy<by_confidence, adaptive_threshold>;
using tracking_branches = policy<by_confidence, threshold, lookahead, repetition_penalty<>>;
using skipping = policy<by_confidence, threshold, early_skip>;
using asking = policy<by_confidence, threshold, probability_of<16>>;

// Message for an argument out of range: its name, value and rule.
std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Sizes, ProductsOfCapacitiesDoNotOverflow) {
  constexpr std::size_t window = 16384;
  constexpr std::size_t vocab = 152064;
  constexpr session_capacity long_block = {.length = 16384, .window = 16384, .vocab = 152064};
  constexpr std::size_t compared = state_bytes<comparing>(long_block);
  static_assert(compared > window * vocab * sizeof(float));
  EXPECT_LT(compared, window * (vocab + 1000) * sizeof(float));

  constexpr session_capacity many = {
      .sequences = 4, .length = 1 << 24, .window = 1 << 24, .branches = 15, .vocab = 100};
  constexpr std::size_t rows = std::size_t{16} << 24U;
  static_assert(state_bytes<tracking_branches>(many) >
                4 * rows * step::tracked_capacity(tracking_branches::tracks) * sizeof(float));
  constexpr session_capacity one = {.length = 1 << 26, .window = 1 << 26};
  constexpr std::size_t answers = (std::size_t{2} << 26U) * 16;
  static_assert(state_bytes<asking>(one) > answers * sizeof(token_probability));
}

// The arrays of a slot do not meet, whatever is in front of them. Pointers only, to memory that is
// not there.
TEST(Sizes, ArraysOfASlotLieBehindEachOther) {
  constexpr session_capacity c = {
      .length = 16384, .window = 16384, .branches = 16, .vocab = 152064};
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40U);
  const auto m = step::slot_at<comparing>(base, c);
  const auto at = [base](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base);
  };
  EXPECT_EQ(at(m.previous_rows) - at(m.previous), std::size_t{16384} * 152064 * sizeof(float));
  EXPECT_GT(at(m.marks), at(m.previous_rows));
  EXPECT_LE(at(m.marks + c.length), m.at.used());
  const auto b = step::slot_at<tracking_branches>(
      base, {.length = 1 << 26, .window = 1 << 26, .branches = 15});
  const auto capacity = static_cast<std::uintptr_t>(b.needs.tracked_capacity);
  EXPECT_EQ(at(b.tracked_of((1 << 26) - 1)) - at(b.tracked), ((1U << 26U) - 1) * capacity * 4);
}

TEST(Sizes, AWindowIsAtMostTheLength) {
  for (const index_t window : {65, 1000, max_length + 1, largest}) {
    const session_capacity wide = {.sequences = 2, .length = 64, .window = window};
    session_capacity fitting = wide;
    fitting.window = 64;
    EXPECT_EQ(state_bytes<plain>(wide), state_bytes<plain>(fitting));
    const session<plain> s({.vocab = 9, .mask_token = 8}, wide);
    EXPECT_EQ(s.capacity().window, 64);
    EXPECT_EQ(s.bytes(), state_bytes<plain>(s.capacity()));
  }
}

template <class Policy>
void expect_refused(session_capacity c, const std::vector<std::string>& parts) {
  const model_info model = {.vocab = 9, .mask_token = 8};
  for (const std::string& said : {refusal_of([&] { session<Policy>(model, c); }),
                                  refusal_of([&] { static_cast<void>(state_bytes<Policy>(c)); })}) {
    for (const std::string& part : parts) {
      EXPECT_NE(said.find(part), std::string::npos) << "no '" << part << "' in: " << said;
    }
  }
}

TEST(Sizes, CapacitiesOutOfRangeAreRefusedByName) {
  const std::string most = std::to_string(largest);
  expect_refused<plain>({.length = max_length + 1, .window = 1},
                        {"session_capacity::length", "at most 536870912", "got 536870913"});
  expect_refused<plain>({.length = largest, .window = largest},
                        {"session_capacity::length", "got " + most});
  expect_refused<plain>(
      {.sequences = 3, .length = max_length, .window = largest},
      {"session_capacity::sequences", "at most 2, ", "session_capacity::window", "got 3"});
  expect_refused<plain>({.sequences = largest, .length = 2, .window = 1},
                        {"session_capacity::sequences", "at most 1073741824", "got " + most});
  expect_refused<plain>({.sequences = 1, .length = max_length, .window = largest, .branches = 2},
                        {"session_capacity::sequences", "at most 0, ", "got 1"});
  expect_refused<plain>({.length = 9, .window = 1, .branches = largest},
                        {"session_capacity::branches", "[0, 16]", "got " + most});
  expect_refused<asking>(
      {.length = max_length, .window = largest},
      {"session_capacity::window", "at most 67108864", "16 tokens", "got 536870912"});
  // In bytes: for a policy that keeps many of each position, whether it decides about it or not.
  const std::string said = refusal_of([] {
    constexpr session_capacity c = {
        .sequences = max_rows, .length = max_length, .window = 1, .layers = 80};
    static_cast<void>(state_bytes<skipping>(c));
  });
  EXPECT_EQ(said.find("session_capacity::sequences must be at most "), 0U) << said;
  EXPECT_NE(said.find("bytes each, got 1073741824"), std::string::npos) << said;
}

TEST(Sizes, LayersBelowZeroAreRefusedByName) {
  const std::string said = refusal_of(
      [] { static_cast<void>(state_bytes<plain>({.length = 9, .window = 9, .layers = -1})); });
  EXPECT_EQ(said, "session_capacity::layers must be at least 0, got -1");
}

TEST(Sizes, AVocabularyOutOfRangeIsRefusedByName) {
  for (const index_t vocab : {max_vocab + 1, largest}) {
    const std::string said = refusal_of(
        [&] { session<plain>({.vocab = vocab, .mask_token = 8}, {.length = 9, .window = 9}); });
    EXPECT_EQ(said,
              "model_info::vocab must be at least 1 and at most 1073741824, got " +
                  std::to_string(vocab));
    EXPECT_NE(refusal_of([&] {
                static_cast<void>(state_bytes<plain>({.length = 9, .window = 9, .vocab = vocab}));
              }).find("session_capacity::vocab"),
              std::string::npos);
  }
  EXPECT_EQ(state_bytes<comparing>({.length = 1, .window = 1, .vocab = max_vocab}) >> 32U, 1U);
}

TEST(Sizes, AShapeOutOfRangeIsRefusedByName) {
  std::vector<token_id> tokens(6);
  const auto start = [&](sequence_shape g) {
    return refusal_of([&] {
      const model_info model = {.vocab = 9, .mask_token = 8};
      const tokens_view<memory::host> view(tokens);
      session s{plain{by_confidence{}, threshold{}}, model, view, g};
    });
  };
  const index_t least = std::numeric_limits<index_t>::min();
  EXPECT_NE(start({.prompt_length = least, .length = 6}).find("sequence_shape::prompt_length"),
            std::string::npos);
  EXPECT_NE(start({.prompt_length = largest, .length = 6}).find("sequence_shape::prompt_length"),
            std::string::npos);
  EXPECT_NE(start({.length = largest}).find("sequence_shape::length"), std::string::npos);
  EXPECT_NE(start({.length = least}).find("sequence_shape::length"), std::string::npos);
  EXPECT_NE(start({.length = 6, .block_length = least}).find("sequence_shape::block_length"),
            std::string::npos);
}

// A schedule that declares more scored positions than exist.
struct boastful : single_block {
  [[nodiscard]] static index_t reach(const sequence_shape&) { return largest; }
};

TEST(Sizes, NoPlanScoresMoreThanTheLength) {
  std::vector<token_id> tokens(6);
  const policy p{by_confidence{}, threshold{}, boastful{}};
  session<std::remove_const_t<decltype(p)>> s({.vocab = 9, .mask_token = 8},
                                              {.length = 6, .window = 6});
  s.start(0, p, tokens_view<memory::host>(tokens), {.length = 6});
  EXPECT_EQ(s.planned().score, (range{0, 6}));
}

// Trace of a decode, step by step.
struct history {
  std::vector<token_id> tokens;
  std::vector<index_t> numbers;
  friend bool operator==(const history&, const history&) = default;
};

constexpr index_t prompt = 5;
constexpr index_t length = 21;

template <class Policy>
history decoded_with(const Policy& p, index_t block_length) {
  const fake_model model{.seed = 11, .vocab = 12};
  const model_info about = {.vocab = 12, .mask_token = 11, .eos_token = 10};
  history h;
  h.tokens.assign(length, 3);
  const sequence_shape shape = {
      .prompt_length = prompt, .length = length, .block_length = block_length};
  session s{by_name(p), about, tokens_view<memory::host>(h.tokens), shape};
  while (const auto request = s.next()) {
    std::vector<float> z;
    for (const segment& g : request->segments) {
      std::vector<token_id> seen = h.tokens;
      for (const auto& placed : g.placed) {
        seen[std::size_t(placed.position)] = placed.token;
      }
      for (index_t r = g.rows.first; r < g.rows.last; ++r) {
        z.resize(z.size() + 12);
        model.row<float>(seen, r, std::span(z).last(12));
      }
      h.numbers.insert(h.numbers.end(),
                       {g.query.first,
                        g.query.last,
                        g.rows.first,
                        g.rows.last,
                        g.placed.empty() ? 0 : g.placed.front().position});
    }
    h.numbers.insert(h.numbers.end(), {s.planned().score.first, s.planned().score.last});
    s.supply(host_logits<float>(z.data(), request->rows, 12));
    for (const commit_entry& e : s.committed()) {
      h.numbers.insert(h.numbers.end(), {e.position, e.token, e.block, e.block_step});
    }
    if (s.report().forwards > 100) {
      ADD_FAILURE() << "no end";
      break;
    }
  }
  EXPECT_EQ(s.report().masked, 0);
  h.numbers.push_back(s.report().forwards);
  return h;
}

// A block longer than the sequence is a block as long as the sequence, to every part. `one` is the
// length of a single block in the part's own count.
template <class Policy>
void expect_one_block(const Policy& p, index_t one = length - prompt) {
  const history expected = decoded_with(p, one);
  EXPECT_GT(expected.numbers.back(), 1);
  const index_t long_ones[] = {
      length, length + 1, 1 << 29, 1 << 30, largest - length, largest - prompt, largest};
  for (const index_t block_length : long_ones) {
    EXPECT_EQ(decoded_with(p, block_length), expected) << block_length;
  }
}

TEST(Sizes, ABlockLongerThanTheSequenceIsOneBlock) {
  constexpr threshold rule{0.4F};
  expect_one_block(policy{by_confidence{}, rule});
  expect_one_block(policy{by_confidence{}, steps_per_block{3}});
  expect_one_block(policy{by_confidence{}, rule, single_block{}});
  expect_one_block(policy{by_confidence{}, rule, block_pipeline{}});
  expect_one_block(policy{by_confidence{}, rule, block_pipeline{.at_once = 64}, lookahead{}});
  expect_one_block(policy{by_confidence{}, rule, slow_fast{}});
  expect_one_block(policy{by_confidence{}, rule, edited_blocks{.most_edits = 2}, edit_committed{}});
  expect_one_block(policy{by_confidence{}, rule, dual_cache{}});
  expect_one_block(released::dynamic_dllm_scalar({.start = 0.6F}));
  expect_one_block(policy{by_confidence{}, rule, released::es_dllm_cache(3, 2)});
  expect_one_block(policy{by_confidence{}, rule, released::es_dllm_blocks{}}, length);
}

// Blocks that are counted from position 0.
TEST(Sizes, ABlockLongerThanTheSequenceIsOneBlockWithThePrompt) {
  expect_one_block(released::sglang_low_confidence(0.4F), length);
  expect_one_block(released::sglang_joint_threshold(0.4F, 0.3F, 3), length);
}

TEST(Sizes, AKnobOutOfReachIsOneThatNeverMatters) {
  const auto decode = [](const auto&... part) {
    return decoded_with(policy{by_confidence{}, part...}, 8);
  };
  constexpr threshold rule{0.4F};
  EXPECT_EQ(decode(rule, stop_sequence<1>{.tokens = {3}, .min_tokens = largest}), decode(rule));
  EXPECT_EQ(decode(timesteps{.steps = largest} || rule, max_steps{largest}),
            decode(timesteps{.steps = 1 << 30} || rule));
  EXPECT_EQ(decode(rule, edit_committed{0.9F}, edited_blocks{largest}),
            decode(rule, edit_committed{0.9F}, edited_blocks{100}));
  EXPECT_EQ(decode(rule, edit_committed{0.9F}, released::sglang_edited_blocks{largest}),
            decode(rule, edit_committed{0.9F}, released::sglang_edited_blocks{100}));
  EXPECT_EQ(decode(tokens_per_step{largest}), decode(tokens_per_step{100}));
  EXPECT_EQ(decode(rule, repetition_penalty<>{.window = largest}),
            decode(rule, repetition_penalty<>{.window = 100}));
}

}  // namespace
}  // namespace unmask::testing::sizes_test
