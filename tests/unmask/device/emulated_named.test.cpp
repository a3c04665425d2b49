// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies composed by name on a stream, with emulated kernels, beside the same on the host.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing {
namespace {

// Decodes a few batches of a policy.
void decode_named_beside(const char* text) {
  const test_stream stream;
  const named_policy named = read_policy(text);
  const std::vector<index_t> vocabularies = {7, 33, 64, 301};
  int steps = 0;
  for (int round = 0; round < 4 && !::testing::Test::HasFailure(); ++round) {
    dice d(mixed(21, static_cast<std::uint64_t>(round)));
    sessions_beside<named_policy> both(
        named, d.one_of(vocabularies), d.within(1, 3), 14, stream.get(), d);
    for (int i = 0; i < 60 && both.template step<float>(); ++i) {
    }
    steps += both.steps();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared: " << text;
}

TEST(emulated_named, edits_and_schedules_are_those_of_the_host) {
  decode_named_beside(
      "any_of(threshold(0.3), all_of(tokens_per_step(2), hierarchical(0.1, 0.5))) + "
      "temperature(0.8) + repetition_penalty + trace_credit + eos_gate + stop_at_eos");
  decode_named_beside(
      "alg_temperature(by_entropy, 0.5) + any_of(entropy_bound(0.3), tokens_per_step(2)) + "
      "block_pipeline + "
      "max_steps(20)");
  decode_named_beside("at_random + timesteps(9) + slow_fast + neighbour_penalty");
}

TEST(emulated_named, lookahead_is_that_of_the_host) {
  decode_named_beside("threshold(0.4) + lookahead(2) + neighbour_penalty + adaptive_credit");
}

TEST(emulated_named, comparisons_are_those_of_the_host) {
  decode_named_beside("any_of(adaptive_threshold(0.4), stable_and_confident(0.3, 0.1)) + eos_last");
}

TEST(emulated_named, draws_and_truncations_are_those_of_the_host) {
  decode_named_beside("tokens_per_step(2) + sampling(0.8) + top_k(5) + repetition_penalty");
  decode_named_beside("threshold(0.4) + top_p(0.7) + confidence_after_truncation");
  decode_named_beside("stable_and_confident(0.3, 0.1) + sampling + top_k(3) + temperature(0.7)");
}

TEST(emulated_named, rewriting_is_that_of_the_host) {
  decode_named_beside("tokens_per_step(2) + edit_committed(0.4) + remask_current_below(0.2, 5)");
  decode_named_beside("tokens_per_step(2) + remask_below(0.4) + sampling");
  decode_named_beside("threshold(0.5) + edit_committed + lookahead(2) + sampling + top_k(4)");
}

}  // namespace
}  // namespace unmask::testing
