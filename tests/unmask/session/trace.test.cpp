// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "support/bound_session.hpp"
#include "support/fields.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::trace_test {
namespace {

const policy rule{by_confidence{}, threshold{0.8F}};
constexpr sequence_shape geometry{.prompt_length = 3, .length = 25, .block_length = 8};
constexpr session_capacity traced{.sequences = 1, .length = 25, .window = 8, .trace = true};

bool equal(const commit_entry& a, const commit_entry& b) {
  return difference(fields_of(a), fields_of(b)).empty();
}

template <class Session>
void expect_committed_equals_committed(Session& s) {
  std::vector<commit_entry> written;
  for (const candidate_entry& c : s.candidates(0)) {
    if (c.committed) {
      written.push_back(c);
    }
  }
  const auto committed = s.committed(0);
  ASSERT_EQ(written.size(), committed.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    EXPECT_TRUE(equal(written[i], committed[i])) << i;
  }
}

TEST(trace, reports_every_candidate_with_its_probability) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const made_up_model model{.seed = seed};
    std::vector<token_id> tokens(25, 0);
    session<std::remove_const_t<decltype(rule)>> s{model.info(), traced};
    s.start(0, rule, tokens, geometry);
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      const auto candidates = s.candidates();
      ASSERT_EQ(candidates.size(), seen.masked.size());
      EXPECT_EQ(s.report().last_candidates, static_cast<index_t>(candidates.size()));
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        EXPECT_EQ(candidates[i].slot, 0);
        EXPECT_EQ(candidates[i].position, seen.masked[i].position);
        EXPECT_EQ(candidates[i].token, seen.masked[i].token);
        EXPECT_NEAR(static_cast<double>(candidates[i].log_probability),
                    std::log(seen.masked[i].confidence),
                    1e-5);
        EXPECT_EQ(candidates[i].step, seen.step);
        EXPECT_EQ(candidates[i].block, (candidates[i].position - 3) / 8);
        const auto better = std::ranges::count_if(seen.masked, [&](const auto& other) {
          return other.confidence > seen.masked[i].confidence;
        });
        EXPECT_EQ(candidates[i].rank, static_cast<index_t>(better));
      }
      expect_committed_equals_committed(s);
    });
  }
}

TEST(trace, block_steps_count_from_the_first_of_each_block) {
  const made_up_model model{.seed = 5, .sharpness = 2.0};
  std::vector<token_id> tokens(25, 0);
  session<std::remove_const_t<decltype(rule)>> s{model.info(), traced};
  s.start(0, rule, tokens, geometry);
  index_t block = -1;
  index_t first = 0;
  observe_decode(s, model, tokens, [&](const observed_step& seen) {
    ASSERT_FALSE(seen.committed.empty());
    if (seen.committed[0].block != block) {
      EXPECT_EQ(seen.committed[0].block, block + 1);
      block = seen.committed[0].block;
      first = seen.step;
    }
    for (const commit_entry& e : seen.committed) {
      EXPECT_EQ(e.block, block);
      EXPECT_EQ(e.block_step, seen.step - first);
    }
  });
  EXPECT_EQ(block, 2);
}

TEST(trace, changes_no_decision) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const made_up_model model{.seed = seed};
    std::vector<token_id> with(25, 0);
    std::vector<token_id> without(25, 0);
    session<std::remove_const_t<decltype(rule)>> s{model.info(), traced};
    s.start(0, rule, with, geometry);
    observe_decode(s, model, with, [](const observed_step&) {});
    session t{rule, model.info(), without, geometry};
    observe_decode(t, model, without, [](const observed_step&) {});
    EXPECT_EQ(with, without);
    EXPECT_EQ(t.report().last_candidates, 0);
    EXPECT_EQ(s.report().forwards, t.report().forwards);
  }
}

TEST(trace, is_an_error_to_ask_for_where_it_is_off) {
  const made_up_model model;
  std::vector<token_id> tokens(25, 0);
  session s{rule, model.info(), tokens, geometry};
  EXPECT_THROW(static_cast<void>(s.candidates()), std::logic_error);
}

TEST(trace, takes_memory_only_where_it_is_on) {
  using session_type = session<std::remove_const_t<decltype(rule)>>;
  const made_up_model model;
  session_capacity off = traced;
  off.trace = false;
  const std::size_t with = session_type{model.info(), traced}.bytes();
  const std::size_t without = session_type{model.info(), off}.bytes();
  const std::size_t of_position = sizeof(candidate_entry) + sizeof(step::role_reason);
  EXPECT_GE(with, without + 8 * of_position);
  EXPECT_LE(with, without + 8 * of_position + std::size_t{2} * 64);
}

