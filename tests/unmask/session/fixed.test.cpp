// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fixed positions under rules that move text: refused, or where they were.
#include <unmask/named_policy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::fixed_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr model_info model{.vocab = 12, .mask_token = 11, .eos_token = 10};
constexpr sequence_shape shape{.prompt_length = 2, .length = 16, .block_length = 16};

/// Starts a sequence whose position `at` has this mark, the others of the answer are masked.
void start(named_session& s,
           const std::string& policy,
           std::vector<token_id>& tokens,
           index_t at,
           std::uint8_t is) {
  std::vector<std::uint8_t> editable(16, 1);
  editable[static_cast<std::size_t>(at)] = is;
  tokens.assign(16, 3);
  s.start(0, read_policy(policy), {tokens.data(), 16}, shape, {.editable = editable});
}

TEST(fixed_positions, that_a_rule_could_not_keep_are_refused_before_anything_is_written) {
  for (const std::string policy : {"daedal",
                                   "daedal(initial=2)",
                                   "rho_eos(initial=2)",
                                   "rho_eos(initial=1)",
                                   "joint_threshold_indel(erase_token=3)",
                                   "joint_threshold_indel(insert_token=4)",
                                   "joint_threshold_indel(erase_token=3, insert_token=4)"}) {
    SCOPED_TRACE(policy);
    for (index_t at = 2; at < 16; ++at) {
      named_session s(model, {.length = 16, .window = 16});
      std::vector<token_id> tokens;
      EXPECT_THAT([&] { start(s, policy, tokens, at, 0); },
                  ThrowsMessage<std::invalid_argument>(
                      AllOf(HasSubstr("start_options::editable of position " + std::to_string(at)),
                            HasSubstr("got 0 (fixed)"))));
      EXPECT_EQ(tokens, std::vector<token_id>(16, 3));
    }
  }
}

TEST(fixed_positions, committed_ones_may_move_but_must_be_there) {
  named_session s(model, {.length = 16, .window = 16});
  std::vector<token_id> tokens;
  EXPECT_NO_THROW(start(s, "daedal(initial=4)", tokens, 5, 2));
  EXPECT_EQ(tokens[5], 3);
  s.cancel(0);
  EXPECT_THAT([&] { start(s, "daedal(initial=4)", tokens, 6, 2); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("position 6 must be 1 (masked)"),
                                                         HasSubstr("got 2 (committed)"))));
  EXPECT_NO_THROW(start(s, "joint_threshold_indel(erase_token=3)", tokens, 15, 2));
}

TEST(fixed_positions, stay_under_every_other_schedule) {
  for (const std::string policy : {"joint_threshold_indel",
                                   "joint_threshold_indel(0.3, 0.2)",
                                   "threshold(0.5) + edit_committed(0.3) + edited_blocks(4)",
                                   "canvas + by_entropy + entropy_bound(0.1)",
                                   "wino + max_steps(3)",
                                   "linear_spec",
                                   "soar"}) {
    SCOPED_TRACE(policy);
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      dice d(seed);
      model_info m = model;
      m.causal_attention = m.shadow_attention = true;
      named_session s(m, {.length = 16, .window = 16, .branches = max_branches});
      std::vector<std::uint8_t> editable(16, 1);
      std::vector<token_id> tokens(16);
      for (std::size_t p = 0; p < 16; ++p) {
        editable[p] = p < 2 || d.chance(0.3) ? 0 : 1;
        tokens[p] = d.within(0, 11);
      }
      const std::vector<token_id> given = tokens;
      s.start(0, read_policy(policy), {tokens.data(), 16}, shape, {.editable = editable});
      for (int pass = 0; pass < 100; ++pass) {
        const auto request = s.next();
        if (!request) {
          break;
        }
        if (seed % 4 == 0 && pass == 2) {
          s.abandon();
          break;
        }
        std::vector<float> logits(static_cast<std::size_t>(request->rows) * 12);
        for (float& z : logits) {
          z = d.real(-4.0F, 4.0F);
        }
        s.supply(host_logits<float>(logits.data(), request->rows, 12));
      }
      s.cancel(0);
      for (std::size_t p = 0; p < 16; ++p) {
        EXPECT_TRUE(editable[p] != 0 || tokens[p] == given[p]) << "seed " << seed << ", " << p;
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::fixed_test
