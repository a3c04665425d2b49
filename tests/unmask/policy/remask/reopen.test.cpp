// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "oracles/dense_oracle.hpp"

#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/end_of_text.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/revise.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_settled.hpp>
#include <unmask/policy/remask/revisit.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <stdexcept>

namespace unmask::testing {
namespace {

constexpr float ban = -std::numeric_limits<float>::infinity();

// Records the probability of every committed token that it is called for.
struct current_witness {
  struct entry {
    index_t position;
    double probability;
    double best;
  };
  inline static std::vector<entry> seen;
  static constexpr statistics required = stat::confidence;
  static constexpr bool watches_current = true;
  verdict revisit(const auto& c, const auto& own) const {
    EXPECT_EQ(c.position, own.at.position);
    EXPECT_EQ(c.current, own.at.view->tokens[c.position]);
    seen.push_back({c.position, own.at.current_probability, c.confidence()});
    return verdict::keep;
  }
};
static_assert(current_watching<current_witness>);

TEST(revisit, sees_the_probability_of_the_settled_token_in_the_edited_row) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const index_t vocab = c.chance(0.05) ? 4100 : c.within(6, 40);
    dense_request q = random_dense_request(c, vocab);
    const layout& g = q.geometry;
    const logit_bias<2> bias{{{c.within(0, vocab - 1), c.real(-4.0, 4.0)}, {c.within(0, vocab - 1), ban}}};
    const policy p{by_confidence{}, top_k{2}, trace_credit<8>{}, bias, current_witness{}};
    std::vector<token_id> text(static_cast<std::size_t>(g.length), 0);
    session s{p, q.model, tokens_view<memory::host>(text), g};
    std::vector<bool> settled(text.size(), false);
    while (const auto request = s.next()) {
      std::vector<float> logits;
      for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
        const std::vector<float> z = q.logits.row(text, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
      const std::vector<token_id> before = text;
      const range score = s.planned().score;
      current_witness::seen.clear();
      s.supply(host_logits<float>(logits.data(), request->rows, vocab));
      std::size_t k = 0;
      for (index_t i = score.first; i < score.last; ++i) {
        if (!settled[static_cast<std::size_t>(i)]) {
          continue;
        }
        std::vector<double> z;
        for (const float x : q.logits.row(before, i)) {
          z.push_back(x);
        }
        z[static_cast<std::size_t>(q.model.mask_token)] = -std::numeric_limits<double>::infinity();
        for (const token_bias& b : bias.pairs) {
          z[static_cast<std::size_t>(b.token)] += static_cast<double>(b.bias);
        }
        const seen_row all = dense_statistics(z, i);
        if (!all.valid) {
          continue;
        }
        const double best = z[static_cast<std::size_t>(all.token)];
        const double current = z[static_cast<std::size_t>(before[static_cast<std::size_t>(i)])];
        ASSERT_LT(k, current_witness::seen.size());
        EXPECT_EQ(current_witness::seen[k].position, i);
        EXPECT_NEAR(current_witness::seen[k].best, all.confidence, 1e-5);
        EXPECT_NEAR(current_witness::seen[k].probability, all.confidence * std::exp(current - best), 1e-5);
        ++k;
        ++rows;
      }
      EXPECT_EQ(k, current_witness::seen.size());
      for (const commit_entry& e : s.committed()) {
        settled[static_cast<std::size_t>(e.position)] = true;
      }
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(rows, 2000);
}

// The dense oracle has the masked positions: their state must be reset with a
// reopening.
TEST(reopen_below, leaves_every_row_exact) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 1000);
    const trace_credit<32> credit;
    const auto earns = [&] { return dense_credit(credit.strength, credit.decay, credit.exponent); };
    dense_request q = random_dense_request(c, c.within(6, 20));
    const reopen_below reopens{c.real(0.2, 0.9), c.within(0, 6)};
    const top_k admits{c.within(1, 4)};
    rows += compare_rows(policy{witness{}, admits, credit, reopens}, {earns()}, q);
    rows += compare_rows(policy{witness{}, admits, credit, reopens, edit_settled{0.5F}}, {earns()}, q);
    q.branches = 3;
    rows += compare_rows(policy{witness{}, admits, credit, reopens, lookahead{.branches = 3}}, {earns()}, q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 5000);
}

template <class Policy>
void expect_progress(const Policy& p, const dense_request& q, index_t allowance, int& reopened) {
  const index_t opened = q.geometry.length - q.geometry.prompt;
  index_t open = opened;
  index_t spent = 0;
  const int steps = each_step(p, q, [&](std::span<const commit_entry> commits, const auto&) {
    index_t committed = 0;
    index_t back = 0;
    for (const commit_entry& e : commits) {
      (e.token == q.model.mask_token ? back : committed) += 1;
    }
    EXPECT_GE(committed, 1);
    spent += std::max(back - (committed - 1), 0);
    open -= committed - back;
    reopened += back;
  });
  EXPECT_LE(spent, allowance);
  EXPECT_EQ(open, 0);
  EXPECT_LE(steps, opened + allowance);
}

TEST(reopen_below, makes_progress_in_every_step) {
  int reopened = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 2000);
    dense_request q = random_dense_request(c, c.within(6, 20));
    const reopen_below reopens{c.real(0.2, 1.0), c.within(0, 6)};
    expect_progress(policy{by_confidence{}, top_k{c.within(1, 4)}, reopens}, q, reopens.allowance, reopened);
    expect_progress(policy{by_margin{}, confidence_above{0.3F}, reopens, whole_sequence{}}, q,
                    reopens.allowance, reopened);
    expect_progress(policy{by_entropy{}, scheduled{3}, reopens, trace_credit<8>{}}, q, reopens.allowance,
                    reopened);
    q.branches = 3;
    q.model.end_token = no_token;  // with one, the pipeline ends early
    expect_progress(policy{by_confidence{}, confidence_above{0.4F}, reopens, block_pipeline{.at_once = 3},
                           lookahead{.branches = 3}},
                    q, reopens.allowance, reopened);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(reopened, 1000);
}

