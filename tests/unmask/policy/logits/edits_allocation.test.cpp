// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts that edit rows keep no heap: a step of a session with all of them allocates no more
// than one with none.
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/stop.hpp>

#include "oracles/dense_oracle.hpp"
#include "support/count_allocations.hpp"

namespace unmask::testing::edits_allocation_test {
namespace {

// Allocations of next() and supply() in each step.
template <class Policy>
std::vector<long> each_step_of(const Policy& p) {
  const model_info model{.vocab = 3000, .mask_token = 0, .eos_token = 1};
  std::vector<token_id> text(36, 2);
  session<Policy> s(model, {.sequences = 1, .length = 36, .window = 8, .branches = 2});
  std::vector<float> logits(static_cast<std::size_t>(3 * 8 * 3000));
  chances c(1);
  s.start(
      0, p, tokens_view<memory::host>(text), {.prompt_length = 4, .length = 36, .block_length = 8});
  std::vector<long> counts;
  counts.reserve(100);
  while (true) {
    const allocation_count count;
    const auto request = s.next();
    if (!request) {
      return counts;
    }
    for (float& z : logits) {
      z = c.real(-2.0, 8.0);
    }
    s.supply(host_logits<float>(logits.data(), request->rows, 3000));
    counts.push_back(count.value());
  }
}

// The session's own checks may build a text; the parts add nothing to that.
TEST(edits, allocate_nothing_in_a_step) {
  const std::vector<long> plain = each_step_of(policy{by_margin{}, tokens_per_step{3}});
  const std::vector<long> all =
      each_step_of(policy{by_margin{},
                          tokens_per_step{3},
                          min_new_tokens{9},
                          allowed_tokens<2>{.tokens = {3, 5}, .last = 1},
                          logit_bias<2>{{{7, 1.0F}, {8, -1.0F}}},
                          repetition_penalty<16>{},
                          presence_frequency_penalty<16>{.presence = 0.5F},
                          neighbour_penalty{},
                          eos_penalty{},
                          trace_credit<16>{},
                          no_equal_neighbours{},
                          eos_gate{},
                          eos_last{},
                          remask_current_below{0.5F, 3},
                          edit_committed{0.5F},
                          stop_sequence<2>{{9, 9}},
                          stop_at_eos{},
                          lookahead{.branches = 2}});
  // Rows of 3,000 such logits are flat: the cut needs a second read of each.
  const std::vector<long> cut =
      each_step_of(policy{by_margin{},
                          threshold{0.0F} && at_frontier{.reach = 3},
                          sampling{},
                          top_p{0.9F},
                          top_k{2000},
                          confidence_after_truncation{},
                          presence_frequency_penalty<16>{.presence = 0.5F},
                          probability_of<2>{{3, 5}}});
  EXPECT_GT(all.size(), 5U);
  EXPECT_GT(cut.size(), 5U);
  EXPECT_LE(*std::max_element(cut.begin(), cut.end()),
            *std::max_element(plain.begin(), plain.end()));
  EXPECT_LE(*std::max_element(all.begin(), all.end()),
            *std::max_element(plain.begin(), plain.end()));
}

}  // namespace
}  // namespace unmask::testing::edits_allocation_test
