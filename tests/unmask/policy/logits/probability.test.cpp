// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Probabilities of probed tokens, compared with softmax in double precision.
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/session.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/bound_session.hpp"
#include "support/by_name.hpp"
#include "support/draws.hpp"

namespace unmask::testing::probability_test {
namespace {

const std::vector<float> answers_row = {9.0F, 1.0F, 8.0F, 3.0F, 2.0F, 20.0F};
constexpr model_info small = {.vocab = 6, .mask_token = 5};

template <class Policy>
std::vector<token_probability> ask(const Policy& p, const std::vector<float>& row = answers_row) {
  std::vector<token_id> text = {0};
  session s{p, small, tokens_view<memory::host>(text), sequence_shape{.length = 1}};
  static_cast<void>(s.next());
  s.supply(host_logits<float>(row.data(), 1, 6));
  const auto told = s.probabilities();
  return {told.begin(), told.end()};
}

std::vector<double> row_softmax(double temperature = 1.0) {
  std::vector<double> z(answers_row.begin(), answers_row.end());
  z[5] = -infinity;
  return softmax(z, temperature);
}

TEST(probability_of, is_in_the_whole_row_and_among_the_asked) {
  const auto told =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}}));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].token, 1);
  EXPECT_EQ(told[1].token, 3);
  EXPECT_EQ(told[1].position, 0);
  EXPECT_EQ(told[1].step, 0);
  const auto p = row_softmax();
  EXPECT_NEAR(told[0].probability, p[1], 1e-7);
  EXPECT_NEAR(told[1].probability, p[3], 1e-7);
  EXPECT_NEAR(told[0].share, 1.0 / (1.0 + std::exp(2.0)), 1e-6);
  EXPECT_NEAR(told[1].share, 1.0 / (1.0 + std::exp(-2.0)), 1e-6);
}

TEST(probability_of, names_the_slot_of_the_row) {
  std::vector<token_id> text = {0};
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}});
  session<std::remove_const_t<decltype(p)>> s(small, {.sequences = 2, .length = 1, .window = 1});
  s.start(1, p, text, {.length = 1});
  static_cast<void>(s.next());
  s.supply(host_logits<float>(answers_row.data(), 1, 6));
  ASSERT_EQ(s.probabilities(1).size(), 2U);
  EXPECT_EQ(s.probabilities(1)[0].slot, 1);
  EXPECT_EQ(s.probabilities(1)[1].slot, 1);
}

TEST(probability_of, is_told_with_its_step_and_position) {
  std::vector<token_id> text = {0, 0, 0};
  const auto p = by_name(policy{left_to_right{}, tokens_per_step{1}, probability_of<1>{{3}}});
  session<std::remove_const_t<decltype(p)>> s(small, {.length = 3, .window = 3});
  s.start(0, p, text, {.prompt_length = 1, .length = 3, .block_length = 2});
  for (index_t step = 0; step < 2; ++step) {
    std::vector<float> logits;
    for (index_t r = s.next()->rows; r > 0; --r) {
      logits.insert(logits.end(), answers_row.begin(), answers_row.end());
    }
    s.supply(host_logits<float>(logits.data(), static_cast<index_t>(logits.size()) / 6, 6));
    const auto told = s.probabilities();
    ASSERT_EQ(told.size(), 2U - static_cast<std::size_t>(step));
    for (std::size_t k = 0; k < told.size(); ++k) {
      EXPECT_EQ(told[k].step, step);
      EXPECT_EQ(told[k].position, 1 + step + static_cast<index_t>(k));
      EXPECT_EQ(told[k].token, 3);
    }
  }
}

TEST(probability_of, is_not_told_again_once_the_sequence_has_ended) {
  std::vector<token_id> one = {0};
  std::vector<token_id> two = {0, 0};
  const auto p = by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}});
  session<std::remove_const_t<decltype(p)>> s(small, {.sequences = 2, .length = 2, .window = 2});
  s.start(0, p, one, {.length = 1});
  s.start(1, p, two, {.length = 2, .block_length = 2});
  for (const std::size_t told : {2U, 0U}) {
    const index_t rows = s.next()->rows;
    std::vector<float> logits;
    for (index_t r = 0; r < rows; ++r) {
      logits.insert(logits.end(), answers_row.begin(), answers_row.end());
    }
    s.supply(host_logits<float>(logits.data(), rows, 6));
    EXPECT_EQ(s.probabilities(0).size(), told);
  }
}

