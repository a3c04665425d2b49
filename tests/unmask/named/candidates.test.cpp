// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/trace/part_texts.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <set>

#include "support/bound_session.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::candidates_test {
namespace {

using enum candidate_outcome;

constexpr sequence_shape geometry{.prompt_length = 3, .length = 27, .block_length = 8};
constexpr session_capacity capacity{.length = 27, .window = 8, .branches = 2, .trace = true};

/// The margin and the entropy of a row, without the mask token, in double precision.
struct naive_row {
  double margin = 0.0;
  double entropy = 0.0;
};

naive_row
statistics_of(const made_up_model& model, const std::vector<token_id>& tokens, index_t position) {
  std::vector<float> z(static_cast<std::size_t>(model.vocab));
  model.row(tokens, position, z);
  std::vector<double> p;
  double sum = 0.0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (static_cast<token_id>(v) != model.info().mask_token) {
      p.push_back(std::exp(static_cast<double>(z[v])));
      sum += p.back();
    }
  }
  std::sort(p.rbegin(), p.rend());
  naive_row row{(p[0] - p[1]) / sum, 0.0};
  for (const double x : p) {
    row.entropy -= x / sum * std::log(x / sum);
  }
  return row;
}

/// Decodes slot 0, and calls use(session, tokens before the step) after each step.
template <class Session>
void decode(Session& s, const auto& model, std::vector<token_id>& tokens, const auto& use) {
  const auto columns = static_cast<std::size_t>(model.vocab);
  while (const auto request = s.next()) {
    const std::vector<token_id> before = tokens;
    const std::vector<float> logits =
        requested_rows(*request, tokens, [&](const auto& x, index_t p) {
          std::vector<float> z(columns);
          model.row(x, p, z);
          return z;
        });
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    use(before);
  }
}

// Parts: 0 by_confidence, 1 at_most, 2 threshold.
TEST(candidates, are_held_back_by_an_at_most_or_by_its_rule) {
  const policy limited{by_confidence{}, at_most{1, threshold{0.6F}}};
  constexpr const char* text = "by_confidence + at_most(1, threshold(0.6))";
  EXPECT_EQ(part_texts(text),
            (std::vector<std::string>{"by_confidence", "at_most(1)", "threshold(0.6)"}));
  EXPECT_EQ(part_texts(limited),
            (std::vector<std::string>{"by_confidence", "at_most", "threshold"}));
  constexpr model_info small{.vocab = 3, .mask_token = 2};
  const auto decided = [&](auto& s) {
    const std::vector<float> rows = {0.1F, 0, 0, 3, 0, 0, 2, 0, 0};
    static_cast<void>(s.next());
    s.supply(host_logits<float>{rows.data(), 3, 3});
    std::vector<std::pair<candidate_outcome, index_t>> all;
    for (const candidate_entry& e : s.candidates(0)) {
      all.emplace_back(e.outcome, e.part);
    }
    return all;
  };
  const session_capacity three{.length = 3, .window = 3, .trace = true};
  std::vector<token_id> tokens(3);
  session<std::remove_const_t<decltype(limited)>> composed{small, three};
  composed.start(0, limited, tokens, {.length = 3});
  std::vector<token_id> named_tokens(3);
  const auto named = make_bound(read_policy(text), small, three);
  named->start(0, named_tokens.data(), 3, {.length = 3});
  // The confidence of position 0 is below 0.6, those of the others are above it.
  const std::vector<std::pair<candidate_outcome, index_t>> expected = {
      {held, 2}, {committed, 2}, {held, 1}};
  EXPECT_EQ(decided(composed), expected);
  EXPECT_EQ(decided(*named), expected);
}

// Parts: 0 by_confidence, 1 threshold, 2 tokens_per_step, 3 threshold.
const policy mixed{by_confidence{}, threshold{0.95F} || (tokens_per_step{2} && threshold{0.5F})};
constexpr const char* mixed_text =
    "by_confidence + any_of(threshold(0.95), all_of(tokens_per_step(2), threshold(0.5)))";

/// Outcome and part of the candidate with this rank and confidence, in words of the expression.
std::pair<candidate_outcome, index_t> expected(int rank, double confidence, bool is_alone) {
  if (confidence > 0.95) {
    return {committed, 1};
  }
  if (rank < 2 && confidence > 0.5) {
    return {committed, 3};
  }
  return is_alone ? std::pair{forced, index_t{-1}} : std::pair{held, rank < 2 ? 3 : 2};
}

