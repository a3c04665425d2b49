// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Soft tokens: a naive oracle in double precision for every position that stays masked.
#include <unmask/named_policy.hpp>
#include <unmask/threads.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "support/fake_logits.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::soft_tokens_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct weight {
  token_id token;
  double probability;
};

/// The most probable `count` tokens of a row of logits without `excluded` and without NaN and -inf.
std::vector<weight> heaviest(std::span<const float> z,
                             index_t count,
                             double temperature,
                             const std::vector<token_id>& excluded) {
  std::vector<weight> all;
  double sum = 0.0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    const auto token = static_cast<token_id>(v);
    if (std::find(excluded.begin(), excluded.end(), token) == excluded.end()) {
      all.push_back({token, std::exp(static_cast<double>(z[v]) / temperature)});
      sum += all.back().probability;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const weight& a, const weight& b) {
    return a.probability > b.probability;
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  for (weight& w : all) {
    w.probability /= sum;
  }
  return all;
}

std::map<index_t, std::vector<token_probability>>
by_position(std::span<const token_probability> entries) {
  std::map<index_t, std::vector<token_probability>> all;
  for (const token_probability& e : entries) {
    EXPECT_TRUE(all.empty() || all.rbegin()->first <= e.position);
    all[e.position].push_back(e);
  }
  return all;
}

void expect_heaviest(const std::vector<token_probability>& entries,
                     const std::vector<weight>& expected) {
  ASSERT_EQ(entries.size(), expected.size());
  double sum = 0.0;
  for (const weight& w : expected) {
    sum += w.probability;
  }
  for (std::size_t k = 0; k < entries.size(); ++k) {
    EXPECT_EQ(entries[k].token, expected[k].token) << "place " << k;
    EXPECT_NEAR(entries[k].probability, expected[k].probability, 2e-6);
    EXPECT_NEAR(entries[k].share, expected[k].probability / sum, 2e-6);
  }
}

/// Decodes with soft tokens and compares each with the oracle. Returns the number of positions.
template <class T>
int decode(const std::string& text,
           index_t vocab,
           index_t count,
           std::uint64_t seed,
           double temperature,
           const std::vector<token_id>& excluded,
           host::executor_ref threads = {}) {
  const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 4.0};
  const sequence_shape shape{.prompt_length = 3, .length = 21, .block_length = 9, .seed = seed};
  model_info info = model.info();
  info.eos_token = 0;
  named_session s(info, {.sequences = 1, .length = 21, .window = 18}, {.executor = threads});
  std::vector<token_id> tokens(21, 1);
  const bool is_listed = text.find("allowed") != std::string::npos;  // by a part
  const std::span<const token_id> suppressed =
      is_listed ? std::span<const token_id>() : std::span(excluded);
  s.start(0, read_policy(text), tokens, shape, {.suppressed = suppressed, .soft_tokens = count});
  EXPECT_TRUE(s.soft_tokens().empty());
  int seen = 0;
  while (const auto request = s.next()) {
    const segment& part = request->segments[0];
    std::vector<T> logits;
    std::map<index_t, std::vector<float>> rows;
    for (index_t p = part.rows.first; p < part.rows.last; ++p) {
      std::vector<float> z(static_cast<std::size_t>(vocab));
      model.row(tokens, p, z);
      for (float& x : z) {
        x = std::round(x * 4.0F) / 4.0F;  // ties, and the same number in 16 bits
        logits.push_back(encoded<T>(x));
      }
      rows[p] = z;
    }
    const std::vector<token_id> before = tokens;
    s.supply(host_logits<T>{logits.data(), request->rows, vocab});
    const auto soft = by_position(s.soft_tokens());
    for (const auto& [position, z] : rows) {
      const auto at = static_cast<std::size_t>(position);
      const bool is_masked = tokens[at] == info.mask_token && before[at] == info.mask_token;
      EXPECT_EQ(soft.contains(position), is_masked);
      if (is_masked) {
        std::vector<token_id> none = excluded;
        none.push_back(info.mask_token);
        expect_heaviest(soft.at(position), heaviest(z, count, temperature, none));
        ++seen;
      }
    }
    EXPECT_LE(soft.size(), rows.size());
    const auto committed = by_position(s.alternatives());
    for (const auto& [position, z] : rows) {
      const auto at = static_cast<std::size_t>(position);
      const bool is_new = tokens[at] != info.mask_token && before[at] == info.mask_token;
      EXPECT_EQ(committed.contains(position), is_new);
      if (is_new) {
        std::vector<token_id> none = excluded;
        none.push_back(info.mask_token);
        expect_heaviest(committed.at(position), heaviest(z, count, temperature, none));
        ++seen;
      }
    }
  }
  EXPECT_EQ(s.report().masked, 0);
  EXPECT_TRUE(s.soft_tokens().empty());
  return seen;
}