TEST(reopen_below, of_zero_and_of_one_token_a_step_change_nothing) {
  int reopened = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    chances c(seed + 3000);
    const dense_request q = random_dense_request(c, 10);
    expect_progress(policy{by_confidence{}, top_k{3}, reopen_below{0.0F, 9}}, q, 0, reopened);
    expect_progress(policy{by_confidence{}, top_k{1}, reopen_below{0.9F}}, q, 0, reopened);
  }
  EXPECT_EQ(reopened, 0);
}

// Neither the banned token nor the mask token may be written over a committed one.
TEST(edit_settled, writes_what_the_edits_allow) {
  int replaced = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 4000);
    dense_request q = random_dense_request(c, 8);
    q.model.suppress_mask = c.chance(0.5);
    const token_id banned = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.5;
    q.logits.loved = c.chance(0.5) ? banned : q.model.mask_token;
    index_t committed = 0;
    std::vector<bool> settled(static_cast<std::size_t>(q.geometry.length), false);
    const policy p{by_confidence{}, top_k{2}, logit_bias<1>{{{banned, ban}}}, edit_settled{0.3F},
                   step_budget{60}};
    each_step(p, q, [&](std::span<const commit_entry> commits, const auto& before) {
      for (const commit_entry& e : commits) {
        EXPECT_NE(e.token, banned);
        EXPECT_NE(e.token, q.model.mask_token);
        EXPECT_NE(e.token, before[static_cast<std::size_t>(e.position)]);
        replaced += settled[static_cast<std::size_t>(e.position)] ? 1 : 0;
        settled[static_cast<std::size_t>(e.position)] = true;
        ++committed;
      }
    });
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(replaced, 100);
}

struct drift_witness {
  inline static std::vector<std::pair<index_t, float>> seen;
  static constexpr statistics required = stat::drift;
  float score(const auto& c) const {
    seen.emplace_back(c.position, c.drift());
    return c.confidence();
  }
};

// Rows of committed positions must not count as the history of the next block's.
TEST(edit_settled, goes_with_rows_compared_with_the_step_before) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 5000);
    const dense_request q = random_dense_request(c, 8);
    std::vector<bool> known(static_cast<std::size_t>(q.geometry.length), false);
    const policy p{drift_witness{}, top_k{2}, edit_settled{0.3F}};
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
    session s{p, q.model, tokens_view<memory::host>(text), q.geometry};
    while (const auto request = s.next()) {
      std::vector<float> logits;
      for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
        const std::vector<float> z = q.logits.row(text, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
      drift_witness::seen.clear();
      s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
      for (const auto& [position, drift] : drift_witness::seen) {
        if (!known[static_cast<std::size_t>(position)]) {
          EXPECT_EQ(drift, 1.0F) << "position " << position;
        }
        known[static_cast<std::size_t>(position)] = true;
      }
    }
    ASSERT_FALSE(HasFailure());
  }
}

