// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/presets/released/lopa.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/scripted_rows.hpp"

namespace unmask::testing::pipeline_test {
namespace {

// A schedule beside a sequence whose positions a test commits.
class stage {
 public:
  stage(const block_pipeline& blocks, index_t block_length, index_t length)
      : blocks_(blocks)
      , tokens_(static_cast<std::size_t>(length), 9)
      , marks_(static_cast<std::size_t>(length), mark::masked) {
    view_.tokens = tokens_.data();
    view_.marks = marks_.data();
    view_.length = length;
    view_.block_length = block_length;
    view_.eos_token = 7;
    view_.masked_count = length;
  }

  void commit(index_t first, index_t last, token_id token = 1) {
    for (index_t p = first; p < last; ++p) {
      view_.masked_count -= view_.is_masked(p) ? 1 : 0;
      marks_[static_cast<std::size_t>(p)] = mark::committed;
      tokens_[static_cast<std::size_t>(p)] = token;
    }
  }

  plan next() {
    struct {
      block_pipeline::sequence_state& sequence;
    } context{state_};
    plan n;
    blocks_.schedule(view_, n, context);
    return n;
  }

 private:
  block_pipeline blocks_;
  std::vector<token_id> tokens_;
  std::vector<mark> marks_;
  sequence_view view_;
  block_pipeline::sequence_state state_;
};

TEST(pipeline, test_vector_20) {
  stage s({.add = 0.1F, .activate = 0.95F}, 32, 96);
  EXPECT_EQ(s.next().score, (range{0, 32}));
  s.commit(0, 3);  // 29 masks: .09375
  EXPECT_EQ(s.next().last_block, 1);
  s.commit(3, 4);  // 28 masks: .125
  EXPECT_EQ(s.next().score, (range{0, 64}));
  EXPECT_EQ(s.next().forced, 1U);
  s.commit(4, 30);  // 2 masks: .9375
  EXPECT_EQ(s.next().forced, 1U);
  s.commit(30, 31);  // 1 mask: .96875
  EXPECT_EQ(s.next().forced, 3U);
}

TEST(pipeline, runs_the_blocks_so_far_or_the_whole_canvas) {
  stage so_far({.add = 0.5F}, 4, 18);
  stage whole({.add = 0.5F, .whole_canvas = true}, 4, 18);
  const struct {
    index_t committed, last;
  } steps[] = {{0, 4}, {2, 8}, {3, 8}, {6, 12}};
  for (const auto& [committed, last] : steps) {
    so_far.commit(0, committed);
    whole.commit(0, committed);
    plan p = so_far.next();
    EXPECT_EQ(p.query, (range{0, last}));
    plan q = whole.next();
    EXPECT_EQ(q.query, (range{0, 18}));
    q.query = p.query;
    EXPECT_EQ(q.score, p.score);  // what is decided about, and all else, is the same
    EXPECT_EQ(q.forced, p.forced);
    EXPECT_EQ(q.freeze, p.freeze);
  }
}

TEST(pipeline, adds_one_block_a_step_and_at_most_so_many) {
  stage s({.add = 0.0F, .activate = 1.0F, .at_once = 3}, 4, 40);
  for (index_t expected : {1, 2, 3, 3, 3}) {
    EXPECT_EQ(s.next().last_block, expected);
  }
  s.commit(0, 4);
  const plan n = s.next();
  EXPECT_EQ(n.first_block, 1);
  EXPECT_EQ(n.last_block, 4);
  EXPECT_EQ(n.freeze, (range{0, 4}));
  EXPECT_EQ(n.score, (range{4, 16}));
  EXPECT_EQ(n.query, (range{0, 16}));
  EXPECT_EQ(n.forced, 1U);
}

TEST(pipeline, an_activated_block_stays_activated_when_it_becomes_the_first) {
  stage s({.add = 0.0F, .activate = 0.5F}, 4, 40);
  s.next();
  s.next();
  s.commit(0, 2);
  EXPECT_EQ(s.next().forced, 3U);
  s.commit(2, 4);
  s.commit(4, 6);
  EXPECT_EQ(s.next().forced & 3U, 3U);
}

TEST(pipeline, grows_when_nothing_is_masked_whatever_add_says) {
  stage s({.add = 1.0F, .activate = 1.0F}, 4, 8);
  EXPECT_EQ(s.next().score, (range{0, 4}));
  s.commit(0, 3);
  EXPECT_EQ(s.next().score, (range{0, 4}));
  s.commit(3, 4);
  EXPECT_EQ(s.next().score, (range{4, 8}));
  s.commit(4, 8);
  EXPECT_EQ(s.next().end, ending::complete);
}

TEST(pipeline, an_eos_token_stops_the_growth_and_the_blocks_so_far_are_decoded) {
  stage s({.add = 0.5F, .activate = 1.0F}, 4, 40);
  s.next();
  s.commit(2, 4, 7);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(s.next().score, (range{0, 4}));
  }
  s.commit(0, 2);
  EXPECT_EQ(s.next().end, ending::eos_token);
}

TEST(pipeline, passes_by_blocks_in_which_nothing_is_masked) {
  stage s({.add = 0.1F, .activate = 1.0F}, 4, 40);
  s.commit(0, 12);
  s.commit(16, 32);
  EXPECT_EQ(s.next().score, (range{12, 16}));
  s.commit(12, 16);
  const plan n = s.next();
  EXPECT_EQ(n.score, (range{32, 36}));
  EXPECT_EQ(n.first_block, 8);
  EXPECT_EQ(n.forced, 1U);
  EXPECT_EQ(n.freeze, (range{12, 32}));
  s.commit(32, 40);
  EXPECT_EQ(s.next().end, ending::complete);
}

TEST(pipeline, sees_an_eos_token_in_a_block_that_it_passes_by) {
  stage s({.add = 0.1F, .activate = 1.0F}, 4, 40);
  EXPECT_EQ(s.next().score, (range{0, 4}));
  s.commit(5, 8);
  s.commit(4, 5, 7);
  s.commit(0, 4);
  EXPECT_EQ(s.next().end, ending::eos_token);
}

dense_request request_of(std::uint64_t seed) {
  chances c(seed);
  dense_request q = random_dense_request(c, c.within(6, 24));
  q.geometry.length = q.geometry.prompt_length + c.within(4, 40);
  q.geometry.block_length = c.within(2, 9);
  q.model.logits_shift = c.within(0, 1);
  q.suppressed.clear();
  return q;
}

// Two of 80 positions are to be decided: two passes at most, each about a masked one.
template <class Schedule, class... More>
void expect_no_empty_pass(const Schedule& blocks, const More&... more) {
  int passes = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    chances c(seed);
    dense_request q = request_of(seed);
    q.geometry.prompt_length = 0;
    q.geometry.length = 80;
    q.branches = 3;
    std::vector<token_id> x(80, 1);
    std::vector<std::uint8_t> editable(80, 0);
    editable[static_cast<std::size_t>(c.within(0, 79))] = 1;
    editable[static_cast<std::size_t>(c.within(0, 79))] = 1;
    const auto rule = by_name(policy{by_confidence{}, unmask::threshold{0.9F}, blocks, more...});
    session<std::remove_const_t<decltype(rule)>> s{q.model,
                                                   {.length = 80, .window = 80, .branches = 3}};
    s.start(0,
            rule,
            tokens_view<memory::host>(x),
            q.geometry,
            {.editable = editable, .suppressed = {}});
    while (const auto request = s.next()) {
      const range scored = s.planned().score;
      EXPECT_TRUE(std::find(x.begin() + scored.first,
                            x.begin() + scored.last,
                            q.model.mask_token) != x.begin() + scored.last)
          << "seed " << seed;
      const std::vector<float> logits =
          logits_of(s, *request, x, [&](const segment& part, index_t p) {
            const std::vector<token_id> fed(x.begin(), x.begin() + part.query.last);
            return q.logits.row(fed, std::max(p - q.model.logits_shift, 0));
          });
      s.supply(host_logits<float>{logits.data(), request->rows, q.model.vocab});
      ++passes;
    }
    EXPECT_EQ(s.report().masked, 0);
    EXPECT_LE(s.report().forwards, 2) << "seed " << seed;
  }
  EXPECT_GT(passes, 80);
}

