// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/traits.hpp>

#include <string_view>

/// The rules about parts that do not combine. Policies composed of types and by name use the
/// same rules. `c.trait` is the number of parts that have a trait.
namespace UNMASK_NAMESPACE {

namespace composition_rules {

// A rule: the condition that a composition `c` must satisfy, and its sentence. static_assert
// accepts a literal only, so both users share one sentence.
#define UNMASK_RULE(name, condition, sentence)                                                     \
  struct name {                                                                                    \
    static constexpr std::string_view why = sentence;                                              \
    [[nodiscard]] static constexpr bool holds(const composition& c) { return condition; }          \
    template <class Policy>                                                                        \
    static consteval void check() {                                                                \
      static_assert(holds(Policy::together), sentence);                                            \
    }                                                                                              \
  };

UNMASK_RULE(one_schedule,
            c.schedules <= 1,
            "a policy has at most one schedule, such as semi_autoregressive{}")
UNMASK_RULE(one_lookahead,
            c.looks_ahead + c.drafts + c.beams <= 1,
            "a policy has at most one part with branches, such as lookahead{}, drafts{} or beam{}")
UNMASK_RULE(one_draw,
            c.draws <= 1,
            "a policy draws tokens with one part, such as sampling{}; canvas{} is such a part")
UNMASK_RULE(one_cache, c.caches <= 1, "a policy has at most one cache, such as block_cache{}")
UNMASK_RULE(one_eviction,
            c.evicts <= 1,
            "a policy evicts keys with one part, such as key_eviction{}")
UNMASK_RULE(one_layer_rule,
            c.skips <= 1,
            "a policy skips positions with one part, such as early_skip{}")
UNMASK_RULE(
    one_remask_current,
    c.remasks_current <= 1,
    "a policy has at most one remask_current_below: of two, the larger confidence decides alone")
UNMASK_RULE(one_anchoring,
            c.anchors <= 1,
            "a policy has at most one part with anchors, such as local_leap{}: the distance to the "
            "nearest anchor is computed for one part")
UNMASK_RULE(
    one_cost,
    !c.mixes_costs,
    "a policy adds up one cost along the ranking: the cost of entropy_bound{} or of frechet{}")
UNMASK_RULE(layers_without_branches,
            !(c.is_layered() && c.has_branches()),
            "a policy with lookahead, drafts or a beam cannot skip positions at its layers: each "
            "branch would need its own stored hidden states")
UNMASK_RULE(layers_without_canvas,
            !(c.is_layered() && c.renoises),
            "a canvas decides about every position in each pass: a layer rule, or a cache that "
            "computes single positions, must not skip any")
UNMASK_RULE(comparison_alone,
            !(c.compares && (c.tracked_tokens() > 0 || c.has_branches())),
            "a policy that compares rows with the rows of the previous step cannot track tokens "
            "and cannot have lookahead, drafts or a beam: the stored rows would lack the tracked "
            "tokens, or belong to a branch that was not kept")
UNMASK_RULE(comparison_of_whole_rows,
            !(c.compares && c.renormalises > 0),
            "a policy with confidence_after_truncation{} cannot compare rows with the rows of the "
            "previous step: drift and divergence are of whole rows, not of truncated ones")
UNMASK_RULE(
    truncation_without_memory,
    !(c.truncates > 0 && c.stores_tokens),
    "a policy that truncates rows cannot have a part that stores tokens between steps and edits "
    "their logits, such as trace_credit: a truncated read does not keep those logits apart")
UNMASK_RULE(truncation_of_one_row,
            !(c.truncates > 0 && c.tracked_tokens() > 0 && c.has_branches()),
            "a policy that truncates rows can either track tokens or have lookahead, drafts or a "
            "beam, not both: the kept tokens are chosen while a row is read, and the edits of a "
            "branch are known only after it has won")
UNMASK_RULE(truncation_with_effect,
            c.truncates == 0 || c.draws > 0 || c.renormalises > 0 || c.reads_truncated,
            "a part that truncates rows has no effect unless a token is drawn or the statistics "
            "are of the kept tokens: add sampling{} or confidence_after_truncation{}")
UNMASK_RULE(truncation_of_some,
            c.truncates > c.renormalises || (c.renormalises == 0 && !c.reads_truncated),
            "confidence_after_truncation{}, or a part that reads stat::truncated, has no effect "
            "without a part that truncates rows: add top_k, top_p or min_p")
UNMASK_RULE(
    branches_of_their_blocks,
    !(c.reads_ahead && c.has_branches()),
    "a policy that reads rows right of its active blocks cannot have lookahead, drafts or a beam: "
    "a branch is run and read only up to the end of its active blocks")
UNMASK_RULE(canvas_alone,
            !(c.renoises && (c.rewrites || c.has_branches())),
            "a canvas commits nothing before its end: there is no token to edit or to remask, and "
            "none from which lookahead or drafts could make a branch")
UNMASK_RULE(remasking_without_branches,
            !(c.remasks && c.has_branches()),
            "a policy in which committed positions become candidates again cannot have lookahead, "
            "drafts or a beam: a branch would be created from a position that another one "
            "committed")
UNMASK_RULE(remasking_in_one_way,
            !(c.remasks && c.remasks_current > 0),
            "a policy has remask_below or remask_current_below, not both: the first makes a "
            "committed position a candidate again, the second masks it")
UNMASK_RULE(one_remasking_least,
            c.remasks_least <= 1,
            "a policy masks the least certain tokens with one part, such as running_confidence{}: "
            "each of them says how many are masked after a step")
UNMASK_RULE(remasking_least_alone,
            c.remasks_least == 0 || (!c.remasks && c.remasks_current == 0),
            "a part that masks the least certain tokens does not combine with another part that "
            "remasks: it alone decides how many tokens are masked after a step")
UNMASK_RULE(remasking_least_without_branches,
            c.remasks_least == 0 || !c.has_branches(),
            "a part that masks the least certain tokens does not combine with lookahead, drafts or "
            "a beam: a branch would be created from a position that is then masked")
UNMASK_RULE(
    confidence_in_order,
    !c.follows_confidence || c.by_confidence(),
    "factor, hierarchical and similar rules need candidates in the order of their confidence: rank "
    "with by_confidence, or with a ranking that has orders_by_confidence = true")
UNMASK_RULE(
    memory_behind_lists,
    !c.after_memory,
    "write allowed_tokens and min_new_tokens before parts that store tokens between steps, such as "
    "trace_credit: those would otherwise give credit to tokens that can never be proposed")
UNMASK_RULE(text_without_branches,
            !(c.follows_text && c.has_branches()),
            "at_frontier does not combine with lookahead, drafts or a beam: the bitmask of a "
            "branch was made before the tokens left of it were known")
UNMASK_RULE(text_that_stays,
            !(c.follows_text && c.rewrites),
            "at_frontier does not combine with parts that rewrite committed tokens: the grammar "
            "has already read them")
UNMASK_RULE(text_without_canvas,
            !(c.follows_text && c.renoises),
            "at_frontier does not combine with a canvas: nothing on it is committed before its "
            "end, so it has no frontier")
UNMASK_RULE(gate_of_commits,
            !(c.gates && (c.has_branches() || c.remasks || c.renoises)),
            "a part with admits() does not combine with lookahead, drafts, a beam, remask_below or "
            "a canvas: their tokens are written, or drafted, without being tested")
UNMASK_RULE(block_rewriting_alone,
            !c.rewrites_blocks ||
                !(c.has_branches() || c.remasks || c.remasks_least > 0 || c.renoises || c.gates ||
                  c.is_layered() || c.compares || c.truncates > 0 || c.stores_tokens ||
                  c.draws > 0 || c.reconsiders > 0 || c.shadows || c.verifies),
            "a part that rewrites whole blocks and moves text, such as daedal{}, decides alone: it "
            "does not combine with lookahead, drafts, a beam, a canvas or a gate, nor with parts "
            "that check drafts, remask, draw, truncate or compare rows, store tokens between steps "
            "or skip positions at layers")
UNMASK_RULE(drafts_of_tokens_that_stay,
            !(c.drafts > 0 && c.rewrites),
            "drafts do not combine with parts that rewrite committed tokens: a draft is the "
            "sequence with more tokens and without other changes")
UNMASK_RULE(drafts_of_best_tokens,
            !(c.drafts > 0 && c.draws > 0),
            "drafts do not combine with a part that draws tokens, such as sampling{}: the step "
            "that verifies a draft would draw other tokens than the draft has")
UNMASK_RULE(drafts_without_memory,
            !(c.drafts > 0 && c.stores_tokens),
            "drafts do not combine with a part that stores tokens between steps and edits their "
            "logits, such as trace_credit: the read of a draft lacks the logits of tokens that the "
            "steps before it would store")
UNMASK_RULE(beam_of_tokens,
            !(c.beams > 0 && (c.rewrites || c.draws > 0 || c.remembers || c.caches > 0 ||
                              c.evicts > 0 || c.probes > 0 || (c.schedules > c.decides_one_block))),
            "the members of a beam differ in committed tokens only and decide the same block: "
            "beam{} does not combine with parts that rewrite or draw tokens, keep state at "
            "positions, report probabilities or cache keys and values, and takes no schedule "
            "except semi_autoregressive{} and single_block{}")
UNMASK_RULE(
    shadow_of_tokens,
    !c.shadows || c.rewrites,
    "a part with shadow attention has no effect without one that edits or remasks committed "
    "tokens, which it compares with the model's proposal")
UNMASK_RULE(shadow_of_one_sequence,
            !(c.shadows && (c.has_branches() || c.is_layered() || c.compares)),
            "a part with shadow attention, such as wino{}, does not combine with lookahead, drafts "
            "or a beam, nor with parts that skip positions at layers or compare rows with the rows "
            "of the previous step: its shadow belongs to one whole sequence")
UNMASK_RULE(reconsidering_alone,
            !(c.reconsiders > 0 &&
              (c.reconsiders > 1 || c.edits || c.plans_positions || c.shadows || c.gates ||
               c.follows_text || c.renoises || c.has_branches() || c.is_layered() || c.caches > 0 ||
               c.evicts > 0 || c.compares || c.reads_ahead)),
            "a part that decides about committed tokens again without seeing them, such as core{}, "
            "runs whole passes with masks in their place: it does not combine with another part "
            "that edits, remasks, admits or checks tokens, nor with lookahead, drafts, a beam, a "
            "canvas, caches, layer rules or parts that read rows of other steps or positions")
UNMASK_RULE(
    drafts_of_one_sequence,
    !(c.plans_positions && (c.has_branches() || c.renoises || c.is_layered() || c.caches > 0 ||
                            c.evicts > 0 || c.compares || c.reads_ahead)),
    "a schedule that chooses the positions and rows of a pass itself, such as self_speculation{} "
    "or seeded_blocks{}, does not combine with lookahead, drafts, a beam, a canvas, caches or "
    "layer rules, nor with parts that read rows of other steps or positions")
UNMASK_RULE(
    drafts_rewritten_by_checks,
    !(c.verifies && (c.edits || c.gates || c.follows_text)),
    "a schedule that checks drafts, such as self_speculation{}, does not combine with parts that "
    "edit, remask or admit tokens, nor with at_frontier: only the check decides which drafts stay")
UNMASK_RULE(growth_without_cache,
            !(c.grows && (c.caches > 0 || c.evicts > 0)),
            "a part that lengthens the answer, such as daedal{}, does not combine with a cache: it "
            "reads the rows of the whole answer in each pass")
#undef UNMASK_RULE

}  // namespace composition_rules

/// A compatibility rule as a value.
struct composition_rule {
  bool (*holds)(const composition&);
  std::string_view why;
};

namespace detail {

template <class... Rule>
struct rule_list {
  /// Refuses a policy with the sentence of each rule that it breaks.
  template <class Policy>
  static consteval void check() {
    if constexpr (!(Rule::holds(Policy::together) && ...)) {
      (Rule::template check<Policy>(), ...);
    }
  }
  static constexpr composition_rule all[sizeof...(Rule)] = {{&Rule::holds, Rule::why}...};
};

}  // namespace detail

/// All compatibility rules.
using all_composition_rules = detail::rule_list<composition_rules::one_schedule,
                                                composition_rules::one_lookahead,
                                                composition_rules::one_draw,
                                                composition_rules::one_cache,
                                                composition_rules::one_eviction,
                                                composition_rules::one_layer_rule,
                                                composition_rules::one_remask_current,
                                                composition_rules::one_anchoring,
                                                composition_rules::one_cost,
                                                composition_rules::layers_without_branches,
                                                composition_rules::layers_without_canvas,
                                                composition_rules::comparison_alone,
                                                composition_rules::comparison_of_whole_rows,
                                                composition_rules::truncation_without_memory,
                                                composition_rules::truncation_of_one_row,
                                                composition_rules::truncation_with_effect,
                                                composition_rules::truncation_of_some,
                                                composition_rules::branches_of_their_blocks,
                                                composition_rules::canvas_alone,
                                                composition_rules::remasking_without_branches,
                                                composition_rules::remasking_in_one_way,
                                                composition_rules::one_remasking_least,
                                                composition_rules::remasking_least_alone,
                                                composition_rules::remasking_least_without_branches,
                                                composition_rules::confidence_in_order,
                                                composition_rules::memory_behind_lists,
                                                composition_rules::text_without_branches,
                                                composition_rules::text_that_stays,
                                                composition_rules::text_without_canvas,
                                                composition_rules::gate_of_commits,
                                                composition_rules::block_rewriting_alone,
                                                composition_rules::drafts_of_tokens_that_stay,
                                                composition_rules::drafts_of_best_tokens,
                                                composition_rules::drafts_without_memory,
                                                composition_rules::beam_of_tokens,
                                                composition_rules::shadow_of_tokens,
                                                composition_rules::shadow_of_one_sequence,
                                                composition_rules::reconsidering_alone,
                                                composition_rules::drafts_of_one_sequence,
                                                composition_rules::drafts_rewritten_by_checks,
                                                composition_rules::growth_without_cache>;

}  // namespace unmask