// "Yes or no?": the decision is the list's, and one knows how much of the row it stands for.
TEST(probability_of, beside_allowed_tokens_makes_a_classifier) {
  std::vector<token_id> text = {0};
  session s{by_name(policy{by_confidence{},
                           tokens_per_step{1},
                           probability_of<2>{{1, 3}},
                           allowed_tokens<2>{{1, 3}}}),
            small,
            tokens_view<memory::host>(text),
            sequence_shape{.length = 1}};
  static_cast<void>(s.next());
  s.supply(host_logits<float>(answers_row.data(), 1, 6));
  EXPECT_EQ(text[0], 3);
  EXPECT_NEAR(s.probabilities()[1].probability, row_softmax()[3], 1e-7);
  EXPECT_NEAR(s.probabilities()[1].share, std::exp(s.committed()[0].log_probability), 1e-6);
  // Asked behind the list, the row is the list.
  const auto behind = ask(by_name(policy{
      by_confidence{}, tokens_per_step{1}, allowed_tokens<2>{{1, 3}}, probability_of<2>{{1, 3}}}));
  EXPECT_NEAR(behind[1].probability, behind[1].share, 1e-6);
}

TEST(probability_of, sees_the_edits_written_before_it) {
  const logit_bias<1> bias{{{3, 1.0F}}};
  const auto before =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, bias, probability_of<2>{{1, 3}}}));
  const auto behind =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}, bias}));
  EXPECT_NEAR(before[1].share, 1.0 / (1.0 + std::exp(-3.0)), 1e-6);
  EXPECT_NEAR(behind[1].share, 1.0 / (1.0 + std::exp(-2.0)), 1e-6);
  const auto sharp = ask(by_name(
      policy{by_confidence{}, tokens_per_step{1}, temperature{0.5F}, probability_of<2>{{0, 3}}}));
  EXPECT_NEAR(sharp[0].probability, row_softmax(0.5)[0], 1e-6);
}

TEST(probability_of, counts_what_is_cut_off_in_the_whole_row) {
  const auto told = ask(by_name(policy{by_confidence{},
                                       tokens_per_step{1},
                                       sampling{},
                                       top_k{1},
                                       confidence_after_truncation{},
                                       probability_of<2>{{0, 3}}}));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_NEAR(told[0].probability, row_softmax()[0], 1e-6);
  EXPECT_NEAR(told[1].probability, row_softmax()[3], 1e-6);
}

TEST(probability_of, is_zero_for_what_cannot_be_proposed) {
  const auto told =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<3>{{5, 77, 4}}}));
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].probability, 0.0F) << "the mask token";
  EXPECT_EQ(told[1].probability, 0.0F) << "not in the vocabulary";
  EXPECT_GT(told[2].probability, 0.0F);
  EXPECT_EQ(told[2].share, 1.0F);
  const auto none =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<1>{{5}}}));
  EXPECT_EQ(none[0].share, 0.0F);
}

TEST(probability_of, of_an_invalid_row_is_not_told) {
  std::vector<float> broken = answers_row;
  broken[2] = math::from_bits(0x7fc00000U);
  EXPECT_TRUE(
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}}), broken)
          .empty());
}

// Nor of a row that edits have made invalid, as far as they stand before the question.
TEST(probability_of, of_a_row_that_overflows_is_not_told) {
  const std::vector<float> high = {3e38F, 1.0F, 8.0F, 3.0F, 2.0F, 20.0F};
  const logit_bias<1> too_much{{{0, 3e38F}}};
  const probability_of<2> probe{{0, 3}};
  EXPECT_TRUE(
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, too_much, probe}), high).empty());
  const auto before =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probe, too_much}), high);
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(before[0].probability, 1.0F);
}

