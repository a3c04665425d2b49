// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::remask_current_below_test {
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
  static constexpr bool tracks_current = true;
  verdict edit_token(const auto& c, const auto& context) const {
    EXPECT_EQ(c.position, context.at.position);
    EXPECT_EQ(c.current, context.at.view->tokens[c.position]);
    seen.push_back({c.position, context.at.current_probability, c.confidence()});
    return verdict::keep;
  }
};
static_assert(current_tracking<current_witness>);

TEST(edit_token, sees_the_probability_of_the_committed_token_in_the_edited_row) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const index_t vocab = c.chance(0.05) ? 4100 : c.within(6, 40);
    dense_request q = random_dense_request(c, vocab);
    const sequence_shape& g = q.geometry;
    const logit_bias<2> bias{
        {{c.within(0, vocab - 1), c.real(-4.0, 4.0)}, {c.within(0, vocab - 1), ban}}};
    const policy p{by_confidence{}, tokens_per_step{2}, trace_credit<8>{}, bias, current_witness{}};
    std::vector<token_id> text(static_cast<std::size_t>(g.length), 0);
    session s{by_name(p), q.model, tokens_view<memory::host>(text), g};
    std::vector<bool> done(text.size(), false);
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
        if (!done[static_cast<std::size_t>(i)]) {
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
        EXPECT_NEAR(
            current_witness::seen[k].probability, all.confidence * std::exp(current - best), 1e-5);
        ++k;
        ++rows;
      }
      EXPECT_EQ(k, current_witness::seen.size());
      for (const commit_entry& e : s.committed()) {
        done[static_cast<std::size_t>(e.position)] = true;
      }
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(rows, 2000);
}

// The dense oracle has the masked positions: their state must be reset with a
// remasking.
TEST(remask_current_below, leaves_every_row_exact) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 1000);
    const trace_credit<32> credit;
    const auto earns = [&] { return dense_credit(credit.strength, credit.decay, credit.exponent); };
    dense_request q = random_dense_request(c, c.within(6, 20));
    const remask_current_below remasks_current{c.real(0.2, 0.9), c.within(0, 6)};
    const tokens_per_step commits{c.within(1, 4)};
    rows += compare_rows(
        policy{by_margin{}, commits || reads_entropy, credit, remasks_current}, {earns()}, q);
    rows += compare_rows(
        policy{
            by_margin{}, commits || reads_entropy, credit, remasks_current, edit_committed{0.5F}},
        {earns()},
        q);
    q.branches = 3;
    rows += compare_rows(policy{by_margin{},
                                commits || reads_entropy,
                                credit,
                                remasks_current,
                                lookahead{.branches = 3}},
                         {earns()},
                         q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 5000);
}

// Steps of two commits may each remask one token at no cost; the allowance is used behind that.
TEST(remask_current_below, uses_its_allowance_for_more_than_a_step_may_remask_anyway) {
  std::vector<token_id> text(8, 0);
  session s{by_name(policy{left_to_right{},
                           tokens_per_step{2},
                           remask_current_below{.confidence = 0.4F, .allowance = 1}}),
            small_model,
            tokens_view<memory::host>(text),
            sequence_shape{.length = 8, .block_length = 8}};
  // In each step every row has another token, so that whatever is committed has become weak.
  const auto remasked_by = [&](token_id token) {
    const auto request = s.next();
    const range rows = request.value().segments[0].rows;
    const std::vector<row> table(8, row_with_confidence(0.9, token));
    const row logits = packed(table, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    std::vector<index_t> remasked;
    for (const commit_entry& e : s.committed()) {
      if (e.token == small_model.mask_token) {
        remasked.push_back(e.position);
      }
    }
    return remasked;
  };
  EXPECT_EQ(remasked_by(0), (std::vector<index_t>{}));      // commits 0 and 1
  EXPECT_EQ(remasked_by(1), (std::vector<index_t>{0, 1}));  // commits 2 and 3
  EXPECT_EQ(remasked_by(2), (std::vector<index_t>{2}));     // commits 0 and 1
  EXPECT_EQ(remasked_by(3), (std::vector<index_t>{0}));     // commits 2 and 4
}

template <class Policy>
void expect_progress(const Policy& p, const dense_request& q, index_t allowance, int& remasked) {
  const index_t opened = q.geometry.length - q.geometry.prompt_length;
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
    remasked += back;
  });
  EXPECT_LE(spent, allowance);
  EXPECT_EQ(open, 0);
  EXPECT_LE(steps, opened + allowance);
}

TEST(remask_current_below, makes_progress_in_every_step) {
  int remasked = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 2000);
    dense_request q = random_dense_request(c, c.within(6, 20));
    const remask_current_below remasks_current{c.real(0.2, 1.0), c.within(0, 6)};
    expect_progress(policy{by_confidence{}, tokens_per_step{c.within(1, 4)}, remasks_current},
                    q,
                    remasks_current.allowance,
                    remasked);
    expect_progress(policy{by_margin{}, threshold{0.3F}, remasks_current, single_block{}},
                    q,
                    remasks_current.allowance,
                    remasked);
    expect_progress(policy{by_entropy{}, steps_per_block{3}, remasks_current, trace_credit<8>{}},
                    q,
                    remasks_current.allowance,
                    remasked);
    q.branches = 3;
    q.model.eos_token = no_token;  // with one, the pipeline ends early
    expect_progress(policy{by_confidence{},
                           threshold{0.4F},
                           remasks_current,
                           block_pipeline{.at_once = 3},
                           lookahead{.branches = 3}},
                    q,
                    remasks_current.allowance,
                    remasked);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(remasked, 1000);
}

