// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies composed by name on a stream, with emulated kernels, beside the same on the host.

#include <unmask/named/compose_named.hpp>
#include <unmask/named/read_policy.hpp>

#include <gtest/gtest.h>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing {
namespace {

// Decodes a few batches of a composition, as a policy of the type for A.
template <abilities A>
void decode_named_beside(const char* text) {
  const test_stream stream;
  const auto named = compose_named<A>(read_policy(text));
  using policy_type = std::remove_const_t<decltype(named)>;
  const std::vector<index_t> vocabularies = {7, 33, 64, 301};
  int steps = 0;
  for (int round = 0; round < 4 && !::testing::Test::HasFailure(); ++round) {
    dice d(mixed(21, static_cast<std::uint64_t>(round)));
    sessions_beside<policy_type> both(
        named, d.one_of(vocabularies), d.within(1, 3), 14, stream.get(), d);
    for (int i = 0; i < 60 && both.template step<float>(); ++i) {
    }
    steps += both.steps();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared: " << text;
}

TEST(EmulatedNamed, EditsAndSchedulesAreThoseOfTheHost) {
  decode_named_beside<edits_and({})>(
      "any_of(threshold(0.3), all_of(tokens_per_step(2), hierarchical(0.1, 0.5))) + "
      "temperature(0.8) + repetition_penalty + trace_credit + eos_gate + stop_at_eos");
  decode_named_beside<edits_and({})>(
      "alg_temperature(by_entropy, 0.5) + any_of(entropy_bound(0.3), tokens_per_step(2)) + "
      "block_pipeline + "
      "max_steps(20)");
  decode_named_beside<edits_and({})>("at_random + timesteps(9) + slow_fast + neighbour_penalty");
}

TEST(EmulatedNamed, LookaheadIsThatOfTheHost) {
  decode_named_beside<edits_and({.branches = true})>(
      "threshold(0.4) + lookahead(2) + neighbour_penalty + adaptive_credit");
}

TEST(EmulatedNamed, ComparisonsAreThoseOfTheHost) {
  decode_named_beside<abilities{.transforms = true, .compares = true}>(
      "any_of(adaptive_threshold(0.4), stable_and_confident(0.3, 0.1)) + eos_last");
}

}  // namespace
}  // namespace unmask::testing