TEST(candidates, say_which_part_of_the_expression_decided) {
  std::set<std::pair<candidate_outcome, index_t>> seen_all;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 9.0};
    std::vector<token_id> tokens(27, 0);
    session<std::remove_const_t<decltype(mixed)>> s{model.info(), capacity};
    s.start(0, mixed, tokens, geometry);
    std::vector<token_id> named_tokens(27, 0);
    const auto named = make_bound(read_policy(mixed_text), model.info(), capacity);
    named->start(0, named_tokens.data(), 27, geometry);
    std::vector<token_id> before = tokens;
    observe_decode(s, model, tokens, [&](const observed_step& seen) {
      const auto request = named->next();
      std::vector<float> z(static_cast<std::size_t>(request->rows * model.vocab));
      for (index_t r = 0; r < request->rows; ++r) {
        model.row(named_tokens,
                  request->segments[0].rows.first + r,
                  std::span(z).subspan(static_cast<std::size_t>(r * model.vocab),
                                       static_cast<std::size_t>(model.vocab)));
      }
      named->supply(host_logits<float>{z.data(), request->rows, model.vocab});
      const auto all = s.candidates();
      const auto by_name = named->candidates(0);
      ASSERT_EQ(all.size(), seen.masked.size());
      ASSERT_EQ(all.size(), by_name.size());
      bool any = false;
      for (const observed_row& r : seen.masked) {
        any = any || r.confidence > 0.5;
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        int rank = 0;
        for (const observed_row& r : seen.masked) {
          rank += r.confidence > seen.masked[i].confidence ? 1 : 0;
        }
        const auto [outcome, part] = expected(rank, seen.masked[i].confidence, !any && rank == 0);
        EXPECT_EQ(all[i].outcome, outcome) << i;
        EXPECT_EQ(all[i].part, part) << i;
        EXPECT_EQ(all[i].committed, outcome != held);
        EXPECT_NEAR(static_cast<double>(all[i].confidence), seen.masked[i].confidence, 1e-5);
        EXPECT_TRUE(std::isnan(all[i].margin));  // no part of the policy reads it
        EXPECT_TRUE(std::isnan(all[i].entropy));
        seen_all.emplace(outcome, part);
        EXPECT_EQ(by_name[i].outcome, outcome) << i;
        EXPECT_EQ(by_name[i].part, part) << i;
        EXPECT_EQ(by_name[i].confidence, all[i].confidence);
        EXPECT_EQ(by_name[i].log_probability, all[i].log_probability);
        const naive_row row = statistics_of(model, before, all[i].position);
        EXPECT_NEAR(static_cast<double>(by_name[i].margin), row.margin, 1e-5);
        EXPECT_NEAR(static_cast<double>(by_name[i].entropy), row.entropy, 1e-4);
      }
      before = tokens;
    });
    EXPECT_EQ(tokens, named_tokens);
  }
  const std::set<std::pair<candidate_outcome, index_t>> every = {
      {committed, 1}, {committed, 3}, {held, 2}, {held, 3}, {forced, -1}};
  EXPECT_EQ(seen_all, every);
}

/// What the candidates of a step say about the tokens: writes them into `tokens`.
void apply(std::span<const candidate_entry> all, std::vector<token_id>& tokens, token_id mask) {
  for (const candidate_entry& e : all) {
    token_id& at = tokens[static_cast<std::size_t>(e.position)];
    switch (e.outcome) {
    case committed:
    case forced:
    case from_branch:
      EXPECT_EQ(at, mask);
      EXPECT_TRUE(e.committed);
      at = e.token;
      break;
    case replaced:
      EXPECT_NE(at, mask);
      EXPECT_NE(at, e.token);
      EXPECT_TRUE(e.committed);
      at = e.token;
      break;
    case remasked:
      EXPECT_NE(at, mask);
      EXPECT_FALSE(e.committed);
      at = mask;
      break;
    case kept:
      EXPECT_EQ(at, e.token);
      EXPECT_FALSE(e.committed);
      break;
    default:
      EXPECT_EQ(at, mask);
      EXPECT_FALSE(e.committed);
    }
  }
}

// A row of the first block holds a NaN.
struct broken_model : made_up_model {
  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    made_up_model::row(x, position, out);
    if (position == 4) {
      out[1] = std::numeric_limits<float>::quiet_NaN();
    }
  }
};

struct case_of {
  const char* text;
  std::set<std::pair<candidate_outcome, index_t>> wanted;  ///< pairs that must occur
};