TEST(remask_current_below, of_zero_and_of_one_token_a_step_change_nothing) {
  int remasked = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    chances c(seed + 3000);
    const dense_request q = random_dense_request(c, 10);
    expect_progress(
        policy{by_confidence{}, tokens_per_step{3}, remask_current_below{0.0F, 9}}, q, 0, remasked);
    expect_progress(
        policy{by_confidence{}, tokens_per_step{1}, remask_current_below{0.9F}}, q, 0, remasked);
  }
  EXPECT_EQ(remasked, 0);
}

// Neither the banned token nor the mask token may be written over a committed one.
TEST(edit_committed, writes_what_the_edits_allow) {
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
    std::vector<bool> done(static_cast<std::size_t>(q.geometry.length), false);
    const policy p{by_confidence{},
                   tokens_per_step{2},
                   logit_bias<1>{{{banned, ban}}},
                   edit_committed{0.3F},
                   max_steps{60}};
    each_step(p, q, [&](std::span<const commit_entry> commits, const auto& before) {
      for (const commit_entry& e : commits) {
        EXPECT_NE(e.token, banned);
        EXPECT_NE(e.token, q.model.mask_token);
        EXPECT_NE(e.token, before[static_cast<std::size_t>(e.position)]);
        replaced += done[static_cast<std::size_t>(e.position)] ? 1 : 0;
        done[static_cast<std::size_t>(e.position)] = true;
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
TEST(edit_committed, goes_with_rows_compared_with_the_step_before) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 5000);
    const dense_request q = random_dense_request(c, 8);
    std::vector<bool> known(static_cast<std::size_t>(q.geometry.length), false);
    const policy p{drift_witness{}, tokens_per_step{2}, edit_committed{0.3F}};
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
    session s{by_name(p), q.model, tokens_view<memory::host>(text), q.geometry};
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
  return policy{
      by_margin{},
      threshold{c.real(0.2, 0.8)} || tokens_per_step{2},
      min_new_tokens{c.within(0, 5)},
      logit_bias<2>{{{1, c.real(-2.0, 2.0)}, {2, ban}}},
      repetition_penalty<4>{.penalty = c.real(0.8, 1.5)},
      presence_frequency_penalty<4>{.presence = c.real(0.0, 1.0), .frequency = c.real(0.0, 1.0)},
      neighbour_penalty{c.real(0.0, 2.0), c.chance(0.5)},
      eos_penalty{c.real(-1.0, 1.0)},
      trace_credit<8>{},
      no_equal_neighbours{},
      eos_gate{},
      remask_current_below{c.real(0.0, 0.8), c.within(0, 3)},
      edit_committed{c.real(0.3, 1.0)},
      stop_sequence<2>{.tokens = {3, 4}, .min_tokens = c.within(0, 9)},
      stop_at_eos{}};
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
    session<std::remove_const_t<decltype(p)>> s(q.model,
                                                {.sequences = 1, .length = 40, .window = 20});
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
    const remask_current_below remasks_current{c.real(0.0, 0.8), c.within(0, 3)};
    const policy p{by_margin{},
                   threshold{c.real(0.2, 0.8)},
                   min_new_tokens{c.within(0, 5)},
                   allowed_tokens<6>{.tokens = {1, 2, 3, 5, 6, 7}, .first = 2, .last = 9},
                   repetition_penalty<4>{.penalty = c.real(0.8, 1.5)},
                   presence_frequency_penalty<4>{.presence = 0.5F},
                   neighbour_penalty{1.0F, true},
                   trace_credit<8>{},
                   no_equal_neighbours{},
                   eos_gate{},
                   eos_last{},
                   remasks_current,
                   lookahead{.branches = 3},
                   block_pipeline{.at_once = 3}};
    const int steps = each_step(p, q, [&](std::span<const commit_entry> commits, const auto&) {
      for (const commit_entry& e : commits) {
        const index_t offset = e.position - q.geometry.prompt_length;
        const bool listed = offset >= 2 && offset < 9 && e.log_probability > ban;
        EXPECT_FALSE(listed && e.token != q.model.mask_token &&
                     (e.token == 0 || e.token == 4 || e.token == 8));
      }
    });
    EXPECT_LE(steps, q.geometry.length - q.geometry.prompt_length + remasks_current.allowance);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(edit_token, refuses_knobs_outside_their_range) {
  EXPECT_NO_THROW(check_part(remask_current_below{}, sequence_shape{}));
  EXPECT_THROW(check_part(remask_current_below{.confidence = -0.1F}, sequence_shape{}),
               std::invalid_argument);
  EXPECT_THROW(check_part(remask_current_below{.confidence = 1.1F}, sequence_shape{}),
               std::invalid_argument);
  EXPECT_THROW(check_part(remask_current_below{.allowance = -1}, sequence_shape{}),
               std::invalid_argument);
}

TEST(remask_current_below, keeps_a_token_of_the_confidence_itself) {
  struct {
    step_info at;
  } context;
  context.at.may_remask = true;
  const remask_current_below rule{.confidence = 0.5F};
  context.at.current_probability = 0.5F;
  EXPECT_EQ(rule.edit_token(0, context), verdict::keep);
  context.at.current_probability = std::nextafter(0.5F, 0.0F);
  EXPECT_EQ(rule.edit_token(0, context), verdict::remask);
  context.at.may_remask = false;
  EXPECT_EQ(rule.edit_token(0, context), verdict::keep);
  context.at.may_remask = true;
  context.at.current_probability = 0.0F;
  EXPECT_EQ((remask_current_below{.confidence = 0.0F}.edit_token(0, context)), verdict::keep);
}

}  // namespace
}  // namespace unmask::testing::remask_current_below_test
