// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/held_list.hpp>
#include <unmask/core/part/rank_info.hpp>
#include <unmask/core/part/sequence_view.hpp>
#include <unmask/core/part/tracked_list.hpp>
#include <unmask/core/record.hpp>

#include <concepts>
#include <type_traits>

/// A policy is a product of parts. A part is a trivially copyable value that implements one or more
/// stages of a step: the concepts below name the stages and their functions. Functions with other
/// names belong to the part alone (core/part/part_check.hpp detects mistakes).
namespace UNMASK_NAMESPACE {

/// Placeholder for state that a part does not have.
struct no_state {};

namespace detail {

template <class P>
struct position_state {
  using type = no_state;
};
template <class P>
  requires requires { typename P::position_state; }
struct position_state<P> {
  using type = typename P::position_state;
};
template <class P>
struct sequence_state {
  using type = no_state;
};
template <class P>
  requires requires { typename P::sequence_state; }
struct sequence_state<P> {
  using type = typename P::sequence_state;
};

template <class P>
struct step_reduction {
  using type = no_state;
};
template <class P>
  requires requires { typename P::step_reduction; }
struct step_reduction<P> {
  using type = typename P::step_reduction;
};

}  // namespace detail

/// State of part P for each position whose row is read, trivially copyable; `no_state` if it keeps
/// none. `T{}` is the start; only the session resets it: at the start, at a commit or a remask.
template <class P>
using position_state_of = typename detail::position_state<P>::type;

/// State that part P keeps for each sequence; `no_state` if it keeps none.
template <class P>
using sequence_state_of = typename detail::sequence_state<P>::type;

/// Step reduction of part P over the candidates, computed before any of them is committed.
template <class P>
using step_reduction_of = typename detail::step_reduction<P>::type;

/// Context: the last argument of a part's functions, with the part's own state and the current
/// step. Functions of one position are called in parallel, in any order, and write `state` only;
/// stop(), schedule(), replan(), and edit_token() (in position order) may write `sequence`.
template <class P>
struct part_context {
  position_state_of<P>& state;                 ///< State of the position that the call is about.
  sequence_state_of<P>& sequence;              ///< State of the sequence.
  const step_reduction_of<P>& step_reduction;  ///< Step reduction over the candidates.
  const step_info& at;                         ///< The step, the block and the position.
};

/// The candidates of this step directly left and right of one; an invalid record means none.
template <statistics S>
struct neighbours {
  candidate<S> left;   ///< Candidate at the next position to the left.
  candidate<S> right;  ///< Candidate at the next position to the right.
};

namespace detail {

// A candidate with every statistic, and a context, to detect the functions of a part. The
// statistics that a part may read are checked when its function is compiled with its own declared
// set.
template <class P>
using own_candidate = candidate<P::required>;

// Row interface of a logits processor; declared only. stats/row.hpp defines the real one.
template <statistics S>
struct row_archetype {
  [[nodiscard]] UNMASK_HD record<S> total() const;
  [[nodiscard]] UNMASK_HD float logit(token_id token) const;
  [[nodiscard]] UNMASK_HD bool tracks(token_id token) const;
  UNMASK_HD void add(token_id token, float delta);
  UNMASK_HD void keep_only(const auto* tokens, index_t count);
};

}  // namespace detail

/// A trivially copyable class that declares the statistics it reads.
// By the compiler's traits: those of <type_traits> instantiate classes for each part.
template <class P>
concept part = __is_trivially_copyable(P) && __is_class(P) && requires {
  { P::required } -> std::convertible_to<statistics>;
};

/// Orders candidates: the higher score commits earlier. NaN ranks last.
template <class P>
concept ranking = part<P> &&(
    requires(const P& p, const detail::own_candidate<P>& c) {
      { p.score(c) } -> std::same_as<float>;
    } ||
    requires(const P& p, const detail::own_candidate<P>& c, part_context<P>& context) {
      { p.score(c, context) } -> std::same_as<float>;
    });

/// A ranking whose scores are monotone in the confidence; it declares `static constexpr bool
/// orders_by_confidence = true`. Some rules are defined along such an order only.
template <class P>
concept ordering_by_confidence = ranking<P> && requires {
  requires bool { P::orders_by_confidence };
};

namespace detail {

template <class P>
concept basic_commit_rule = part<P> &&(
    requires(const P& p, const own_candidate<P>& c, const rank_info_for<P>& s) {
      { p.commits(c, s) } -> std::same_as<bool>;
    } ||
    requires(const P& p, const own_candidate<P>& c, const rank_info_for<P>& s, part_context<P>& context) {
      { p.commits(c, s, context) } -> std::same_as<bool>;
    });

template <class P>
concept costing = requires(const P& p, const own_candidate<P>& c) {
  { p.cost(c) } -> std::same_as<float>;
};

template <class P>
struct is_composite : std::false_type {};

}  // namespace detail

/// A commit rule: decides which candidates commit in this step. Rules combine with `&&` and `||`.
template <class P>
concept commit_rule = detail::basic_commit_rule<P> || detail::is_composite<P>::value;

/// Elementwise transform of the logits, applied while a row is read: `transform(logit, token) ->
/// float`; or, if it depends on the step, `transform_at(at)`, called once a row, which returns a
/// function object of (logit, token) (`at` has no block). Optional `transforms_now() -> bool`:
/// false while it is the identity; without any active transform rows are not copied.
template <class P>
concept logits_transform = part<P> &&(
    requires(const P& p, float z, token_id v) {
      { p.transform(z, v) } -> std::same_as<float>;
    } ||
    requires(const P& p, float z, token_id v, const step_info& at) {
      { p.transform_at(at)(z, v) } -> std::same_as<float>;
    });

/// Draws the proposed token at random instead of taking the best one. It reads stat::sampled;
/// `draw_temperature()` >= 0 is the temperature of the distribution; 0 draws none.
template <class P>
concept drawing = part<P> && requires(const P& p) {
  { p.draw_temperature() } -> std::same_as<float>;
};

/// A drawing part that names the tokens: a candidate has `forced_token(at) -> token_id` whatever
/// its row, untested by constraints, which fill `filled_tokens(step)` in a step, -1 the start.
template <class P>
concept forcing = drawing<P> && requires(const P& p, const step_info& at) {
  { p.forced_token(at) } -> std::same_as<token_id>;
  { p.filled_tokens(at.step) } -> std::same_as<detail::placed_tokens>;
};

/// Keeps only the most probable tokens of a row. It reads stat::kept; `kept() -> truncation` says
/// which. Several such parts keep the tokens that all of them keep.
template <class P>
concept truncating = part<P> && requires(const P& p) {
  { p.kept() } -> std::same_as<truncation>;
};

/// Declares the tracked tokens, whose logits the part reads or edits after the read: `track(list,
/// context)` calls list.add(token) for at most `tracks` different tokens, once per masked position.
template <class P>
concept tracking = part<P> && requires(const P& p, tracked_list& list, part_context<P>& context) {
  { P::tracks } -> std::convertible_to<index_t>;
  { p.track(list, context) } -> std::same_as<void>;
};

/// A logits processor: edits a row after its read, and may keep state. `process(row, context)` is
/// called once for each masked position of the scored range whose row is valid, in written order of
/// the parts. `row` offers total(), the record with the edits so far, and to a part with `tracks`
/// (0 if it tracks no token): logit(token) of a tracked token; add(token, delta), which edits a
/// tracked token or raises the best one; keep_only(tokens, count), which excludes all others. If
/// delta is a product, make it a math::product, or the compiler may fuse it with the logit.
template <class P>
concept logits_processor =
    part<P> &&
    requires(const P& p, detail::row_archetype<P::required>& row, part_context<P>& context) {
      { p.process(row, context) } -> std::same_as<void>;
    };

/// Excludes tokens of rows: `allows(token, at) -> bool` is true for the others. Called only for
/// rows with a NaN, an infinite best logit or no finite logit, which no part processes: they commit
/// the best token that all parts allow or, if there is none, the lowest allowed token.
template <class P>
concept restricting = part<P> && requires(const P& p, token_id v, const step_info& at) {
  { p.allows(v, at) } -> std::same_as<bool>;
};

/// A probe: reads the probabilities of some tokens. `probe(row, context, out) -> index_t` writes at
/// most `probes` entries for a masked position, in written order among the logits processors, and
/// returns their number. The library sets slot, position and step: session::probabilities().
template <class P>
concept probing = part<P> && requires(const P& p,
                                      detail::row_archetype<P::required>& row,
                                      part_context<P>& context,
                                      token_probability* out) {
  { P::probes } -> std::convertible_to<index_t>;
  { p.probe(row, context, out) } -> std::same_as<index_t>;
};

/// A part that tracks or processes, and whose edit depends on the tokens around a position, which
/// it reads from `context.at.view` in both calls. Tokens that lookahead places between the two
/// calls are then also tracked at every position, so that the edit is exact in every branch.
/// Optional `reads_sequence_now() -> bool`: false while the current knobs make the edit independent
/// of them.
template <class P>
concept sequence_reading = part<P> && requires {
  requires bool { P::reads_sequence };
};

/// A part that also tracks or processes at committed positions, if they are read for a part that
/// edits tokens: an edit of the row that keeps no state at the position.
template <class P>
concept processing_committed = part<P> && requires {
  requires bool { P::processes_committed };
};

namespace detail {

template <class P>
concept filters_with_neighbours = requires(const P& p,
                                           const own_candidate<P>& c,
                                           const neighbours<P::required>& beside,
                                           part_context<P>& context) {
  { p.filter(c, beside, context) } -> std::same_as<filter_result>;
};
template <class P>
concept filters_alone = requires(const P& p, const own_candidate<P>& c, part_context<P>& context) {
  { p.filter(c, context) } -> std::same_as<filter_result>;
};

}  // namespace detail

/// Ranks candidates last, rejects or excludes them in this step, whatever their statistics:
/// `filter(candidate, context)` or `filter(candidate, neighbours, context)`. The strictest result
/// of several parts counts. Lookahead never tries such a candidate.
template <class P>
concept candidate_filter =
    part<P> && (detail::filters_with_neighbours<P> || detail::filters_alone<P>);

/// Step reduction over all candidates before any is committed: `reduce(candidate, context) ->
/// step_reduction`, merged in position order by `step_reduction::merge`; commits() then reads
/// `context.step_reduction`.
template <class P>
concept step_reducing = part<P> && requires(const P& p,
                                            const detail::own_candidate<P>& c,
                                            part_context<P>& context,
                                            step_reduction_of<P>& sum) {
  typename P::step_reduction;
  { p.reduce(c, context) } -> std::same_as<typename P::step_reduction>;
  sum.merge(sum);
};

/// Result of edit_token(): the action at a committed position.
enum class verdict : std::uint8_t {
  keep,
  replace,  ///< write the proposed token over the committed one; never the mask token
  remask    ///< put the mask token back
};

/// Token editing: `edit_token(candidate, context) -> verdict` is called for committed positions of
/// the scored range, where candidate.current is the committed token; their rows are also read. Only
/// a policy with such a part rewrites committed tokens. Called in position order, by one thread. A
/// step remasks fewer tokens than it commits, whatever the parts return; each sequence may exceed
/// this by the number that the parts declare in `extra_forwards` (core/part/schedule.hpp); see
/// step_info::may_remask. Optional `edits_tokens_now() -> bool`: false while the current
/// knobs keep every token; without any active part, committed positions are not read.
template <class P>
concept token_editing =
    part<P> && requires(const P& p, const detail::own_candidate<P>& c, part_context<P>& context) {
      { p.edit_token(c, context) } -> std::same_as<verdict>;
    };

/// Remasking: `remasks(candidate, context) -> bool` selects committed positions of the scored range
/// that become candidates again. Such a position is ranked together with the masked ones in the
/// same step: if the commit rule commits it, it takes its proposed token, otherwise it becomes
/// masked. At least one more candidate is committed than such positions are selected. It may have
/// edits_tokens_now(), as token_editing.
template <class P>
concept remasking =
    part<P> && requires(const P& p, const detail::own_candidate<P>& c, part_context<P>& context) {
      { p.remasks(c, context) } -> std::same_as<bool>;
    };

/// Decides on a canvas: no position is committed before the end. After each step a position that
/// the commit rule accepts has its proposed token and every other one `refill(position, context) ->
/// token_id`, which also gives the first canvas (at step -1); when the sequence ends, each position
/// gets `conclude(context) -> token_id`.
template <class P>
concept renoising = part<P> && requires(const P& p, part_context<P>& context) {
  { p.refill(index_t{}, context) } -> std::same_as<token_id>;
  { p.conclude(context) } -> std::same_as<token_id>;
};

/// A canvas that absorbs positions: `is_absorbed(context) -> bool`, true for a position that is not
/// a candidate and keeps its token, and `absorb(context)`, called once a step for each position
/// that the commit rule accepts; sequence_view::new_commits is their number.
template <class P>
concept absorbing = renoising<P> && requires(const P& p, part_context<P>& context) {
  { p.is_absorbed(context) } -> std::same_as<bool>;
  { p.absorb(context) } -> std::same_as<void>;
};

/// A part that edits tokens and reads context.at.current_probability: the committed token is then
/// tracked, so that its probability is exact. Optional: `tracks_current_now() -> bool`.
template <class P>
concept current_tracking = token_editing<P> && requires {
  requires bool { P::tracks_current };
};

/// Ends a sequence: `stop(sequence, context) -> ending`, called after the commits of every step.
/// `answer_end(sequence)` says where its answer ends (core/part/answer_end.hpp).
template <class P>
concept stopping =
    part<P> && requires(const P& p, const sequence_view& q, part_context<P>& context) {
      { p.stop(q, context) } -> std::same_as<ending>;
    };

/// A schedule: `schedule(sequence, plan, context)` sets the plan's score, forced and, with a cache,
/// query, and keys if they are others. It may change sequence.block_length.
template <class P>
concept scheduling =
    part<P> && requires(const P& p, sequence_view& q, plan& n, part_context<P>& context) {
      { p.schedule(q, n, context) } -> std::same_as<void>;
    };

/// Lookahead (policy/lookahead.hpp): after each step it tries the `branches` masked positions of
/// highest `lookahead_score(candidate)`, one in each branch, and the next step continues with the
/// branch whose masked positions have the highest mean lookahead score over the lowest
/// `lowest_share` of them.
template <class P>
concept branching = part<P> && requires(const P& p, const detail::own_candidate<P>& c) {
  { p.branches } -> std::convertible_to<index_t>;
  { p.lookahead_score(c) } -> std::same_as<float>;
  { p.score_of_branch(0.0F, 0.0F) } -> std::same_as<float>;
};

/// A part with rules that the ranges of its knobs (core/part/knob.hpp) cannot express:
/// `check(sequence_shape)`. Errors: it throws std::invalid_argument that names argument, value and
/// rule. Called on the host when a sequence starts, after the check of the knobs and before any
/// change.
template <class P>
concept checked = requires(const P& p, const sequence_shape& g) { p.check(g); };

/// A part whose rules depend on the model: `check(sequence_shape, model_info)`.
template <class P>
concept checked_with_model =
    requires(const P& p, const sequence_shape& g, const model_info& m) { p.check(g, m); };

/// A part that is incompatible with some others: `composed_with<Parts>()` has a static_assert with
/// a sentence for each case; `Parts` is the policy's part_list.
template <class P, class Parts>
concept choosy = requires { P::template composed_with<Parts>(); };

/// A schedule that scores several blocks at a time: `reach(sequence_shape)` returns the most
/// positions.
template <class P>
concept reaching = requires(const P& p, const sequence_shape& g) {
  { p.reach(g) } -> std::same_as<index_t>;
};

/// A schedule that plans each lookahead branch separately: `replan(sequence, plan, context)`,
/// called with the branch's token in place, changes the plan of the anchor into the branch's. It
/// may change score.last, query.last, last_block and forced, and keeps plan::score within the
/// session's window. It is called for every branch with a copy of its state, then once with its
/// state for the winning branch.
template <class P>
concept replanning =
    scheduling<P> && requires(const P& p, sequence_view& q, plan& n, part_context<P>& context) {
      { p.replan(q, n, context) } -> std::same_as<void>;
    };

/// A commit rule that reads rank_info_in_span::span_rank; it declares `static constexpr bool
/// needs_spans = true`. Others are given a rank_info, which has no span_rank. Cost: O(length of the
/// span) a candidate.
template <class P>
concept span_aware = part<P> && detail::ranks_in_spans<P>;

}  // namespace unmask
