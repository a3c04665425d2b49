// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layer rules on a stream by name, and rows at a layer without their element type: what
// layers/any_rows.test asks of sessions on the host. Whole decodes of policies that are composed in
// C++ are the matter of emulated_layer_session.test.

#include <unmask/named_policy.hpp>
#include <unmask/policy/layers/early_skip.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/streamed_engine.hpp"

namespace unmask::testing::emulated_layers_by_name_test {
namespace {

using namespace streamed;

constexpr policy skipping_half{by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};

TEST(emulated_layers_by_name, refuse_rows_of_another_kind_and_enqueue_nothing) {
  sequence_on_a_stream<std::remove_const_t<decltype(skipping_half)>> q(skipping_half);
  ASSERT_TRUE(q.session.next());
  auto pass = q.session.pass(0);
  float* const memory = q.engine.hidden.data();
  std::vector<bfloat16> narrow(std::size_t{length} * width);
  const device_hidden<float> now(memory, length, width);
  const device_state<float> stored(q.engine.stored.data(), length, width);
  const auto why = [&](const any_rows& rows, const any_state& previous) -> std::string {
    try {
      pass.at_layer(1, rows, previous);
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "nothing";
  };
  const int launches = fake_cuda().launches;
  EXPECT_EQ(why(now, host_state<float>(memory, length, width)),
            "memory space of the stored rows must be that of the session's backend, got host");
  EXPECT_EQ(
      why(host_hidden<float>(memory, length, width), stored),
      "memory space of the rows at the layer must be that of the session's backend, got host");
  EXPECT_EQ(why(now, device_state<bfloat16>(narrow.data(), length, width)),
            "element type of the stored rows must be that of the rows at the layer, float32, got "
            "bfloat16");
  EXPECT_EQ(fake_cuda().launches, launches);
  EXPECT_EQ(why(now, stored), "nothing");
  EXPECT_GT(fake_cuda().launches, launches);
}

/// Decodes a policy on the host and on a stream.
void decode_named_beside(const char* text) {
  SCOPED_TRACE(text);
  const named_policy policy = read_policy(text);
  sequence_report expected;
  const std::vector<token_id> tokens = decode_on_the_host(policy, expected);
  sequence_on_a_stream<named_policy> q(policy);
  const layer_rule_info rule = layer_rule_of(policy);
  while (q.session.next()) {
    EXPECT_EQ(q.session.pass(0).has_hooks, rule.has_hooks);
    EXPECT_EQ(q.session.pass(0).skipped, rule.skipped);
    q.enqueue();
  }
  EXPECT_EQ(q.tokens, tokens);
  expect_equal(q.session.report(0), expected);
  EXPECT_EQ(q.session.report(0).end, ending::complete);
}

TEST(emulated_layers_by_name, decode_as_the_host_does) {
  for (const char* text :
       {"threshold(0.6) + dual_cache",
        "by_margin + tokens_per_step(2) + block_cache",
        "threshold(0.6) + delayed_cache(5)",
        "threshold(0.6) + early_skip + delayed_cache(5)",
        "threshold(0.6) + entropy_cache(1, 4)",
        "tokens_per_step(2) + early_skip(0.2, floor=true, cap=true) + dual_cache",
        "threshold(0.6) + early_skip + interval_cache(4, 3)",
        "threshold(0.6) + cache_budget(4, 3) + interval_cache(5, 4)",
        "tokens_per_step(2) + similarity_refresh(0.3) + interval_cache(4, 3)",
        "adaptive_threshold(0.6) + cache_budget(4, 2) + interval_cache(1, 0)"}) {
    decode_named_beside(text);
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_layers_by_name_test
