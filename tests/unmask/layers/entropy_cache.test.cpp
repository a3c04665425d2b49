// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The cache that goes by the entropy of what was committed, beside its definition.

#include <unmask/named/read_policy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/by_name.hpp"
#include "support/layered_decode.hpp"

namespace unmask::testing::entropy_cache_test {
namespace {

const toy_transformer model;
constexpr sequence_shape blocks{.prompt_length = 6, .length = 38, .block_length = 8, .seed = 9};

// -sum p ln p of a row of logits without the mask token, which is the last.
double entropy_of(std::span<const float> row) {
  double sum = 0.0;
  for (const float z : row.first(row.size() - 1)) {
    sum += std::exp(static_cast<double>(z));
  }
  double entropy = 0.0;
  for (const float z : row.first(row.size() - 1)) {
    const double p = std::exp(static_cast<double>(z)) / sum;
    entropy -= p > 0.0 ? p * std::log(p) : 0.0;
  }
  return entropy;
}

// Decoded tokens of a sequence, step by step.
struct history {
  std::map<index_t, double> entropies;  ///< of the last pass, by position
  std::vector<index_t> decoded;         ///< the latest last
};

// Counts passes that refresh, and those that do not.
struct passes {
  int whole = 0;
  int partial = 0;
};

// Decodes, and expects of each pass the plan and the positions that the rule's words say.
template <class... Parts>
passes expect_the_rule(const entropy_cache& rule,
                       const sequence_shape& shape,
                       index_t logits_shift,
                       const Parts&... parts) {
  passes seen;
  history h;
  const auto p = by_name(policy{by_confidence{}, rule, parts...});
  const auto observe = [&](auto& session, auto& pass, const auto& logits, const auto& tokens) {
    const auto is_masked = [&](index_t q) {
      return q < shape.length && tokens[static_cast<std::size_t>(q)] == model.vocab - 1;
    };
    const plan& now = session.planned();
    double largest = 0.0;
    for (const commit_entry& c : session.committed()) {
      EXPECT_TRUE(h.entropies.contains(c.position));
      largest = std::max(largest, h.entropies[c.position]);
      h.decoded.push_back(c.position);
    }
    EXPECT_GT(std::fabs(largest - static_cast<double>(rule.threshold)), 1e-5);  // not rounding
    const bool is_first = session.report().forwards == 0;
    EXPECT_EQ(now.refresh, is_first || largest > static_cast<double>(rule.threshold));
    const std::size_t most = std::min(h.decoded.size(), static_cast<std::size_t>(rule.recent));
    const std::span<const index_t> recent = std::span<const index_t>(h.decoded).last(most);
    std::vector<index_t> expected;
    for (index_t q = 0; q < shape.length; ++q) {
      const bool is_decided = (now.score.contains(q) && is_masked(q)) ||
                              (now.score.contains(q + logits_shift) && is_masked(q + logits_shift));
      if (now.refresh || is_decided || std::find(recent.begin(), recent.end(), q) != recent.end()) {
        expected.push_back(q);
      }
    }
    EXPECT_EQ(std::vector<index_t>(pass.positions().begin(), pass.positions().end()), expected);
    ++(now.refresh ? seen.whole : seen.partial);
    h.entropies.clear();
    const auto columns = static_cast<std::size_t>(model.vocab);
    for (std::size_t r = 0; r < pass.rows().size(); ++r) {
      const index_t position = pass.positions()[static_cast<std::size_t>(pass.rows()[r])];
      h.entropies[position + logits_shift] =
          entropy_of(std::span(logits).subspan(r * columns, columns));
    }
  };
  const layered_result r = decode_layered(model, p, {shape}, logits_shift, observe)[0];
  EXPECT_EQ(r.report.end, ending::complete);
  EXPECT_LE(r.report.forwards, shape.length - shape.prompt_length);
  return seen;
}

TEST(entropy_cache, runs_what_its_definition_says) {
  passes all;
  for (const index_t shift : {0, 1}) {
    for (const float threshold : {0.3F, 0.8F, 1.2F, 1.6F, 2.0F}) {
      for (const index_t recent : {0, 1, 5, 64}) {
        const entropy_cache rule{threshold, recent};
        const passes some = expect_the_rule(rule, blocks, shift, tokens_per_step{2});
        const passes more = expect_the_rule(rule, blocks, shift, unmask::threshold{0.4F});
        all.whole += some.whole + more.whole;
        all.partial += some.partial + more.partial;
      }
    }
  }
  EXPECT_GT(all.whole, 200);
  EXPECT_GT(all.partial, 200);
}

TEST(entropy_cache, refreshes_above_its_threshold_only) {
  for (const float entropy : {0.99F, 1.0F, 1.01F}) {
    struct {
      entropy_cache::sequence_state sequence;
      entropy_cache::step_reduction step_reduction;
    } context{{}, {entropy}};
    plan next;
    entropy_cache{.threshold = 1.0F}.set_query(sequence_view{}, next, context);
    EXPECT_EQ(next.refresh, entropy > 1.0F);
  }
}

TEST(entropy_cache, decides_for_each_sequence_alone) {
  const sequence_shape other{.prompt_length = 3, .length = 30, .block_length = 11, .seed = 4};
  const entropy_cache rule{1.2F, 6};
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{2}, rule});
  const auto together =
      decode_layered(model, p, {other, blocks}, 0, [](auto&, auto&, auto&, auto&) {});
  EXPECT_TRUE(same_decode(together[0], decode_layered(model, p, other)));
  EXPECT_TRUE(same_decode(together[1], decode_layered(model, p, blocks)));
}

