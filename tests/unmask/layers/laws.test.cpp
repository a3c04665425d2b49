// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Laws of every cache and every layer rule, on a transformer whose memory is NaN until a
// pass has written it: a row that reads what was never computed shows as an invalid row.

#include <unmask/policy/presets/released.hpp>
#include <unmask/policy/remask/edit_committed.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/by_name.hpp"
#include "support/layered_decode.hpp"

namespace unmask::testing::laws_test {
namespace {

const toy_transformer model;
constexpr sequence_shape blocks{.prompt_length = 6, .length = 54, .block_length = 16, .seed = 5};
constexpr sequence_shape one_block{.prompt_length = 6, .length = 38, .block_length = 32, .seed = 6};
constexpr threshold sure{0.35F};

early_skip keeping(double first, double second) {
  early_skip rule;
  rule.stages[0].keep = first;
  rule.stages[1].keep = second;
  return rule;
}

/// The full forward pass in every step.
layered_result full(const sequence_shape& g, index_t logits_shift = 0) {
  return decode_layered(model, by_name(policy{by_confidence{}, sure}), g, logits_shift);
}

template <class... Parts>
layered_result with(const sequence_shape& g, const Parts&... parts) {
  return decode_layered(model, by_name(policy{by_confidence{}, sure, parts...}), g);
}

TEST(LayerLaws, ACacheRefreshedInEveryPassIsTheFullForward) {
  const layered_result expected = full(blocks);
  EXPECT_TRUE(same_decode(with(blocks, prefix_cache{1}), expected));
  EXPECT_TRUE(same_decode(with(blocks, dual_cache{1}), expected));
  EXPECT_TRUE(same_decode(with(blocks, delayed_cache{1}), expected));
  EXPECT_TRUE(same_decode(with(one_block, block_cache{1, 1}), full(one_block)));
  EXPECT_TRUE(same_decode(with(one_block, block_cache{1, 1}, keeping(0.3, 0.1)), full(one_block)));
  EXPECT_TRUE(same_decode(with(blocks, interval_cache{1, 1}, cache_budget{}), expected));
  EXPECT_TRUE(same_decode(with(blocks, interval_cache{1, 1}, similarity_refresh{}), expected));
}

TEST(LayerLaws, RulesThatSkipNothingAreTheFullForward) {
  EXPECT_TRUE(same_decode(with(blocks, prefix_cache{1}, keeping(1, 1)), full(blocks)));
  EXPECT_TRUE(same_decode(with(blocks, keeping(1, 1)), full(blocks)));
  EXPECT_TRUE(same_decode(with(blocks, cache_budget{.budget = 540}), full(blocks)));
  EXPECT_TRUE(same_decode(with(blocks, cache_budget{.budget = 0, .window = 200}), full(blocks)));
  EXPECT_TRUE(
      same_decode(with(blocks, interval_cache{1, 0}, similarity_refresh{1.0}), full(blocks)));
  EXPECT_TRUE(same_decode(with(blocks, cache_budget{.budget = 0, .window = 0, .full_layers = 8}),
                          full(blocks)));
}

// Of a model with shifted rows the first row is that of positions 0 and 1.
TEST(LayerLaws, TwoPositionsShareTheFirstRow) {
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, keeping(1, 1)});
  const auto whole = by_name(policy{by_confidence{}, tokens_per_step{1}});
  const auto observe = [](auto&, auto& pass, const auto&, const auto&) {
    EXPECT_EQ(std::adjacent_find(pass.rows().begin(), pass.rows().end()), pass.rows().end());
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const sequence_shape shape{.length = 8, .block_length = 8, .seed = seed};
    EXPECT_TRUE(same_decode(decode_layered(model, p, {shape}, 1, observe)[0],
                            decode_layered(model, whole, shape, 1)));
    // Block 1 is position 1 alone, whose row position 0 has left.
    const sequence_shape ones{.length = 8, .block_length = 1, .seed = seed};
    const auto edits = by_name(policy{by_confidence{}, tokens_per_step{1}, edit_committed{}});
    const auto cached =
        by_name(policy{by_confidence{}, tokens_per_step{1}, edit_committed{}, delayed_cache{1}});
    EXPECT_TRUE(
        same_decode(decode_layered(model, cached, ones, 1), decode_layered(model, edits, ones, 1)));
  }
}

TEST(LayerLaws, SkippingAllOfNothingIsTheCacheAlone) {
  const block_cache cache{.prompt_period = 7, .block_period = 3};
  EXPECT_TRUE(same_decode(with(blocks, cache, keeping(1, 1)), with(blocks, cache)));
  EXPECT_FALSE(same_decode(with(blocks, cache, keeping(0.5, 0.2)), with(blocks, cache)));
}

