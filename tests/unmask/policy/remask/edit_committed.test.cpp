// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>

#include <limits>
#include <map>
#include <stdexcept>

#include "support/by_name.hpp"
#include "support/dice.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::edit_committed_test {
namespace {

using positions = std::vector<index_t>;

TEST(edit_committed, agrees_with_the_rule_in_double_precision) {
  int edits = 0;
  int compared = 0;
  int skipped = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 1.0 + static_cast<double>(seed % 8)};
    const double threshold = 0.5;
    const double edit = 0.1 * static_cast<double>(seed % 9);
    const index_t most = static_cast<index_t>(seed % 6);
    const policy p{by_confidence{},
                   unmask::threshold{0.5F},
                   edit_committed{static_cast<float>(edit)},
                   edited_blocks{most}};
    const sequence_shape g{.prompt_length = 2, .length = 26, .block_length = 7};
    index_t full_passes = 0;
    range block{0, 0};
    observe_decode(p, model, g, [&](const observed_step& s) {
      if (!(s.planned.score == block)) {
        block = s.planned.score;
        full_passes = 0;
      }
      full_passes += s.masked.empty() ? 1 : 0;
      EXPECT_LE(full_passes, most);
      EXPECT_EQ(s.planned.freeze, (range{0, block.first}));
      positions want;
      bool is_rounding = false;
      for (const observed_row& r : s.masked) {
        is_rounding = is_rounding || is_close(r.confidence, threshold);
        if (r.confidence > threshold) {
          want.push_back(r.position);
        }
      }
      if (want.empty() && !s.masked.empty()) {
        want.push_back(best_of(s.masked));
      }
      for (const observed_row& r : s.committed_rows) {
        is_rounding = is_rounding || is_close(r.confidence, edit);
        if (r.token != r.current && r.confidence > edit) {
          want.push_back(r.position);
          ++edits;
        }
      }
      std::sort(want.begin(), want.end());
      if (is_rounding) {
        ++skipped;
        return;
      }
      ++compared;
      EXPECT_EQ(positions_of(s.committed), want);
    });
  }
  EXPECT_GT(compared, 1500);
  EXPECT_GT(edits, 500);
  EXPECT_LT(skipped, compared / 20);
}

// Prefers, at every committed position, another token than the one that stands there.
struct restless {
  double confidence = 0.8;
  [[nodiscard]] model_info info() const { return {.vocab = 8, .mask_token = 7}; }
  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    const token_id now = x[static_cast<std::size_t>(position)];
    write_row(out, now == 1 ? 2 : 1, confidence);
  }
};

TEST(edited_blocks, leave_a_block_that_never_comes_to_rest) {
  for (const index_t most : {0, 1, 2, 16}) {
    const policy p{by_confidence{}, unmask::threshold{0.5F}, edit_committed{}, edited_blocks{most}};
    std::vector<token_id> tokens(10, 0);
    session s{by_name(p),
              restless{}.info(),
              tokens,
              sequence_shape{.prompt_length = 2, .length = 10, .block_length = 4}};
    observe_decode(s, restless{}, tokens, [](const observed_step&) {});
    EXPECT_EQ(s.report().forwards, 2 * (1 + most));
    EXPECT_EQ(s.report().rewritten, 8 * most);
    EXPECT_EQ(s.report().committed, 8);
    EXPECT_EQ(s.report().end, ending::complete);
    EXPECT_EQ(tokens[2], most % 2 == 0 ? 1 : 2);
    EXPECT_EQ(tokens[0], 0);  // the prompt
  }
}

// Proposes token 3 for what is masked, and token 0 with probability 1/2 for what is committed.
struct undecided {
  [[nodiscard]] model_info info() const { return {.vocab = 8, .mask_token = 7}; }
  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    write_even_row(out);
    out[3] = x[static_cast<std::size_t>(position)] == 7 ? 9.0F : out[3];
  }
};

TEST(edit_committed, the_threshold_is_strict) {
  const auto rewritten = [](float threshold) {
    std::vector<token_id> tokens(4, 0);
    const policy p{
        by_confidence{}, unmask::threshold{0.5F}, edit_committed{threshold}, edited_blocks{1}};
    session s{
        by_name(p), undecided{}.info(), tokens, sequence_shape{.length = 4, .block_length = 4}};
    observe_decode(s, undecided{}, tokens, [](const observed_step&) {});
    return s.report().rewritten;
  };
  EXPECT_EQ(rewritten(std::nextafter(0.5F, 0.0F)), 4);
  EXPECT_EQ(rewritten(0.5F), 0);
  EXPECT_EQ(rewritten(1.0F), 0);
}

TEST(edit_committed, fixed_positions_stay_as_they_are) {
  std::vector<token_id> tokens{5, 5, 5, 5, 5, 5};
  const std::vector<std::uint8_t> editable{0, 1, 0, 1, 0, 0};
  const auto p =
      by_name(policy{by_confidence{}, unmask::threshold{0.5F}, edit_committed{}, edited_blocks{3}});
  session<std::remove_const_t<decltype(p)>> s{restless{}.info(), {.length = 6, .window = 2}};
  s.start(0,
          p,
          tokens,
          {.prompt_length = 1, .length = 6, .block_length = 2},
          {.editable = editable, .suppressed = {}});
  observe_decode(s, restless{}, tokens, [](const observed_step&) {});
  EXPECT_EQ(tokens, (std::vector<token_id>{5, 2, 5, 2, 5, 5}));
  EXPECT_EQ(s.report().forwards, 8);  // a block in which nothing was masked is passed over
  EXPECT_EQ(s.report().rewritten, 6);
}

