// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/beam_search.hpp>
#include <unmask/core/part/block_end.hpp>
#include <unmask/core/part/block_rewriting.hpp>
#include <unmask/core/part/drafting.hpp>
#include <unmask/core/part/forwards.hpp>
#include <unmask/core/part/gating.hpp>
#include <unmask/core/part/layer.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/part/read_ahead.hpp>
#include <unmask/core/part/reconsider.hpp>
#include <unmask/core/part/remask_least.hpp>
#include <unmask/core/part/review.hpp>
#include <unmask/core/part/verify.hpp>

#include <string_view>

/// The traits of a part, and of the parts of a policy together, as plain values.
namespace UNMASK_NAMESPACE {

namespace detail {

template <class P>
inline constexpr index_t tracks_of = 0;
template <tracking P>
inline constexpr index_t tracks_of<P> = P::tracks;

// Its address tells the costs of parts apart.
template <class P>
inline constexpr char cost_of = 0;

template <class P>
inline constexpr index_t probes_of = 0;
template <probing P>
inline constexpr index_t probes_of<P> = P::probes;

// True if a part declares `static constexpr bool <name> = true`; a knob of that name does not
// count.
#define UNMASK_DECLARES(name)                                                                      \
  template <class P>                                                                               \
  concept declares_##name = requires { requires std::bool_constant<P::name>::value; };

UNMASK_DECLARES(counts_steps)
UNMASK_DECLARES(decides_one_block)
UNMASK_DECLARES(ranks_by_reduction)
UNMASK_DECLARES(reduces_committed)
UNMASK_DECLARES(follows_confidence)
UNMASK_DECLARES(follows_text)
UNMASK_DECLARES(precedes_memory)
UNMASK_DECLARES(renormalises)
UNMASK_DECLARES(remasks_current)
UNMASK_DECLARES(tracks_current)
#undef UNMASK_DECLARES

template <class P>
concept rewriting = token_editing<P> || remasking<P> || remasking_least<P> || verifying<P> ||
                    reconsidering<P> || block_rewriting<P>;
template <class P>
concept remembering = !std::is_same_v<position_state_of<P>, no_state>;

}  // namespace detail

// All traits: a name, and whether a part type P has it. In the order of a step.
// clang-format off
#define UNMASK_PART_TRAITS(TRAIT)                                                                  \
  TRAIT(ranks, ranking<P>)                                                                         \
  TRAIT(ranks_by_confidence, ordering_by_confidence<P>)                                            \
  TRAIT(ranks_by_reduction, detail::declares_ranks_by_reduction<P>)                                \
  TRAIT(commits, detail::basic_commit_rule<P>)                                                     \
  /* computes a cost of candidates */                                                              \
  TRAIT(costs, (detail::basic_commit_rule<P> && detail::costing<P>))                               \
  /* commits along the order of confidence */                                                      \
  TRAIT(follows_confidence, detail::declares_follows_confidence<P>)                                \
  TRAIT(needs_spans, span_aware<P>)                                                                \
  TRAIT(anchors, anchoring<P>) /* marks candidates for others near them */                         \
  TRAIT(filter, candidate_filter<P>)                                                               \
  TRAIT(reduces, step_reducing<P>)                                                                 \
  TRAIT(reviews, reviewing<P>) /* reduces over the commits of a step */                            \
  TRAIT(counts_steps, detail::declares_counts_steps<P>) /* decides by the number of the step */    \
  TRAIT(transforms, logits_transform<P>) /* transforms logits while they are read */               \
  TRAIT(processes_logits, logits_processor<P>)                                                     \
  TRAIT(is_probe, probing<P>)                                                                      \
  /* edits or probes rows after their read */                                                      \
  TRAIT(visits_rows, (logits_processor<P> || probing<P>))                                          \
  TRAIT(names_tokens, tracking<P>) /* names tracked tokens */                                      \
  TRAIT(restricts, restricting<P>)                                                                 \
  TRAIT(remembers, detail::remembering<P>) /* keeps state at each position */                      \
  /* that of tracked tokens */                                                                     \
  TRAIT(stores_tokens, (detail::remembering<P> && detail::tracks_of<P> != 0))                      \
  /* is written before parts that store tokens */                                                  \
  TRAIT(precedes_memory, detail::declares_precedes_memory<P>)                                      \
  TRAIT(truncates, truncating<P>)                                                                  \
  TRAIT(renormalises, detail::declares_renormalises<P>)                                            \
  /* reads what a truncation keeps */                                                              \
  TRAIT(reads_truncated, P::required.contains(stat::truncated))                                    \
  TRAIT(draws, drawing<P>)                                                                         \
  TRAIT(forces, forcing<P>) /* names the tokens that are drawn */                                  \
  /* compares rows with those of the previous step */                                              \
  TRAIT(compares, (P::required.contains(stat::drift) || P::required.contains(stat::divergence)))   \
  TRAIT(reads_sequence, sequence_reading<P>)                                                       \
  TRAIT(schedules, scheduling<P>)                                                                  \
  /* decides one block after another */                                                            \
  TRAIT(decides_one_block, detail::declares_decides_one_block<P>)                                  \
  TRAIT(paces, pacing<P>)                                                                          \
  TRAIT(replans, replanning<P>)                                                                    \
  TRAIT(ends_blocks, block_ending<P>) /* finds the end of a block in its rows */                   \
  TRAIT(reads_ahead, reading_ahead<P>)                                                             \
  TRAIT(reaches, reaching<P>)                                                                      \
  TRAIT(idles, (scheduling<P> || renoising<P>)) /* may plan passes that commit nothing */          \
  /* depends on the committed tokens left of it */                                                 \
  TRAIT(follows_text, detail::declares_follows_text<P>)                                            \
  TRAIT(stops, stopping<P>)                                                                        \
  TRAIT(gates, gating<P>) /* allows or refuses tokens that are about to be committed */            \
  TRAIT(branches, branching<P>) /* has lookahead branches */                                       \
  TRAIT(drafts, drafting<P>)                                                                       \
  TRAIT(beams, beam_searching<P>)                                                                  \
  TRAIT(verifies, verifying<P>) /* checks drafts */                                                \
  /* rewrites committed tokens: edits, remasks or verifies */                                      \
  TRAIT(rewrites, detail::rewriting<P>)                                                            \
  /* rewrites them by its own rule */                                                              \
  TRAIT(edits, (detail::rewriting<P> && !verifying<P> && !reconsidering<P>))                       \
  TRAIT(edits_tokens, token_editing<P>)                                                            \
  TRAIT(remasks, remasking<P>)                                                                     \
  TRAIT(remasks_current, detail::declares_remasks_current<P>)                                      \
  TRAIT(remasks_least, remasking_least<P>) /* remasks the least certain tokens */                  \
  TRAIT(goes_on, going_on<P>) /* may go on without masked positions */                             \
  TRAIT(reconsiders, reconsidering<P>) /* reconsiders committed tokens without them */             \
  TRAIT(rewrites_blocks, block_rewriting<P>) /* rewrites the scored block as a whole */            \
  TRAIT(grows, growing<P>) /* sequences begin shorter than they may become */                      \
  /* reads committed positions in a shadow */                                                      \
  TRAIT(shadows, (detail::attention_of<P> == attention_kind::shadow))                              \
  TRAIT(tracks_current, (current_tracking<P> || ((remasking_least<P> || verifying<P> ||            \
        reconsidering<P>) && detail::declares_tracks_current<P>)))                                 \
  TRAIT(renoises, renoising<P>)                                                                    \
  TRAIT(caches, caching<P>)                                                                        \
  TRAIT(evicts, evicting<P>)                                                                       \
  TRAIT(picks, picking<P>) /* selects single positions of a pass */                                \
  TRAIT(skips, layer_rule<P>) /* selects positions at a layer */
// clang-format on

/// The traits of one part.
struct part_traits {
#define UNMASK_TRAIT(name, has) bool name = false;
  UNMASK_PART_TRAITS(UNMASK_TRAIT)
#undef UNMASK_TRAIT
  index_t tracks = 0;          ///< tracked tokens at a position
  index_t probes = 0;          ///< probed tokens at a position
  bool has_cost = false;       ///< has a cost of candidates, or its operands have
  const void* cost = nullptr;  ///< with one: tells it from those of other parts

