// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

#include <limits>
#include <stdexcept>

#include "support/by_name.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::slow_fast_test {
namespace {

// The method from its description, in double precision: what the next pass is about, and what it
// commits. Says when a decision is rounding; what was really committed then goes in.
class naive_slow_fast {
 public:
  naive_slow_fast(const slow_fast& knobs, double sure, const sequence_shape& g)
      : knobs_(knobs)
      , sure_(sure)
      , g_(g) {
    begin_block(0);
  }

  [[nodiscard]] range scored() const {
    const index_t first = block_first() + begin_;
    return {first, explores() ? block_last() : block_first() + end()};
  }
  [[nodiscard]] bool feeds_everything() const { return passes_ <= knobs_.exploration; }

  [[nodiscard]] std::optional<std::vector<index_t>>
  commits(std::span<const observed_row> open) const {
    std::vector<index_t> sure;
    for (const observed_row& r : open) {
      if (is_close(r.confidence, sure_) ||
          is_close(r.confidence, static_cast<double>(knobs_.promising))) {
        return std::nullopt;
      }
      if (r.confidence > sure_) {
        sure.push_back(r.position);
      }
    }
    if (sure.size() >= 2) {
      return sure;
    }
    return std::vector<index_t>{best_of(open)};
  }

  // Takes the decisions of a step; open_after has the positions still masked.
  template <class IsOpen>
  void move_on(std::span<const observed_row> open, const IsOpen& open_after) {
    if (explores()) {
      index_t guess = begin_ + 1;
      for (const observed_row& r : open) {
        if (r.confidence > static_cast<double>(knobs_.promising)) {
          guess = std::max(guess, r.position - block_first() + 1);
        }
      }
      guesses_.push_back(std::min(guess, block_last() - block_first()));
      if (!frozen_ && guesses_.size() >= 2) {
        const double a = guesses_[guesses_.size() - 2];
        const double b = guesses_.back();
        const double mean = (a + b) / 2.0;
        const double deviation =
            std::sqrt(((a - mean) * (a - mean) + (b - mean) * (b - mean)) / 2.0);
        frozen_ = deviation < static_cast<double>(knobs_.spread);
        end_ = frozen_ ? guesses_.back() : static_cast<index_t>(mean);
      }
    }
    ++passes_;
    const auto any = [&](range r) {
      for (index_t p = r.first; p < r.last; ++p) {
        if (open_after(p)) {
          return true;
        }
      }
      return false;
    };
    while (block_last() < g_.length && !any({block_first(), block_last()})) {
      begin_block(block_ + 1);
    }
    if (passes_ >= knobs_.exploration && !any({block_first() + begin_, block_first() + end()})) {
      const index_t next = end();
      begin_block(block_);
      begin_ = next;
    }
  }

 private:
  [[nodiscard]] index_t block_first() const { return g_.prompt_length + block_ * g_.block_length; }
  [[nodiscard]] index_t block_last() const {
    return std::min(block_first() + g_.block_length, g_.length);
  }
  [[nodiscard]] bool explores() const { return passes_ < knobs_.exploration; }
  [[nodiscard]] index_t end() const { return guesses_.size() == 1 ? guesses_[0] : end_; }
  void begin_block(index_t b) {
    block_ = b;
    begin_ = 0;
    end_ = 0;
    passes_ = 0;
    guesses_.clear();
    frozen_ = false;
  }

  slow_fast knobs_;
  double sure_;
  sequence_shape g_;
  index_t block_ = 0;
  index_t begin_ = 0;
  index_t end_ = 0;
  index_t passes_ = 0;
  std::vector<index_t> guesses_;
  bool frozen_ = false;
};

TEST(slow_fast, agrees_with_the_method_in_double_precision) {
  int compared = 0;
  int filling = 0;
  int parallel = 0;
  int skipped = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 2.0 + static_cast<double>(seed % 8)};
    slow_fast knobs;
    knobs.exploration = 1 + static_cast<index_t>(seed % 7);
    knobs.promising = 0.2F + 0.05F * static_cast<float>(seed % 9);
    const double sure = 0.4 + 0.05 * static_cast<double>(seed % 11);
    knobs.spread = 0.5F * static_cast<float>(seed % 5);
    const sequence_shape g{
        .prompt_length = 3, .length = 50, .block_length = 7 + static_cast<index_t>(seed % 45)};
    std::vector<token_id> tokens(50, 0);
    const auto p =
        by_name(policy{by_confidence{}, threshold{static_cast<float>(sure), true}, knobs});
    session<std::remove_const_t<decltype(p)>> s{model.info(), {.length = 50, .window = 52}};
    s.start(0, p, tokens, g);
    naive_slow_fast naive(knobs, sure, g);
    bool diverged = false;
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      if (diverged) {
        return;
      }
      ASSERT_EQ(seen.planned.score, naive.scored());
      const range fed = {0, naive.feeds_everything() ? 50 : naive.scored().last};
      ASSERT_EQ(seen.planned.query, fed);
      ASSERT_EQ(seen.planned.forced, 1U);  // the block must commit a token
      const auto want = naive.commits(seen.masked);
      if (!want) {
        diverged = true;  // a guess may be rounding, too
        ++skipped;
        return;
      }
      ASSERT_EQ(positions_of(seen.committed), *want);
      ++compared;
      parallel += want->size() > 1 ? 1 : 0;
      filling += naive.feeds_everything() ? 0 : 1;
      naive.move_on(seen.masked, [&](index_t at) {
        return tokens[static_cast<std::size_t>(at)] == model.info().mask_token;
      });
    });
    EXPECT_EQ(s.report().end, ending::complete);
  }
  EXPECT_GT(compared, 4000);
  EXPECT_GT(parallel, 500);
  EXPECT_GT(filling, 200);
  EXPECT_LT(skipped, 20);
}