// Row 4 of a block holds a NaN, row 5 nothing at all.
struct broken_model : made_up_model {
  index_t first = 3;
  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    made_up_model::row(x, position, out);
    if ((position - first) % 8 == 4) {
      out[1] = std::numeric_limits<float>::quiet_NaN();
    } else if ((position - first) % 8 == 5) {
      std::fill(out.begin(), out.end(), -std::numeric_limits<float>::infinity());
    }
  }
};

TEST(trace, reports_invalid_rows_with_no_probability) {
  const broken_model model;
  std::vector<token_id> tokens(25, 0);
  session<std::remove_const_t<decltype(rule)>> s{model.info(), traced};
  s.start(0, rule, tokens, geometry);
  index_t invalid = 0;
  observe_decode(s, model, tokens, [&](const observed_step&) {
    for (const candidate_entry& c : s.candidates()) {
      const index_t offset = (c.position - 3) % 8;
      EXPECT_EQ(std::isfinite(c.log_probability), offset != 4 && offset != 5);
      if (offset == 4 || offset == 5) {
        EXPECT_EQ(c.log_probability, -std::numeric_limits<float>::infinity());
        ++invalid;
      }
      if (offset == 5) {
        EXPECT_EQ(c.token, 0);  // the lowest that may be proposed
      }
    }
    expect_committed_equals_committed(s);
  });
  EXPECT_EQ(invalid, s.report().invalid_rows);
}

TEST(trace, names_no_part_for_an_invalid_row_that_was_held_in_the_step_before) {
  std::vector<token_id> tokens(3, 0);
  session<std::remove_const_t<decltype(rule)>> s{{.vocab = 4, .mask_token = 3},
                                                 {.length = 3, .window = 3, .trace = true}};
  s.start(0, rule, tokens, {.length = 3, .block_length = 3});
  for (const bool is_broken : {false, true}) {
    const index_t rows = s.next()->rows;
    std::vector<float> logits(static_cast<std::size_t>(rows) * 4, 0.0F);
    if (is_broken) {
      logits.back() = logits[logits.size() - 2] = std::numeric_limits<float>::quiet_NaN();
    }
    s.supply(host_logits<float>(logits.data(), rows, 4));
    const candidate_entry& last = s.candidates().back();
    EXPECT_EQ(last.position, 2);
    EXPECT_EQ(last.outcome, is_broken ? candidate_outcome::invalid : candidate_outcome::held);
    EXPECT_EQ(last.part, is_broken ? -1 : 1);
  }
}

// Excludes everything.
template <int>
struct excludes_all {
  static constexpr statistics required = stat::none;
  UNMASK_HD filter_result filter(const auto&, const auto&) const { return filter_result::excluded; }
};

TEST(trace, names_the_first_of_two_parts_that_exclude_a_candidate) {
  const policy p{by_confidence{}, threshold{0.8F}, excludes_all<0>{}, excludes_all<1>{}};
  std::vector<token_id> tokens(2, 0);
  session<std::remove_const_t<decltype(p)>> s{{.vocab = 4, .mask_token = 3},
                                              {.length = 2, .window = 2, .trace = true}};
  s.start(0, p, tokens, {.length = 2, .block_length = 2});
  const std::vector<float> logits(8, 0.0F);
  s.supply(host_logits<float>(logits.data(), s.next()->rows, 4));
  ASSERT_EQ(s.candidates().size(), 2U);
  EXPECT_EQ(s.candidates()[0].outcome, candidate_outcome::forced);
  EXPECT_EQ(s.candidates()[1].outcome, candidate_outcome::excluded);
  EXPECT_EQ(s.candidates()[1].part, 2);
}

TEST(trace, a_proposed_mask_token_is_not_committed) {
  made_up_model model{.seed = 3, .vocab = 4};
  std::vector<token_id> tokens(25, 0);
  model_info info = model.info();
  info.suppress_mask = false;
  session<std::remove_const_t<decltype(rule)>> s{info, traced};
  s.start(0, rule, tokens, geometry);
  int masks = 0;
  for (int step = 0; step < 50; ++step) {
    const auto request = s.next();
    if (!request) {
      break;
    }
    supply_one(s, *request, model, tokens);
    for (const candidate_entry& c : s.candidates()) {
      masks += c.token == info.mask_token ? 1 : 0;
      EXPECT_FALSE(c.committed && c.token == info.mask_token);
    }
    expect_committed_equals_committed(s);
  }
  EXPECT_GT(masks, 0);
}

