// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a policy by name requires is what its session requires.

#include <unmask/named_policy.hpp>
#include <unmask/named_requirements.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace unmask::testing::requirements_test {
namespace {

constexpr model_info model{.vocab = 30, .mask_token = 29, .eos_token = 28, .layers = 3};
constexpr sequence_shape shape{.prompt_length = 5, .length = 61, .block_length = 12};

const char* const texts[] = {"threshold(0.9)",
                             "tokens_per_step + single_block",
                             "adaptive_threshold",
                             "threshold(0.9) + block_pipeline(0.3, 0.6)",
                             "trace_credit + threshold(0.9) + lookahead(3)",
                             "by_entropy + timesteps(9) + single_block",
                             "canvas + entropy_bound",
                             "threshold(0.5) + remask_current_below(0.4)",
                             "sampling + top_p(0.9) + tokens_per_step(2)",
                             "es_dllm",
                             "dynamic_dllm"};

TEST(NamedRequirements, TheWindowIsTheLeastThatASequenceStartsWith) {
  for (const char* text : texts) {
    SCOPED_TRACE(text);
    const named_policy parts = read_policy(text);
    const policy_requirements r = requirements_of(parts, model, {.length = shape.length}, shape);
    for (const index_t window : {r.window, r.window - 1}) {
      session_capacity room{.length = shape.length, .window = window};
      std::vector<token_id> tokens(static_cast<std::size_t>(shape.length));
      named_session session(parts, model, room);
      const auto start = [&] { session.start(0, parts, tokens, shape); };
      if (window == r.window) {
        EXPECT_NO_THROW(start());
      } else {
        EXPECT_THROW(start(), std::invalid_argument);
      }
    }
    EXPECT_EQ(requirements_of(parts, model, {.length = 61, .window = 61}, shape).window, r.window);
  }
}

/// Bytes that a position of the window takes, without its record, which has all statistics that a
/// policy of the type may read.
template <class Policy>
long bytes_of_a_position(const Policy& p) {
  const auto of = [&p](index_t window) {
    return static_cast<long>(
        state_bytes(p, {.length = window, .window = window, .vocab = model.vocab}));
  };
  return (of(8192) - of(4096)) / 4096 - static_cast<long>(sizeof(record<Policy::required>));
}

TEST(NamedRequirements, APositionTakesTheBytesOfThePartsThatTheTextNames) {
  const auto expect_equal = [](const char* text, const auto& composed) {
    EXPECT_EQ(bytes_of_a_position(read_policy(text)), bytes_of_a_position(composed)) << text;
  };
  expect_equal("threshold(0.9) + single_block",
               policy{by_confidence{}, threshold{0.9F}, single_block{}});
  expect_equal("at_random + tokens_per_step(1)", policy{at_random{}, tokens_per_step{1}});
  expect_equal("trace_credit + threshold(0.9)",
               policy{by_confidence{}, trace_credit<>{}, threshold{0.9F}});
  expect_equal("threshold(0.9) + repetition_penalty",
               policy{by_confidence{}, threshold{0.9F}, repetition_penalty<>{}});
  expect_equal("any_of(threshold(0.9), local_leap)",
               policy{by_confidence{}, threshold{0.9F} || local_leap{}});
  expect_equal("by_margin + early_commit", policy{by_margin{}, early_commit{}});
  expect_equal("finish", policy{by_confidence{}, finish{}});
  expect_equal("running_confidence", policy{by_confidence{}, running_confidence{}});
  expect_equal("wino", policy{by_confidence{}, wino{}});
  expect_equal("joint_threshold_indel", policy{by_confidence{}, joint_threshold_indel{}});
}

TEST(NamedRequirements, NumbersAreThoseOfTheTypes) {
  const auto of = [](const char* text, const session_capacity& room) {
    return requirements_of(read_policy(text), model, room, shape);
  };
  const session_capacity room{.sequences = 3, .length = 70, .window = 20};
  session_capacity whole = room;
  whole.vocab = model.vocab;
  whole.layers = model.layers;
  const auto bytes = [&](const char* text) {
    return named_session(read_policy(text), model, whole).bytes();
  };
  EXPECT_EQ(of("threshold(0.9)", room).most_forwards,
            most_forwards(policy{by_confidence{}, threshold{0.9F}}, shape));
  EXPECT_EQ(of("canvas + entropy_bound", room).most_forwards,
            most_forwards(policy{by_confidence{}, entropy_bound{}, canvas{}}, shape));
  EXPECT_EQ(of("by_entropy + timesteps(9) + single_block", room).most_forwards, 56 + 8);
  // Schedules that decide alone are commit rules, too, and counted once.
  const auto expect_once = [&](const char* text, const auto& part) {
    const policy composed{by_confidence{}, part};
    EXPECT_EQ(of(text, room).most_forwards, most_forwards(composed, shape)) << text;
    EXPECT_EQ(most_forwards(composed, shape),
              shape.length - shape.prompt_length + part.extra_forwards(shape))
        << text;
  };
  expect_once("daedal", daedal{});
  expect_once("rho_eos", rho_eos{});
  expect_once("joint_threshold_indel", joint_threshold_indel{});
  for (const char* text : {"threshold(0.9)", "es_dllm", "threshold(0.9) + lookahead(3)"}) {
    EXPECT_EQ(of(text, room).state_bytes, bytes(text)) << text;
  }
  EXPECT_LT(bytes("threshold(0.9)"), bytes("threshold(0.9) + lookahead(3)"));
  EXPECT_LT(bytes("threshold(0.9)"), bytes("es_dllm"));
  EXPECT_LT(bytes("threshold(0.9)"), bytes("adaptive_threshold"));
  whole.window = 56;  // the least, which is more than was given
  EXPECT_EQ(of("tokens_per_step + single_block", room).state_bytes,
            bytes("tokens_per_step + single_block"));
}

TEST(NamedRequirements, RefuseWhatNoSessionTakes) {
  const auto why = [](const char* text, const session_capacity& room, const sequence_shape& g) {
    try {
      static_cast<void>(requirements_of(read_policy(text), model, room, g));
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(why("threshold(0.9)", {.length = 60}, shape), HasSubstr("length"));
  EXPECT_THAT(why("threshold(0.9)", {.length = 61}, {.prompt_length = 62, .length = 61}),
              HasSubstr("prompt_length"));
  EXPECT_THAT(why("threshold(0.9)", {.length = 61}, {.length = 61, .block_length = 0}),
              HasSubstr("block_length"));
  EXPECT_THAT(why("threshold(0.9)", {.sequences = 0, .length = 61}, shape), HasSubstr("sequences"));
}

}  // namespace
}  // namespace unmask::testing::requirements_test
