// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/presets/methods.hpp>

#include "unmask/named/lockstep.hpp"

namespace unmask::testing::decisions_test {
namespace {

TEST(named_policy, decides_as_thresholds_do) {
  expect_twins(1, [](chances& c) {
    const knob t = real(c, 0.2, 0.9);
    const knob u = real(c, 0.2, 0.9);
    return twin{"left_to_right + any_of(threshold(" + t.text +
                    "), all_of(tokens_per_step(2), threshold(" + u.text +
                    ", inclusive=true))) + eos_gate(until_first=true) + eos_last + stop_at_eos + "
                    "dual_cache(2) + key_eviction",
                policy{left_to_right{},
                       threshold{t.value} || (tokens_per_step{2} && threshold{u.value, true}),
                       eos_gate{.until_first = true},
                       eos_last{},
                       stop_at_eos{},
                       dual_cache{2},
                       key_eviction{}}};
  });
}

TEST(named_policy, decides_as_limited_rules_do) {
  expect_twins(17, [](chances& c) {
    const knob t = real(c, 0.2, 0.9);
    const index_t most = c.within(0, 4);
    return twin{"at_most(" + std::to_string(most) + ", all_of(any_of(at_most(2, threshold(" +
                    t.text +
                    ")), tokens_per_step(2)), at_most(count=3, entropy_bound(1)))) + "
                    "block_pipeline(0.1, at_once=2)",
                policy{by_confidence{},
                       at_most{most,
                               (at_most{2, threshold{t.value}} || tokens_per_step{2}) &&
                                   at_most{3, entropy_bound{1.0F}}},
                       block_pipeline{.add = 0.1F, .at_once = 2}}};
  });
}

TEST(named_policy, decides_as_factors_in_a_pipeline_do) {
  expect_twins(2, [](chances& c) {
    const knob f = real(c, 0.1, 2.0);
    return twin{"all_of(any_of(factor(" + f.text +
                    ", accept_last=true), steps_per_block(3)), any_of(hierarchical(0.2, 0.6), "
                    "entropy_bound(0.4))) + block_pipeline(0.2, 0.6, at_once=3) + max_steps(9) + "
                    "prefix_cache(3)",
                policy{by_confidence{},
                       (factor{f.value, true} || steps_per_block{3}) &&
                           (hierarchical{0.2F, 0.6F} || entropy_bound{0.4F}),
                       block_pipeline{0.2F, 0.6F, 3},
                       max_steps{9},
                       prefix_cache{3}}};
  });
}

TEST(named_policy, decides_as_noise_levels_do) {
  expect_twins(3, [](chances& c) {
    const knob e = real(c, 0.01, 0.5);
    return twin{
        "at_random + any_of(timesteps(9, " + e.text +
            "), all_of(independent_timesteps(7), "
            "tokens_per_step)) + single_block + no_equal_neighbours(true) + stop_sequence([2, 3], "
            "min_tokens=3) + stop_sequence([5])",
        policy{at_random{},
               timesteps{9, e.value} || (independent_timesteps{7} && tokens_per_step{}),
               single_block{},
               no_equal_neighbours{true},
               stop_sequence<2>{{2, 3}, 2, 3},
               stop_sequence<1>{{5}}}};
  });
}

TEST(named_policy, decides_as_a_frontier_and_slow_fast_do) {
  expect_twins(4, [](chances& c) {
    const index_t reach = c.within(0, 3);
    return twin{"by_entropy + all_of(at_frontier(" + std::to_string(reach) +
                    "), threshold(0.3)) + slow_fast(3, promising=0.2, spread=2) + "
                    "block_cache(4, block_period=2, aligned=true)",
                policy{by_entropy{},
                       at_frontier{reach} && threshold{0.3F},
                       slow_fast{3, 0.2F, 2.0F},
                       block_cache{4, 2, true, true}}};
  });
}

TEST(named_policy, decides_as_edits_of_tokens_do) {
  expect_twins(5, [](chances& c) {
    const knob t = real(c, 0.5, 2.0);
    const knob d = real(c, 0.3, 0.9);
    return twin{
        "alg_temperature(by_margin, 0.7) + threshold(0.5) + temperature(" + t.text +
            ") + repetition_penalty(1.2, "
            "window=4) + presence_frequency_penalty(0.2, 0.1, 5, true) + probability_of([1, 4]) + "
            "neighbour_penalty(0.5, both_sides=true) + "
            "min_new_tokens(3) + logit_bias([3, 7], [-inf, 0.5]) + trace_credit(decay=" +
            d.text + ") + probability_of([0], first=2)",
        policy{alg_temperature{by_margin{}, 0.7F},
               threshold{0.5F},
               temperature{t.value},
               repetition_penalty<>{1.2F, 4},
               presence_frequency_penalty<>{0.2F, 0.1F, 5, true},
               probability_of<2>{{1, 4}},
               neighbour_penalty{0.5F, true},
               min_new_tokens{3},
               logit_bias<2>{{{3, -math::infinity()}, {7, 0.5F}}},
               trace_credit<>{.decay = d.value},
               probability_of<1>{{0}, 1, 2}}};
  });
}

TEST(named_policy, decides_as_a_lookahead_with_credit_does) {
  expect_twins(6, [](chances& c) {
    const knob t = real(c, 0.4, 0.95);
    const bool of_block = c.chance(0.5);
    return twin{"threshold(" + t.text + ") + lookahead(3, 0.7, 0.2) + adaptive_credit" +
                    (of_block ? "(block)" : ""),
                policy{by_confidence{},
                       threshold{t.value},
                       lookahead{3, 0.7F, 0.2F},
                       of_block ? adaptive_credit<>{committed_share::block} : adaptive_credit<>{}}};
  });
}

TEST(named_policy, decides_as_a_lookahead_with_neighbours_does) {
  expect_twins(7, [](chances& c) {
    const knob g = real(c, 0.1, 2.0);
    return twin{"threshold(0.6) + lookahead(order=by_margin, branches=2, anchor_wins=false) + "
                "neighbour_penalty(" +
                    g.text + ") + allowed_tokens([1, 2, 3, 4, 6], last=9)",
                policy{by_confidence{},
                       threshold{0.6F},
                       lookahead_by<by_margin>{.branches = 2},
                       neighbour_penalty{g.value},
                       allowed_tokens<5>{{1, 2, 3, 4, 6}, 5, 0, 9}}};
  });
}

TEST(named_policy, decides_as_comparisons_with_the_step_before_do) {
  expect_twins(8, [](chances& c) {
    const knob t = real(c, 0.3, 0.8);
    return twin{"any_of(adaptive_threshold(" + t.text +
                    ", raise=0.2, lower=0.1), "
                    "stable_and_confident(0.2, 0.3, fallback=0)) + eos_gate",
                policy{by_confidence{},
                       adaptive_threshold{.start = t.value, .lower = 0.1F, .raise = 0.2F} ||
                           stable_and_confident{0.2F, 0.3F, 0},
                       eos_gate{}}};
  });
  expect_twins(9, [](chances& c) {
    const knob t = real(c, 0.3, 0.8);
    return twin{"adaptive_threshold(" + t.text + ", 0.1, 0.2, 0.4, block, 1)",
                policy{by_confidence{},
                       adaptive_threshold{t.value, 0.1F, 0.2F, 0.4F, threshold_scope::block, 1}}};
  });
}

// Those that need an engine with hooks are in layers.test.
TEST(named_policy, decides_as_whole_methods_do) {
  expect_twins(9, [](chances& c) {
    const knob t = real(c, 0.3, 0.9);
    return twin{"credit_decoding(" + t.text + ")", methods::credit_decoding(t.value)};
  });
  expect_twins(12, [](chances& c) {
    const knob t = real(c, 0.3, 0.9);
    return twin{"credit_decoding_adaptive(" + t.text + ")",
                methods::credit_decoding_adaptive(t.value)};
  });
  expect_twins(10, [](chances&) {
    return twin{"stop_at_eos + credit_decoding",
                methods::with(methods::credit_decoding(), stop_at_eos{})};
  });
  chances c(11);
  index_t committed = 0;
  for (int k = 0; k < 12; ++k) {
    dense_request q = random_named_request(c, true);
    q.branches = 14;
    committed +=
        expect_same_decode({make_bound(read_policy("lopa_d2f"), q.model, capacity_of(q))},
                           decoding{make_bound(methods::lopa_d2f(), q.model, capacity_of(q))},
                           q) +
        expect_same_decode(
            {make_bound(read_policy("lopa(0.6)"), q.model, capacity_of(q))},
            decoding{make_bound(methods::lopa({.branches = 14}, 0.6F), q.model, capacity_of(q))},
            q);
  }
  EXPECT_GT(committed, 50);
}

TEST(named_policy, has_one_reduction_of_rules_of_one_type_as_the_composed_one) {
  expect_twins(61, [](chances& c) {
    const knob low = real(c, 0.05, 0.5);
    return twin{"any_of(finish(0.9, " + low.text + "), finish(0.8, 0.2), early_commit(40))",
                policy{by_confidence{},
                       finish{0.9F, low.value} || finish{0.8F, 0.2F} || early_commit{.steps = 40}}};
  });
}

}  // namespace
}  // namespace unmask::testing::decisions_test