TEST(LayerLaws, TheFewerAreKeptTheFewerAreComputed) {
  const auto per_pass = [&](double first, double second) {
    const layered_result r =
        with(blocks, block_cache{.prompt_period = 0, .block_period = 0}, keeping(first, second));
    return static_cast<double>(r.computed) / r.report.forwards;
  };
  EXPECT_GT(per_pass(1, 1), per_pass(0.75, 0.5));
  EXPECT_GT(per_pass(0.75, 0.5), per_pass(0.5, 0.5));
  EXPECT_GT(per_pass(0.5, 0.5), per_pass(0.5, 0.25));
}

/// Early skipping at 1/8 and 1/4 of the layers: two layers compute all, one half, five a quarter of
/// 16, in passes that do not refresh. The progress guarantee adds at most one position.
TEST(LayerLaws, APassComputesWhatItsSharesSay) {
  const auto p = by_name(policy{
      by_confidence{}, sure, early_skip{}, block_cache{.prompt_period = 0, .block_period = 0}});
  decode_layered(model, p, {blocks}, 0, [](auto& session, auto& pass, auto&, auto&) {
    if (!session.planned().refresh && session.planned().query.size() == 16) {
      EXPECT_GE(pass.positions().size(), 4U);
      EXPECT_LE(pass.positions().size(), 5U);
    }
  });
}

/// A pass that refreshes everything gives the logits of a forward pass without any memory.
TEST(LayerLaws, ARefreshRestoresTheFullForward) {
  int refreshed = 0;
  const auto compare = [&](auto& session, auto& pass, const auto& logits, const auto& tokens) {
    const plan& now = session.planned();
    if (now.refresh && now.query == now.keys && session.report().forwards > 0) {
      ++refreshed;
      toy_memory fresh(model.layers, now.keys.last, toy_transformer::width);
      const full_pass everything(now.keys.last, pass.rows());
      EXPECT_EQ(model.forward(everything, tokens.data(), fresh), logits);
    }
  };
  decode_layered(model,
                 by_name(policy{by_confidence{}, sure, dual_cache{4}, early_skip{}}),
                 {blocks},
                 0,
                 compare);
  decode_layered(
      model, by_name(policy{by_confidence{}, sure, delayed_cache{3}}), {blocks}, 0, compare);
  decode_layered(
      model,
      by_name(policy{
          by_confidence{}, sure, interval_cache{2, 2}, cache_budget{.budget = 4, .window = 4}}),
      {blocks},
      0,
      compare);
  EXPECT_GT(refreshed, 5);
}

/// Sequences of different lengths side by side decode as each alone.
TEST(LayerLaws, ABatchIsItsSequences) {
  const auto p =
      by_name(policy{by_confidence{}, sure, early_skip{}, block_cache{5, 3}, trace_credit<16>{}});
  const std::vector<sequence_shape> shapes{
      {.prompt_length = 3, .length = 40, .block_length = 16, .seed = 1},
      {.prompt_length = 20, .length = 29, .block_length = 4, .seed = 2},
      {.prompt_length = 0, .length = 33, .block_length = 11, .seed = 3}};
  const auto together = decode_layered(model, p, shapes, 0, [](auto&, auto&, auto&, auto&) {});
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const layered_result alone = decode_layered(model, p, shapes[i]);
    EXPECT_TRUE(same_decode(together[i], alone)) << "sequence " << i;
    EXPECT_EQ(together[i].computed, alone.computed);
  }
}

/// A rule that would let every masked position go.
struct skips_the_open {
  static constexpr statistics required = stat::none;
  static constexpr feature reads = feature::hidden;
  static constexpr drift_terms measures = drift_terms::none;
  static constexpr skipping skipped = skipping::dropped;
  bool hooks(index_t layer, index_t) const { return layer == 0; }
  float measure(const drift_sums&) const { return 0.0F; }
  float importance(const layer_row& row, const layer_info&, const auto&) const {
    return row.masked ? -math::infinity() : 1.0F;
  }
  index_t quota(const layer_info&, const auto&) const { return 3; }
};
static_assert(layer_rule<skips_the_open>);

TEST(LayerLaws, EachForcedBlockKeepsAMaskedPosition) {
  index_t passes = 0;
  const auto p = by_name(policy{by_confidence{}, sure, skips_the_open{}});
  const auto done =
      decode_layered(model, p, {blocks}, 0, [&passes](auto& session, auto& pass, auto&, auto&) {
        passes += session.planned().refresh ? 0 : 1;
        EXPECT_TRUE(session.planned().refresh || pass.rows().size() == 1);
      });
  EXPECT_EQ(done[0].report.end, ending::complete);
  EXPECT_EQ(done[0].report.forwards, passes + 1);
}

