// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "support/composed_policies.hpp"

namespace unmask::testing::pairs_test {
namespace {

using detail::type_list;

// Every part of the table of include/unmask/policy/README.md, with the sizes that
// composed_policies.hpp gives them.
using parts = type_list<by_confidence,
                        by_margin,
                        by_entropy,
                        left_to_right,
                        at_random,
                        alg_temperature<by_margin>,
                        threshold,
                        tokens_per_step,
                        steps_per_block,
                        timesteps,
                        independent_timesteps,
                        factor,
                        entropy_bound,
                        hierarchical,
                        early_commit,
                        steady_leader,
                        local_leap,
                        adaptive_threshold,
                        stable_and_confident,
                        calibrated_threshold<8>,
                        at_frontier,
                        trace_credit<6>,
                        adaptive_credit<6>,
                        logit_bias<1>,
                        repetition_penalty<4>,
                        presence_frequency_penalty<4>,
                        neighbour_penalty,
                        allowed_tokens<5>,
                        probability_of<2>,
                        eos_penalty,
                        min_new_tokens,
                        eos_gate,
                        eos_last,
                        edit_committed,
                        remask_current_below,
                        remask_below,
                        lookahead,
                        temperature,
                        sampling,
                        top_k,
                        top_p,
                        min_p,
                        confidence_after_truncation,
                        stop_at_eos,
                        stop_sequence<2>,
                        max_steps,
                        semi_autoregressive,
                        single_block,
                        block_pipeline,
                        slow_fast,
                        edited_blocks,
                        canvas>;

// Traits that decide whether two parts go together.
struct traits {
  std::string name;
  bool ranks, commits, schedules, draws, renoises, rewrites, remasks, branches, truncates;
  bool compares, tracks, remembers;
  bool frontier, of_kept, remasks_current;
};

template <class P>
traits traits_of() {
  return {.name = typeid(P).name(),
          .ranks = ranking<P>,
          .commits = commit_rule<P>,
          .schedules = scheduling<P>,
          .draws = drawing<P>,
          .renoises = renoising<P>,
          .rewrites = token_editing<P> || remasking<P>,
          .remasks = remasking<P>,
          .branches = branching<P>,
          .truncates = truncating<P>,
          .compares = P::required.contains(stat::drift) || P::required.contains(stat::divergence),
          .tracks = tracking<P> || current_tracking<P>,
          .remembers =
              logits_processor<P> && tracking<P> && !std::is_same_v<position_state_of<P>, no_state>,
          .frontier = std::is_same_v<P, at_frontier>,
          .of_kept = std::is_same_v<P, confidence_after_truncation>,
          .remasks_current = std::is_same_v<P, remask_current_below>};
}

template <class... P>
std::vector<traits> traits_of_all(type_list<P...>) {
  return {traits_of<P>()...};
}

// Combinations that the page lists as incompatible; called for b with a, too.
bool is_refused(const traits& a, const traits& b) {
  return (a.compares && (b.tracks || b.branches || b.of_kept)) ||
         (a.branches && (b.remasks || b.frontier || b.renoises)) ||
         (a.renoises && (b.rewrites || b.frontier || b.draws || b.schedules)) ||
         (a.truncates && b.remembers) || (a.frontier && b.rewrites) ||
         (a.remasks_current && b.remasks);
}

// Pairs that only stand side by side.
bool are_apart(const traits& a, const traits& b) {
  return (a.commits && (b.commits || b.ranks)) || (a.ranks && b.ranks) ||
         (a.schedules && (b.schedules || b.ranks));
}

template <class... Part>
std::vector<std::string> names_of(type_list<Part...>) {
  return {typeid(Part).name()...};
}

// `factor` and `hierarchical` stand beside by_confidence only.
TEST(composition, ranks_by_confidence_where_a_rule_wants_that) {
  int policies = 0;
  const auto check = [&](const auto& p) {
    const auto names = names_of(typename std::remove_cvref_t<decltype(p)>::part_list{});
    const std::set<std::string> all(names.begin(), names.end());
    if (all.contains(typeid(factor).name()) || all.contains(typeid(hierarchical).name())) {
      EXPECT_TRUE(all.contains(typeid(by_confidence).name()));
      ++policies;
    }
  };
  for_some_compositions(check);
  for_other_compositions(check);
  EXPECT_GT(policies, 3);
}

TEST(composition, has_every_pair_of_parts_that_goes_together) {
  std::set<std::pair<std::string, std::string>> covered;
  const auto note = [&](const auto& p) {
    const auto names = names_of(typename std::remove_cvref_t<decltype(p)>::part_list{});
    for (const std::string& one : names) {
      for (const std::string& other : names) {
        covered.emplace(one, other);
      }
    }
  };
  for_some_compositions(note);
  for_other_compositions(note);
  const std::vector<traits> all = traits_of_all(parts{});
  int pairs = 0;
  for (const traits& a : all) {
    for (const traits& b : all) {
      const bool is_covered = covered.count({a.name, b.name}) > 0;
      if (a.name != b.name && (is_refused(a, b) || is_refused(b, a))) {
        EXPECT_FALSE(is_covered) << a.name << " and " << b.name << " are said not to go together";
      } else if (a.name != b.name && !are_apart(a, b) && !are_apart(b, a)) {
        EXPECT_TRUE(is_covered) << a.name << " and " << b.name << " are in no policy together";
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 1500);  // each from both ends
}

}  // namespace
}  // namespace unmask::testing::pairs_test
