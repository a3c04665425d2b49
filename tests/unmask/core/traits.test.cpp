// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/traits.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <utility>

namespace unmask::traits_test {
namespace {

// The rules that a composition of these parts breaks.
struct reads_kept {
  static constexpr statistics required = stat::truncated;
  float score(const auto& c) const { return c.kept_mass(); }
};

template <class... Part>
std::set<std::string_view> broken() {
  std::set<std::string_view> all;
  for (const composition_rule& r : all_composition_rules::all) {
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
  EXPECT_EQ(c.ranks, 1);
  EXPECT_FALSE(c.by_confidence());
  EXPECT_TRUE(c.stores_tokens == 1 && c.reads_sequence == 1 && c.tracks_current == 1);
  EXPECT_TRUE(c.has_branches() && c.rewrites == 1 && c.remasks == 0 && c.renoises == 0 &&
              !c.is_layered() && c.compares == 0);
  EXPECT_EQ(c.tracked_tokens(), 8 + 4 + 1 + max_branches);
  EXPECT_EQ(c.caches, 1);
  EXPECT_TRUE(
      (broken<by_margin, threshold, trace_credit<8>, lookahead, remask_current_below>().empty()));
}

TEST(composition, rules_say_what_does_not_go_together) {
  using one = std::set<std::string_view>;
  EXPECT_EQ((broken<by_margin, factor>()), (one{composition_rules::confidence_in_order::why}));
  EXPECT_EQ((broken<trace_credit<>, allowed_tokens<2>>()),
            (one{composition_rules::memory_behind_lists::why}));
  EXPECT_TRUE((broken<allowed_tokens<2>, trace_credit<>>().empty()));
  EXPECT_TRUE((broken<early_skip, allowed_tokens<2>>().empty()));  // it stores no tokens
  EXPECT_EQ((broken<confidence_after_truncation, sampling>()),
            (one{composition_rules::truncation_of_some::why}));
  EXPECT_EQ((broken<reads_kept>()), (one{composition_rules::truncation_of_some::why}));
  EXPECT_TRUE((broken<reads_kept, top_k>().empty()));
  EXPECT_EQ((broken<top_k>()), (one{composition_rules::truncation_with_effect::why}));
  EXPECT_EQ((broken<remask_below, remask_current_below>()),
            (one{composition_rules::remasking_in_one_way::why}));
  EXPECT_EQ((broken<early_skip, lookahead>()),
            (one{composition_rules::layers_without_branches::why}));
  EXPECT_EQ((broken<early_skip, drafts>()), (one{composition_rules::layers_without_branches::why}));
  EXPECT_EQ((broken<lookahead, drafts>()), (one{composition_rules::one_lookahead::why}));
  EXPECT_EQ((broken<edit_committed, drafts>()),
            (one{composition_rules::drafts_of_tokens_that_stay::why}));
  EXPECT_EQ((broken<sampling, drafts>()), (one{composition_rules::drafts_of_best_tokens::why}));
  EXPECT_EQ((broken<trace_credit<>, drafts>()),
            (one{composition_rules::drafts_without_memory::why}));
  EXPECT_TRUE((broken<repetition_penalty<>, drafts>().empty()));
  EXPECT_EQ((broken<drafts, beam>()), (one{composition_rules::one_lookahead::why}));
  for (const one& why : {broken<sampling, beam>(),
                         broken<trace_credit<>, beam>(),
                         broken<steady_leader, beam>(),
                         broken<edit_committed, beam>(),
                         broken<prefix_cache, beam>(),
                         broken<sliding_block, beam>()}) {
    EXPECT_EQ(why, (one{composition_rules::beam_of_tokens::why}));
  }
  EXPECT_TRUE((broken<repetition_penalty<>, single_block, beam>().empty()));
  EXPECT_EQ((broken<stable_and_confident, eos_penalty>()),
            (one{composition_rules::comparison_alone::why}));
}

/// The traits of a part that has one trait alone.
part_traits alone(bool part_traits::* trait) {
  part_traits p;
  p.*trait = true;
  return p;
}

TEST(composition, counts_the_parts_with_a_trait) {
  const std::pair<bool part_traits::*, index_t composition::*> counted[] = {
      {&part_traits::ranks, &composition::ranks},
      {&part_traits::schedules, &composition::schedules},
      {&part_traits::looks_ahead, &composition::looks_ahead},
      {&part_traits::draws, &composition::draws},
      {&part_traits::caches, &composition::caches},
      {&part_traits::evicts, &composition::evicts},
      {&part_traits::skips, &composition::skips},
      {&part_traits::remasks_current, &composition::remasks_current},
      {&part_traits::anchors, &composition::anchors},
      {&part_traits::truncates, &composition::truncates},
      {&part_traits::renormalises, &composition::renormalises},
      {&part_traits::picks, &composition::picks},
      {&part_traits::remasks, &composition::remasks},
      {&part_traits::rewrites, &composition::rewrites},
      {&part_traits::renoises, &composition::renoises},
      {&part_traits::reduces, &composition::reduces},
      {&part_traits::compares, &composition::compares},
      {&part_traits::reads_truncated, &composition::reads_truncated},
      {&part_traits::reads_ahead, &composition::reads_ahead},
      {&part_traits::reads_sequence, &composition::reads_sequence},
      {&part_traits::tracks_current, &composition::tracks_current},
      {&part_traits::needs_spans, &composition::needs_spans},
      {&part_traits::follows_confidence, &composition::follows_confidence},
      {&part_traits::follows_text, &composition::follows_text}};
  for (const auto& [trait, count] : counted) {
    composition c;
    EXPECT_EQ(c.*count, 0);
    for (const part_traits& p : {alone(trait), part_traits{}, alone(trait)}) {
      c.add(p);
    }
    EXPECT_EQ(c.*count, 2);
    for (const auto& [other, others] : counted) {
      EXPECT_EQ(c.*others, others == count ? 2 : 0);
    }
  }
  composition c;
  c.add({.tracks = 3, .probes = 2});
  c.add({.tracks = 4, .probes = 5});
  EXPECT_EQ(c.tracks, 7);
  EXPECT_EQ(c.probes, 7);
}

TEST(composition, is_by_confidence_unless_a_ranking_is_not) {
  composition c;
  c.add({.ranks_by_confidence = false});  // no ranking
  c.add({.ranks = true, .ranks_by_confidence = true});
  EXPECT_TRUE(c.by_confidence());
  c.add({.ranks = true});
  c.add({.ranks = true, .ranks_by_confidence = true});
  EXPECT_FALSE(c.by_confidence());
}

TEST(part_traits, look_beyond_a_step_by_any_of_ten) {
  EXPECT_FALSE(part_traits{}.looks_beyond_a_step());
  for (const auto trait : {&part_traits::remembers,
                           &part_traits::counts_steps,
                           &part_traits::compares,
                           &part_traits::looks_ahead,
                           &part_traits::drafts,
                           &part_traits::beams,
                           &part_traits::rewrites,
                           &part_traits::renoises,
                           &part_traits::skips,
                           &part_traits::picks}) {
    EXPECT_TRUE(alone(trait).looks_beyond_a_step());
  }
}

}  // namespace
}  // namespace unmask::traits_test