TEST(entropy_cache, is_the_full_forward_where_every_token_is_uncertain) {
  const auto full =
      decode_layered(model, by_name(policy{by_confidence{}, tokens_per_step{2}}), blocks);
  const auto decode = [](const entropy_cache& rule) {
    return decode_layered(
        model, by_name(policy{by_confidence{}, tokens_per_step{2}, rule}), blocks);
  };
  const layered_result always = decode({.threshold = 0.0F});
  const layered_result never = decode({.threshold = 1000.0F});
  EXPECT_TRUE(same_decode(always, full));
  EXPECT_FALSE(same_decode(never, full));
  EXPECT_LT(never.computed * 2, always.computed);
  EXPECT_LT(decode({.threshold = 1000.0F, .recent = 0}).computed, never.computed);
}

TEST(entropy_cache, takes_an_invalid_row_as_uncertain) {
  using row = record<stat::confidence | stat::entropy>;
  const entropy_cache rule{.threshold = 1e30F};
  const auto largest = [&rule](const row& r) {
    const auto c = candidate<row::contents>::of(r, 0, no_token);
    entropy_cache::step_reduction sum{};
    sum.merge({2.0F});
    sum.merge(rule.review(c, 0));
    sum.merge({3.0F});
    return sum.largest;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  row valid = row::empty();
  valid.best = 1.0F;
  EXPECT_EQ(largest(valid), 3.0F);
  EXPECT_EQ(largest(row::empty()), infinity);
  for (const float wrong : {nan, infinity}) {
    row best = valid;
    best.best = wrong;
    EXPECT_EQ(largest(best), infinity);
    row rest = valid;
    rest.rest = wrong;
    EXPECT_EQ(largest(rest), infinity);
    row weighted = valid;
    weighted.weighted = -wrong;
    EXPECT_EQ(largest(weighted), infinity);
  }
}

// The latest tokens against a list of all, with positions that are remasked and written again.
TEST(entropy_cache, remembers_the_latest_tokens) {
  constexpr index_t length = 90;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    dice d(seed);
    const entropy_cache rule{.recent = d.within(0, entropy_cache::most)};
    std::vector<mark> marks(length, mark::masked);
    std::vector<index_t> latest;  // the latest first
    entropy_cache::sequence_state kept;
    for (int step = 0; step < 40; ++step) {
      std::vector<commit_entry> commits;
      const double share = d.real(0.0, 0.3);
      for (index_t q = 0; q < length; ++q) {
        if (!d.chance(share)) {
          continue;
        }
        const bool remasks_current =
            marks[static_cast<std::size_t>(q)] == mark::committed && d.chance(0.5);
        marks[static_cast<std::size_t>(q)] = remasks_current ? mark::masked : mark::committed;
        commits.push_back({});
        commits.back().position = q;
        std::erase(latest, q);
        if (!remasks_current) {
          latest.insert(latest.begin(), q);
        }
      }
      if (latest.size() > static_cast<std::size_t>(rule.recent)) {
        latest.resize(static_cast<std::size_t>(rule.recent));  // what leaves does not come back
      }
      sequence_view q;
      q.length = length;
      q.marks = marks.data();
      q.commits = commits.data();
      q.commit_count = static_cast<index_t>(commits.size());
      plan next;
      no_state none;
      const entropy_cache::step_reduction step_reduction{};
      const step_info at{};
      part_context<entropy_cache> context{none, kept, step_reduction, at};
      rule.set_query(q, next, context);
      EXPECT_FALSE(next.refresh);
      EXPECT_EQ(std::vector<index_t>(kept.latest, kept.latest + kept.count), latest)
          << "seed " << seed << ", step " << step;
    }
  }
}

TEST(entropy_cache, has_a_name_with_its_knobs) {
  EXPECT_THAT(describe_parts(), ::testing::HasSubstr("entropy_cache(threshold=1, recent=16)"));
}

}  // namespace
}  // namespace unmask::testing::entropy_cache_test
