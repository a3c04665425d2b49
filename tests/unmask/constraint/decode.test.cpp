// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/by_name.hpp"
#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::decode_test {
namespace {

constexpr constraint_limits small{.bytes = 1 << 18};

template <class Policy>
void decode_random(const Policy& p,
                   std::uint64_t seed,
                   decode_counts& n,
                   bool restricted = false,
                   const constraint_limits& limits = small) {
  SCOPED_TRACE(seed);
  dice d(seed);
  const language l = random_language(d, d.within(3, 6));
  std::optional<constraint> c = constraint_of(l, limits);
  if (!c) {
    return;
  }
  const constrained_request r = random_constrained_request(d, l);
  const sequence_shape shape{.prompt_length = r.prompt,
                             .length = r.prompt + r.answer,
                             .block_length = r.block,
                             .seed = r.seed};
  session s(by_name(p), l.model, {.length = shape.length, .window = r.answer, .trace = true});
  const constrained_field field{.language = &*c, .fill = r.fill};
  const random_rows rows{seed, d.chance(0.5) ? 2.0 : 8.0, d.chance(0.3)};
  decode_constrained(
      s,
      [&](std::vector<token_id>& tokens) {
        s.start(0,
                {tokens.data(), shape.length},
                shape,
                {.editable = r.editable, .suppressed = r.suppressed, .constraints = {&field, 1}});
      },
      l,
      r,
      most_forwards(p, shape),
      rows,
      restricted,
      n);
}

template <class Policy>
decode_counts
decode_many(const Policy& p, std::uint64_t first, int count, bool restricted = false) {
  decode_counts n;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    decode_random(p, first + static_cast<std::uint64_t>(i), n, restricted);
  }
  return n;
}

TEST(constraint, is_obeyed_by_threshold) {
  decode_counts n;
  for (std::uint64_t seed = 0; seed < 4000 && !HasFailure(); ++seed) {
    decode_random(policy{by_confidence{}, threshold{dice(seed).real(0.0, 0.9)}}, seed, n);
  }
  EXPECT_GT(n.decodes, 1000);
  EXPECT_GT(n.impossible, 200);
  EXPECT_GT(n.refused, 100);
  EXPECT_GT(n.filled, 300);
  EXPECT_GT(n.together, 300);
}

TEST(constraint, is_obeyed_by_a_fixed_number_of_tokens) {
  const decode_counts n = decode_many(policy{by_margin{}, tokens_per_step{2}}, 10000, 1500);
  EXPECT_GT(n.refused, 10);
  decode_many(policy{by_confidence{}, tokens_per_step{1}}, 20000, 500);
}

TEST(constraint, is_obeyed_by_a_fixed_number_of_steps) {
  decode_many(policy{by_confidence{}, steps_per_block{2}}, 30000, 1000);
  decode_many(policy{at_random{}, steps_per_block{3}}, 40000, 500);
}

TEST(constraint, is_obeyed_by_draws) {
  decode_many(policy{by_confidence{}, threshold{0.3F}, sampling{1.0F}}, 50000, 1500);
  decode_many(policy{by_entropy{}, entropy_bound{0.4F}, sampling{2.0F}, top_k{2}}, 60000, 500);
}

TEST(constraint, is_obeyed_by_edits) {
  decode_counts n;
  for (std::uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    decode_random(policy{by_confidence{}, threshold{0.2F}, edit_committed{.threshold = 0.3F}},
                  70000 + seed,
                  n);
  }
  decode_many(policy{by_confidence{}, threshold{0.2F}, remask_current_below{.confidence = 0.5F}},
              80000,
              1500);
}

TEST(constraint, is_obeyed_by_parts_that_exclude_tokens) {
  decode_many(policy{by_confidence{}, threshold{0.3F}, min_new_tokens{2}}, 90000, 1000, true);
  decode_many(policy{by_confidence{}, threshold{0.3F}, logit_bias<1>{{{1, -math::infinity()}}}},
              100000,
              1000,
              true);
  decode_many(
      policy{by_confidence{}, threshold{0.3F}, eos_gate{}, stop_at_eos{}}, 110000, 1000, true);
}

TEST(constraint, is_obeyed_with_credit_and_several_blocks) {
  decode_many(policy{by_confidence{}, threshold{0.5F}, trace_credit<4>{}}, 120000, 500);
  decode_many(policy{by_confidence{}, threshold{0.5F}, block_pipeline{}}, 130000, 500);
  decode_many(policy{by_confidence{}, threshold{0.5F}, slow_fast{}}, 140000, 300);
}

TEST(constraint, is_obeyed_with_a_memory_that_is_too_small) {
  decode_counts n;
  for (std::uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    decode_random(policy{by_confidence{}, threshold{0.3F}},
                  150000 + seed,
                  n,
                  false,
                  {.bytes = 1 << 14, .entries = 16});
  }
  EXPECT_GT(n.decodes, 300);
}

}  // namespace
}  // namespace unmask::testing::decode_test
