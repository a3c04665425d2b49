// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/forwards.hpp>
#include <unmask/core/layer.hpp>
#include <unmask/core/part.hpp>
#include <unmask/core/read_ahead.hpp>
#include <unmask/core/review.hpp>

#include <string_view>

/// The traits of a part, and of the parts of a policy together, as plain values, and the rules
/// about incompatible parts. Policies composed of types and by name use the same rules.
namespace UNMASK_NAMESPACE {

namespace detail {

template <class P>
inline constexpr index_t tracks_of = 0;
template <tracking P>
inline constexpr index_t tracks_of<P> = P::tracks;

template <class P>
inline constexpr index_t probes_of = 0;
template <probing P>
inline constexpr index_t probes_of<P> = P::probes;

// True if a part declares `static constexpr bool <name> = true`; a knob of that name does not
// count.
#define UNMASK_SAYS(name)                                                                          \
  template <class P>                                                                               \
  concept says_##name = requires { requires std::bool_constant<P::name>::value; };

UNMASK_SAYS(counts_steps)
UNMASK_SAYS(follows_confidence)
UNMASK_SAYS(follows_text)
UNMASK_SAYS(precedes_memory)
UNMASK_SAYS(renormalises)
UNMASK_SAYS(remasks_current)
#undef UNMASK_SAYS

}  // namespace detail

/// The traits of one part.
struct part_traits {
  bool ranks = false;
  bool ranks_by_confidence = false;
  bool schedules = false;
  bool branches = false;
  bool draws = false;
  bool caches = false;
  bool evicts = false;
  bool picks = false;  ///< selects single positions of a pass
  bool skips = false;  ///< selects positions at a layer
  bool truncates = false;
  bool renormalises = false;
  bool reads_truncated = false;  ///< reads what a truncation keeps
  bool remembers = false;        ///< keeps state at each position
  bool edits_tokens = false;
  bool remasks = false;
  bool rewrites = false;  ///< rewrites committed tokens: edits tokens or remasks
  bool remasks_current = false;
  bool renoises = false;
  bool reduces = false;
  bool reviews = false;       ///< reduces over the commits of a step
  bool costs = false;         ///< computes a cost of candidates
  bool anchors = false;       ///< marks candidates for others near them
  bool transforms = false;    ///< transforms logits while they are read
  bool names_tokens = false;  ///< names tracked tokens
  bool processes_logits = false;
  bool is_probe = false;
  bool turns = false;  ///< reads rows after their read: a logits processor or a probe
  bool restricts = false;
  bool filter = false;
  bool stops = false;
  bool paces = false;
  bool replans = false;
  bool commits = false;
  bool idles = false;  ///< may plan passes that commit nothing: schedules or renoises
  bool reaches = false;
  bool compares = false;  ///< compares rows with those of the previous step
  bool reads_ahead = false;
  bool reads_sequence = false;
  bool tracks_current = false;
  bool needs_spans = false;
  index_t tracks = 0;
  index_t probes = 0;
  /// Declared as `static constexpr bool <name> = true`: the part decides by the number of the step;
  /// commits along the order of confidence; depends on the committed tokens left of it; has to be
  /// written before parts that store tokens.
  bool counts_steps = false;
  bool follows_confidence = false;
  bool follows_text = false;
  bool precedes_memory = false;

