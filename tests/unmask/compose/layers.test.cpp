// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layer rules by name: the decisions, the computed positions and the engine's calls are
// those of the policy composed of the same parts.

#include <unmask/named_policy.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <string>

#include "unmask/named/layered_twins.hpp"

namespace unmask::testing::layers_test {
namespace {

using ::testing::HasSubstr;

template <class Policy>
void expect_same_decode(const std::string& text, const Policy& composed) {
  expect_same_layered_decode(text, composed);
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
  expect_same_decode("dynamic_cache_updating(budget=5, window=4)",
                     methods::dynamic_cache_updating(cache_budget{.budget = 5, .window = 4}));
  expect_same_decode("es_dllm", methods::es_dllm());
  expect_same_decode("es_dllm_parallel(0.6)", methods::es_dllm_parallel(0.6F));
  expect_same_decode("es_dllm_sparse", methods::es_dllm_sparse());
  expect_same_decode("es_dllm_parallel_sparse + no_equal_neighbours",
                     methods::with(methods::es_dllm_parallel_sparse(), no_equal_neighbours{}));
}

TEST(named_layer_rules, need_an_engine_with_layers) {
  const named_policy policy = read_policy("threshold + early_skip + block_cache");
  constexpr session_capacity capacity{.length = 37, .window = 37};
  std::vector<token_id> tokens(37);
  const auto refusal = [](const auto& call) {
    try {
      call();
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const model_info without{.vocab = 4, .mask_token = 3};
  EXPECT_THAT(refusal([&] { named_session(policy, without, capacity); }),
              HasSubstr("model_info::layers"));
  named_session session(without, capacity);
  EXPECT_THAT(refusal([&] { session.start(0, policy, tokens, {.length = 37}); }),
              HasSubstr("model_info::layers"));
  EXPECT_FALSE(session.next());
}

}  // namespace
}  // namespace unmask::testing::layers_test
