// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include "support/observed_decode.hpp"

namespace unmask::testing::review_test {
namespace {

// Ends a sequence behind the first step that writes tokens whose positions, 1 added to each, and
// confidences come to these sums.
struct stops_at_sums {
  index_t positions = -1;
  float confidences = 0.0F;

  struct step_reduction {
    index_t positions = 0;
    float confidences = 0.0F;
    index_t last = -1;
    bool ascends = true;
    UNMASK_HD void merge(const step_reduction& other) {
      positions += other.positions;
      confidences += other.confidences;
      ascends = ascends && other.last > last;
      last = other.last;
    }
  };

  static constexpr statistics required = stat::confidence;
  UNMASK_HD step_reduction review(const auto& c, const auto& context) const {
    const bool is_written = c.current == c.token && context.at.position == c.position;
    return {is_written ? c.position + 1 : 10000, c.confidence(), c.position, true};
  }
  UNMASK_HD ending stop(const sequence_view&, const auto& context) const {
    const auto& sum = context.step_reduction;
    return sum.ascends && sum.positions == positions &&
                   math::max(sum.confidences - confidences, confidences - sum.confidences) < 1e-5F
               ? ending::max_steps
               : ending::running;
  }
};
static_assert(reviewing<stops_at_sums> && !step_reducing<stops_at_sums> &&
              !reviewing<tokens_per_step>);

// A decode without the part shows the writes of each step; one with the sums of step k ends there.
template <class... Parts>
int expect_stops(const made_up_model& model, const Parts&... parts) {
  const sequence_shape g{.prompt_length = 2, .length = 26, .block_length = 12};
  std::vector<stops_at_sums> sums;
  observe_decode(policy{by_confidence{}, parts...}, model, g, [&](const observed_step& s) {
    stops_at_sums sum{.positions = 0};
    for (const commit_entry& e : s.committed) {
      if (e.token != model.info().mask_token) {  // not what was remasked
        sum.positions += e.position + 1;
        sum.confidences += static_cast<float>(std::exp(static_cast<double>(e.log_probability)));
      }
    }
    sums.push_back(sum);
  });
  int compared = 0;
  for (std::size_t k = 0; k + 1 < sums.size(); ++k) {
    std::vector<token_id> tokens(static_cast<std::size_t>(g.length), 0);
    const policy p{by_confidence{}, parts..., sums[k]};
    session s{p, model.info(), tokens, g};
    while (const auto request = s.next()) {
      supply_one(s, *request, model, tokens);
    }
    const auto same = [&](const stops_at_sums& o) {
      return o.positions == sums[k].positions &&
             std::fabs(o.confidences - sums[k].confidences) < 2e-5F;
    };
    const auto first = std::find_if(sums.begin(), sums.end(), same) - sums.begin();
    EXPECT_EQ(s.report().end, ending::max_steps);
    EXPECT_EQ(s.report().forwards, first + 1);
    ++compared;
  }
  return compared;
}

TEST(review, sees_what_a_step_wrote) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const made_up_model model{.seed = seed};
    compared += expect_stops(model, tokens_per_step{2});
    compared += expect_stops(model, threshold{0.5F} || steps_per_block{3});
    compared += expect_stops(model, threshold{0.3F}, edit_committed{0.2F});
    compared += expect_stops(model, threshold{0.3F}, remask_below{0.4F});
    compared += expect_stops(
        model, tokens_per_step{3}, remask_current_below{.confidence = 0.4F, .allowance = 3});
  }
  EXPECT_GT(compared, 300);
}

TEST(review, takes_no_memory_of_policies_without_it) {
  constexpr session_capacity capacity{.sequences = 1, .length = 512, .window = 512, .vocab = 100};
  using without = policy<by_confidence, tokens_per_step, max_steps>;
  static_assert(step::stages<without>::reviews == 0);
  static_assert(std::is_empty_v<step_reductions_of<without>>);
  using with = policy<by_confidence, tokens_per_step, stops_at_sums>;
  EXPECT_LE(step::slot_bytes<with>(capacity), step::slot_bytes<without>(capacity) + 64);
}

}  // namespace
}  // namespace unmask::testing::review_test