  /// Whether its decisions depend on more than one step.
  [[nodiscard]] constexpr bool looks_beyond_a_step() const {
    return remembers || counts_steps || compares || branches || rewrites || renoises || skips ||
           picks;
  }
};

/// Traits of a part type.
template <class P>
inline constexpr part_traits traits_of{.ranks = ranking<P>,
                                       .ranks_by_confidence = ordering_by_confidence<P>,
                                       .schedules = scheduling<P>,
                                       .branches = branching<P>,
                                       .draws = drawing<P>,
                                       .caches = caching<P>,
                                       .evicts = evicting<P>,
                                       .picks = picking<P>,
                                       .skips = layer_rule<P>,
                                       .truncates = truncating<P>,
                                       .renormalises = detail::says_renormalises<P>,
                                       .reads_truncated = P::required.contains(stat::truncated),
                                       .remembers = !std::is_same_v<position_state_of<P>, no_state>,
                                       .edits_tokens = token_editing<P>,
                                       .remasks = remasking<P>,
                                       .rewrites = token_editing<P> || remasking<P>,
                                       .remasks_current = detail::says_remasks_current<P>,
                                       .renoises = renoising<P>,
                                       .reduces = step_reducing<P>,
                                       .reviews = reviewing<P>,
                                       .costs = detail::basic_commit_rule<P> && detail::costing<P>,
                                       .anchors = anchoring<P>,
                                       .transforms = logits_transform<P>,
                                       .names_tokens = tracking<P>,
                                       .processes_logits = logits_processor<P>,
                                       .is_probe = probing<P>,
                                       .turns = logits_processor<P> || probing<P>,
                                       .restricts = restricting<P>,
                                       .filter = candidate_filter<P>,
                                       .stops = stopping<P>,
                                       .paces = pacing<P>,
                                       .replans = replanning<P>,
                                       .commits = detail::basic_commit_rule<P>,
                                       .idles = scheduling<P> || renoising<P>,
                                       .reaches = reaching<P>,
                                       .compares = P::required.contains(stat::drift) ||
                                                   P::required.contains(stat::divergence),
                                       .reads_ahead = reading_ahead<P>,
                                       .reads_sequence = sequence_reading<P>,
                                       .tracks_current = current_tracking<P>,
                                       .needs_spans = span_aware<P>,
                                       .tracks = detail::tracks_of<P>,
                                       .probes = detail::probes_of<P>,
                                       .counts_steps = detail::says_counts_steps<P>,
                                       .follows_confidence = detail::says_follows_confidence<P>,
                                       .follows_text = detail::says_follows_text<P>,
                                       .precedes_memory = detail::says_precedes_memory<P>};

/// Combined traits of several parts: add() them in written order.
struct composition {
  index_t rankings = 0;
  index_t schedules = 0;
  index_t lookaheads = 0;
  index_t draws = 0;
  index_t caches = 0;
  index_t evictions = 0;
  index_t skips = 0;
  index_t remasks_current = 0;
  index_t anchorings = 0;
  index_t truncations = 0;
  index_t renormalisations = 0;  ///< of those, parts that only renormalise the statistics
  index_t part_tracks = 0;
  index_t probes = 0;
  bool by_confidence = true;  ///< every ranking orders by confidence
  bool picks = false;
  bool tracks_with_memory = false;  ///< tracked tokens that a part stores at each position
  bool remasks = false;
  bool rewrites = false;
  bool renoises = false;
  bool reduces = false;
  bool compares = false;
  bool reads_truncated = false;
  bool reads_ahead = false;
  bool reads_sequence = false;
  bool tracks_current = false;
  bool needs_spans = false;
  bool follows_confidence = false;
  bool follows_text = false;
  bool after_memory = false;  ///< a part with precedes_memory is behind one with state

