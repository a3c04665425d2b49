// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/attention.hpp>
#include <unmask/core/beam_search.hpp>
#include <unmask/core/block_end.hpp>
#include <unmask/core/block_rewriting.hpp>
#include <unmask/core/drafting.hpp>
#include <unmask/core/forwards.hpp>
#include <unmask/core/gating.hpp>
#include <unmask/core/layer.hpp>
#include <unmask/core/part.hpp>
#include <unmask/core/read_ahead.hpp>
#include <unmask/core/reconsider.hpp>
#include <unmask/core/remask_least.hpp>
#include <unmask/core/review.hpp>
#include <unmask/core/verify.hpp>

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
#define UNMASK_SAYS(name)                                                                          \
  template <class P>                                                                               \
  concept says_##name = requires { requires std::bool_constant<P::name>::value; };

UNMASK_SAYS(counts_steps)
UNMASK_SAYS(decides_one_block)
UNMASK_SAYS(ranks_by_reduction)
UNMASK_SAYS(reduces_committed)
UNMASK_SAYS(follows_confidence)
UNMASK_SAYS(follows_text)
UNMASK_SAYS(precedes_memory)
UNMASK_SAYS(renormalises)
UNMASK_SAYS(remasks_current)
UNMASK_SAYS(tracks_current)
#undef UNMASK_SAYS

}  // namespace detail

/// The traits of one part.
struct part_traits {
  bool ranks = false;
  bool ranks_by_confidence = false;
  bool ranks_by_reduction = false;  ///< ranks by the step reduction: declared
  bool schedules = false;
  bool decides_one_block = false;  ///< decides one block after another: declared
  bool branches = false;           ///< has lookahead branches
  bool drafts = false;
  bool beams = false;
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
  bool remasks_least = false;    ///< remasks the least certain tokens
  bool rewrites_blocks = false;  ///< rewrites the scored block as a whole
  bool grows = false;            ///< sequences begin shorter than they may become
  bool goes_on = false;          ///< may go on without masked positions
  bool verifies = false;         ///< checks drafts
  bool reconsiders = false;      ///< reconsiders committed tokens without them
  bool rewrites = false;         ///< rewrites committed tokens: edits, remasks or verifies
  bool remasks_current = false;
  bool shadows = false;  ///< reads committed positions in a shadow segment
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
  bool gates = false;  ///< allows or refuses tokens that are about to be committed
  bool filter = false;
  bool stops = false;
  bool paces = false;
  bool ends_blocks = false;  ///< finds the end of a block in its rows
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
  bool has_cost = false;       ///< has a cost of candidates, or its operands have
  const void* cost = nullptr;  ///< with one: tells it from those of other parts
  /// Declared as `static constexpr bool <name> = true`: the part decides by the number of the step;
  /// commits along the order of confidence; depends on the committed tokens left of it; has to be
  /// written before parts that store tokens.
  bool counts_steps = false;
  bool follows_confidence = false;
  bool follows_text = false;
  bool precedes_memory = false;

  /// Whether its decisions depend on more than one step.
  [[nodiscard]] constexpr bool looks_beyond_a_step() const {
    return remembers || counts_steps || compares || branches || drafts || beams || rewrites ||
           renoises || skips || picks;
  }
};

/// Traits of a part type.
template <class P>
inline constexpr part_traits traits_of{
    .ranks = ranking<P>,
    .ranks_by_confidence = ordering_by_confidence<P>,
    .ranks_by_reduction = detail::says_ranks_by_reduction<P>,
    .schedules = scheduling<P>,
    .decides_one_block = detail::says_decides_one_block<P>,
    .branches = branching<P>,
    .drafts = drafting<P>,
    .beams = beam_searching<P>,
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
    .remasks_least = remasking_least<P>,
    .rewrites_blocks = block_rewriting<P>,
    .grows = growing<P>,
    .goes_on = going_on<P>,
    .verifies = verifying<P>,
    .reconsiders = reconsidering<P>,
    .rewrites = token_editing<P> || remasking<P> || remasking_least<P> || verifying<P> ||
                reconsidering<P> || block_rewriting<P>,
    .remasks_current = detail::says_remasks_current<P>,
    .shadows = detail::attention_of<P> == attention_kind::shadow,
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
    .gates = gating<P>,
    .filter = candidate_filter<P>,
    .stops = stopping<P>,
    .paces = pacing<P>,
    .ends_blocks = block_ending<P>,
    .replans = replanning<P>,
    .commits = detail::basic_commit_rule<P>,
    .idles = scheduling<P> || renoising<P>,
    .reaches = reaching<P>,
    .compares = P::required.contains(stat::drift) || P::required.contains(stat::divergence),
    .reads_ahead = reading_ahead<P>,
    .reads_sequence = sequence_reading<P>,
    .tracks_current =
        current_tracking<P> || ((remasking_least<P> || verifying<P> || reconsidering<P>) &&
                                detail::says_tracks_current<P>),
    .needs_spans = span_aware<P>,
    .tracks = detail::tracks_of<P>,
    .probes = detail::probes_of<P>,
    .has_cost = detail::costing<P>,
    .cost = &detail::cost_of<P>,
    .counts_steps = detail::says_counts_steps<P>,
    .follows_confidence = detail::says_follows_confidence<P>,
    .follows_text = detail::says_follows_text<P>,
    .precedes_memory = detail::says_precedes_memory<P>};