// Confidences by position, whatever is committed.
struct scripted {
  std::vector<double> confidence;
  [[nodiscard]] model_info info() const { return {.vocab = 40, .mask_token = 39}; }
  void row(std::span<const token_id>, index_t position, std::span<float> out) const {
    write_row(out, 1, confidence[static_cast<std::size_t>(position)]);
  }
};

TEST(slow_fast, explores_six_passes_then_fills_up_to_the_farthest_promising_one) {
  // 12 masked positions; 7 is the farthest promising one, and stays masked while 0 .. 5 are better.
  const scripted model{{.8, .79, .78, .77, .76, .75, .1, .35, .1, .1, .1, .1}};
  std::vector<range> scored;
  std::vector<index_t> order;
  observe_decode(by_name(policy{by_confidence{}, threshold{.inclusive = true}, slow_fast{}}),
                 model,
                 {.length = 12, .block_length = 12},
                 [&](const observed_step& s) {
                   scored.push_back(s.planned.score);
                   ASSERT_EQ(s.committed.size(), 1U);
                   order.push_back(s.committed[0].position);
                 });
  ASSERT_EQ(scored.size(), 12U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(scored[i], (range{0, 12})) << i;
    EXPECT_EQ(order[i], static_cast<index_t>(i));
  }
  EXPECT_EQ(scored[6], (range{0, 8}));
  EXPECT_EQ(order[6], 7);
  EXPECT_EQ(scored[7], (range{0, 8}));
  EXPECT_EQ(order[7], 6);
  EXPECT_EQ(scored[8], (range{8, 12}));  // and explores again
}

TEST(slow_fast, two_sure_candidates_commit_together_one_does_not_take_others_along) {
  const scripted two{{.95, .92, .89, .5}};
  std::vector<std::vector<index_t>> steps;
  observe_decode(by_name(policy{by_confidence{}, threshold{.inclusive = true}, slow_fast{}}),
                 two,
                 {.length = 4, .block_length = 4},
                 [&](const observed_step& s) { steps.push_back(positions_of(s.committed)); });
  EXPECT_EQ(steps, (std::vector<std::vector<index_t>>{{0, 1}, {2}, {3}}));
}

TEST(slow_fast, ends_with_fixed_positions_anywhere) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed};
    std::vector<token_id> tokens(30, 0);
    std::vector<std::uint8_t> editable(30);
    for (std::size_t i = 0; i < 30; ++i) {
      editable[i] = made_up_model::hash(seed, i) % 3 == 0 ? 1 : 0;
    }
    const auto p =
        by_name(policy{by_confidence{}, threshold{.inclusive = true}, slow_fast{.exploration = 2}});
    session<std::remove_const_t<decltype(p)>> s{model.info(), {.length = 30, .window = 11}};
    s.start(
        0, p, tokens, {.length = 30, .block_length = 11}, {.editable = editable, .suppressed = {}});
    index_t steps = 0;
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      EXPECT_FALSE(seen.committed.empty());
      ++steps;
    });
    EXPECT_LE(steps, 30);
    EXPECT_EQ(s.report().masked, 0);
  }
}

// Only scored positions are remasked, so nothing is ever left behind the begin of a stretch.
TEST(slow_fast, ends_with_tokens_that_are_remasked) {
  index_t remasked = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 4.0};
    std::vector<token_id> tokens(30, 0);
    const auto p = by_name(policy{by_confidence{},
                                  threshold{0.3F, true},
                                  slow_fast{.exploration = 1 + static_cast<index_t>(seed % 4)},
                                  remask_current_below{.confidence = 0.6F, .allowance = 12}});
    session s{by_name(p), model.info(), tokens, sequence_shape{.length = 30, .block_length = 12}};
    observe_decode(s, model, tokens, [](const observed_step&) {});
    EXPECT_EQ(s.report().end, ending::complete);
    remasked += s.report().rewritten;
  }
  EXPECT_GT(remasked, 100);
}

TEST(slow_fast, refuses_knobs_out_of_range) {
  const made_up_model model;
  std::vector<token_id> tokens(8, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const slow_fast& bad : {slow_fast{.exploration = 0},
                               slow_fast{.promising = -0.1F},
                               slow_fast{.promising = 1.5F},
                               slow_fast{.spread = -1.0F},
                               slow_fast{.spread = nan}}) {
    EXPECT_THROW((session{by_name(policy{by_confidence{}, tokens_per_step{}, bad}),
                          model.info(),
                          tokens,
                          sequence_shape{.length = 8}}),
                 std::invalid_argument);
  }
}

}  // namespace
}  // namespace unmask::testing::slow_fast_test