  constexpr void add(const part_traits& p) {
    rankings += p.ranks ? 1 : 0;
    schedules += p.schedules ? 1 : 0;
    lookaheads += p.branches ? 1 : 0;
    draws += p.draws ? 1 : 0;
    caches += p.caches ? 1 : 0;
    evictions += p.evicts ? 1 : 0;
    skips += p.skips ? 1 : 0;
    remasks_current += p.remasks_current ? 1 : 0;
    anchorings += p.anchors ? 1 : 0;
    truncations += p.truncates ? 1 : 0;
    renormalisations += p.renormalises ? 1 : 0;
    part_tracks += p.tracks;
    probes += p.probes;
    by_confidence = by_confidence && (!p.ranks || p.ranks_by_confidence);
    after_memory = after_memory || (p.precedes_memory && tracks_with_memory);
    picks = picks || p.picks;
    tracks_with_memory = tracks_with_memory || (p.tracks > 0 && p.remembers);
    remasks = remasks || p.remasks;
    rewrites = rewrites || p.rewrites;
    renoises = renoises || p.renoises;
    reduces = reduces || p.reduces;
    compares = compares || p.compares;
    reads_truncated = reads_truncated || p.reads_truncated;
    reads_ahead = reads_ahead || p.reads_ahead;
    reads_sequence = reads_sequence || p.reads_sequence;
    tracks_current = tracks_current || p.tracks_current;
    needs_spans = needs_spans || p.needs_spans;
    follows_confidence = follows_confidence || p.follows_confidence;
    follows_text = follows_text || p.follows_text;
  }