TEST(soft_tokens, are_the_most_probable_of_each_position_that_stays_masked) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    seen += decode<float>("threshold(0.8)", 12, 3, seed, 1.0, {});
    seen += decode<float>("tokens_per_step(1)", 12, 64, seed, 1.0, {});
    seen += decode<float>("tokens_per_step(1) + temperature(1.5)", 12, 4, seed, 1.5, {});
    seen += decode<float>("tokens_per_step(2) + sampling(0.7) + top_k(3)", 12, 5, seed, 1.0, {});
    seen += decode<float>("tokens_per_step(1)", 12, 5, seed, 1.0, {2, 5});
    seen += decode<float>("tokens_per_step(1) + allowed_tokens([2, 5, 7])",
                          12,
                          4,
                          seed,
                          1.0,
                          {0, 1, 3, 4, 6, 8, 9, 10});
    seen += decode<float>("hierarchical(0.4, 0.9) + remask_below(0.5)", 12, 4, seed, 1.0, {});
    seen += decode<float>("threshold(0.7) + edit_committed(0.5)", 12, 4, seed, 1.0, {});
  }
  EXPECT_GT(seen, 2000);
}

TEST(soft_tokens, of_wide_rows_of_each_type) {
  host::thread_pool pool(2);
  int seen = decode<float>("threshold(0.2)", 5000, 64, 1, 1.0, {}, pool);
  seen += decode<bfloat16>("tokens_per_step(4)", 5000, 3, 2, 1.0, {});
  seen += decode<float16>("tokens_per_step(4)", 5003, 3, 3, 1.0, {}, pool);
  EXPECT_GT(seen, 60);
}

// Parts that edit tracked logits: the best soft token is the proposal, with its confidence.
TEST(soft_tokens, are_of_the_edited_row) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const made_up_model model{.seed = seed, .vocab = 9, .sharpness = 4.0};
    named_session s(model.info(), {.sequences = 1, .length = 20, .window = 16, .trace = true});
    std::vector<token_id> tokens(20, 1);
    s.start(0,
            read_policy("tokens_per_step(1) + trace_credit + repetition_penalty(1.7)"),
            tokens,
            {.prompt_length = 4, .length = 20, .block_length = 16},
            {.soft_tokens = 8});
    while (const auto request = s.next()) {
      const std::vector<token_id> before = tokens;
      supply_one(s, *request, model, tokens);
      const auto soft = by_position(s.soft_tokens());
      for (const candidate_entry& e : s.candidates()) {
        if (e.committed) {
          continue;
        }
        const std::vector<token_probability>& entries = soft.at(e.position);
        ASSERT_EQ(entries.size(), 8U);
        EXPECT_EQ(entries[0].token, e.token);
        EXPECT_FLOAT_EQ(entries[0].probability, e.confidence);
        float sum = 0.0F;
        for (std::size_t k = 0; k < 8; ++k) {
          sum += entries[k].probability;
          EXPECT_TRUE(k == 0 || entries[k].probability <= entries[k - 1].probability);
        }
        EXPECT_NEAR(sum, 1.0F, 1e-5F);
        std::vector<float> z(9);
        model.row(before, e.position, z);
        changed += heaviest(z, 1, 1.0, {8})[0].token != e.token ? 1 : 0;
      }
    }
  }
  EXPECT_GT(changed, 20);
}