  /// Whether its decisions depend on more than one step.
  [[nodiscard]] constexpr bool looks_beyond_a_step() const {
    return remembers || counts_steps || compares || branches || drafts || beams || rewrites ||
           renoises || skips || picks;
  }
};

/// Traits of a part type.
template <class P>
inline constexpr part_traits traits_of{
#define UNMASK_TRAIT(name, has) .name = has,
    UNMASK_PART_TRAITS(UNMASK_TRAIT)
#undef UNMASK_TRAIT
        .tracks = detail::tracks_of<P>,
    .probes = detail::probes_of<P>,
    .has_cost = detail::costing<P>,
    .cost = &detail::cost_of<P>};

/// Traits that any of the parts has.
template <class... P>
[[nodiscard]] constexpr part_traits any_traits_of() {
  part_traits all;
#define UNMASK_TRAIT(name, has) all.name = (traits_of<P>.name || ... || false);
  UNMASK_PART_TRAITS(UNMASK_TRAIT)
#undef UNMASK_TRAIT
  return all;
}

/// Combined traits of several parts: of each trait, the number of parts that have it. add() them in
/// written order.
struct composition {
#define UNMASK_TRAIT(name, has) index_t name = 0;
  UNMASK_PART_TRAITS(UNMASK_TRAIT)
#undef UNMASK_TRAIT
  index_t tracks = 0;
  index_t probes = 0;
  const void* cost = nullptr;
  bool mixes_costs = false;   ///< parts with different costs
  bool after_memory = false;  ///< a part with precedes_memory is after one that stores tokens

  constexpr void add(const part_traits& p) {
    after_memory = after_memory || (p.precedes_memory && stores_tokens > 0);
    mixes_costs = mixes_costs || (p.has_cost && cost != nullptr && p.cost != cost);
    cost = p.has_cost ? p.cost : cost;
#define UNMASK_TRAIT(name, has) name += p.name ? 1 : 0;
    UNMASK_PART_TRAITS(UNMASK_TRAIT)
#undef UNMASK_TRAIT
    tracks += p.tracks;
    probes += p.probes;
  }

  [[nodiscard]] constexpr bool has_branches() const { return branches + drafts + beams > 0; }
  [[nodiscard]] constexpr bool is_layered() const { return skips + picks > 0; }
  [[nodiscard]] constexpr bool by_confidence() const { return ranks == ranks_by_confidence; }
  /// Most tokens that are tracked at one position: those of the parts, the committed token and the
  /// tokens that branches place.
  [[nodiscard]] constexpr index_t tracked_tokens() const {
    return tracks + (tracks_current > 0 ? 1 : 0) +
           (reads_sequence == 0  ? 0
            : drafts + beams > 0 ? max_placed
            : branches > 0       ? max_branches
                                 : 0);
  }
};
#undef UNMASK_PART_TRAITS

/// Combined traits of the parts.
template <class... Part>
[[nodiscard]] constexpr composition composition_of() {
  composition all;
  (all.add(traits_of<Part>), ...);
  return all;
}

}  // namespace unmask

#include <unmask/core/part/composition_rules.hpp>
