// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Positions that each cache computes, pass by pass, compared with its definition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/by_name.hpp"
#include "support/layered_decode.hpp"

namespace unmask::testing::caches_test {
namespace {

constexpr sequence_shape shape{.prompt_length = 6, .length = 30, .block_length = 8, .seed = 9};

/// A plan, and the state that it depends on.
struct planned {
  index_t step = 0;
  index_t block = 0;
  index_t block_step = 0;
  index_t first_changed = 0;  ///< the leftmost position that the last step wrote
  plan next;
};

/// The plans of a decode that commits a token or two a step.
template <class... Parts>
std::vector<planned> plans_of(const Parts&... parts) {
  const toy_transformer model;
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{2}, parts...});
  std::vector<planned> plans;
  index_t opened = 0;
  decode_layered(model, p, {shape}, 0, [&](auto& session, auto&, auto&, auto&) {
    const plan& next = session.planned();
    planned seen{session.report().forwards, next.first_block, 0, shape.length, next};
    if (plans.empty() || plans.back().block != seen.block) {
      opened = seen.step;
    }
    seen.block_step = seen.step - opened;
    for (const commit_entry& c : session.committed()) {
      seen.first_changed = std::min(seen.first_changed, c.position);
    }
    plans.push_back(seen);
  });
  EXPECT_EQ(plans.size(), 12U);
  return plans;
}

bool same_commits(const layered_result& a, const layered_result& b) {
  return std::equal(a.commits.begin(),
                    a.commits.end(),
                    b.commits.begin(),
                    b.commits.end(),
                    [](const commit_entry& x, const commit_entry& y) {
                      return x.position == y.position && x.token == y.token &&
                             x.log_probability == y.log_probability;
                    });
}

constexpr range everything{0, shape.length};

range block_of(const planned& p) {
  return {shape.prompt_length + p.block * 8, shape.prompt_length + p.block * 8 + 8};
}

TEST(Caches, APrefixCacheFreezesWhatIsLeftOfTheBlock) {
  for (const planned& p : plans_of(prefix_cache{3})) {
    const bool whole = p.block_step % 3 == 0;
    EXPECT_EQ(p.next.query, whole ? everything : (range{block_of(p).first, shape.length}));
    EXPECT_EQ(p.next.keys, everything);
    EXPECT_EQ(p.next.refresh, whole);
  }
}

TEST(Caches, ADualCacheRunsTheBlock) {
  for (const planned& p : plans_of(dual_cache{})) {
    EXPECT_EQ(p.next.query, p.block_step == 0 ? everything : block_of(p));
    EXPECT_EQ(p.next.refresh, p.block_step == 0);
  }
  for (const planned& p : plans_of(dual_cache{.whole = 2})) {
    EXPECT_EQ(p.next.query, p.block_step < 2 ? everything : block_of(p));
  }
}

TEST(Caches, ASuffixWindowEndsWhatIsRunAndAttendedTo) {
  for (const index_t window : {0, 3, 8, 17, 1000, 0x7fffffff}) {
    for (const index_t period : {0, 3}) {
      for (const planned& p : plans_of(suffix_window{window, period})) {
        const std::int64_t far = std::int64_t{block_of(p).last} + window;
        const index_t last = far < shape.length ? static_cast<index_t>(far) : shape.length;
        const bool whole = period > 0 ? p.block_step % period == 0 : p.block_step == 0;
        EXPECT_EQ(p.next.keys, (range{0, last}));
        EXPECT_EQ(p.next.query, (range{whole ? 0 : block_of(p).first, last}));
        EXPECT_EQ(p.next.refresh, whole);
      }
    }
  }
}

/// Nothing behind the window is seen: the first block, with a window of 4, is decoded as if the
/// sequence ended there. What a pass reads and none has written is NaN in this transformer.
TEST(Caches, ASuffixWindowSeesNothingBehindIt) {
  const toy_transformer model;
  const sequence_shape cut{.prompt_length = 6, .length = 18, .block_length = 8, .seed = 9};
  const auto first_block = [&model](const auto& cache, const sequence_shape& g) {
    return decode_layered(
        model, by_name(policy{by_confidence{}, tokens_per_step{2}, cache, max_steps{4}}), g);
  };
  for (const index_t period : {0, 1, 2}) {
    const layered_result windowed = first_block(suffix_window{4, period}, shape);
    EXPECT_EQ(windowed.commits.size(), 8U);
    EXPECT_TRUE(same_commits(windowed, first_block(prefix_cache{period}, cut)));
    EXPECT_FALSE(same_commits(windowed, first_block(prefix_cache{period}, shape)));
    EXPECT_TRUE(same_commits(first_block(suffix_window{1000, period}, shape),
                             first_block(prefix_cache{period}, shape)));
  }
  const auto whole = by_name(policy{by_confidence{}, tokens_per_step{2}, suffix_window{3}});
  for (const commit_entry& c : decode_layered(model, whole, shape).commits) {
    EXPECT_TRUE(std::isfinite(c.log_probability));
  }
}

