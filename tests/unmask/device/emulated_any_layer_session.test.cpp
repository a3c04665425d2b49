// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layer sessions on a stream whose policy is not in their type: what session/any_layer_session.test
// asks of those on the host, and policies that are composed by name. Whole decodes of policies that
// are composed in C++ are the matter of emulated_layer_session.test.

#include <unmask/named_policy.hpp>
#include <unmask/policy/layers/early_skip.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/streamed_engine.hpp"

namespace unmask::testing {
namespace {

using namespace streamed;

constexpr policy skipping_half{by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};
constexpr policy plain{by_confidence{}, tokens_per_step{2}};

TEST(EmulatedAnyLayerSession, SaysWhatIsAsked) {
  for (const bool hooked : {false, true}) {
    CUstream_st stream;
    const on_stream where{&stream};
    const std::unique_ptr<any_device_layer_session> session =
        hooked ? make_any_layer_session(skipping_half, model, capacity, where)
               : make_any_layer_session(plain, model, capacity, where);
    std::vector<token_id> tokens(length, 2);
    session->start(0, tokens.data(), length, shape);
    EXPECT_THROW(static_cast<void>(session->pass(0)), std::logic_error);
    ASSERT_TRUE(session->next());
    EXPECT_THROW(static_cast<void>(session->pass(1)), std::invalid_argument);
    const auto pass = session->pass(0);
    EXPECT_EQ(pass.about().slot, 0);
    EXPECT_EQ(pass.has_hooks, hooked);
    EXPECT_EQ(pass.reads, feature::hidden);
    EXPECT_EQ(pass.skipped, skipping::dropped);
    EXPECT_EQ(pass.hooks(1), hooked);
    EXPECT_EQ(pass.keys(), (range{0, length}));
    EXPECT_EQ(pass.positions().most, length);
    EXPECT_EQ(pass.rows().most, 12);
  }
}

TEST(EmulatedAnyLayerSession, NamesWhatIsWrongAndEnqueuesNothing) {
  sequence_on_a_stream<erased, std::remove_const_t<decltype(skipping_half)>> q(skipping_half);
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

/// Decodes a policy that `make(where)` makes sessions of, on the host and on a stream.
void decode_named_beside(const auto& make) {
  std::vector<token_id> expected(length, 2);
  const std::unique_ptr<any_layer_session> host = make(on_host{});
  host->start(0, expected.data(), length, shape);
  run_on_the_host(*host, expected);

  CUstream_st stream;
  std::vector<token_id> tokens(length, 2);
  engine_memory engine;
  const std::unique_ptr<any_device_layer_session> s = make(on_stream{&stream});
  s->start(0, tokens.data(), length, shape);
  while (s->next()) {
    enqueue_pass(*s, engine, tokens.data(), &stream);
  }
  EXPECT_EQ(tokens, expected);
  expect_equal(s->report(0), host->report(0));
  EXPECT_EQ(s->report(0).end, ending::complete);
}

TEST(EmulatedAnyLayerSession, DecodesByNameWhatTheHostDoes) {
  for (const char* text :
       {"threshold(0.6) + dual_cache", "by_margin + tokens_per_step(2) + block_cache"}) {
    SCOPED_TRACE(text);
    decode_named_beside([&](const auto& where) {
      return make_any_layer_session<compositions<abilities{}>>(
          read_policy(text), model, capacity, where);
    });
  }
}

/// One type for all layer rules: what leaves and what is stored is a value.
TEST(EmulatedAnyLayerSession, DecodesEveryLayerRuleByNameAsTheHostDoes) {
  for (const char* text :
       {"threshold(0.6) + delayed_cache(5)",
        "threshold(0.6) + early_skip + delayed_cache(5)",
        "threshold(0.6) + entropy_cache(1, 4)",
        "tokens_per_step(2) + early_skip(0.2, floor=true, cap=true) + dual_cache",
        "threshold(0.6) + early_skip + interval_cache(4, 3)",
        "threshold(0.6) + cache_budget(4, 3) + interval_cache(5, 4)",
        "tokens_per_step(2) + similarity_refresh(0.3) + interval_cache(4, 3)"}) {
    SCOPED_TRACE(text);
    decode_named_beside([&](const auto& where) {
      return make_any_layer_session<compositions<layered({})>>(
          read_policy(text), model, capacity, where);
    });
  }
}

}  // namespace
}  // namespace unmask::testing
