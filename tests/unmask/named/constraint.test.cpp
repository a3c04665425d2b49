// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/named_requirements.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::constraint_test {
namespace {

constexpr const char* texts[] = {
    "threshold(0.5)",
    "threshold(0.9)",
    "by_margin + tokens_per_step(2)",
    "by_entropy + entropy_bound(0.3)",
    "left_to_right + tokens_per_step(3)",
    "at_random + tokens_per_step(2)",
    "steps_per_block(2)",
    "timesteps(3)",
    "independent_timesteps(3)",
    "early_commit",
    "adaptive_credit + threshold(0.6)",
    "threshold(0.5) + presence_frequency_penalty(0.5)",
    "threshold(0.5) + neighbour_penalty(1)",
    "any_of(threshold(0.9), at_frontier)",
    "factor(1.0)",
    "trace_credit + threshold(0.6)",
    "threshold(0.4) + sampling(1.0)",
    "threshold(0.4) + sampling(1.0) + top_k(2)",
    "threshold(0.3) + sampling(1.5) + top_p(0.8) + confidence_after_truncation",
    "adaptive_threshold",
    "stable_and_confident",
    "any_of(steady_leader(2), threshold(0.8))",
    "slow_fast + threshold(0.7)",
    "threshold(0.4) + edit_committed(0.4)",
    "threshold(0.4) + edited_blocks",
    "remdm_conf(2)",
    "remdm_loop(2, 0.5, 2) + single_block",
    "threshold(0.3) + remask_current_below(0.5)",
    "threshold(0.2) + remask_current_below(0.9, 8)",
    "tokens_per_step(2) + edit_committed(0.2, to_mask=true, allowance=6)",
    "threshold(0.5) + block_pipeline",
    "threshold(0.5) + single_block",
    "threshold(0.5) + no_equal_neighbours",
    "threshold(0.5) + repetition_penalty(1.5)",
    "temperature(0.7) + threshold(0.5)",
    "dual_cache + threshold(0.5)",
    "prefix_cache + threshold(0.5)",
    "threshold(0.5) + eos_penalty(2)",
    "threshold(0.5) + eos_last",
    "threshold(0.5) + eos_gate + stop_at_eos",
    "hierarchical",
    "local_leap",
    "any_of(threshold(0.8), tokens_per_step(2))",
    "at_most(2, threshold(0.2))",
};
// Parts that exclude tokens: a language wins where both cannot be kept.
constexpr const char* excluding[] = {
    "threshold(0.4) + min_new_tokens(2)",
    "threshold(0.4) + allowed_tokens([0, 1, 2])",
    "threshold(0.4) + logit_bias([1], [-inf])",
    "threshold(0.4) + sampling(1.0) + min_new_tokens(3) + stop_at_eos",
};

std::optional<named_policy> policy_of(const char* text) {
  try {
    return read_policy(text);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

void decode_random(const named_policy& p, std::uint64_t seed, bool restricted, decode_counts& n) {
  SCOPED_TRACE(seed);
  dice d(seed);
  const language l = random_language(d, d.within(3, 6));
  std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
  if (!c) {
    return;
  }
  constrained_request r = random_constrained_request(d, l);
  const sequence_shape shape{.prompt_length = r.prompt,
                             .length = r.prompt + r.answer,
                             .block_length = r.block,
                             .seed = r.seed};
  const session_capacity capacity{.length = shape.length, .window = r.answer, .trace = true};
  std::int64_t bound = 0;
  std::optional<named_session> s;
  try {
    bound = requirements_of(p, l.model, capacity, shape).most_forwards;
    s.emplace(p, l.model, capacity);
  } catch (const std::invalid_argument&) {
    return;  // a policy that this shape, or this vocabulary, is too small for
  }
  const constrained_field field{
      .language = &*c, .fill = r.fill, .read_again = dice(mixed(seed, 1)).chance(0.5)};
  const random_rows rows{seed, d.chance(0.5) ? 2.0 : 8.0, d.chance(0.2)};
  decode_constrained(
      *s,
      [&](std::vector<token_id>& tokens) {
        s->start(0,
                 {tokens.data(), shape.length},
                 shape,
                 {.editable = r.editable, .suppressed = r.suppressed, .constraints = {&field, 1}});
      },
      l,
      r,
      bound,
      rows,
      restricted,
      n,
      !restricted && !field.read_again && unmask::detail::draw_temperature(p) == 0.0F &&
          !p.has_canvas() && !step::processes_now(p),
      (step::remasks_least_now(p) || step::reconsiders_now(p)));
}

// Numbers for a long run, by the environment: UNMASK_CONSTRAINT_DECODES is how often each policy
// decodes, UNMASK_CONSTRAINT_SEED changes every request.
int number_of(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(otherwise, std::atoi(text));
}
int rounds() {
  return number_of("UNMASK_CONSTRAINT_DECODES", 1);
}
std::uint64_t first_seed() {
  return static_cast<std::uint64_t>(number_of("UNMASK_CONSTRAINT_SEED", 0)) << 32U;
}

TEST(constraint_by_name, is_obeyed_by_every_policy) {
  decode_counts all;
  std::uint64_t seed = first_seed();
  for (const char* const text : texts) {
    SCOPED_TRACE(text);
    const std::optional<named_policy> p = policy_of(text);
    ASSERT_TRUE(p) << text;
    decode_counts n;
    for (int i = 0; i < 400 * rounds() && !HasFailure(); ++i) {
      decode_random(*p, seed++, false, n);
    }
    EXPECT_GT(n.decodes, 50);
    all.decodes += n.decodes;
    all.refused += n.refused;
    all.filled += n.filled;
    all.greedy += n.greedy;
  }
  EXPECT_GT(all.decodes, 5000);
  EXPECT_GT(all.refused, 150);
  EXPECT_GT(all.filled, 1000);
  EXPECT_GT(all.greedy, 1500);
}

TEST(constraint_by_name, is_obeyed_beside_parts_that_exclude_tokens) {
  std::uint64_t seed = first_seed() + (1U << 30U);
  for (const char* const text : excluding) {
    SCOPED_TRACE(text);
    const std::optional<named_policy> p = policy_of(text);
    ASSERT_TRUE(p) << text;
    decode_counts n;
    for (int i = 0; i < 800 * rounds() && !HasFailure(); ++i) {
      decode_random(*p, seed++, true, n);
    }
    EXPECT_GT(n.decodes, 50);
  }
}

TEST(constraint_by_name, is_obeyed_by_a_canvas) {
  const std::optional<named_policy> p = policy_of("canvas(4) + by_entropy + entropy_bound(0.5)");
  ASSERT_TRUE(p);
  int decodes = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d, d.within(3, 6));
    std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
    if (!c) {
      continue;
    }
    const constrained_field field{.language = &*c};
    named_session s(*p, l.model, {.length = 5, .window = 5});
    std::vector<token_id> tokens(5, 0);
    try {
      s.start(0, {tokens.data(), 5}, {.length = 5}, {.constraints = {&field, 1}});
    } catch (const std::invalid_argument&) {
      continue;
    }
    const random_rows rows{seed, 4.0, d.chance(0.3)};
    // Rows without a finite logit, and an engine's bitmask that may exclude what is possible.
    const bool some_invalid = d.chance(0.5);
    std::vector<std::uint32_t> allowed(5);
    int pass = 0;
    while (const auto request = s.next()) {
      const auto vocab = static_cast<std::size_t>(l.model.vocab);
      std::vector<float> logits(static_cast<std::size_t>(request->rows) * vocab);
      for (index_t r = 0; r < request->rows; ++r) {
        const auto row = std::span(logits).subspan(static_cast<std::size_t>(r) * vocab, vocab);
        rows.write(pass, request->segments[0].rows.first + r, row);
        if (some_invalid && d.chance(0.4)) {
          std::fill(row.begin(), row.end(), -math::infinity());
        }
        allowed[static_cast<std::size_t>(r)] =
            some_invalid && d.chance(0.4) ? 0U : ~std::uint32_t{0};
      }
      s.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab),
               row_modifiers<float>{.allowed = allowed.data(), .allowed_stride = 1});
      ++pass;
    }
    ++decodes;
    ASSERT_LE(pass, 4);
    ASSERT_TRUE(s.report(0).constraint_met);
    ASSERT_TRUE(l.has(tokens));
  }
  EXPECT_GT(decodes, 100);
}

TEST(constraint_by_name, refuses_lookahead_and_remask_below) {
  dice d(1);
  language l = random_language(d);
  l.bytes.accepting.assign(l.bytes.accepting.size(), 1);
  std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
  ASSERT_TRUE(c);
  const constrained_field field{.language = &*c};
  for (const auto& [text, why] :
       {std::pair{"threshold(0.9) + lookahead(2)", "lookahead yet"},
        std::pair{"threshold(0.9) + remask_below(0.3)", "remask_below yet"}}) {
    const std::optional<named_policy> p = policy_of(text);
    if (!p) {
      ADD_FAILURE() << text;
      continue;
    }
    named_session s(*p, l.model, {.length = 4, .window = 4, .branches = 2});
    std::vector<token_id> tokens(4, 0);
    try {
      s.start(0, {tokens.data(), 4}, {.length = 4}, {.constraints = {&field, 1}});
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(std::string("constraint does not combine with ") + why),
                std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace unmask::testing::constraint_test