TEST(Caches, ABlockCacheReachesBackToTheLastToken) {
  for (const planned& p : plans_of(block_cache{.prompt_period = 5, .block_period = 3})) {
    range expected = p.step == 0 ? everything : block_of(p);
    if (p.step % 5 == 0) {
      expected.first = 0;
    } else if (p.block_step == 0) {
      expected.first = p.first_changed;
      EXPECT_LT(p.first_changed, block_of(p).first);
    }
    EXPECT_EQ(p.next.query, expected) << "step " << p.step;
    EXPECT_EQ(p.next.refresh, p.step % 5 == 0 || p.step % 3 == 0);
  }
}

/// Blocks of 8 take 4 passes here, but count as 8.
TEST(Caches, AnAlignedBlockCacheCountsPositions) {
  const block_cache cache{
      .prompt_period = 16, .block_period = 3, .reaches_back = false, .aligned = true};
  for (const planned& p : plans_of(cache)) {
    const index_t count = p.block * 8 + p.block_step;
    EXPECT_EQ(p.next.query,
              p.step == 0       ? everything
              : count % 16 == 0 ? (range{0, block_of(p).last})
                                : block_of(p));
    EXPECT_EQ(p.next.refresh, count % 16 == 0 || count % 3 == 0);
  }
}

TEST(Caches, AnIntervalCacheRunsThePromptNowAndThen) {
  for (const planned& p : plans_of(interval_cache{.prompt_period = 4, .answer_period = 3})) {
    EXPECT_EQ(p.next.query,
              p.step % 4 == 0 ? everything : (range{shape.prompt_length, shape.length}));
    EXPECT_EQ(p.next.refresh, p.step % 3 == 0);
  }
  for (const planned& p : plans_of(interval_cache{.prompt_period = 0, .answer_period = 0})) {
    EXPECT_EQ(p.next.refresh, p.step == 0);
  }
}

TEST(Caches, KeysAreChosenOnceInABlock) {
  for (const planned& p : plans_of(dual_cache{.whole = 2}, key_eviction{})) {
    EXPECT_EQ(p.next.evict,
              p.block_step == 0   ? eviction::none
              : p.block_step == 1 ? eviction::choose
                                  : eviction::chosen);
  }
  for (const planned& p : plans_of(dual_cache{}, key_eviction{.delay = 2})) {
    EXPECT_EQ(p.next.refresh, p.block_step == 0 || p.block_step == 2);
  }
}

TEST(Caches, CheckTheirKnobs) {
  EXPECT_THROW(check_part(prefix_cache{-1}, shape), std::invalid_argument);
  EXPECT_THROW(check_part(dual_cache{-1}, shape), std::invalid_argument);
  EXPECT_THROW((check_part(dual_cache{.whole = 0}, shape)), std::invalid_argument);
  EXPECT_THROW(check_part(block_cache{-1}, shape), std::invalid_argument);
  EXPECT_THROW((check_part(block_cache{.block_period = -1}, shape)), std::invalid_argument);
  EXPECT_THROW(check_part(interval_cache{-1}, shape), std::invalid_argument);
  EXPECT_THROW((check_part(interval_cache{.answer_period = -1}, shape)), std::invalid_argument);
  EXPECT_THROW(check_part(suffix_window{-1}, shape), std::invalid_argument);
  EXPECT_THROW(check_part(delayed_cache{-1}, shape), std::invalid_argument);
  EXPECT_THROW(check_part(entropy_cache{-1.0F}, shape), std::invalid_argument);
  EXPECT_THROW((check_part(entropy_cache{.recent = -1}, shape)), std::invalid_argument);
  EXPECT_THROW((check_part(entropy_cache{.recent = entropy_cache::most + 1}, shape)),
               std::invalid_argument);
  EXPECT_THROW((check_part(key_eviction{.keep = 2.0}, shape)), std::invalid_argument);
  EXPECT_THROW((check_part(key_eviction{.delay = -1}, shape)), std::invalid_argument);
  EXPECT_THROW((check_part(key_eviction{.pool = 2}, shape)), std::invalid_argument);
}

// A row gives the token behind it: the position before the block runs, none behind the block.
TEST(Caches, RunTheRowsOfAModelThatIsShifted) {
  const toy_transformer model;
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{2}, dual_cache{}});
  int passes = 0;
  decode_layered(model, p, {shape}, 1, [&](auto& session, auto&, auto&, auto&) {
    const plan& next = session.planned();
    const range block = next.score;
    EXPECT_EQ(next.query, next.refresh ? everything : (range{block.first - 1, block.last}));
    passes += next.refresh ? 0 : 1;
  });
  EXPECT_EQ(passes, 9);
}

}  // namespace
}  // namespace unmask::testing::caches_test