TEST(pipeline, asks_for_no_pass_without_a_masked_position) {
  const block_pipeline blocks{.add = 0.2F, .activate = 0.8F};
  expect_no_empty_pass(blocks);
  expect_no_empty_pass(blocks, lookahead{});
  expect_no_empty_pass(released::d2f_blocks{}, lookahead{});
}

// Invariants of whole decodes, with a row of the naive softmax for each decision.
TEST(pipeline, forces_activated_blocks_only_and_commits_what_the_rule_does) {
  int waits = 0;
  int ahead = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const dense_request q = request_of(seed);
    const sequence_shape& g = q.geometry;
    chances c(seed + 7);
    const block_pipeline blocks{
        .add = c.real(0.0, 0.8), .activate = c.real(0.5, 1.0), .at_once = c.within(1, 4)};
    const float threshold = c.real(0.3, 0.95);
    std::vector<token_id> x(static_cast<std::size_t>(g.length), 0);
    session s{
        by_name(policy{by_confidence{}, unmask::threshold{threshold}, blocks}), q.model, x, g};
    index_t grown = 0;
    while (const auto request = s.next()) {
      const plan now = s.planned();
      const script rows = [&](const segment& part, index_t p) {
        const std::vector<token_id> fed(x.begin(), x.begin() + part.query.last);
        return q.logits.row(fed, std::max(p - q.model.logits_shift, 0));
      };
      EXPECT_LE(now.last_block - now.first_block, blocks.at_once);
      EXPECT_LE(now.last_block, grown + 1);
      grown = std::max(grown, now.last_block);
      ahead += now.last_block - now.first_block > 1 ? 1 : 0;
      std::vector<double> confidence(x.size(), -1.0);
      for (index_t p = now.score.first; p < now.score.last; ++p) {
        if (x[static_cast<std::size_t>(p)] == q.model.mask_token) {
          std::vector<double> z;
          for (const float v : rows(request->segments[0], p)) {
            z.push_back(v);
          }
          z[static_cast<std::size_t>(q.model.mask_token)] =
              -std::numeric_limits<double>::infinity();
          confidence[static_cast<std::size_t>(p)] = dense_statistics(z, p).confidence;
        }
      }
      const std::vector<float> logits = logits_of(s, *request, x, rows);
      s.supply(host_logits<float>{logits.data(), request->rows, q.model.vocab});
      std::vector<int> commits(static_cast<std::size_t>(now.last_block));
      std::vector<int> below(commits.size());
      for (const commit_entry& e : s.committed()) {
        const auto b = static_cast<std::size_t>((e.position - g.prompt_length) / g.block_length);
        ++commits[b];
        const double p = confidence[static_cast<std::size_t>(e.position)];
        below[b] += p < static_cast<double>(threshold) - 1e-5 ? 1 : 0;
      }
      for (index_t b = now.first_block; b < now.last_block; ++b) {
        const auto at = static_cast<std::size_t>(b);
        const bool forced = (now.forced >> static_cast<unsigned>(b - now.first_block) & 1U) != 0;
        const range block{g.prompt_length + b * g.block_length,
                          std::min(g.prompt_length + (b + 1) * g.block_length, g.length)};
        const bool had_open = std::any_of(confidence.begin() + block.first,
                                          confidence.begin() + block.last,
                                          [](double p) { return p >= 0.0; });
        EXPECT_TRUE(!forced || !had_open || commits[at] > 0) << "seed " << seed;
        EXPECT_LE(below[at], forced && commits[at] == 1 ? 1 : 0) << "seed " << seed;
        waits += !forced && had_open && commits[at] == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(s.report().masked, 0);
  }
  EXPECT_GT(waits, 20);
  EXPECT_GT(ahead, 200);
}

TEST(pipeline, of_one_block_at_a_time_is_sequential) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    dense_request q = request_of(seed);
    q.model.eos_token = no_token;
    q.model.logits_shift = 0;
    std::vector<std::vector<index_t>> all;
    const auto note = [&](const auto& p) {
      all.emplace_back();
      each_step(p, q, [&](std::span<const commit_entry> entries, const auto&) {
        all.back().push_back(-1);
        for (const commit_entry& e : entries) {
          all.back().push_back(e.position * 100 + e.token);
        }
      });
    };
    note(policy{by_confidence{}, unmask::threshold{0.7F}, block_pipeline{.at_once = 1}});
    note(policy{by_confidence{}, unmask::threshold{0.7F}});
    EXPECT_EQ(all[0], all[1]) << "seed " << seed;
  }
}