TEST(LayerLaws, ForcedBlocksOfAPipelineEachKeepOne) {
  const auto p = by_name(policy{by_confidence{},
                                sure,
                                skips_the_open{},
                                block_pipeline{.add = 0.1F, .activate = 0.2F, .at_once = 3}});
  int several = 0;
  const auto observe = [&several](auto& session, auto& pass, const auto&, const auto& tokens) {
    const plan& now = session.planned();
    int forced = 0;
    for (index_t b = now.first_block; b < now.last_block; ++b) {
      const index_t first = blocks.prompt_length + b * blocks.block_length;
      int masked = 0;
      for (index_t q = first; q < first + blocks.block_length; ++q) {
        masked += tokens[static_cast<std::size_t>(q)] == model.vocab - 1 ? 1 : 0;
      }
      if (masked > 0 && (now.forced >> (b - now.first_block) & 1U) != 0) {
        ++forced;
        EXPECT_TRUE(std::any_of(pass.rows().begin(),
                                pass.rows().end(),
                                [&](index_t r) {
                                  const index_t q = pass.positions()[static_cast<std::size_t>(r)];
                                  return range{first, first + blocks.block_length}.contains(q);
                                }))
            << "block " << b;
      }
    }
    several += !now.refresh && forced > 1 ? 1 : 0;
  };
  const auto done = decode_layered(model, p, {blocks}, 0, observe)[0];
  EXPECT_GT(several, 0);
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.report.masked, 0);
  EXPECT_EQ(done.report.invalid_rows, 0);
}

/// A part that reads ahead gets the rows behind the block that the pass has computed, and no other.
template <class... Parts>
layered_result ahead(index_t logits_shift, bool expect_ahead, const Parts&... parts) {
  const auto p =
      by_name(policy{by_confidence{}, adaptive_threshold{.start = 0.6F, .lower = 0.02F}, parts...});
  int rows = 0;
  const auto observe = [&rows](auto& session, auto& pass, const auto& logits, const auto&) {
    const index_t most = session.planned().score.size();
    rows += std::max(static_cast<index_t>(pass.rows().size()) - most, index_t{0});
    EXPECT_TRUE(
        std::all_of(logits.begin(), logits.end(), [](float z) { return std::isfinite(z); }));
  };
  const layered_result r = decode_layered(model, p, {blocks}, logits_shift, observe)[0];
  EXPECT_EQ(r.report.end, ending::complete);
  EXPECT_EQ(r.report.invalid_rows, 0);
  EXPECT_EQ(rows > 0, expect_ahead);
  return r;
}

TEST(LayerLaws, ReadingAheadReadsWhatThePassHasComputed) {
  for (const index_t shift : {0, 1}) {
    const layered_result full = ahead(shift, true);
    EXPECT_TRUE(same_decode(ahead(shift, true, prefix_cache{1}), full));
    EXPECT_TRUE(same_decode(ahead(shift, true, delayed_cache{1}), full));
    EXPECT_TRUE(same_decode(ahead(shift, true, interval_cache{1, 1}, cache_budget{}), full));
    ahead(shift, true, interval_cache{1, 0}, cache_budget{.budget = 4, .window = 4});
    ahead(shift, true, prefix_cache{}, keeping(0.5, 0.5));
    ahead(shift, true, dual_cache{3}, keeping(0.5, 0.5));
    ahead(shift, true, delayed_cache{5});
    ahead(shift, true, block_cache{.prompt_period = 5, .block_period = 3});
    ahead(shift, false, block_pipeline{.add = 0.3F, .at_once = 2}, prefix_cache{2});
  }
}

/// Which positions a pass with a delayed cache runs, from the history of commits.
TEST(LayerLaws, ADelayedCacheRunsTokensOnceMore) {
  std::vector<index_t> committed_at(static_cast<std::size_t>(blocks.length), -1);
  index_t block = -1;
  index_t opened = 0;
  const auto p = by_name(policy{by_confidence{}, sure, delayed_cache{4}});
  decode_layered(model, p, {blocks}, 0, [&](auto& session, auto& pass, auto&, const auto& tokens) {
    const index_t step = session.report().forwards;
    if (session.planned().first_block != block) {
      block = session.planned().first_block;
      opened = step;
    }
    const bool all = step - opened <= 1 || (step - opened) % 4 == 0;
    std::vector<index_t> expected;
    for (index_t q = 0; q < blocks.length; ++q) {
      const auto at = static_cast<std::size_t>(q);
      const bool known = tokens[at] != model.vocab - 1;
      if (known && committed_at[at] < 0) {
        committed_at[at] = q < blocks.prompt_length ? -2 : step - 1;
      }
      if (all || !known || committed_at[at] == step - 1) {
        expected.push_back(q);
      }
    }
    EXPECT_EQ(std::vector<index_t>(pass.positions().begin(), pass.positions().end()), expected)
        << "step " << step;
  });
}

