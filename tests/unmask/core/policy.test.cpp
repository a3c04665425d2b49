// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/step/slot.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>
#include <type_traits>

namespace unmask::testing::policy_test {
namespace {

using greedy = policy<by_confidence, threshold>;
using full = policy<temperature,
                    any_of<all_of<threshold, tokens_per_step>, entropy_bound>,
                    by_margin,
                    single_block,
                    stop_at_eos,
                    max_steps>;

// A policy is bytes: it travels to a device, and a session keeps one for each slot.
static_assert(std::is_trivially_copyable_v<greedy>);
static_assert(std::is_trivially_copyable_v<full>);
static_assert(std::is_trivially_copyable_v<all_of<tokens_per_step, factor>>);
static_assert(std::is_trivially_copyable_v<any_of<tokens_per_step, factor>>);
static_assert(sizeof(greedy) == sizeof(threshold), "an empty part takes no room");
static_assert(sizeof(policy<by_confidence, threshold, single_block>) == sizeof(threshold));
static_assert(sizeof(full) == 7 * sizeof(float));

// One of each: what a shipped part weighs, and that it is a part.
template <class P>
inline constexpr bool is_plain =
    part<P> && std::is_aggregate_v<P> && std::is_trivially_copyable_v<P> &&
    std::is_default_constructible_v<P>;
static_assert(is_plain<by_confidence> && std::is_empty_v<by_confidence>);
static_assert(is_plain<by_margin> && std::is_empty_v<by_margin>);
static_assert(is_plain<by_entropy> && std::is_empty_v<by_entropy>);
static_assert(is_plain<left_to_right> && std::is_empty_v<left_to_right>);
static_assert(is_plain<at_random> && std::is_empty_v<at_random>);
static_assert(is_plain<threshold> && sizeof(threshold) == 8);
static_assert(is_plain<tokens_per_step> && sizeof(tokens_per_step) == 4);
static_assert(is_plain<steps_per_block> && sizeof(steps_per_block) == 8);
static_assert(is_plain<timesteps> && sizeof(timesteps) == 8);
static_assert(is_plain<independent_timesteps> && sizeof(independent_timesteps) == 8);
static_assert(is_plain<factor> && sizeof(factor) == 8);
static_assert(is_plain<entropy_bound> && sizeof(entropy_bound) == 4);
static_assert(is_plain<temperature> && sizeof(temperature) == 4);
static_assert(is_plain<semi_autoregressive> && sizeof(semi_autoregressive) == 2);
static_assert(is_plain<single_block> && std::is_empty_v<single_block>);
static_assert(is_plain<stop_at_eos> && sizeof(stop_at_eos) == 1);
static_assert(is_plain<max_steps> && sizeof(max_steps) == 4);

// Each is filed under the stages it has, and under no other.
template <class P>
inline constexpr auto stages =
    std::tuple{ranking<P>, commit_rule<P>, logits_transform<P>, stopping<P>, scheduling<P>};
inline constexpr auto ranks_only = std::tuple{true, false, false, false, false};
inline constexpr auto commits_only = std::tuple{false, true, false, false, false};
inline constexpr auto edits_only = std::tuple{false, false, true, false, false};
inline constexpr auto stops_only = std::tuple{false, false, false, true, false};
inline constexpr auto schedules_only = std::tuple{false, false, false, false, true};
static_assert(stages<by_confidence> == ranks_only);
static_assert(stages<by_margin> == ranks_only);
static_assert(stages<by_entropy> == ranks_only);
static_assert(stages<left_to_right> == ranks_only);
static_assert(stages<at_random> == ranks_only);
static_assert(stages<threshold> == commits_only);
static_assert(stages<tokens_per_step> == commits_only);
static_assert(stages<steps_per_block> == commits_only);
static_assert(stages<timesteps> == commits_only);
static_assert(stages<independent_timesteps> == commits_only);
static_assert(stages<factor> == commits_only);
static_assert(stages<entropy_bound> == commits_only);
static_assert(stages<all_of<tokens_per_step, factor>> == commits_only);
static_assert(stages<any_of<tokens_per_step, factor>> == commits_only);
static_assert(stages<temperature> == edits_only);
static_assert(stages<stop_at_eos> == stops_only);
static_assert(stages<max_steps> == stops_only);
static_assert(stages<semi_autoregressive> == schedules_only);
static_assert(stages<single_block> == schedules_only);

// Only the Dream timesteps may leave a step without a commit.
static_assert(extending<timesteps> && extending<independent_timesteps>);
static_assert(!extending<tokens_per_step> && !extending<steps_per_block> &&
              !extending<semi_autoregressive>);

// The union of what the parts read, and the confidence for the report.
static_assert(greedy::required == stat::confidence);
static_assert(policy<left_to_right, tokens_per_step>::required == stat::confidence);
static_assert(full::required == (stat::margin | stat::entropy));

TEST(policy, takes_compositions_apart_in_written_order) {
  constexpr policy p{
      by_confidence{}, (threshold{0.25F} && tokens_per_step{3}) || factor{0.5F}, max_steps{9}};
  using type = std::remove_const_t<decltype(p)>;
  static_assert(type::part_total == 5);
  static_assert(std::same_as<type::part_type<0>, by_confidence>);
  EXPECT_EQ(p.part_at<1>().value, 0.25F);
  EXPECT_EQ(p.part_at<2>().count, 3);
  EXPECT_EQ(p.part_at<3>().value, 0.5F);
  EXPECT_EQ(p.part_at<4>().steps, 9);
}

TEST(policy, holds_equal_parts_apart) {
  constexpr policy p{
      threshold{0.25F} && threshold{0.5F}, by_confidence{}, temperature{2.0F}, temperature{3.0F}};
  EXPECT_EQ(p.part_at<0>().value, 0.25F);
  EXPECT_EQ(p.part_at<1>().value, 0.5F);
  EXPECT_EQ(p.part_at<3>().value, 2.0F);
  EXPECT_EQ(p.part_at<4>().value, 3.0F);
}

TEST(policy, survives_a_copy_as_bytes) {
  const policy p{by_confidence{}, tokens_per_step{7} || threshold{0.125F}};
  alignas(decltype(p)) unsigned char bytes[sizeof p];
  std::memcpy(bytes, &p, sizeof p);
  policy q{by_confidence{}, tokens_per_step{} || threshold{}};
  std::memcpy(static_cast<void*>(&q), bytes, sizeof q);
  EXPECT_EQ(q.part_at<1>().count, 7);
  EXPECT_EQ(q.part_at<2>().value, 0.125F);
}

TEST(policy, of_the_same_parts_with_other_values_is_the_same_type) {
  policy p{by_confidence{}, threshold{0.5F}};
  p = policy{by_confidence{}, threshold{0.75F}};
  EXPECT_EQ(p.part_at<1>().value, 0.75F);
}

TEST(all_of, and_any_of_are_what_the_operators_make) {
  static_assert(
      std::same_as<decltype(tokens_per_step{} && factor{}), all_of<tokens_per_step, factor>>);
  static_assert(
      std::same_as<decltype(tokens_per_step{} || factor{}), any_of<tokens_per_step, factor>>);
  static_assert(std::same_as<decltype(tokens_per_step{} || (factor{} && steps_per_block{})),
                             any_of<tokens_per_step, all_of<factor, steps_per_block>>>);
  const auto both = all_of{tokens_per_step{3}, factor{0.5F}};
  EXPECT_EQ(both.first.count, 3);
  EXPECT_EQ(both.second.value, 0.5F);
}

struct remembering {
  struct position_state {
    int seen;
  };
  struct sequence_state {
    double sum;
  };
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view&, auto&) const { return ending::running; }
};

TEST(policy, collects_the_state_of_its_parts) {
  using p = policy<by_confidence, tokens_per_step, remembering>;
  static_assert(step::state_bytes_at<p> == sizeof(int));
  static_assert(sizeof(sequence_states<p>) == sizeof(double));
  static_assert(std::same_as<position_state_of<by_confidence>, no_state>);
  static_assert(std::is_trivially_copyable_v<sequence_states<p>>);
  static_assert(step::state_bytes_at<greedy> == 0);
}

}  // namespace
}  // namespace unmask::testing::policy_test
