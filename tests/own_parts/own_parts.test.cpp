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
  EXPECT_EQ(error_of("settled + shy_of(1)"),
            "policy 'settled + shy_of(1)', column 11: " +
                std::string(composition_rules::comparison_alone::why));
}

}  // namespace
}  // namespace unmask::testing
