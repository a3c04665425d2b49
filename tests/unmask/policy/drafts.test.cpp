// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/drafts.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::drafts_test {
namespace {

constexpr index_t vocab = 9;
constexpr token_id mask = 8, eos = 7;

/// A model of two layers whose rows depend on the tokens near a position, with a chance of `flip`;
/// it attends to positions outside a pass as the pass that computed them last has left them.
class caching_engine {
 public:
  caching_engine(std::uint64_t seed, double flip, const std::vector<token_id>& tokens)
      : seed_(seed)
      , flip_(flip) {
    kept_.tokens = tokens;
    kept_.states.resize(tokens.size());
  }

  [[nodiscard]] std::vector<float> forward(const forward_request& request,
                                           const std::vector<token_id>& tokens) {
    std::vector<float> logits;
    seen_.clear();
    for (const segment& s : request.segments) {
      std::vector<token_id> now = tokens;
      for (const placement& p : s.placed) {
        now[static_cast<std::size_t>(p.position)] = p.token;
      }
      memory& m = seen_.emplace_back(kept_);
      std::copy(now.begin() + s.query.first,
                now.begin() + s.query.last,
                m.tokens.begin() + s.query.first);
      for (index_t p = s.query.first; p < s.query.last; ++p) {
        m.states[static_cast<std::size_t>(p)] = mixed(m.tokens, p, 1);
      }
      for (index_t r = s.rows.first; r < s.rows.last; ++r) {
        const std::vector<float> z = row(mixed(m.states, r, 2), r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
    }
    return logits;
  }
  /// Keeps what the branch that won has computed.
  void keep(index_t winner) { kept_ = seen_[static_cast<std::size_t>(winner)]; }

 private:
  struct memory {
    std::vector<token_id> tokens;
    std::vector<std::uint64_t> states;
  };

  [[nodiscard]] std::uint64_t mixed(const auto& of, index_t r, index_t radius) const {
    std::uint64_t key = seed_ ^ static_cast<std::uint64_t>(r);
    for (index_t p = std::max(r - radius, 0); p <= std::min(r + radius, index_t(of.size()) - 1);
         ++p) {
      key = chances(key + static_cast<std::uint64_t>(of[static_cast<std::size_t>(p)])).bits();
    }
    return key;
  }
  [[nodiscard]] std::vector<float> row(std::uint64_t key, index_t r) const {
    chances by_position(seed_ + static_cast<std::uint64_t>(r) * 977U);
    const token_id best = by_position.within(0, eos);
    chances by_text(key);
    std::vector<float> z;
    for (index_t v = 0; v < vocab; ++v) {
      z.push_back(by_position.real(-1.0, 1.0) + by_text.real(-0.2, 0.2));
    }
    z[static_cast<std::size_t>(by_text.chance(flip_) ? by_text.within(0, eos) : best)] +=
        by_position.real(0.5, 6.0) + by_text.real(-0.2, 0.2);
    return z;
  }

  std::uint64_t seed_;
  double flip_;
  memory kept_;
  std::vector<memory> seen_;
};

struct decoded {
  std::vector<token_id> tokens;
  std::vector<float> log_probabilities;
  sequence_report report;
  int branches = 0;
};

template <class Policy>
decoded decode(const Policy& p, const sequence_shape& g, std::uint64_t seed, double flip) {
  decoded d;
  d.tokens.assign(static_cast<std::size_t>(g.length), 1);
  d.log_probabilities.resize(d.tokens.size());
  const model_info model{.vocab = vocab, .mask_token = mask, .eos_token = eos};
  session<Policy> s(
      model,
      {.sequences = 1, .length = g.length, .window = g.length, .branches = 15, .trace = true});
  s.start(0, p, tokens_view<memory::host>(d.tokens), g);
  caching_engine engine(seed, flip, d.tokens);
  int forwards = 0;
  index_t forced = 0;
  while (const auto request = s.next()) {
    const std::vector<token_id> before = d.tokens;
    const std::vector<float> logits = engine.forward(*request, d.tokens);
    d.branches += static_cast<int>(request->segments.size()) - 1;
    s.supply(host_logits<float>(logits.data(), request->rows, vocab));
    engine.keep(s.planned().winner);
    // What is reported is what has changed, in ascending positions.
    std::vector<token_id> after = before;
    index_t last = -1;
    for (const commit_entry& e : s.committed()) {
      EXPECT_GT(e.position, last);
      EXPECT_EQ(e.step, forwards);
      last = e.position;
      after[static_cast<std::size_t>(e.position)] = e.token;
      d.log_probabilities[static_cast<std::size_t>(e.position)] = e.log_probability;
    }
    for (std::size_t i = 0; i < after.size(); ++i) {  // an end fills what is left
      EXPECT_EQ(after[i] == mask && s.report().masked == 0 ? eos : after[i], d.tokens[i]);
    }
    last = -1;
    std::size_t written = 0;
    for (const candidate_entry& e : s.candidates()) {
      EXPECT_GT(e.position, last);
      last = e.position;
      written += e.committed ? 1 : 0;
      forced += e.outcome == candidate_outcome::forced ? 1 : 0;
    }
    EXPECT_EQ(s.report().forced, forced) << "seed " << seed;
    EXPECT_EQ(written, s.committed().size());
    EXPECT_EQ(s.report().forwards, ++forwards);
  }
  d.report = s.report();
  return d;
}

struct savings {
  int with = 0;
  int without = 0;
};

/// Decodes with the parts alone and with drafts: tokens, log-probabilities and report are the same.
template <class... Part>
savings compare(const drafts& d, const Part&... part) {
  savings saved;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    chances c(seed);
    const index_t prompt = c.within(0, 3);
    const sequence_shape g{.prompt_length = prompt,
                           .length = prompt + c.within(1, 24),
                           .block_length = c.within(1, 12),
                           .seed = seed};
    const double flip = 0.1 * static_cast<double>(seed % 5);
    const auto inner = by_name(policy{part...});
    const auto drafting = by_name(policy{part..., d});
    const decoded one = decode(inner, g, seed, flip);
    const decoded many = decode(drafting, g, seed, flip);
    EXPECT_EQ(one.tokens, many.tokens) << "seed " << seed;
    for (std::size_t p = 0; p < one.tokens.size(); ++p) {
      // A read of drafts keeps their tokens apart if a part reads the text: sums in another order.
      const float most = policy<Part...>::reads_sequence ? 1e-6F : 0.0F;
      EXPECT_NEAR(one.log_probabilities[p], many.log_probabilities[p], most) << "seed " << seed;
    }
    EXPECT_LE(many.report.forwards, one.report.forwards) << "seed " << seed;
    EXPECT_EQ(one.report.end, many.report.end);
    EXPECT_EQ(one.report.committed, many.report.committed);
    EXPECT_EQ(one.report.forced, many.report.forced);
    EXPECT_EQ(one.report.answer_end, many.report.answer_end);
    EXPECT_LE(many.report.forwards, most_forwards(drafting, g));
    saved.with += many.report.forwards;
    saved.without += one.report.forwards;
  }
  return saved;
}

TEST(drafts, tokens_are_those_of_one_step_a_pass) {
  const auto fewer = [](const savings& s) { EXPECT_LT(s.with * 10, s.without * 9); };
  fewer(compare(drafts{3}, by_confidence{}, tokens_per_step{1}));
  fewer(compare(drafts{7}, by_margin{}, tokens_per_step{1}));
  fewer(compare(drafts{3, 2}, by_entropy{}, tokens_per_step{2}));
  fewer(compare(drafts{4}, left_to_right{}, tokens_per_step{1}));
  fewer(compare(drafts{15}, by_confidence{}, tokens_per_step{1}, single_block{}));
  compare(drafts{3}, at_random{}, tokens_per_step{1});
  compare(drafts{5, 3}, by_confidence{}, tokens_per_step{2});
}

TEST(drafts, with_rules_that_commit_what_is_certain) {
  compare(drafts{4}, by_confidence{}, threshold{0.7F});
  compare(drafts{4}, by_margin{}, threshold{0.9F} || tokens_per_step{2});
  compare(drafts{4}, by_entropy{}, entropy_bound{0.5F});
  compare(drafts{4}, by_confidence{}, factor{0.8F}, single_block{});
  compare(drafts{6, 2}, by_confidence{}, steps_per_block{3});
  compare(drafts{4}, by_confidence{}, moving_threshold{0.9F, 0.4F}, stop_at_eos{});
  compare(drafts{4}, by_confidence{}, steady_leader{2} && threshold{0.3F});
  compare(drafts{4}, by_confidence{}, local_leap{0.8F, 0.5F, 2});
  compare(drafts{4}, by_confidence{}, tokens_per_step{1}, max_steps{7});
  compare(drafts{4, 2}, at_random{}, timesteps{9}, single_block{});
  compare(drafts{4}, by_confidence{}, independent_timesteps{9}, single_block{});
}

TEST(drafts, with_caches_and_schedules) {
  const auto fewer = [](const savings& s) { EXPECT_LT(s.with * 10, s.without * 9); };
  fewer(compare(drafts{3}, by_confidence{}, tokens_per_step{1}, prefix_cache{3}));
  fewer(compare(drafts{3}, by_confidence{}, tokens_per_step{1}, dual_cache{4, 2}));
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, block_cache{5, 3});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, interval_cache{3, 0});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, suffix_window{2});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, block_pipeline{0.4F, 0.6F, 3});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, sliding_block{5});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, slow_fast{});
}

TEST(drafts, of_which_a_part_is_accepted_take_back_forced_commits) {
  int forced = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const sequence_shape g{.prompt_length = 1, .length = 21, .block_length = 4, .seed = seed};
    const named_policy p =
        read_policy("finish + drafts(partial=true) + block_pipeline(activate=0)");
    forced += decode(p, g, seed, 0.1).report.forced;
  }
  EXPECT_GT(forced, 60);
}

TEST(drafts, with_edits_of_logits) {
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, repetition_penalty<4>{});
  compare(drafts{4}, by_confidence{}, tokens_per_step{1}, neighbour_penalty{0.5F}, eos_gate{});
  compare(drafts{3}, by_confidence{}, tokens_per_step{1}, logit_bias<1>{{{2, 0.5F}}}, eos_last{});
  compare(drafts{3}, by_margin{}, tokens_per_step{1}, temperature{0.7F}, min_new_tokens{2});
}

}  // namespace
}  // namespace unmask::testing::drafts_test
