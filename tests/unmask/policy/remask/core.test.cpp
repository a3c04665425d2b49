// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which tokens of a pass that hides some are replaced. tests/cases has what the steps do.

#include <unmask/named/read_policy.hpp>
#include <unmask/policy/remask/core.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::core_test {
namespace {

/// A position whose token was hidden, and the best one without it.
struct reconsidered {
  token_id token = 1;
  token_id current = 2;
  float value = 0.0F;
  [[nodiscard]] float confidence() const { return value; }
};

TEST(core, replaces_by_another_token_of_a_confidence_of_at_least_three_tenths) {
  const auto score = [](const reconsidered& c) {
    step_info at;
    at.current_probability = 0.25F;
    struct {
      step_info at;
    } const context{at};
    return core{}.reconsider_score(c, context);
  };
  EXPECT_EQ(score({.value = 0.3F}), 0.25F);
  EXPECT_TRUE(std::isnan(score({.value = std::nextafter(0.3F, 0.0F)})));
  EXPECT_TRUE(std::isnan(score({.current = 1, .value = 0.9F})));
}

using core_session = session<named_policy, on_host>;
const model_info model{.vocab = 12, .mask_token = 11};

/// Decodes with random rows; `seen` is called after each pass and returns whether to go on.
void decode(const char* text,
            std::uint64_t seed,
            const std::function<bool(core_session&, const std::vector<token_id>&)>& seen) {
  dice d(seed);
  const sequence_shape shape{.prompt_length = 2, .length = 18, .block_length = 8};
  std::vector<token_id> tokens(static_cast<std::size_t>(shape.length), 5);
  core_session s(read_policy(text), model, {tokens.data(), shape.length}, shape);
  std::vector<float> logits;
  while (const auto request = s.next()) {
    logits.resize(static_cast<std::size_t>(request->rows) * 12);
    for (float& z : logits) {
      z = static_cast<float>(d.within(0, 6));
    }
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    if (!seen(s, tokens)) {
      return;
    }
  }
}

// A step that is decided again is the same step of its block, and its commits say so.
TEST(core, counts_a_step_that_is_decided_again_once) {
  int again = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    bool hid = false;
    index_t hidden_step = 0;
    decode(
        "core(steps=4, every=1, redecide=true, tail=0)", seed, [&](core_session& s, const auto&) {
          for (const commit_entry& e : s.committed()) {
            EXPECT_GE(e.block_step, 0) << seed;
            EXPECT_LT(e.block_step, 5) << seed;
            if (hid) {
              EXPECT_EQ(e.block_step, hidden_step) << seed;
              ++again;
            } else {
              hidden_step = e.block_step;
            }
          }
          hid = s.planned().kind == pass_kind::hiding;
          return true;
        });
  }
  EXPECT_GT(again, 50);
}

// The text to show has no mask where the host ends a sequence whose pass hides tokens.
TEST(core, cancelled_in_a_pass_that_hides_shows_no_mask) {
  int cancelled = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    decode("core(steps=4, every=1, candidates=3, tail=0)",
           seed,
           [&](core_session& s, const auto& tokens) {
             if (s.planned().kind != pass_kind::hiding) {
               return true;
             }
             ++cancelled;
             s.cancel(0);
             const index_t end = std::min(s.report().committed_prefix, s.report().answer_end);
             for (index_t p = 2; p < end; ++p) {
               EXPECT_NE(tokens[static_cast<std::size_t>(p)], model.mask_token)
                   << seed << ", position " << p;
             }
             return false;
           });
  }
  EXPECT_GT(cancelled, 40);
}

}  // namespace
}  // namespace unmask::testing::core_test