TEST(d2f_blocks, branches_differ_in_length_and_the_winner_keeps_its_own) {
  const model_info model{.vocab = 5, .mask_token = 4, .eos_token = 2};
  const auto p = released::lopa(lookahead{.branches = 2}, 0.99F, {.add = 0.5F, .activate = 0.5F});
  std::vector<token_id> x(12);
  session s{by_name(p), model, x, sequence_shape{.length = 12, .block_length = 4}};
  // Position 0 is the most confident and commits; 1 and 2 are tried, the latter with the EOS token.
  decide_once(s, x, [](const segment&, index_t at) {
    std::vector<float> z = {3.0F - static_cast<float>(at), 0.0F, 0.0F, 0.0F, 0.0F};
    if (at == 2) {
      std::swap(z[0], z[2]);
    }
    return z;
  });
  ASSERT_EQ(s.planned().branches, 2);
  EXPECT_EQ(s.planned().branch[0].position, 1);
  EXPECT_EQ(s.planned().branch[1].token, 2);
  EXPECT_EQ(s.planned().score, (range{0, 8}));
  const auto request = s.next();
  const std::vector<segment> parts(request->segments.begin(), request->segments.end());
  EXPECT_EQ(parts[0].query, (range{0, 4}));  // one of four
  EXPECT_EQ(parts[0].rows, (range{1, 4}));
  EXPECT_EQ(parts[1].query, (range{0, 8}));  // two of four
  EXPECT_EQ(parts[1].rows, (range{1, 8}));
  EXPECT_EQ(parts[2].query, (range{0, 4}));  // two of four, and an end
  EXPECT_EQ(request->rows, 3 + 7 + 3);
  // Branch 1 is the most confident; its new block is activated, so that both blocks commit a token.
  const std::vector<float> logits = logits_of(s, *request, x, [](const segment& part, index_t at) {
    const float sure = part.branch == 1 ? 3.0F : 1.0F;
    return std::vector<float>{sure + 0.1F * static_cast<float>(at), 0.0F, 0.0F, 0.0F, 0.0F};
  });
  s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
  EXPECT_EQ(s.planned().winner, 1);
  std::vector<index_t> positions;
  for (const commit_entry& e : s.committed()) {
    positions.push_back(e.position);
  }
  EXPECT_EQ(positions, (std::vector<index_t>{1, 3, 7}));
  EXPECT_GE(s.planned().score.last, 8);
}

