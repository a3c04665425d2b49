// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The calls of the C interface for engines that compute single positions of their layers.

#include <unmask/c_layers.h>
#include <unmask/core/check.hpp>
#include <unmask/host/key_selector.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/dice.hpp"

namespace c_layers_test {
namespace {

using ::testing::HasSubstr;
using unmask::testing::c_logits;
using unmask::testing::expect_fails;
using unmask::testing::session_pointer;

constexpr std::int32_t vocab = 4, length = 12, prompt = 4, block = 4;

session_pointer made(const char* policy) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.length = length;
  o.window = block;
  o.layers = 2;
  return unmask::testing::made(policy, o);
}

void start(unmask_session* s, std::vector<std::int32_t>& tokens) {
  tokens.assign(length, 0);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.prompt_length = prompt;
  q.length = length;
  q.block_length = block;
  ASSERT_EQ(unmask_start(s, 0, tokens.data(), length, &q), UNMASK_OK) << unmask_last_error();
}

unmask_layer_rule rule_of(const char* policy) {
  unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
  EXPECT_EQ(unmask_get_layer_rule(made(policy).get(), &rule), UNMASK_OK) << unmask_last_error();
  return rule;
}

TEST(CLayers, APolicySaysWhatItDemandsOfAnEngine) {
  struct demands {
    const char* policy;
    int has_hooks, reads, kept, single_positions, evicts;
  };
  constexpr demands all[] = {
      {"tokens_per_step", 0, UNMASK_HIDDEN, 0, 0, 0},
      {"tokens_per_step + dual_cache", 0, UNMASK_HIDDEN, 0, 0, 0},
      {"tokens_per_step + dual_cache(whole=2) + key_eviction", 0, UNMASK_HIDDEN, 0, 0, 1},
      {"tokens_per_step + delayed_cache", 0, UNMASK_HIDDEN, 0, 1, 0},
      {"tokens_per_step + entropy_cache", 0, UNMASK_HIDDEN, 0, 1, 0},
      {"tokens_per_step + early_skip", 1, UNMASK_HIDDEN, 0, 1, 0},
      {"es_dllm_sparse", 1, UNMASK_HIDDEN, 0, 1, 1},
      {"tokens_per_step + cache_budget", 1, UNMASK_INPUT, 1, 1, 0},
      {"tokens_per_step + cache_budget(reads=query)", 1, UNMASK_QUERY, 1, 1, 0},
      {"tokens_per_step + similarity_refresh", 1, UNMASK_VALUE, 1, 1, 0}};
  for (const demands& d : all) {
    SCOPED_TRACE(d.policy);
    const unmask_layer_rule rule = rule_of(d.policy);
    EXPECT_EQ(rule.has_hooks, d.has_hooks);
    EXPECT_EQ(rule.reads, d.reads);
    EXPECT_EQ(rule.kept, d.kept);
    EXPECT_EQ(rule.single_positions, d.single_positions);
    EXPECT_EQ(rule.evicts, d.evicts);
  }
  // An older caller's structure has four members.
  unmask_layer_rule older = UNMASK_LAYER_RULE_INIT;
  older.struct_size = offsetof(unmask_layer_rule, single_positions);
  older.single_positions = 77;
  EXPECT_EQ(unmask_get_layer_rule(made("es_dllm_sparse").get(), &older), UNMASK_OK);
  EXPECT_EQ(older.has_hooks, 1);
  EXPECT_EQ(older.single_positions, 77);
}

// The keys of one pass of each block are selected, by the numbers of the policy's text.
TEST(CLayers, KeysAreSelectedAsTheSelectorDoes) {
  const session_pointer s = made("tokens_per_step + dual_cache(whole=2) + key_eviction(0.4, 1, 1)");
  std::vector<std::int32_t> tokens;
  start(s.get(), tokens);
  unmask::host::key_selector oracle(length);
  unmask::testing::dice d(5);
  int chosen = 0;
  std::vector<int> evict;
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    const unmask_segment g = request.segments[0];
    unmask_eviction e = UNMASK_EVICTION_INIT;
    ASSERT_EQ(unmask_get_eviction(s.get(), 0, &e), UNMASK_OK) << unmask_last_error();
    evict.push_back(e.evict);
    EXPECT_EQ(e.evict, g.evict);
    EXPECT_EQ(e.keep, 0.4);
    EXPECT_EQ(e.pool, 1);
    EXPECT_EQ(e.last - e.first, block);
    EXPECT_GE(tokens[std::size_t(e.first)] + tokens[std::size_t(e.last - 1)], 0);
    std::vector<float> scores(std::size_t(g.keys_last));
    for (float& score : scores) {
      score = d.within(0, 9) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(d.within(-9, 9));
    }
    const std::int32_t* positions = nullptr;
    std::int32_t count = -1;
    const auto select = [&](std::int32_t size) {
      return unmask_select_keys(s.get(), 0, scores.data(), size, &positions, &count);
    };
    if (e.evict == UNMASK_EVICT_CHOOSE) {
      ++chosen;
      expect_fails(select(g.keys_last - 1), UNMASK_INVALID_ARGUMENT, {"scores_count", "keys_last"});
      EXPECT_EQ(count, -1);
      ASSERT_EQ(select(g.keys_last), UNMASK_OK) << unmask_last_error();
      const auto expected = oracle.select(scores, {e.first, e.last}, 0.4, 1);
      EXPECT_EQ(count, static_cast<std::int32_t>(0.4 * (g.keys_last - block)));
      EXPECT_EQ(std::vector<std::int32_t>(positions, positions + count),
                std::vector<std::int32_t>(expected.begin(), expected.end()));
      expect_fails(unmask_select_keys(s.get(), 0, nullptr, g.keys_last, &positions, &count),
                   UNMASK_INVALID_ARGUMENT,
                   {"scores must be a pointer, got null"});
      expect_fails(unmask_select_keys(s.get(), 0, scores.data(), g.keys_last, nullptr, &count),
                   UNMASK_INVALID_ARGUMENT,
                   {"positions must be a pointer, got null"});
    } else {
      expect_fails(select(g.keys_last), UNMASK_OUT_OF_ORDER, {"UNMASK_EVICT_CHOOSE"});
    }
    const std::vector<float> z(std::size_t(request.rows) * vocab, 0.5F);
    const unmask_logits logits = c_logits(z, vocab);
    ASSERT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK) << unmask_last_error();
  }
  EXPECT_EQ(evict, (std::vector<int>{0, 1, 2, 2, 0, 1, 2, 2}));
  EXPECT_EQ(chosen, 2);
}