/// Combined traits of several parts: add() them in written order.
struct composition {
  index_t rankings = 0;
  index_t schedules = 0;
  index_t lookaheads = 0;
  index_t draftings = 0;
  index_t beams = 0;
  index_t draws = 0;
  index_t caches = 0;
  index_t evictions = 0;
  index_t skips = 0;
  index_t remasks_current = 0;
  index_t remasks_least = 0;
  index_t anchorings = 0;
  index_t truncations = 0;
  index_t renormalisations = 0;  ///< of those, parts that only renormalise the statistics
  index_t part_tracks = 0;
  index_t probes = 0;
  bool has_cost = false;
  const void* cost = nullptr;
  bool mixes_costs = false;   ///< parts with different costs
  bool by_confidence = true;  ///< every ranking orders by confidence
  bool picks = false;
  bool remembers = false;           ///< keeps state at each position
  bool tracks_with_memory = false;  ///< tracked tokens that a part stores at each position
  bool remasks = false;
  bool rewrites = false;
  bool rewrites_blocks = false;
  bool grows = false;
  bool edits = false;  ///< rewrites committed tokens but by checks of drafts or by reconsidering
  bool verifies = false;
  index_t reconsiderations = 0;
  bool shadows = false;
  bool renoises = false;
  bool gates = false;
  bool reduces = false;
  bool pipelines = false;  ///< a schedule that does not decide one block after another
  bool compares = false;
  bool reads_truncated = false;
  bool reads_ahead = false;
  bool reads_sequence = false;
  bool tracks_current = false;
  bool needs_spans = false;
  bool follows_confidence = false;
  bool follows_text = false;
  bool after_memory = false;  ///< a part with precedes_memory is after one with state

  constexpr void add(const part_traits& p) {
    rankings += p.ranks ? 1 : 0;
    schedules += p.schedules ? 1 : 0;
    lookaheads += p.branches ? 1 : 0;
    draftings += p.drafts ? 1 : 0;
    beams += p.beams ? 1 : 0;
    draws += p.draws ? 1 : 0;
    caches += p.caches ? 1 : 0;
    evictions += p.evicts ? 1 : 0;
    skips += p.skips ? 1 : 0;
    remasks_current += p.remasks_current ? 1 : 0;
    remasks_least += p.remasks_least ? 1 : 0;
    anchorings += p.anchors ? 1 : 0;
    truncations += p.truncates ? 1 : 0;
    renormalisations += p.renormalises ? 1 : 0;
    part_tracks += p.tracks;
    probes += p.probes;
    mixes_costs = mixes_costs || (p.has_cost && has_cost && p.cost != cost);
    cost = p.has_cost ? p.cost : cost;
    has_cost = has_cost || p.has_cost;
    by_confidence = by_confidence && (!p.ranks || p.ranks_by_confidence);
    after_memory = after_memory || (p.precedes_memory && tracks_with_memory);
    picks = picks || p.picks;
    remembers = remembers || p.remembers;
    tracks_with_memory = tracks_with_memory || (p.tracks > 0 && p.remembers);
    remasks = remasks || p.remasks;
    rewrites = rewrites || p.rewrites;
    rewrites_blocks = rewrites_blocks || p.rewrites_blocks;
    grows = grows || p.grows;
    edits = edits || (p.rewrites && !p.verifies && !p.reconsiders);
    verifies = verifies || p.verifies;
    reconsiderations += p.reconsiders ? 1 : 0;
    shadows = shadows || p.shadows;
    renoises = renoises || p.renoises;
    gates = gates || p.gates;
    reduces = reduces || p.reduces;
    pipelines = pipelines || (p.schedules && !p.decides_one_block);
    compares = compares || p.compares;
    reads_truncated = reads_truncated || p.reads_truncated;
    reads_ahead = reads_ahead || p.reads_ahead;
    reads_sequence = reads_sequence || p.reads_sequence;
    tracks_current = tracks_current || p.tracks_current;
    needs_spans = needs_spans || p.needs_spans;
    follows_confidence = follows_confidence || p.follows_confidence;
    follows_text = follows_text || p.follows_text;
  }

  [[nodiscard]] constexpr bool branches() const { return lookaheads + draftings + beams > 0; }
  [[nodiscard]] constexpr bool layered() const { return skips > 0 || picks; }
  /// Most tokens that are tracked at one position: those of the parts, the committed token and the
  /// tokens that branches place.
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

}  // namespace unmask

#include <unmask/core/goes_together.hpp>
