// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layer rules by name: the decisions, the computed positions and the engine's calls are
// those of the policy composed of the same parts.

#include <unmask/any_layer_session.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <string>

#include "unmask/named/layered_twins.hpp"

namespace unmask::testing {
namespace {

using ::testing::HasSubstr;

using few = compositions<layered(edits_and({})), layered({.transforms = true, .compares = true})>;

template <class Policy>
void expect_same_decode(const std::string& text, const Policy& composed) {
  expect_same_layered_decode<few>(text, composed);
}

TEST(named_layer_rules, early_skip_decides_as_composed) {
  expect_same_decode("threshold(0.5) + early_skip + block_cache(16, 4)",
                     policy{by_confidence{}, threshold{0.5F}, early_skip{}, block_cache{16, 4}});
  early_skip skip{.weight = 0.3F,
                  .stages = {{0.25, 0.6}, {0.5, 0.3}, {0.75, 0.2}},
                  .stage_count = 3,
                  .floor = true,
                  .cap = true,
                  .first_masked = 1.5F,
                  .committed = 0.5F,
                  .confident = 0.25F,
                  .forgets_held = true};
  expect_same_decode(
      "tokens_per_step(2) + early_skip(0.3, [0.25, 0.5, 0.75], [0.6, 0.3, 0.2], floor=true, "
      "cap=true, "
      "first_masked=1.5, committed=0.5, confident=0.25, forgets_held=true) + dual_cache + "
      "no_equal_neighbours",
      policy{by_confidence{}, tokens_per_step{2}, skip, dual_cache{}, no_equal_neighbours{}});
}

TEST(named_layer_rules, early_skip_may_read_another_tensor) {
  expect_same_decode("threshold(0.5) + early_skip(reads=value) + block_cache(16, 4)",
                     policy{by_confidence{},
                            threshold{0.5F},
                            basic_early_skip<feature::value>{},
                            block_cache{16, 4}});
}

TEST(named_layer_rules, cache_budget_decides_as_composed) {
  expect_same_decode("threshold(0.5) + cache_budget(4, 2) + interval_cache(4, 6)",
                     policy{by_confidence{},
                            threshold{0.5F},
                            cache_budget{.budget = 4, .window = 2},
                            interval_cache{4, 6}});
  using by_value = basic_cache_budget<feature::value>;
  expect_same_decode(
      "tokens_per_step(2) + cache_budget(4, 2, 1, released, scope=outside_window, "
      "answer_only=true, "
      "latest_only=true, whole_window=true, refresh_stride=0, reads=value) + interval_cache(5, 0)",
      policy{by_confidence{},
             tokens_per_step{2},
             by_value{.budget = 4,
                      .window = 2,
                      .full_layers = 1,
                      .share = sharing::released,
                      .scope = budget_scope::outside_window,
                      .answer_only = true,
                      .latest_only = true,
                      .whole_window = true,
                      .refresh_stride = 0},
             interval_cache{5, 0}});
}

TEST(named_layer_rules, cache_budget_goes_with_thresholds_that_compare_rows) {
  expect_same_decode("adaptive_threshold(0.7) + cache_budget(4, 2) + interval_cache(1, 0)",
                     policy{by_confidence{},
                            adaptive_threshold{0.7F},
                            cache_budget{.budget = 4, .window = 2},
                            interval_cache{1, 0}});
}

TEST(named_layer_rules, similarity_refresh_and_caches_of_single_positions_decide_as_composed) {
  expect_same_decode(
      "threshold(0.5) + similarity_refresh(0.4) + interval_cache(6, 3)",
      policy{by_confidence{}, threshold{0.5F}, similarity_refresh{0.4}, interval_cache{6, 3}});
  expect_same_decode("threshold(0.5) + delayed_cache(5)",
                     policy{by_confidence{}, threshold{0.5F}, delayed_cache{5}});
  expect_same_decode("threshold(0.5) + entropy_cache(1.5, recent=4)",
                     policy{by_confidence{}, threshold{0.5F}, entropy_cache{1.5F, 4}});
}

TEST(named_layer_rules, whole_methods_decide_as_their_presets) {
  expect_same_decode("dynamic_dllm", methods::dynamic_dllm());
  expect_same_decode("es_dllm", methods::es_dllm());
  expect_same_decode("es_dllm_parallel(0.6)", methods::es_dllm_parallel(0.6F));
  expect_same_decode("es_dllm_sparse", methods::es_dllm_sparse());
  expect_same_decode("es_dllm_parallel_sparse + no_equal_neighbours",
                     methods::with(methods::es_dllm_parallel_sparse(), no_equal_neighbours{}));
}

TEST(named_layer_rules, are_for_layer_sessions) {
  try {
    static_cast<void>(
        make_any_session("threshold + early_skip + block_cache", {.vocab = 4}, {.length = 37}));
    ADD_FAILURE();
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("make_any_layer_session instead of make_any_session"));
  }
  try {
    static_cast<void>(make_any_layer_session<few>(
        read_policy("threshold + early_skip + sampling"), {.vocab = 4}, {.length = 37}));
    ADD_FAILURE();
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("compiled by name: sampling, a layer rule"));
  }
}

}  // namespace
}  // namespace unmask::testing
