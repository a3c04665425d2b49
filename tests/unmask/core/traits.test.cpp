// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/traits.hpp>
#include <unmask/named/read_policy.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>

namespace unmask {
namespace {

// The rules that a composition of these parts breaks.
template <class... Part>
std::set<std::string_view> broken() {
  std::set<std::string_view> all;
  for (const composition_rule& r : composition_rules::all) {
    if (!r.holds(composition_of<Part...>())) {
      all.insert(r.why);
    }
  }
  return all;
}

TEST(composition, is_what_its_parts_do_together) {
  constexpr composition c = composition_of<by_margin,
                                           confidence_above,
                                           trace_credit<8>,
                                           lookahead,
                                           repetition_penalty<4>,
                                           reopen_below,
                                           prefix_cache>();
  EXPECT_EQ(c.rankings, 1);
  EXPECT_FALSE(c.by_confidence);
  EXPECT_TRUE(c.watches_with_memory && c.reads_sequence && c.watches_current);
  EXPECT_TRUE(c.branches() && c.rewrites && !c.remasks && !c.paints && !c.layered() && !c.compares);
  EXPECT_EQ(c.watches(), 8 + 4 + 1 + max_branches);
  EXPECT_EQ(c.caches, 1);
  EXPECT_TRUE((broken<by_margin, confidence_above, trace_credit<8>, lookahead, reopen_below>().empty()));
}

TEST(composition, rules_say_what_does_not_go_together) {
  using one = std::set<std::string_view>;
  EXPECT_EQ((broken<by_margin, factor>()), (one{goes_together::confidence_in_order::why}));
  EXPECT_EQ((broken<trace_credit<>, token_list<2>>()), (one{goes_together::memory_behind_lists::why}));
  EXPECT_TRUE((broken<token_list<2>, trace_credit<>>().empty()));
  EXPECT_TRUE((broken<early_skip, token_list<2>>().empty()));  // it remembers no tokens
  EXPECT_EQ((broken<confidence_of_kept, sampling>()), (one{goes_together::truncation_of_some::why}));
  EXPECT_EQ((broken<keep_top_k>()), (one{goes_together::truncation_with_effect::why}));
  EXPECT_EQ((broken<remask_below, reopen_below>()), (one{goes_together::remasking_or_reopening::why}));
  EXPECT_EQ((broken<early_skip, lookahead>()), (one{goes_together::layers_without_branches::why}));
  EXPECT_EQ((broken<stable_and_confident, end_penalty>()), (one{goes_together::comparison_alone::why}));
}

TEST(composition, rules_are_sentences_of_their_own_that_texts_are_told) {
  std::set<std::string_view> all;
  for (const composition_rule& r : composition_rules::all) {
    EXPECT_GT(r.why.size(), 40U);
    EXPECT_TRUE(all.insert(r.why).second) << r.why;
    EXPECT_TRUE(r.holds(composition{}));
  }
  // Every pair of parts that have a name: a text is refused just where a rule says so.
  const auto text_of = [](const known_part& p) {
    std::string text(p.name);
    for (const part_argument& a : p.arguments) {
      text += a.must_be_given() ? (&a == p.arguments.data() ? "([1]" : ", [1]") : "";
    }
    return text + (text.size() > p.name.size() ? ")" : "");
  };
  int refused = 0;
  for (const known_part& first : known_parts()) {
    for (const known_part& second : known_parts()) {
      const auto reads_file = [](const known_part& p) { return p.name == "profile_threshold"; };
      if (first.name == second.name || reads_file(first) || reads_file(second) ||
          (first.stage == second.stage && first.stage != part_stage::revision)) {
        continue;
      }
      composition together;
      together.add(first.traits);
      together.add(second.traits);
      const bool admits =
          first.stage == part_stage::admission || second.stage == part_stage::admission;
      const std::string text = text_of(first) + "+" + text_of(second) + (admits ? "" : "+top_k");
      std::string said;
      try {
        static_cast<void>(read_policy(text));
      } catch (const policy_text_error& e) {
        said = e.what();
      }
      const auto rule = std::find_if(std::begin(composition_rules::all),
                                     std::end(composition_rules::all),
                                     [&](const auto& r) { return !r.holds(together); });
      if (rule != std::end(composition_rules::all)) {
        EXPECT_THAT(said, ::testing::HasSubstr(std::string(rule->why))) << text;
        ++refused;
      } else if (!said.empty()) {
        EXPECT_THAT(said, ::testing::HasSubstr("a policy has one")) << text;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace unmask