TEST(edit_committed, only_a_token_editing_part_rewrites_committed_tokens) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed};
    const sequence_shape g{.prompt_length = 1, .length = 21, .block_length = 5};
    std::vector<token_id> tokens(21, 0);
    const policy p{by_confidence{}, unmask::threshold{0.6F}, edited_blocks{4}};
    session s{by_name(p), model.info(), tokens, g};
    std::map<index_t, token_id> done;
    index_t idle = 0;
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      idle += seen.masked.empty() ? 1 : 0;
      for (const commit_entry& e : seen.committed) {
        EXPECT_TRUE(done.emplace(e.position, e.token).second) << "position " << e.position;
      }
      for (const auto& [position, token] : done) {
        EXPECT_EQ(tokens[static_cast<std::size_t>(position)], token);
      }
    });
    EXPECT_EQ(idle, 4);  // one for each block
    EXPECT_EQ(s.report().rewritten, 0);
  }
}

TEST(edited_blocks, without_edits_are_semi_autoregressive) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed};
    const sequence_shape g{.prompt_length = 1, .length = 21, .block_length = 5};
    EXPECT_EQ(
        commits_of(policy{by_confidence{}, unmask::threshold{0.6F}, edited_blocks{0}}, model, g),
        commits_of(policy{by_confidence{}, unmask::threshold{0.6F}}, model, g));
  }
}

// Proposes the mask token for everything that is committed.
struct forgetful {
  [[nodiscard]] model_info info() const {
    return {.vocab = 8, .mask_token = 7, .suppress_mask = false};
  }
  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    write_row(out, 1, 0.9);
    out[7] = x[static_cast<std::size_t>(position)] == 7 ? -100.0F : 5.0F;
  }
};

TEST(edit_committed, never_writes_the_mask_token) {
  std::vector<token_id> tokens(6, 0);
  const policy p{by_confidence{}, unmask::threshold{0.5F}, edit_committed{}, edited_blocks{3}};
  session s{by_name(p), forgetful{}.info(), tokens, sequence_shape{.length = 6, .block_length = 3}};
  observe_decode(s, forgetful{}, tokens, [](const observed_step&) {});
  EXPECT_EQ(tokens, std::vector<token_id>(6, 1));
  EXPECT_EQ(s.report().rewritten, 0);
}

TEST(edited_blocks, end_with_tokens_that_are_remasked) {
  index_t remasked = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 4.0};
    std::vector<token_id> tokens(24, 0);
    const policy p{by_confidence{},
                   unmask::threshold{0.5F},
                   edit_committed{0.3F},
                   remask_current_below{.confidence = 0.4F, .allowance = 10},
                   edited_blocks{3}};
    session s{by_name(p), model.info(), tokens, sequence_shape{.length = 24, .block_length = 8}};
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      for (const commit_entry& e : seen.committed) {
        remasked += e.token == model.info().mask_token ? 1 : 0;
      }
    });
    EXPECT_EQ(s.report().end, ending::complete);
    EXPECT_EQ(s.report().masked, 0);
  }
  EXPECT_GT(remasked, 20);
}

TEST(edit_committed, refuses_knobs_out_of_range) {
  const made_up_model model;
  std::vector<token_id> tokens(8, 0);
  const sequence_shape g{.length = 8};
  const auto start = [&](edit_committed edit, edited_blocks blocks) {
    session s{
        by_name(policy{by_confidence{}, tokens_per_step{}, edit, blocks}), model.info(), tokens, g};
  };
  EXPECT_NO_THROW(start({1.0F}, {0}));
  EXPECT_THROW(start({-0.1F}, {}), std::invalid_argument);
  EXPECT_THROW(start({1.1F}, {}), std::invalid_argument);
  EXPECT_THROW(start({std::numeric_limits<float>::quiet_NaN()}, {}), std::invalid_argument);
  EXPECT_THROW(start({}, {-1}), std::invalid_argument);
}

// A block that is left with masked positions leaves no state to the positions that share its cells.
TEST(edited_blocks, decides_the_same_whatever_the_window) {
  const named_policy parts =
      read_policy("edited_blocks(0, most_forwards=1) + threshold(0.9) + adaptive_credit");
  const model_info model{.vocab = 12, .mask_token = 11};
  const sequence_shape shape{.length = 15, .block_length = 5};
  const auto decode = [&](index_t window, std::uint64_t seed) {
    dice d(seed);
    std::vector<token_id> tokens(static_cast<std::size_t>(shape.length));
    session<named_policy, on_host> s(parts, model, {.length = shape.length, .window = window});
    s.start(0, parts, {tokens.data(), shape.length}, shape);
    std::vector<std::pair<token_id, float>> written;
    std::vector<float> logits;
    while (const auto request = s.next()) {
      logits.resize(static_cast<std::size_t>(request->rows) * 12);
      for (float& z : logits) {
        z = static_cast<float>(d.within(0, 60)) / 10.0F;
      }
      s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
      for (const commit_entry& e : s.committed()) {
        written.emplace_back(e.token, e.log_probability);
      }
    }
    return written;
  };
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(decode(shape.block_length, seed), decode(shape.length, seed)) << seed;
  }
}

}  // namespace
}  // namespace unmask::testing::edit_committed_test
