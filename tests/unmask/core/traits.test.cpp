// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/traits.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace unmask {
namespace {

// The rules that a composition of these parts breaks.
struct reads_kept {
  static constexpr statistics required = stat::truncated;
  float score(const auto& c) const { return c.kept_mass(); }
};

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
                                           threshold,
                                           trace_credit<8>,
                                           lookahead,
                                           repetition_penalty<4>,
                                           remask_current_below,
                                           prefix_cache>();
  EXPECT_EQ(c.rankings, 1);
  EXPECT_FALSE(c.by_confidence);
  EXPECT_TRUE(c.tracks_with_memory && c.reads_sequence && c.tracks_current);
  EXPECT_TRUE(c.branches() && c.rewrites && !c.remasks && !c.renoises && !c.layered() &&
              !c.compares);
  EXPECT_EQ(c.tracks(), 8 + 4 + 1 + max_branches);
  EXPECT_EQ(c.caches, 1);
  EXPECT_TRUE(
      (broken<by_margin, threshold, trace_credit<8>, lookahead, remask_current_below>().empty()));
}

TEST(composition, rules_say_what_does_not_go_together) {
  using one = std::set<std::string_view>;
  EXPECT_EQ((broken<by_margin, factor>()), (one{goes_together::confidence_in_order::why}));
  EXPECT_EQ((broken<trace_credit<>, allowed_tokens<2>>()),
            (one{goes_together::memory_behind_lists::why}));
  EXPECT_TRUE((broken<allowed_tokens<2>, trace_credit<>>().empty()));
  EXPECT_TRUE((broken<early_skip, allowed_tokens<2>>().empty()));  // it stores no tokens
  EXPECT_EQ((broken<confidence_after_truncation, sampling>()),
            (one{goes_together::truncation_of_some::why}));
  EXPECT_EQ((broken<reads_kept>()), (one{goes_together::truncation_of_some::why}));
  EXPECT_TRUE((broken<reads_kept, top_k>().empty()));
  EXPECT_EQ((broken<top_k>()), (one{goes_together::truncation_with_effect::why}));
  EXPECT_EQ((broken<remask_below, remask_current_below>()),
            (one{goes_together::remasking_in_one_way::why}));
  EXPECT_EQ((broken<early_skip, lookahead>()), (one{goes_together::layers_without_branches::why}));
  EXPECT_EQ((broken<stable_and_confident, eos_penalty>()),
            (one{goes_together::comparison_alone::why}));
}

}  // namespace
}  // namespace unmask
