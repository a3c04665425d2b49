// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies by name with parts of one's own decide as the policies composed of them, and texts, help
// and errors know them.
#include <unmask/named_policy.hpp>

#include "support/bound_session.hpp"
#include "unmask/named/layered_twins.hpp"
#include "unmask/named/lockstep.hpp"

namespace unmask::testing {

namespace {

TEST(own_parts, decide_by_name_as_composed) {
  expect_twins(1, [](chances& c) {
    const knob t = real(c, 0.2, 0.9);
    const knob u = real(c, 0.05, 0.5);
    return twin{
        "swaying(0.02) + any_of(threshold(" + t.text + "), seen_again(threshold=" + u.text +
            ")) + shy_of(3) + not_beside(5) + eos_last + in_one_go + every_third + enough(9)",
        policy{own::swaying{0.02F},
               threshold{t.value} || own::seen_again{u.value},
               own::shy_of{3},
               own::not_beside{5},
               eos_last{},
               own::in_one_go{},
               own::every_third{},
               own::enough{9}}};
  });
}

TEST(own_parts, that_compare_rows_decide_by_name_as_composed) {
  expect_twins(2, [](chances& c) {
    const knob t = real(c, 0.5, 0.9);
    return twin{"rightmost + any_of(settled, threshold(" + t.text + "))",
                policy{own::rightmost{}, own::settled{} || threshold{t.value}}};
  });
}

// Compositions of parts with several stages, in several orders; `most_forwards` among what is
// compared.
template <class Make>
void expect_twins_and_bounds(std::uint64_t seed, const Make& make) {
  expect_twins(seed, make);
  chances c(seed);
  for (const sequence_shape& g :
       {sequence_shape{.length = 16, .block_length = 4}, sequence_shape{.length = 3}}) {
    const auto t = make(c);
    EXPECT_EQ(most_forwards(read_policy(t.text), g), most_forwards(t.policy, g)) << t.text;
  }
}

TEST(own_parts, that_commit_and_stop_decide_by_name_as_composed) {
  const auto twins = [](std::uint64_t seed, const auto& make) {
    expect_twins_and_bounds(seed, [&](chances& c) {
      const knob from = real(c, 0.4, 1.0);
      const index_t most = c.within(1, 9);
      return make("hurrying(" + from.text + ", most=" + std::to_string(most) + ")",
                  own::hurrying{from.value, most},
                  c.within(1, 5));
    });
  };
  twins(3, [](const std::string& text, const own::hurrying& rule, index_t) {
    return twin{text, policy{by_confidence{}, rule}};
  });
  twins(4, [](const std::string& text, const own::hurrying& rule, index_t n) {
    return twin{"max_steps(" + std::to_string(n) + ") + stop_at_eos + any_of(" + text +
                    ", steps_per_block(3))",
                policy{by_confidence{}, max_steps{n}, stop_at_eos{}, rule || steps_per_block{3}}};
  });
  twins(5, [](const std::string& text, const own::hurrying& rule, index_t n) {
    return twin{
        "enough(" + std::to_string(n) + ") + at_most(2, all_of(threshold(0.2), " + text +
            ")) + stop_at_eos",
        policy{
            by_confidence{}, own::enough{n}, at_most{2, threshold{0.2F} && rule}, stop_at_eos{}}};
  });
}

TEST(own_parts, that_filter_with_neighbours_decide_by_name_as_composed) {
  const auto make = [](chances& c, auto&& with) {
    const knob value = real(c, 0.1, 0.6);
    const knob gain = real(c, 0.0, 0.5);
    return with("calm_beside(" + value.text + ", " + gain.text + ")",
                own::calm_beside{value.value, gain.value});
  };
  expect_twins_and_bounds(6, [&](chances& c) {
    return make(c, [](const std::string& text, const own::calm_beside& rule) {
      return twin{text, policy{by_confidence{}, rule}};
    });
  });
  expect_twins_and_bounds(7, [&](chances& c) {
    return make(c, [](const std::string& text, const own::calm_beside& rule) {
      return twin{
          "no_equal_neighbours + any_of(threshold(0.7), hurrying(0.95), " + text + ") + by_margin",
          policy{
              no_equal_neighbours{}, threshold{0.7F} || own::hurrying{0.95F} || rule, by_margin{}}};
    });
  });
}

TEST(own_parts, of_several_stages_decide_by_name_as_composed) {
  expect_twins_and_bounds(8, [](chances& c) {
    const index_t steps = c.within(1, 20);
    return twin{"outwards(" + std::to_string(steps) + ") + threshold(0.6)",
                policy{own::outwards{steps}, threshold{0.6F}}};
  });
  expect_twins_and_bounds(9, [](chances& c) {
    const knob least = real(c, 0.0, 0.9);
    return twin{"pickiest(" + least.text + ")", policy{own::pickiest{least.value}}};
  });
  expect_twins_and_bounds(10, [](chances& c) {
    const index_t passes = c.within(0, 6);
    return twin{"left_to_right + waits_and_takes(" + std::to_string(passes) + ") + stop_at_eos",
                policy{left_to_right{}, own::waits_and_takes{passes}, stop_at_eos{}}};
  });
  expect_twins_and_bounds(11, [](chances& c) {
    const index_t period = c.within(1, 4);
    return twin{"half_and_half(" + std::to_string(period) + ") + pickiest(0.7)",
                policy{own::half_and_half{period}, own::pickiest{0.7F}}};
  });
  expect_twins_and_bounds(12, [](chances& c) {
    const index_t steps = c.within(1, 9);
    return twin{"stop_at_eos + outwards(" + std::to_string(steps) +
                    ") + any_of(hurrying(most=4), calm_beside) + half_and_half + shy_of(3)",
                policy{stop_at_eos{},
                       own::outwards{steps},
                       own::hurrying{.most = 4} || own::calm_beside{},
                       own::half_and_half{},
                       own::shy_of{3}}};
  });
}

TEST(own_parts, that_need_the_model_are_checked_with_it) {
  const named_policy p = read_policy("half_and_half(7) + threshold");
  std::vector<token_id> tokens(4, 1);
  named_session session(p, {.vocab = 6, .mask_token = 5}, {.length = 4, .window = 4});
  EXPECT_THROW(session.start(0, p, tokens, {.length = 4, .block_length = 4}),
               std::invalid_argument);
}

TEST(own_parts, that_select_positions_of_layers_decide_by_name_as_composed) {
  expect_same_layered_decode(
      "threshold(0.5) + around_the_surest + interval_cache(4, 6)",
      policy{by_confidence{}, threshold{0.5F}, own::around_the_surest{}, interval_cache{4, 6}});
  expect_same_layered_decode(
      "tokens_per_step(2) + around_the_surest(0.25) + dual_cache",
      policy{by_confidence{}, tokens_per_step{2}, own::around_the_surest{0.25}, dual_cache{}});
}

TEST(own_parts, are_in_the_table_and_the_help) {
  const std::string help = describe_parts();
  for (const char* line :
       {"swaying(pull=0.01)\n    ranking: left ones first, then right ones first",
        "rightmost\n    ranking: right ones first",
        "seen_again(threshold=0.6)\n    commit rule: tokens that lead",
        "    threshold: in [0, 1]",
        "settled\n    commit rule: ",
        "shy_of(token=0)\n    logits processor: ",
        "in_one_go\n    schedule: ",
        "every_third\n    cache: ",
        "around_the_surest(share=0.5, reads=query)\n    layer rule: ",
        "enough(steps=5)\n    stop: "}) {
    EXPECT_NE(help.find(line), std::string::npos) << line << "\nin\n" << help;
  }
}

TEST(own_parts, have_the_errors_of_all_others) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      static_cast<void>(read_policy(text));
    } catch (const policy_text_error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of("seen_again(1.5)"),
            "policy 'seen_again(1.5)', column 12: threshold of seen_again must be in [0, 1], got "
            "1.5");
  EXPECT_EQ(error_of("swaying + rightmost + settled"),
            "policy 'swaying + rightmost + settled', column 11: a policy has at most one ranking, "
            "got swaying and rightmost");
  EXPECT_EQ(error_of("any_of(seen_again, seen_again(0.7))"),
            "policy 'any_of(seen_again, seen_again(0.7))', column 20: a policy by name has at most "
            "one seen_again, got another");
  EXPECT_EQ(error_of("pickiest + threshold"),
            "policy 'pickiest + threshold', column 12: a policy has at most one commit rule, got "
            "pickiest and threshold: join them by any_of(...) or all_of(...)");
  EXPECT_EQ(
      error_of("pickiest + swaying"),
      "policy 'pickiest + swaying', column 12: a policy has at most one ranking, got pickiest "
      "and swaying");
  EXPECT_EQ(error_of("any_of(pickiest, threshold)"),
            "policy 'any_of(pickiest, threshold)', column 8: any_of, all_of and at_most are of "
            "commit rules, got pickiest (ranking): write it outside, joined by '+'");
  EXPECT_EQ(
      error_of("any_of(waits_and_takes, threshold) + single_block"),
      "policy 'any_of(waits_and_takes, threshold) + single_block', column 38: a policy has at "
      "most one schedule, got waits_and_takes and single_block");
  EXPECT_EQ(error_of("threshold + single_block + outwards"),
            "policy 'threshold + single_block + outwards', column 28: a policy has at most one "
            "schedule, got single_block and outwards");
  EXPECT_EQ(error_of("any_of(hurrying, hurrying(0.2))"),
            "policy 'any_of(hurrying, hurrying(0.2))', column 18: a policy by name has at most one "
            "hurrying, got another");
  EXPECT_EQ(error_of("settled + shy_of(1)"),
            "policy 'settled + shy_of(1)', column 11: " +
                std::string(composition_rules::comparison_alone::why));
}

}  // namespace
}  // namespace unmask::testing