TEST(pipeline, names_the_knob_that_is_wrong) {
  const auto starting = [](const block_pipeline& blocks) {
    std::vector<token_id> x(4);
    session s{by_name(policy{by_confidence{}, tokens_per_step{}, blocks}),
              model_info{.vocab = 3, .mask_token = 2},
              x,
              sequence_shape{.length = 4}};
  };
  EXPECT_THROW(starting({.add = -0.1F}), std::invalid_argument);
  EXPECT_THROW(starting({.activate = 1.1F}), std::invalid_argument);
  EXPECT_THROW(starting({.at_once = 0}), std::invalid_argument);
  EXPECT_THROW(starting({.at_once = max_active_blocks + 1}), std::invalid_argument);
}

TEST(pipeline, forces_commits_in_joined_blocks_only) {
  stage s({.add = 0.1F, .activate = 0.95F, .at_once = 2}, 32, 128);
  EXPECT_EQ(s.next().forced, 1U);
  s.commit(0, 31);
  const plan two = s.next();
  EXPECT_EQ(two.last_block, 2);
  EXPECT_EQ(two.forced, 3U);
  s.commit(32, 63);  // the third may not join, and is not forced
  const plan still_two = s.next();
  EXPECT_EQ(still_two.last_block, 2);
  EXPECT_EQ(still_two.forced, 3U);
  s.commit(64, 128);  // given tokens, say: the blocks behind are nearly complete
  EXPECT_EQ(s.next().forced, 3U);
}

}  // namespace
}  // namespace unmask::testing::pipeline_test
