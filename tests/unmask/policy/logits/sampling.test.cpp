// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A drawn token beside edits of its row: the draw is from the softmax of the edited row, whatever
// was tracked while the row was read. Sessions of one position, one draw each, against the
// definition in double precision.
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/beside.hpp"
#include "support/by_name.hpp"
#include "support/draws.hpp"

namespace unmask::testing::sampling_test {
namespace {

constexpr float banned = -std::numeric_limits<float>::infinity();

// Six tokens and the mask token, which is suppressed; then the same spread over three chunks.
struct scene_of_draws {
  std::vector<float> row;
  std::vector<token_id> tokens;  ///< that are finite
};

scene_of_draws small_scene() {
  return {{1.0F, 0.3F, -0.5F, 2.0F, 0.0F, 1.5F, 30.0F}, {0, 1, 2, 3, 4, 5}};
}
scene_of_draws wide_scene() {
  scene_of_draws s{std::vector<float>(5000, banned), {0, 1, 2, 2047, 2048, 4999}};
  for (std::size_t i = 0; i < s.tokens.size(); ++i) {
    s.row[static_cast<std::size_t>(s.tokens[i])] = small_scene().row[i];
  }
  s.row[17] = 30.0F;  // the mask token
  return s;
}
model_info model_of(const scene_of_draws& s) {
  return {.vocab = static_cast<index_t>(s.row.size()), .mask_token = s.row.size() > 7 ? 17 : 6};
}

// Frequencies of the tokens drawn behind the prompt `given`, after `steps` steps with the same row.
template <class Policy>
std::vector<double> frequencies(const Policy& p, const scene_of_draws& scene, int draws) {
  return draw_frequencies(p, model_of(scene), scene.row, {3, 3, 1}, draws);
}

std::vector<double>
edited_softmax(const scene_of_draws& scene, double temperature, const auto& edit) {
  std::vector<double> z;
  for (std::size_t i = 0; i < scene.row.size(); ++i) {
    z.push_back(static_cast<double>(scene.row[i]));
  }
  z[static_cast<std::size_t>(model_of(scene).mask_token)] = -infinity;
  edit(z);
  return softmax(z, temperature);
}

TEST(sampling, draws_from_the_row_as_a_bias_has_edited_it) {
  for (const scene_of_draws& scene : {small_scene(), wide_scene()}) {
    const token_id up = scene.tokens[1];
    const token_id down = scene.tokens[3];
    const token_id out = scene.tokens[5];
    for (const float temperature : {1.0F, 0.7F}) {
      const policy p{by_confidence{},
                     tokens_per_step{1},
                     sampling{temperature},
                     logit_bias<3>{{{up, 1.5F}, {down, -1.0F}, {out, banned}}}};
      const auto expected = edited_softmax(scene, static_cast<double>(temperature), [&](auto& z) {
        z[static_cast<std::size_t>(up)] += 1.5;
        z[static_cast<std::size_t>(down)] -= 1.0;
        z[static_cast<std::size_t>(out)] = -infinity;
      });
      expect_draws(frequencies(by_name(p), scene, 6000), expected, 6000);
    }
  }
}

TEST(sampling, draws_from_the_row_as_penalties_have_edited_it) {
  const scene_of_draws scene = small_scene();
  const policy p{by_confidence{},
                 tokens_per_step{1},
                 sampling{},
                 repetition_penalty<4>{.penalty = 2.0F, .window = 8},
                 presence_frequency_penalty<4>{
                     .presence = 0.25F, .frequency = 0.5F, .window = 8, .prompt = true},
                 neighbour_penalty{.penalty = 0.3F}};
  const auto expected = edited_softmax(scene, 1.0, [](auto& z) {
    z[3] = z[3] / 2.0 - 0.25 - 2 * 0.5;    // stands twice
    z[1] = z[1] / 2.0 - 0.25 - 0.5 - 0.3;  // stands once, and directly left
  });
  expect_draws(frequencies(by_name(p), scene, 8000), expected, 8000);
}

TEST(sampling, draws_from_allowed_tokens) {
  for (const scene_of_draws& scene : {small_scene(), wide_scene()}) {
    const token_id a = scene.tokens[0];
    const token_id b = scene.tokens[4];
    const policy p{by_confidence{}, tokens_per_step{1}, sampling{0.5F}, allowed_tokens<2>{{a, b}}};
    const auto expected = edited_softmax(scene, 0.5, [&](auto& z) {
      for (std::size_t v = 0; v < z.size(); ++v) {
        z[v] = static_cast<token_id>(v) == a || static_cast<token_id>(v) == b ? z[v] : -infinity;
      }
    });
    expect_draws(frequencies(by_name(p), scene, 4000), expected, 4000);
  }
}

// Credit raises the best token before it is tracked: it joins the draw again with what it gained.
TEST(sampling, draws_from_a_row_whose_best_token_was_raised) {
  for (const scene_of_draws& scene : {small_scene(), wide_scene()}) {
    for (const float temperature : {1.0F, 2.0F}) {
      const trace_credit<4> credit{.strength = 2.0F, .decay = 0.5F, .exponent = 1.0F};
      const policy p{by_confidence{}, tokens_per_step{1}, sampling{temperature}, credit, credit};
      const auto raise = [](std::vector<double>& z, std::size_t best) {
        z[best] += 2.0 * std::log1p(softmax(z, 1.0)[best]);
      };
      const auto expected = edited_softmax(scene, static_cast<double>(temperature), [&](auto& z) {
        const auto best = static_cast<std::size_t>(scene.tokens[3]);
        raise(z, best);
        raise(z, best);
      });
      expect_draws(frequencies(p, scene, 6000), expected, 6000);
    }
  }
}

// The report gives the probability of the drawn token in the edited row at temperature 1.
TEST(sampling, reports_the_probability_in_the_edited_row) {
  const scene_of_draws scene = small_scene();
  const auto expected = edited_softmax(scene, 1.0, [](auto& z) { z[3] -= 1.0; });
  const policy p{by_confidence{}, tokens_per_step{1}, sampling{3.0F}, logit_bias<1>{{{3, -1.0F}}}};
  std::vector<bool> seen(7, false);
  for (int i = 0; i < 200; ++i) {
    std::vector<token_id> text = {0};
    session s{by_name(p),
              model_of(scene),
              tokens_view<memory::host>(text),
              sequence_shape{.length = 1, .seed = static_cast<std::uint64_t>(i)}};
    static_cast<void>(s.next());
    s.supply(host_logits<float>(scene.row.data(), 1, 7));
    const commit_entry e = s.committed()[0];
    EXPECT_NEAR(e.log_probability, std::log(expected[static_cast<std::size_t>(e.token)]), 1e-5);
    seen[static_cast<std::size_t>(e.token)] = true;
  }
  EXPECT_GE(std::count(seen.begin(), seen.end(), true), 5);
}

// The commit of a draw from `row` at a temperature: the token and its log-probability.
template <class... More>
commit_entry drawn_once(const std::vector<float>& row, float temperature, const More&... more) {
  std::vector<token_id> text = {0};
  const model_info model{.vocab = static_cast<index_t>(row.size()), .mask_token = 0};
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, sampling{temperature}, more...}),
            model,
            tokens_view<memory::host>(text),
            sequence_shape{.length = 1, .seed = 3}};
  static_cast<void>(s.next());
  s.supply(host_logits<float>(row.data(), 1, model.vocab));
  return s.committed()[0];
}