// A far-away list still has shares, where its probabilities are nothing.
TEST(probability_of, shares_do_not_vanish_with_the_probabilities) {
  const std::vector<float> row = {500.0F, -249.0F, 0.0F, -247.0F, 2.0F, 0.0F};
  const auto told =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}}), row);
  EXPECT_NEAR(told[1].share, 1.0 / (1.0 + std::exp(-2.0)), 1e-6);
  EXPECT_LT(told[1].probability, 1e-30F);
}

// Shares and probabilities are those of all logits moved by as much.
TEST(probability_of, does_not_depend_on_the_level_of_the_logits) {
  for (const float level : {-300.0F, 60.0F, 300.0F}) {
    std::vector<float> row = answers_row;
    for (float& z : row) {
      z += level;
    }
    const auto told =
        ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}}), row);
    ASSERT_EQ(told.size(), 2U);
    EXPECT_NEAR(told[0].share, 1.0 / (1.0 + std::exp(2.0)), 1e-6);
    EXPECT_NEAR(told[1].probability, row_softmax()[3], 1e-7);
  }
}

// Several questions, several blocks, committed positions in between, a batch: every masked position
// whose turn it is, in order, and nothing else.
TEST(probability_of, is_told_for_every_masked_position_of_the_step) {
  int answers = 0;
  for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    dense_request q = random_dense_request(c, 40);
    q.branches = c.chance(0.5) ? 2 : 0;
    const index_t first = c.within(0, 4);
    const auto p = by_name(policy{by_confidence{},
                                  tokens_per_step{2},
                                  probability_of<3>{.tokens = {3, 9, 30}, .count = 2},
                                  probability_of<1>{.tokens = {7}, .first = first},
                                  lookahead{.branches = q.branches}});
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 1);
    session<std::remove_const_t<decltype(p)>> s(
        q.model, {.sequences = 1, .length = 64, .window = 64, .branches = 2});
    s.start(0, p, tokens_view<memory::host>(text), q.geometry);
    while (const auto request = s.next()) {
      const std::vector<token_id> before = text;
      const range score = s.planned().score;
      std::vector<float> logits;
      std::vector<placement> placed = {{}};
      for (const segment& part : request->segments) {
        std::vector<token_id> x = text;
        for (const placement& each : part.placed) {
          x[static_cast<std::size_t>(each.position)] = each.token;
          placed.push_back(each);
        }
        for (index_t r = part.rows.first; r < part.rows.last; ++r) {
          const auto z = q.logits.row(x, r);
          logits.insert(logits.end(), z.begin(), z.end());
        }
      }
      s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
      std::vector<token_id> x = before;
      const index_t winner = s.planned().winner;
      if (winner > 0) {
        const placement& w = placed[static_cast<std::size_t>(winner)];
        x[static_cast<std::size_t>(w.position)] = w.token;
      }
      std::size_t n = 0;
      const auto told = s.probabilities();
      for (index_t i = score.first; i < score.last; ++i) {
        if (x[static_cast<std::size_t>(i)] != q.model.mask_token) {
          continue;
        }
        std::vector<double> z;
        for (const float value : q.logits.row(x, i)) {
          z.push_back(value);
        }
        z[static_cast<std::size_t>(q.model.mask_token)] = -infinity;
        const auto expected = softmax(z, 1.0);
        std::vector<token_id> tokens = {3, 9};
        if (i - q.geometry.prompt_length >= first) {
          tokens.push_back(7);
        }
        for (const token_id v : tokens) {
          ASSERT_LT(n, told.size());
          EXPECT_EQ(told[n].position, i);
          EXPECT_EQ(told[n].token, v);
          EXPECT_NEAR(told[n].probability, expected[static_cast<std::size_t>(v)], 1e-6);
          ++n;
          ++answers;
        }
      }
      ASSERT_EQ(n, told.size());
    }
  }
  EXPECT_GT(answers, 2000);
}