  [[nodiscard]] constexpr bool branches() const { return lookaheads > 0; }
  [[nodiscard]] constexpr bool layered() const { return skips > 0 || picks; }
  /// Most tokens that are tracked at one position: those of the parts, the committed token and the
  /// placements of lookahead.
  [[nodiscard]] constexpr index_t tracks() const {
    return part_tracks + (tracks_current ? 1 : 0) +
           (branches() && reads_sequence ? max_branches : 0);
  }
};

/// Combined traits of the parts.
template <class... Part>
[[nodiscard]] constexpr composition composition_of() {
  composition all;
  (all.add(traits_of<Part>), ...);
  return all;
}

namespace goes_together {

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
            c.lookaheads <= 1,
            "a policy has at most one part with branches, such as lookahead{}")
UNMASK_RULE(one_draw,
            c.draws <= 1,
            "a policy draws tokens with one part, such as sampling{}; canvas{} is such a part")
UNMASK_RULE(one_cache, c.caches <= 1, "a policy has at most one cache, such as block_cache{}")
UNMASK_RULE(one_eviction,
            c.evictions <= 1,
            "a policy evicts keys with one part, such as key_eviction{}")
UNMASK_RULE(one_layer_rule,
            c.skips <= 1,
            "a policy skips positions with one part, such as early_skip{}")
UNMASK_RULE(
    one_remask_current,
    c.remasks_current <= 1,
    "a policy has at most one remask_current_below: of two, the larger confidence decides alone")
UNMASK_RULE(one_anchoring,
            c.anchorings <= 1,
            "a policy has at most one part with anchors, such as local_leap{}: the distance to the "
            "nearest anchor is computed for one part")
UNMASK_RULE(
    layers_without_branches,
    !(c.layered() && c.branches()),
    "a policy with lookahead cannot skip positions at its layers: each branch would need its "
    "own stored hidden states")
UNMASK_RULE(layers_without_canvas,
            !(c.layered() && c.renoises),
            "a canvas decides about every position in each pass: a layer rule, or a cache that "
            "computes single positions, must not skip any")
UNMASK_RULE(comparison_alone,
            !(c.compares && (c.tracks() > 0 || c.branches())),
            "a policy that compares rows with those of the step before can neither track tokens "
            "nor have lookahead: the stored rows would lack the tracked tokens, or belong to a "
            "branch that was not kept")
UNMASK_RULE(comparison_of_whole_rows,
            !(c.compares && c.renormalisations > 0),
            "a policy with confidence_after_truncation{} cannot compare rows with those of the "
            "step before: drift and divergence are of whole rows, not of truncated ones")
UNMASK_RULE(
    truncation_without_memory,
    !(c.truncations > 0 && c.tracks_with_memory),
    "a policy that truncates rows cannot have a part that stores tokens between steps and edits "
    "their logits, such as trace_credit: a truncated read does not keep those logits apart")
UNMASK_RULE(
    truncation_of_one_row,
    !(c.truncations > 0 && c.tracks() > 0 && c.branches()),
    "a policy that truncates rows can track tokens or have lookahead, not both: the kept tokens "
    "are chosen while a row is read, and the edits of a branch are known only after it has won")
UNMASK_RULE(truncation_with_effect,
            c.truncations == 0 || c.draws > 0 || c.renormalisations > 0 || c.reads_truncated,
            "a part that truncates rows has no effect unless a token is drawn or the statistics "
            "are of the kept tokens: add sampling{} or confidence_after_truncation{}")
UNMASK_RULE(truncation_of_some,
            c.truncations > c.renormalisations || (c.renormalisations == 0 && !c.reads_truncated),
            "confidence_after_truncation{}, or a part that reads stat::truncated, has no effect "
            "without a part that truncates rows: add top_k, top_p or min_p")
UNMASK_RULE(branches_of_their_blocks,
            !(c.reads_ahead && c.branches()),
            "a policy that reads rows right of its active blocks cannot have lookahead: a branch "
            "is run and scored only up to the end of its active blocks")
UNMASK_RULE(canvas_alone,
            !(c.renoises && (c.rewrites || c.branches())),
            "a canvas commits nothing before its end: there is no token to edit or to remask, and "
            "none for a branch of lookahead")
UNMASK_RULE(remasking_without_branches,
            !(c.remasks && c.branches()),
            "a policy in which committed positions become candidates again cannot have lookahead: "
            "a branch would be created from a position that another branch committed")
UNMASK_RULE(remasking_in_one_way,
            !(c.remasks && c.remasks_current > 0),
            "a policy has remask_below or remask_current_below, not both: the one makes a "
            "committed position a candidate again, the other masks it")
UNMASK_RULE(
    confidence_in_order,
    !c.follows_confidence || c.by_confidence,
    "factor, hierarchical and similar rules need candidates in the order of their confidence: rank "
    "with by_confidence, or with a ranking that has orders_by_confidence = true")
UNMASK_RULE(
    memory_behind_lists,
    !c.after_memory,
    "write allowed_tokens and min_new_tokens before parts that store tokens between steps, such as "
    "trace_credit: those would otherwise give credit to tokens that can never be proposed")
UNMASK_RULE(text_without_branches,
            !(c.follows_text && c.branches()),
            "at_frontier does not go with lookahead: the bitmask of a branch was made before the "
            "tokens left of it were known")
UNMASK_RULE(text_that_stays,
            !(c.follows_text && c.rewrites),
            "at_frontier does not go with parts that rewrite committed tokens: the grammar has "
            "already read them")
UNMASK_RULE(text_without_canvas,
            !(c.follows_text && c.renoises),
            "at_frontier does not go with a canvas: nothing on it is committed before its end, so "
            "it has no frontier")
#undef UNMASK_RULE

}  // namespace goes_together

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
using composition_rules = detail::rule_list<goes_together::one_schedule,
                                            goes_together::one_lookahead,
                                            goes_together::one_draw,
                                            goes_together::one_cache,
                                            goes_together::one_eviction,
                                            goes_together::one_layer_rule,
                                            goes_together::one_remask_current,
                                            goes_together::one_anchoring,
                                            goes_together::layers_without_branches,
                                            goes_together::layers_without_canvas,
                                            goes_together::comparison_alone,
                                            goes_together::comparison_of_whole_rows,
                                            goes_together::truncation_without_memory,
                                            goes_together::truncation_of_one_row,
                                            goes_together::truncation_with_effect,
                                            goes_together::truncation_of_some,
                                            goes_together::branches_of_their_blocks,
                                            goes_together::canvas_alone,
                                            goes_together::remasking_without_branches,
                                            goes_together::remasking_in_one_way,
                                            goes_together::confidence_in_order,
                                            goes_together::memory_behind_lists,
                                            goes_together::text_without_branches,
                                            goes_together::text_that_stays,
                                            goes_together::text_without_canvas>;

}  // namespace unmask