TEST(CLayers, EvictionOfAPolicyThatDropsNoKey) {
  const session_pointer s = made("tokens_per_step");
  unmask_eviction e = UNMASK_EVICTION_INIT;
  expect_fails(unmask_get_eviction(s.get(), 0, &e), UNMASK_OUT_OF_ORDER, {"next()"});
  std::vector<std::int32_t> tokens;
  start(s.get(), tokens);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  e.keep = 0;
  ASSERT_EQ(unmask_get_eviction(s.get(), 0, &e), UNMASK_OK);
  EXPECT_EQ(e.evict, UNMASK_EVICT_NONE);
  EXPECT_EQ(e.keep, 1.0);
  EXPECT_EQ(e.first, prompt);
  EXPECT_EQ(e.last, prompt + block);
  expect_fails(unmask_get_eviction(s.get(), 1, &e), UNMASK_INVALID_ARGUMENT, {"segment", "1"});
  expect_fails(unmask_get_eviction(s.get(), 0, nullptr), UNMASK_INVALID_ARGUMENT, {"eviction"});
  expect_fails(unmask_get_eviction(nullptr, 0, &e), UNMASK_INVALID_ARGUMENT, {"session"});
}

TEST(CLayers, ScoresAreThoseOfTheLibrary) {
  unmask::testing::dice d(3);
  std::vector<float> keys(5 * 7), query(7), got(5), expected(5);
  for (std::vector<float>* v : {&keys, &query}) {
    for (float& x : *v) {
      x = static_cast<float>(d.within(-1000, 1000)) / 300.0F;
    }
  }
  unmask_logits rows = c_logits(keys, 7);
  ASSERT_EQ(unmask_score_keys(&rows, query.data(), got.data()), UNMASK_OK) << unmask_last_error();
  unmask::host::score_keys<float>(unmask::host_hidden<float>(keys.data(), 5, 7), query, expected);
  EXPECT_EQ(got, expected);
  for (std::size_t r = 0; r < 5; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < 7; ++i) {
      sum += double{keys[r * 7 + i]} * double{query[i]};
    }
    EXPECT_NEAR(got[r], sum, 1e-4);
  }
  // The same numbers in 16 bits: bfloat16 of small integers is exact.
  std::vector<std::uint16_t> narrow(5 * 7), narrow_query(7);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    keys[i] = std::floor(keys[i]);
    narrow[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(keys[i]) >> 16U);
  }
  for (std::size_t i = 0; i < narrow_query.size(); ++i) {
    query[i] = std::floor(query[i]);
    narrow_query[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(query[i]) >> 16U);
  }
  ASSERT_EQ(unmask_score_keys(&rows, query.data(), expected.data()), UNMASK_OK);
  rows.kind = UNMASK_BF16;
  rows.data = narrow.data();
  ASSERT_EQ(unmask_score_keys(&rows, narrow_query.data(), got.data()), UNMASK_OK);
  EXPECT_EQ(got, expected);

  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  expect_fails(unmask_score_keys(nullptr, query.data(), got.data()), bad, {"keys", "null"});
  expect_fails(unmask_score_keys(&rows, nullptr, got.data()), bad, {"query", "null"});
  expect_fails(unmask_score_keys(&rows, query.data(), nullptr), bad, {"scores", "null"});
  rows.columns = 0;
  expect_fails(unmask_score_keys(&rows, query.data(), got.data()), bad, {"keys", "columns"});
  rows.columns = 7;
  rows.kind = 3;
  expect_fails(unmask_score_keys(&rows, query.data(), got.data()), bad, {"keys->kind", "3"});
  rows.kind = UNMASK_F32;
  rows.memory_space = UNMASK_DEVICE;
  expect_fails(unmask_score_keys(&rows, query.data(), got.data()),
               UNMASK_UNSUPPORTED,
               {"keys->memory_space must be UNMASK_HOST"});
}

}  // namespace
}  // namespace c_layers_test