TEST(probability_of, is_told_by_a_session_of_rows_without_type) {
  const auto s =
      make_bound(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<1>{{3}}}),
                 small,
                 {.length = 1, .window = 1});
  token_id token = 0;
  s->start(0, &token, 1, {.length = 1});
  static_cast<void>(s->next());
  s->supply(host_logits<float>(answers_row.data(), 1, 6));
  ASSERT_EQ(s->probabilities(0).size(), 1U);
  EXPECT_NEAR(s->probabilities(0)[0].probability, row_softmax()[3], 1e-7);
}

TEST(probability_of, asks_only_about_the_tokens_it_was_given) {
  const auto two =
      ask(by_name(policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{1, 3}}}));
  const auto told =
      ask(policy{by_confidence{}, tokens_per_step{1}, probability_of<4>{{1, no_token, 3}}});
  ASSERT_EQ(told.size(), 2U);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(told[k].token, two[k].token);
    EXPECT_EQ(told[k].probability, two[k].probability);
    EXPECT_EQ(told[k].share, two[k].share);
  }
}

// What is behind belongs to the next part or position.
TEST(probability_of, writes_as_many_as_it_returns) {
  struct {
    struct totals {
      float best = 0.0F;
      [[nodiscard]] static bool valid() { return true; }
      [[nodiscard]] static float total() { return 2.0F; }
    };
    [[nodiscard]] static totals total() { return {}; }
    [[nodiscard]] static float logit(token_id) { return 0.0F; }
  } row;
  sequence_view view{};
  struct {
    step_info at;
  } context;
  context.at.view = &view;
  context.at.position = 0;
  token_probability out[3];
  out[2].token = 4;
  out[2].share = 7.0F;
  EXPECT_EQ((probability_of<2>{{1, 3}}.probe(row, context, out)), 2);
  EXPECT_EQ(out[0].share, 0.5F);
  EXPECT_EQ(out[1].probability, 0.5F);
  EXPECT_EQ(out[2].share, 7.0F);
  for (const probability_of<2>& elsewhere : {probability_of<2>{.tokens = {1, 3}, .first = 1},
                                             probability_of<2>{.tokens = {1, 3}, .last = 0}}) {
    EXPECT_EQ(elsewhere.probe(row, context, out), 0);
  }
  EXPECT_EQ(out[0].share, 0.5F);
}

TEST(probability_of, refuses_knobs_outside_their_range) {
  const sequence_shape g{.length = 4};
  EXPECT_THROW((check_part(probability_of<>{}, g)), std::invalid_argument);
  EXPECT_NO_THROW((check_part(probability_of<3>{.tokens = {1, 2}, .count = 2}, g)));
  EXPECT_NO_THROW((check_part(probability_of<3>{.tokens = {1}, .count = 1}, g)));
  EXPECT_THROW((check_part(probability_of<3>{.tokens = {1}, .count = 0}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(probability_of<2>{{1, 1}}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(probability_of<2>{{1, -1}}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(probability_of<2>{.tokens = {1, 2}, .count = 3}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(probability_of<1>{.tokens = {1}, .first = -1}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(probability_of<1>{.tokens = {1}, .first = 3, .last = 2}, g)),
               std::invalid_argument);
}

TEST(probability_of, says_how_many_tokens_it_takes) {
  const auto said = [](const auto& part) -> std::string {
    try {
      check_part(part, sequence_shape{.length = 4});
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string rule = "probability_of::count must be in [1, Count = 3], got ";
  EXPECT_EQ(said(probability_of<3>{.tokens = {1, 2, 3}, .count = 0}), rule + "0");
  EXPECT_EQ(said(probability_of<3>{.tokens = {1, 2, 3}, .count = -1}), rule + "-1");
  EXPECT_EQ(said(probability_of<3>{.tokens = {1, 2, 3}, .count = 4}), rule + "4");
  EXPECT_EQ(said(probability_of<3>{.tokens = {1, 2, 3}, .count = 1}), "nothing");
  EXPECT_EQ(said(probability_of<3>{.tokens = {1, 2, 3}, .count = 3}), "nothing");
}

}  // namespace
}  // namespace unmask::testing::probability_test