/// Random knobs, caches, rules, schedules and shapes: everything ends with every position
/// committed, and no logits are ever made of memory that no pass has written.
template <class Cache, class Rule, class Schedule>
void random_decode(dice& d, const Cache& cache, const Rule& rule, const Schedule& schedule) {
  const sequence_shape g{.prompt_length = d.within(0, 9),
                         .length = d.within(12, 40),
                         .block_length = d.within(1, 20),
                         .seed = d.bits()};
  toy_transformer other = model;
  other.layers = d.within(1, 9);
  const index_t shift = d.within(0, 1);
  const auto p = by_name(policy{
      by_confidence{}, threshold{d.real(0.1, 0.9)}, trace_credit<48>{}, cache, rule, schedule});
  const layered_result done = decode_layered(other, p, g, shift);
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.report.masked, 0);
  EXPECT_EQ(done.report.invalid_rows, 0);
  EXPECT_EQ(done.report.committed, g.length - g.prompt_length);
  EXPECT_TRUE(same_decode(done, decode_layered(other, p, g, shift)));
}

template <class Rule, class Schedule>
void every_cache(dice& d, const Rule& rule, const Schedule& schedule) {
  random_decode(d, prefix_cache{d.within(0, 5)}, rule, schedule);
  random_decode(d, dual_cache{d.within(0, 5)}, rule, schedule);
  random_decode(
      d, block_cache{d.within(0, 9), d.within(0, 9), d.chance(0.5), d.chance(0.5)}, rule, schedule);
  random_decode(d, interval_cache{d.within(0, 9), d.within(0, 9)}, rule, schedule);
  random_decode(d, delayed_cache{d.within(0, 5)}, rule, schedule);
  random_decode(d, entropy_cache{d.real(0.0, 2.0), d.within(0, 20)}, rule, schedule);
}

early_skip random_skip(dice& d) {
  early_skip rule = d.chance(0.5) ? released::early_skip_released() : early_skip{};
  rule.weight = d.real(0.0, 1.0);
  rule.stages[0] = {d.real(0.0, 0.5), d.real(0.0, 1.0)};
  rule.stages[1] = {d.real(0.5, 1.0), rule.stages[0].keep * d.real(0.0, 1.0)};
  return rule;
}

cache_budget random_budget(dice& d) {
  cache_budget rule;
  rule.budget = d.within(0, 12);
  rule.window = d.within(0, 9);
  rule.full_layers = d.within(0, 2);
  rule.scope = d.chance(0.5) ? budget_scope::all : budget_scope::outside_window;
  rule.answer_only = d.chance(0.5);
  rule.latest_only = d.chance(0.5);
  rule.whole_window = rule.answer_only && d.chance(0.5);
  rule.refresh_stride = d.within(0, 4);
  return rule;
}

TEST(LayerLaws, RandomEarlySkips) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    dice d(seed);
    every_cache(d, random_skip(d), semi_autoregressive{});
    random_decode(d,
                  dual_cache{d.within(0, 5)},
                  random_skip(d),
                  block_pipeline{.add = d.real(0.0, 1.0), .at_once = d.within(1, 3)});
    random_decode(d,
                  block_cache{d.within(0, 9), d.within(0, 9)},
                  random_skip(d),
                  slow_fast{.exploration = d.within(1, 3)});
  }
}

TEST(LayerLaws, RandomBudgets) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    dice d(seed);
    every_cache(d, random_budget(d), single_block{});
    random_decode(d,
                  interval_cache{d.within(0, 5), d.within(0, 5)},
                  similarity_refresh{d.real(0.0, 1.0)},
                  semi_autoregressive{});
  }
}

/// The indicators inside a layer: skipped positions leave before attention.
TEST(LayerLaws, RandomSkipsInsideALayer) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    dice d(seed);
    random_decode(d,
                  block_cache{d.within(0, 9), d.within(0, 9)},
                  released::early_skip_released<feature::input>(d.real(0.0, 1.0)),
                  semi_autoregressive{});
  }
}

}  // namespace
}  // namespace unmask::testing::laws_test