TEST(trace, an_ended_sequence_reports_nothing_more) {
  const made_up_model model{.seed = 9};
  std::vector<token_id> a(25, 0);
  std::vector<token_id> b(25, 0);
  session_capacity two = traced;
  two.sequences = 2;
  session<std::remove_const_t<decltype(rule)>> s{model.info(), two};
  s.start(0, rule, a, {.prompt_length = 3, .length = 5, .block_length = 8});
  s.start(1, rule, b, geometry);
  bool seen_ended = false;
  while (const auto request = s.next()) {
    const bool ended = s.report(0).end != ending::running;
    supply_one(s, *request, model, b);
    EXPECT_EQ(s.candidates(1).empty(), false);
    if (ended) {
      seen_ended = true;
      EXPECT_TRUE(s.candidates(0).empty());
      EXPECT_TRUE(s.committed(0).empty());
    }
  }
  EXPECT_TRUE(seen_ended);
}

TEST(trace, reports_the_token_of_the_winner_with_the_branch) {
  const policy p{
      by_confidence{}, threshold{0.8F}, lookahead{.branches = 2}, block_pipeline{.at_once = 2}};
  const made_up_model model{.seed = 4, .sharpness = 3.0};
  std::vector<token_id> tokens(25, 0);
  session<std::remove_const_t<decltype(p)>> s{
      model.info(), {.sequences = 1, .length = 25, .window = 16, .branches = 2, .trace = true}};
  s.start(0, p, tokens, geometry);
  int elected = 0;
  while (const auto request = s.next()) {
    const std::vector<float> logits =
        requested_rows(*request, tokens, [&](const auto& x, index_t i) {
          std::vector<float> z(static_cast<std::size_t>(model.vocab));
          model.row(x, i, z);
          return z;
        });
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    index_t placed = 0;
    for (const candidate_entry& c : s.candidates()) {
      placed += c.outcome == candidate_outcome::from_branch ? 1 : 0;
    }
    const bool winner = s.planned().winner > 0;
    ASSERT_EQ(placed, winner ? 1 : 0);
    expect_committed_equals_committed(s);
    elected += winner ? 1 : 0;
    for (const commit_entry& e : s.committed()) {
      EXPECT_EQ(e.block, (e.position - 3) / 8);
    }
  }
  EXPECT_GT(elected, 0);
}

TEST(trace, comes_through_the_untyped_edge) {
  const made_up_model model;
  std::vector<token_id> tokens(25, 0);
  const auto s = make_bound(rule, model.info(), traced);
  s->start(0, tokens.data(), 25, geometry);
  const auto request = s->next();
  ASSERT_TRUE(request.has_value());
  std::vector<float> z(static_cast<std::size_t>(request->rows * model.vocab), 0.0F);
  s->supply(host_logits<float>{z.data(), request->rows, model.vocab});
  EXPECT_EQ(s->candidates(0).size(), 8U);
}

// Margin and entropy are reported where the policy has them, of valid rows.
TEST(trace, reports_the_statistics_that_the_policy_reads) {
  const auto candidates_of = [](const auto& p, bool is_valid) {
    std::vector<token_id> tokens(1);
    session<std::remove_cvref_t<decltype(p)>> s(
        {.vocab = 4, .mask_token = 3}, {.sequences = 1, .length = 1, .window = 1, .trace = true});
    s.start(0, p, tokens, {.length = 1});
    static_cast<void>(s.next());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    // Probabilities 4/7, 2/7 and 1/7.
    const float ln_2 = std::log(2.0F);
    const float logits[] = {2.0F * ln_2, is_valid ? ln_2 : nan, 0.0F, 0.0F};
    s.supply(host_logits<float>(logits, 1, 4));
    return s.candidates()[0];
  };
  const double nats =
      4.0 / 7.0 * std::log(7.0 / 4.0) + 2.0 / 7.0 * std::log(7.0 / 2.0) + 1.0 / 7.0 * std::log(7.0);
  const candidate_entry by_c = candidates_of(policy{by_confidence{}, threshold{}}, true);
  EXPECT_NEAR(by_c.confidence, 4.0 / 7.0, 1e-6);
  EXPECT_TRUE(std::isnan(by_c.margin));
  EXPECT_TRUE(std::isnan(by_c.entropy));
  const candidate_entry by_m = candidates_of(policy{by_margin{}, tokens_per_step{}}, true);
  EXPECT_NEAR(by_m.margin, 2.0 / 7.0, 1e-6);
  const candidate_entry by_h = candidates_of(policy{by_entropy{}, tokens_per_step{}}, true);
  EXPECT_NEAR(by_h.entropy, nats, 1e-6);
  for (const candidate_entry& c : {candidates_of(policy{by_margin{}, tokens_per_step{}}, false),
                                   candidates_of(policy{by_entropy{}, tokens_per_step{}}, false)}) {
    EXPECT_EQ(c.confidence, 0.0F);
    EXPECT_TRUE(std::isnan(c.margin));
    EXPECT_TRUE(std::isnan(c.entropy));
  }
}

}  // namespace
}  // namespace unmask::testing::trace_test