// Everything at once, and with blocks whose cells are used again.
auto everything(chances& c) {
  return policy{by_margin{},
                confidence_above{c.real(0.2, 0.8)} || top_k{2},
                no_end_before{c.within(0, 5)},
                logit_bias<2>{{{1, c.real(-2.0, 2.0)}, {2, ban}}},
                repetition_penalty<4>{.penalty = c.real(0.8, 1.5)},
                count_penalty<4>{.presence = c.real(0.0, 1.0), .frequency = c.real(0.0, 1.0)},
                neighbour_guard{c.real(0.0, 2.0), c.chance(0.5)},
                end_penalty{c.real(-1.0, 1.0)},
                trace_credit<8>{},
                no_equal_neighbours{},
                hold_end{},
                reopen_below{c.real(0.0, 0.8), c.within(0, 3)},
                edit_settled{c.real(0.3, 1.0)},
                stop_sequence<2>{.tokens = {3, 4}, .min_tokens = c.within(0, 9)},
                stop_at_end{}};
}

TEST(edits, all_together_do_not_depend_on_the_batch) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 6000);
    std::vector<decltype(everything(c))> policies;
    std::vector<dense_request> requests;
    const model_info model = random_dense_request(c, 9).model;
    for (int i = 0; i < 4; ++i) {
      policies.push_back(everything(c));
      requests.push_back(random_dense_request(c, 9));
      requests.back().model = model;
    }
    expect_batch_changes_nothing(policies, requests);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(edits, all_together_start_anew_with_their_slot) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    chances c(seed + 7000);
    const auto p = everything(c);
    const dense_request q = random_dense_request(c, 9);
    session<std::remove_const_t<decltype(p)>> s(q.model, {.sequences = 1, .length = 40, .window = 20});
    std::vector<token_id> first;
    for (int round = 0; round < 3; ++round) {
      std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
      s.start(0, p, tokens_view<memory::host>(text), q.geometry);
      const int most = round == 1 ? 2 : 1000;  // the second one is broken off
      for (int step = 0; step < most; ++step) {
        const auto request = s.next();
        if (!request) {
          break;
        }
        std::vector<float> logits;
        for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
          const std::vector<float> z = q.logits.row(text, r);
          logits.insert(logits.end(), z.begin(), z.end());
        }
        s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
      }
      if (round == 0) {
        first = text;
      } else if (round == 2) {
        EXPECT_EQ(text, first) << "seed " << seed;
      }
    }
  }
}

TEST(edits, all_together_end_with_lookahead_and_pipelined_blocks) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 8000);
    dense_request q = random_dense_request(c, 9);
    q.branches = 3;
    const reopen_below reopens{c.real(0.0, 0.8), c.within(0, 3)};
    const policy p{by_margin{},
                   confidence_above{c.real(0.2, 0.8)},
                   no_end_before{c.within(0, 5)},
                   token_list<6>{.tokens = {1, 2, 3, 5, 6, 7}, .first = 2, .last = 9},
                   repetition_penalty<4>{.penalty = c.real(0.8, 1.5)},
                   count_penalty<4>{.presence = 0.5F},
                   neighbour_guard{1.0F, true},
                   trace_credit<8>{},
                   no_equal_neighbours{},
                   hold_end{},
                   end_last{},
                   reopens,
                   lookahead{.branches = 3},
                   block_pipeline{.at_once = 3}};
    const int steps = each_step(p, q, [&](std::span<const commit_entry> commits, const auto&) {
      for (const commit_entry& e : commits) {
        const index_t offset = e.position - q.geometry.prompt;
        const bool listed = offset >= 2 && offset < 9 && e.log_probability > ban;
        EXPECT_FALSE(listed && e.token != q.model.mask_token && (e.token == 0 || e.token == 4 || e.token == 8));
      }
    });
    EXPECT_LE(steps, q.geometry.length - q.geometry.prompt + reopens.allowance);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(revisit, refuses_knobs_outside_their_range) {
  EXPECT_NO_THROW(check_part(reopen_below{}, layout{}));
  EXPECT_THROW(check_part(reopen_below{.confidence = -0.1F}, layout{}), std::invalid_argument);
  EXPECT_THROW(check_part(reopen_below{.confidence = 1.1F}, layout{}), std::invalid_argument);
  EXPECT_THROW(check_part(reopen_below{.allowance = -1}, layout{}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing
