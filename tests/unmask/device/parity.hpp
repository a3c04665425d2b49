// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The suite that every shipped part passes on the host and on a stream, bit by bit: policies by
/// name, some of them made at random, and a few composed in C++. Compiled twice: with emulated
/// kernels (emulated_parity.test.cpp), and for a device (cuda/parity.test.cpp), where it skips
/// itself if there is none.

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "hostile/written_policy.hpp"
#include "support/constraints_beside.hpp"
#include "support/layers_beside.hpp"
#include "support/sessions_beside.hpp"
#include "unmask/device/policies.hpp"
#include "unmask/device/texts.hpp"

namespace unmask::testing {

inline void skip_without_device() {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
}

/// The policy, drawing at temperature 0 if it draws.
template <class Policy>
[[nodiscard]] Policy greedily(Policy p) {
  const auto edit = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if constexpr (std::is_same_v<typename Policy::template part_type<I>, sampling>) {
      const_cast<sampling&>(p.template part_at<I>()).temperature = 0.0F;
    }
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (edit(std::integral_constant<std::size_t, I>{}), ...);
  }(std::make_index_sequence<Policy::part_total>());
  return p;
}
[[nodiscard]] inline named_policy greedily(named_policy p) {
  p.draw.count = 0;
  return p;
}

/// Decodes a batch of each vocabulary, with logits of one type.
template <element T, class Policy>
void decode_beside(const Policy& policy, const std::vector<index_t>& vocabularies) {
  const test_stream stream;
  int steps = 0;
  for (std::size_t round = 0; round < vocabularies.size() && !::testing::Test::HasFailure();
       ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
#if defined(UNMASK_FAKE_CUDA)
    const flushing_kernels as_with_fast_math(round % 2 == 1);
#endif
    dice d(mixed(11, round));
    sessions_beside<Policy> both(round == 1 ? greedily(policy) : policy,
                                 vocabularies[round],
                                 d.within(1, 3),
                                 14,
                                 stream.get(),
                                 d);
    for (int i = 0; i < 60 && both.template step<T>(); ++i) {
    }
    steps += both.steps();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared";
}

/// With logits of each type, in rows of one chunk and of several, and of more than 8,192 columns,
/// which many multiprocessors share.
template <class Policy>
void decode_beside(const Policy& policy) {
  decode_beside<float>(policy, {7, 33, 64, 301});
#if !defined(UNMASK_FAKE_CUDA)  // the element type matters to the read, which other tests emulate
  decode_beside<bfloat16>(policy, {1009, 9001});
  decode_beside<float16>(policy, {64, 4099});
#endif
}

/// The same with hidden states at the layers, of one type.
template <element T, class Policy>
void choose_beside(const Policy& policy, bool skips, int rounds, index_t longest = 24) {
  const test_stream stream;
  int steps = 0;
  int skipped = 0;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    dice d(mixed(23, static_cast<std::uint64_t>(round)));
    // Once more segments than a launch has room for.
    const bool many = std::same_as<T, float> && round == 1;
    layers_beside<T, Policy> both(
        policy, many ? 18 : d.within(1, 3), many ? 8 : longest, stream.get(), d);
    for (int i = 0; i < 60 && both.step(); ++i) {
    }
    steps += both.steps();
    skipped += both.skips();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared";
  if (skips) {
    EXPECT_GT(skipped, 4) << "hardly anything was skipped";
  }
}

/// The name of a test of a text.
[[nodiscard]] inline std::string name_of_text(const ::testing::TestParamInfo<const char*>& test) {
  std::string name = std::to_string(test.index) + "_";
  for (const char* c = test.param; *c != '\0'; ++c) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(*c)) != 0;
    if (is_word || name.back() != '_') {
      name += is_word ? *c : '_';
    }
  }
  return name;
}

class parity_by_name : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { skip_without_device(); }
};
class layer_parity_by_name : public parity_by_name {};

TEST_P(parity_by_name, decides_step_by_step_what_the_host_does) {
  decode_beside(read_policy(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(every_part,
                         parity_by_name,
                         ::testing::ValuesIn(decoded_texts),
                         name_of_text);

TEST_P(layer_parity_by_name, selects_at_each_layer_what_the_host_does) {
  const named_policy policy = read_policy(GetParam());
  const bool skips = layer_rule_of(policy).has_hooks;
  choose_beside<float>(policy, skips, 5);
  choose_beside<bfloat16>(policy, skips, 3);
  choose_beside<float16>(policy, skips, 3);
}
INSTANTIATE_TEST_SUITE_P(every_part,
                         layer_parity_by_name,
                         ::testing::ValuesIn(texts_of_layers),
                         name_of_text);

/// A policy that is made at random, of whatever parts have a name; none if they do not go together,
/// or need an engine that runs single positions.
[[nodiscard]] inline std::optional<named_policy>
policy_at_random(dice& d, index_t vocab, std::string& text) {
  const model_info model{
      .vocab = vocab, .mask_token = vocab - 1, .eos_token = d.chance(0.7) ? 1 : no_token};
  text = hostile::text_of(hostile::random_policy(d, model));
  try {
    const named_policy policy = read_policy(text);
    return policy.layered_now() ? std::nullopt : std::optional(policy);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

/// How many texts the tests below make: UNMASK_TEXTS_AT_RANDOM, or a few.
[[nodiscard]] inline std::uint64_t texts_at_random() {
  const char* const wanted = std::getenv("UNMASK_TEXTS_AT_RANDOM");
#if defined(UNMASK_FAKE_CUDA)
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 100;
#else
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 60;
#endif
}

TEST(parity_at_random, decides_step_by_step_what_the_host_does) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  int steps = 0;
  for (std::uint64_t seed = 0; seed < texts_at_random() && !HasFailure(); ++seed) {
    dice d(mixed(77, seed));
    const index_t vocab = d.one_of(std::vector<index_t>{5, 7, 33, 64, 301});
    std::string text;
    const std::optional<named_policy> policy = policy_at_random(d, vocab, text);
    SCOPED_TRACE(text);
    if (!policy) {
      continue;
    }
    const test_stream stream;
    std::optional<sessions_beside<named_policy>> both;
    try {
      both.emplace(*policy, vocab, d.within(1, 3), 14, stream.get(), d);
    } catch (const std::invalid_argument&) {
      continue;  // the host refuses it with this model
    }
    for (int i = 0; i < 80 && !HasFailure() && both->template step<float>(); ++i) {
    }
    steps += both->steps();
  }
  EXPECT_GT(steps, 100);
}

TEST(parity_at_random, keeps_a_language_as_the_host_does) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  constraints_beside n;
  for (std::uint64_t seed = 0; seed < 4 * texts_at_random() && !HasFailure(); ++seed) {
    dice d(mixed(78, seed));
    std::string text;
    const std::optional<named_policy> policy = policy_at_random(d, 5, text);
    SCOPED_TRACE(text);
    try {
      if (policy && !step::renoises_now(*policy)) {
        decode_one_beside(*policy, seed, n);
      }
    } catch (const std::invalid_argument&) {  // not with this model
    }
  }
  EXPECT_GT(n.steps, 50);
}

template <class Case>
class parity_composed : public ::testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }
};
TYPED_TEST_SUITE_P(parity_composed);
TYPED_TEST_P(parity_composed, decides_step_by_step_what_the_host_does) {
  decode_beside(TypeParam::value());
}
REGISTER_TYPED_TEST_SUITE_P(parity_composed, decides_step_by_step_what_the_host_does);

template <class List>
struct types_of;
template <class... Cases>
struct types_of<policy_list<Cases...>> {
  using type = ::testing::Types<Cases...>;
};
INSTANTIATE_TYPED_TEST_SUITE_P(composed, parity_composed, types_of<composed>::type);

TEST(layer_parity_composed, selects_at_each_layer_what_the_host_does) {
  skip_without_device();
  if (!::testing::Test::IsSkipped()) {
    choose_beside<float>(skipping_rows, true, 5);
    choose_beside<float>(changing_rows, true, 3, 90);  // more rows than a warp has threads
  }
}

}  // namespace unmask::testing