TEST(soft_tokens, change_no_decode_and_are_given_to_those_who_ask) {
  const made_up_model model{.seed = 5, .vocab = 12, .sharpness = 6.0};
  named_session s(model.info(), {.sequences = 2, .length = 40, .window = 36});
  std::vector<token_id> tokens[2] = {std::vector<token_id>(40, 1), std::vector<token_id>(40, 1)};
  const sequence_shape shape{.prompt_length = 4, .length = 40, .block_length = 12};
  s.start(0, read_policy("threshold(0.7)"), tokens[0], shape);
  s.start(1, read_policy("threshold(0.7)"), tokens[1], shape, {.soft_tokens = 2});
  bool any = false;
  while (const auto request = s.next()) {
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const segment& part = request->segments[i];
      std::vector<float> logits;
      for (index_t p = part.rows.first; p < part.rows.last; ++p) {
        std::vector<float> z(12);
        model.row(tokens[part.slot], p, z);
        logits.insert(logits.end(), z.begin(), z.end());
      }
      s.read(i, host_logits<float>{logits.data(), part.rows.size(), 12});
    }
    s.decide();
    EXPECT_TRUE(s.soft_tokens(0).empty());
    any = any || !s.soft_tokens(1).empty();
  }
  EXPECT_TRUE(any);
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(s.report(0).forwards, s.report(1).forwards);
  // A sequence that does not ask, in the slot of one that did.
  s.start(1, read_policy("tokens_per_step(1)"), tokens[1], shape);
  supply_one(s, *s.next(), model, tokens[1]);
  EXPECT_TRUE(s.soft_tokens(1).empty());
}

TEST(soft_tokens, of_an_invalid_row_are_none) {
  named_session s({.vocab = 4, .mask_token = 3}, {.sequences = 1, .length = 3, .window = 3});
  std::vector<token_id> tokens(3, 0);
  s.start(0, read_policy("tokens_per_step(1)"), tokens, {.length = 3}, {.soft_tokens = 3});
  static_cast<void>(s.next());
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> z = {9, 0, 0, 0, 0, nan, 1, 0, 0, -inf, 1, 0};
  s.supply(host_logits<float>{z.data(), 3, 4});
  EXPECT_EQ(tokens[0], 0);
  const auto soft = by_position(s.soft_tokens());
  EXPECT_FALSE(soft.contains(1));
  ASSERT_TRUE(soft.contains(2));
  ASSERT_EQ(soft.at(2).size(), 2U);  // token 1 has no probability
  EXPECT_EQ(soft.at(2)[0].token, 2);
  EXPECT_EQ(soft.at(2)[1].token, 0);
}

TEST(soft_tokens, are_refused_where_rows_are_of_other_sequences) {
  const made_up_model model{.seed = 5, .vocab = 12};
  model_info info = model.info();
  info.eos_token = 0;
  named_session s(info, {.sequences = 1, .length = 40, .window = 40, .branches = 2});
  std::vector<token_id> tokens(40, 1);
  const sequence_shape shape{.prompt_length = 4, .length = 40, .block_length = 12};
  const auto start = [&](const char* policy, index_t count) {
    s.start(0, read_policy(policy), tokens, shape, {.soft_tokens = count});
  };
  const auto refused = [](const char* why) {
    return ThrowsMessage<std::invalid_argument>(
        AllOf(HasSubstr("start_options::soft_tokens"), HasSubstr(why)));
  };
  EXPECT_THAT([&] { start("threshold(0.7)", 65); }, refused("in [0, 64], got 65"));
  EXPECT_THAT([&] { start("threshold(0.7)", -1); }, refused("in [0, 64], got -1"));
  EXPECT_THAT([&] { start("threshold(0.7) + lookahead(2)", 3); }, refused("a branch"));
  EXPECT_THAT([&] { start("daedal", 3); }, refused("text moves"));
  EXPECT_THAT([&] { start("threshold(0.7) + top_k(3) + confidence_after_truncation", 3); },
              refused("confidence_after_truncation"));
  EXPECT_NO_THROW(start("daedal", 0));
}

}  // namespace
}  // namespace unmask::testing::soft_tokens_test