TEST(candidates, account_for_every_change_of_the_tokens) {
  const case_of cases[] = {
      {"threshold(0.9) + left_to_right", {{committed, 0}, {forced, -1}, {held, 0}, {invalid, -1}}},
      {"trace_credit + any_of(threshold(0.9), tokens_per_step(2)) + remask_below(0.7)",
       {{committed, 1}, {committed, 2}, {replaced, 3}, {remasked, 3}, {kept, 3}}},
      {"tokens_per_step(3) + edit_committed(0.4) + edited_blocks", {{committed, 0}, {replaced, 1}}},
      {"tokens_per_step(3) + edit_committed(0.8) + remask_current_below(0.3, 20) + edited_blocks",
       {{committed, 0}, {replaced, 1}, {remasked, 2}}},
      {"tokens_per_step(2) + lookahead(2)", {{committed, 0}, {from_branch, 1}, {held, 0}}},
      {"tokens_per_step(4) + eos_gate + no_equal_neighbours",
       {{committed, 0}, {held, 1}, {held, 2}}},
      {"at_frontier + left_to_right", {{committed, 0}, {excluded, 0}}},
      {"left_to_right + any_of(threshold(0.99), remdm_conf(1))",
       {{committed, 1}, {committed, 2}, {remasked, 2}}},
      {"threshold(0.95) + beam(2)", {{committed, 0}, {from_branch, 1}}},
  };
  for (const case_of& one : cases) {
    SCOPED_TRACE(one.text);
    std::set<std::pair<candidate_outcome, index_t>> seen;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const broken_model model{{.seed = seed, .vocab = 6, .sharpness = 6.0}};
      model_info info = model.info();
      info.eos_token = 0;
      const named_policy parts = read_policy(one.text);
      std::vector<token_id> tokens(27, 1);
      const auto named = make_bound(parts, info, capacity);
      named->start(0, tokens.data(), 27, geometry);
      std::vector<token_id> told = tokens;
      struct untyped {  // a session as decode() calls it
        named_session& s;
        [[nodiscard]] auto next() const { return s.next(); }
        void supply(const host_logits<float>& z) const { s.supply(z); }
      } s{*named};
      decode(s, model, tokens, [&](const std::vector<token_id>& before) {
        EXPECT_EQ(told, before);
        apply(named->candidates(0), told, info.mask_token);
        EXPECT_EQ(told, tokens);
        for (const candidate_entry& e : named->candidates(0)) {
          seen.emplace(e.outcome, e.part);
          EXPECT_LT(e.part, parts.count);
          EXPECT_EQ(e.outcome == invalid, e.part < 0 && e.outcome != forced) << e.position;
          if (std::isfinite(e.log_probability)) {
            EXPECT_NEAR(e.confidence, std::exp(e.log_probability), 1e-5F);
          } else {
            EXPECT_EQ(e.confidence, 0.0F);
          }
        }
      });
    }
    for (const auto& [outcome, part] : one.wanted) {
      EXPECT_TRUE(seen.contains({outcome, part}))
          << static_cast<int>(outcome) << " by " << part << " does not occur";
    }
  }
}

// The progress guarantee takes a position that proposes the mask token, which is not written.
TEST(candidates, that_propose_the_mask_token_are_held_by_the_part_that_rejected_them) {
  std::vector<token_id> tokens(2);
  session<policy<by_confidence, threshold>> s({.vocab = 3, .mask_token = 2, .suppress_mask = false},
                                              {.length = 2, .window = 2, .trace = true});
  s.start(0, {by_confidence{}, threshold{0.9F}}, tokens, {.length = 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float logits[] = {0.0F, 0.0F, 1.0F, 0.0F, 0.0F, nan};
  ASSERT_EQ(s.next()->rows, 2);
  s.supply(host_logits<float>{logits, 2, 3});
  ASSERT_EQ(s.candidates().size(), 2U);
  EXPECT_EQ(s.candidates()[0].token, 2);
  EXPECT_EQ(s.candidates()[0].outcome, held);
  EXPECT_EQ(s.candidates()[0].part, 1);
  EXPECT_EQ(s.candidates()[1].outcome, invalid);
  EXPECT_EQ(s.candidates()[1].part, -1);
}

// The same of a typed policy, whose parts have the order of its type.
TEST(candidates, of_a_typed_policy_name_its_parts) {
  const policy p{lookahead{.branches = 2}, tokens_per_step{2}, by_margin{}, edit_committed{}};
  std::set<std::pair<candidate_outcome, index_t>> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const made_up_model model{.seed = seed, .vocab = 6, .sharpness = 4.0};
    std::vector<token_id> tokens(27, 1);
    session<std::remove_const_t<decltype(p)>> s{model.info(), capacity};
    s.start(0, p, tokens, geometry);
    std::vector<token_id> told = tokens;
    decode(s, model, tokens, [&](const std::vector<token_id>& before) {
      EXPECT_EQ(told, before);
      for (const candidate_entry& e : s.candidates()) {
        seen.emplace(e.outcome, e.part);
        EXPECT_EQ(e.outcome == from_branch, e.part == 0);
        EXPECT_EQ(e.outcome == replaced, e.part == 3);
        EXPECT_EQ(std::isnan(e.margin), e.outcome == from_branch);
      }
      apply(s.candidates(), told, model.info().mask_token);
      EXPECT_EQ(told, tokens);
    });
  }
  EXPECT_EQ(seen,
            (std::set<std::pair<candidate_outcome, index_t>>{
                {committed, 1}, {held, 1}, {replaced, 3}, {from_branch, 0}}));
}

}  // namespace
}  // namespace unmask::testing::candidates_test