// Divided by the temperature, the logits are no floats: nothing but the best token has a chance.
TEST(sampling, beyond_the_range_of_float_proposes_the_most_probable_token) {
  std::vector<float> wide(5000, -3e38F);
  wide[3] = 2e38F;
  wide[4000] = 3e38F;  // in another chunk
  const std::vector<float> low = {0.0F, -3e38F, -2e38F};
  const std::vector<float> plain = {9.0F, 1.0F, 0.0F, 2.0F};
  for (const float temperature : {0.3F, 1e-30F, 1e-45F}) {
    SCOPED_TRACE(temperature);
    EXPECT_EQ(drawn_once(wide, temperature).token, 4000);
    EXPECT_EQ(drawn_once(low, temperature).token, 2);
    EXPECT_EQ(drawn_once(low, temperature).log_probability, 0.0F);
    EXPECT_EQ(drawn_once(low, temperature, top_k{2}).token, 2);
    EXPECT_EQ(drawn_once(low, temperature, logit_bias<1>{{{1, 2e38F}}}).token, 1);
  }
  for (const float temperature : {1e-39F, 1e-45F}) {
    SCOPED_TRACE(temperature);
    EXPECT_EQ(drawn_once(plain, temperature).token, 3);
    EXPECT_NEAR(drawn_once(plain, temperature).log_probability, -0.40760596, 1e-6);
    EXPECT_EQ(drawn_once(plain, temperature, top_k{2}).token, 3);
  }
}

// Every commit of a decode of 24 positions with the logits of a fake model.
template <class... More>
std::vector<commit_entry> commits_of(const policy<More...>& p) {
  const model_info info{.vocab = 60, .mask_token = 59};
  const fake_model model{.seed = 5, .vocab = info.vocab};
  std::vector<token_id> tokens(24, 1);
  session s{by_name(p),
            info,
            tokens_view<memory::host>(tokens),
            sequence_shape{.prompt_length = 2, .length = 24, .block_length = 11, .seed = 9}};
  std::vector<commit_entry> all;
  while (const auto request = s.next()) {
    const range rows = request->segments[0].rows;
    packed_rows<float> logits(rows.size(), info.vocab, 1);
    for (index_t r = 0; r < rows.size(); ++r) {
      model.row<float>(tokens, rows.first + r, logits.row(r));
    }
    s.supply(logits.view());
    all.insert(all.end(), s.committed().begin(), s.committed().end());
  }
  return all;
}

template <class... Parts>
void expect_greedy(const Parts&... parts) {
  SCOPED_TRACE(sizeof...(Parts));
  const auto without = commits_of(policy{parts...});
  const auto with = commits_of(policy{parts..., sampling{0.0F}});
  ASSERT_EQ(with.size(), 22U);
  ASSERT_EQ(without.size(), with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(with[i].position, without[i].position);
    EXPECT_EQ(with[i].token, without[i].token);
    EXPECT_EQ(with[i].step, without[i].step);
    EXPECT_EQ(with[i].log_probability, without[i].log_probability);
  }
}

TEST(sampling, at_temperature_0_is_greedy) {
  expect_greedy(by_confidence{}, tokens_per_step{2});
  expect_greedy(by_entropy{}, entropy_bound{0.6F});
  expect_greedy(by_confidence{}, threshold{0.4F}, trace_credit<>{});
  expect_greedy(by_margin{},
                tokens_per_step{2},
                logit_bias<2>{{{3, 2.0F}, {4, -1.0F}}},
                presence_frequency_penalty<4>{.presence = 0.4F, .frequency = 0.2F});
  const auto truncated = commits_of(
      policy{by_confidence{}, tokens_per_step{2}, sampling{0.0F}, top_k{5}, top_p{0.8F}});
  const auto plain = commits_of(policy{by_confidence{}, tokens_per_step{2}});
  ASSERT_EQ(truncated.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(truncated[i].token, plain[i].token);
    EXPECT_EQ(truncated[i].step, plain[i].step);
  }
}

}  // namespace
}  // namespace unmask::testing::sampling_test
