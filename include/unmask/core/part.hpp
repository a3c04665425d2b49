// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/held_list.hpp>
#include <unmask/core/record.hpp>
#include <unmask/core/sequence_view.hpp>
#include <unmask/core/standing.hpp>
#include <unmask/core/watch_list.hpp>

#include <concepts>
#include <type_traits>

/// A policy is a product of parts. A part is a trivially copyable value that implements one or more
/// stages of a step: the concepts below name the stages and their functions. Functions with other
/// names belong to the part alone (core/part_check.hpp detects mistakes).
namespace UNMASK_NAMESPACE {

/// Placeholder for state that a part does not have.
struct no_state {};

namespace detail {

template <class P>
struct position_state {
  using type = no_state;
};
template <class P>
  requires requires {
    typename P::position_state;
  }
struct position_state<P> {
  using type = typename P::position_state;
};
template <class P>
struct sequence_state {
  using type = no_state;
};
template <class P>
  requires requires {
    typename P::sequence_state;
  }
struct sequence_state<P> {
  using type = typename P::sequence_state;
};

template <class P>
struct tally {
  using type = no_state;
};
template <class P>
  requires requires {
    typename P::tally;
  }
struct tally<P> {
  using type = typename P::tally;
};

}  // namespace detail

/// State that part P keeps for each position whose row is read; `no_state` if it keeps none. `T{}`
/// is the start state; only the session resets it: at the start, and at a commit or remask.
template <class P>
using position_state_of = typename detail::position_state<P>::type;

/// State that part P keeps for each sequence; `no_state` if it keeps none.
template <class P>
using sequence_state_of = typename detail::sequence_state<P>::type;

/// Step reduction of part P over the candidates, computed before any of them is committed.
template <class P>
using tally_of = typename detail::tally<P>::type;

/// Context: the last argument of a part's functions, with the part's own state and the current
/// step. Functions of one position are called in parallel, in any order, and write `state` only;
/// stop(), schedule(), replan(), and revisit() (in position order) may write `sequence`.
template <class P>
struct scope {
  position_state_of<P>& state;  ///< State of the position that the call is about.
  sequence_state_of<P>& sequence;  ///< State of the sequence.
  const tally_of<P>& tally;  ///< Step reduction over the candidates.
  const step_info& at;  ///< The step, the block and the position.
};

/// The candidates of this step directly left and right of one; an invalid record means none.
template <statistics S>
struct neighbours {
  candidate<S> left;  ///< Candidate at the next position to the left.
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
  [[nodiscard]] UNMASK_HD bool watches(token_id token) const;
  UNMASK_HD void add(token_id token, float delta);
  UNMASK_HD void keep_only(const auto* tokens, index_t count);
};

}  // namespace detail

/// A trivially copyable class that declares the statistics it reads.
template <class P>
concept part = std::is_trivially_copyable_v<P> && std::is_class_v<P> && requires {
  { P::required } -> std::convertible_to<statistics>;
};

/// Orders candidates: the higher score commits earlier. NaN ranks last.
template <class P>
concept ranking = part<P> &&(
    requires(const P& p, const detail::own_candidate<P>& c) {
      { p.score(c) } -> std::same_as<float>;
    } ||
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
      { p.score(c, own) } -> std::same_as<float>;
    });

/// A ranking whose scores are monotone in the confidence; it declares `static constexpr bool
/// orders_by_confidence = true`. Some rules are defined along such an order only.
template <class P>
concept ordering_by_confidence = ranking<P> && requires {
  requires bool{P::orders_by_confidence};
};

namespace detail {

template <class P>
concept leaf_admission = part<P> &&(
    requires(const P& p, const own_candidate<P>& c, const standing_for<P>& s) {
      { p.admits(c, s) } -> std::same_as<bool>;
    } ||
    requires(const P& p, const own_candidate<P>& c, const standing_for<P>& s, scope<P>& own) {
      { p.admits(c, s, own) } -> std::same_as<bool>;
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
concept admission = detail::leaf_admission<P> || detail::is_composite<P>::value;

/// Elementwise transform of the logits, applied while a row is read: `edit(logit, token) -> float`,
/// or `edit(logit, token, at)` with the step (no block). A part that only transforms with some
/// values of its knobs has `edits_now() -> bool`: without any active transform rows are not copied.
template <class P>
concept logit_edit = part<P> &&(
    requires(const P& p, float z, token_id v) {
      { p.edit(z, v) } -> std::same_as<float>;
    } ||
    requires(const P& p, float z, token_id v, const step_info& at) {
      { p.edit(z, v, at) } -> std::same_as<float>;
    });

/// Draws the proposed token at random instead of taking the best one. It reads stat::sampled;
/// `draw_temperature()` > 0 is the temperature of the distribution.
template <class P>
concept drawing = part<P> && requires(const P& p) {
  { p.draw_temperature() } -> std::same_as<float>;
};

/// Keeps only the most probable tokens of a row. It reads stat::kept; `kept() -> truncation` says
/// which. Several such parts keep the tokens that all of them keep.
template <class P>
concept truncating = part<P> && requires(const P& p) {
  { p.kept() } -> std::same_as<truncation>;
};

/// Declares the tracked tokens, whose logits the part reads or edits after the read: `watch(list,
/// own)` calls list.add(token) for at most `watches` different tokens, once per masked position.
template <class P>
concept watching = part<P> && requires(const P& p, watch_list& list, scope<P>& own) {
  { P::watches } -> std::convertible_to<index_t>;
  { p.watch(list, own) } -> std::same_as<void>;
};

/// A logits processor: edits a row after its read, and may keep state. `revise(row, own)` is called
/// once for each masked position of the scored range whose row is valid, in written order of the
/// parts. `row` offers total(), the record with the edits so far, and to a part with `watches` (0
/// if it tracks no token): logit(token) of a tracked token; add(token, delta), which edits a
/// tracked token or raises the best one; keep_only(tokens, count), which excludes all others. If
/// delta is a product, make it a math::product, or the compiler may fuse it with the logit.
template <class P>
concept revision = part<P> &&
    requires(const P& p, detail::row_archetype<P::required>& row, scope<P>& own) {
  { p.revise(row, own) } -> std::same_as<void>;
};

/// Excludes tokens of rows: `allows(token, at) -> bool` is true for the others. Called only for
/// rows with a NaN, an infinite best logit or no finite logit, which no part processes: they commit
/// the best token that all parts allow or, if there is none, the lowest allowed token.
template <class P>
concept restricting = part<P> && requires(const P& p, token_id v, const step_info& at) {
  { p.allows(v, at) } -> std::same_as<bool>;
};

/// A probe: reads the probabilities of some tokens. `inquire(row, own, out) -> index_t` writes at
/// most `inquiries` entries for a masked position, in written order among the logits processors,
/// and returns their number. The library sets slot, position and step: session::probabilities().
template <class P>
concept inquiring = part<P> && requires(const P& p,
                                        detail::row_archetype<P::required>& row,
                                        scope<P>& own,
                                        token_probability* out) {
  { P::inquiries } -> std::convertible_to<index_t>;
  { p.inquire(row, own, out) } -> std::same_as<index_t>;
};

/// A part that tracks or processes, and whose edit depends on the tokens around a position, which
/// it reads from `own.at.view` in both calls. Tokens that lookahead places between the two calls
/// are then tracked at every position, too, so that the edit is exact in every branch. A part that
/// only does so with some values of its knobs has `reads_sequence_now() -> bool`.
template <class P>
concept sequence_reading = part<P> && requires {
  requires bool{P::reads_sequence};
};

/// A part that tracks or processes at committed positions, too, if those are read for a part that
/// revisits: an edit of the row that keeps no state at the position.
template <class P>
concept revising_settled = part<P> && requires {
  requires bool{P::revises_settled};
};

namespace detail {

template <class P>
concept delaying_beside = requires(const P& p,
                                   const own_candidate<P>& c,
                                   const neighbours<P::required>& beside,
                                   scope<P>& own) {
  { p.delays(c, beside, own) } -> std::same_as<delay>;
};
template <class P>
concept delaying_alone = requires(const P& p, const own_candidate<P>& c, scope<P>& own) {
  { p.delays(c, own) } -> std::same_as<delay>;
};

}  // namespace detail

/// Ranks candidates last, rejects or excludes them in this step, whatever their statistics:
/// `delays(candidate, own)` or `delays(candidate, neighbours, own)`. The strictest result of
/// several parts counts. Lookahead never tries such a candidate.
template <class P>
concept delaying = part<P> &&(detail::delaying_beside<P> || detail::delaying_alone<P>);

/// Step reduction over all candidates before any is committed: `survey(candidate, own) -> tally`,
/// merged in position order by `tally::merge`; admits() then reads `own.tally`.
template <class P>
concept surveying = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own, tally_of<P>& sum) {
  typename P::tally;
  { p.survey(c, own) } -> std::same_as<typename P::tally>;
  sum.merge(sum);
};

/// Result of revisit(): the action at a committed position.
enum class verdict : std::uint8_t {
  keep,
  replace,  ///< write the proposed token over the committed one; never the mask token
  reopen    ///< put the mask token back
};

/// Token editing: `revisit(candidate, own) -> verdict` is called for committed positions of the
/// scored range, where candidate.current is the committed token; their rows are read, too. Only a
/// policy with such a part rewrites committed tokens. Called in position order, by one thread. A
/// step remasks fewer tokens than it commits, whatever the parts return; each sequence may exceed
/// this by the number that the parts declare in `extra_forwards` (core/forwards.hpp); see
/// step_info::may_reopen. A part that only revisits with some values of its knobs has
/// `revisits_now() -> bool`; without any active one, committed positions are not read.
template <class P>
concept revisiting = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
  { p.revisit(c, own) } -> std::same_as<verdict>;
};

/// Remasking: `remasks(candidate, own) -> bool` selects committed positions of the scored range
/// that become candidates again. Such a position is ranked together with the masked ones in the
/// same step: if the commit rule commits it, it takes its proposed token, otherwise it becomes
/// masked. At least one more candidate is committed than such positions are selected.
template <class P>
concept remasking = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
  { p.remasks(c, own) } -> std::same_as<bool>;
};

/// Decides on a canvas: no position is committed before the end. After each step a position that
/// the commit rule accepts has its proposed token and every other one `refill(position, own) ->
/// token_id`, which also gives the first canvas (at step -1); when the sequence ends, each position
/// gets `conclude(own) -> token_id`.
template <class P>
concept renoising = part<P> && requires(const P& p, scope<P>& own) {
  { p.refill(index_t{}, own) } -> std::same_as<token_id>;
  { p.conclude(own) } -> std::same_as<token_id>;
};

/// A part that revisits and reads own.at.current_probability: the committed token is then tracked,
/// so that its probability is exact. Optional: `watches_current_now() -> bool`.
template <class P>
concept current_watching = revisiting<P> && requires {
  requires bool{P::watches_current};
};

/// Ends a sequence: `stop(sequence, own) -> ending`, called after the commits of every step.
template <class P>
concept stopping = part<P> && requires(const P& p, const sequence_view& q, scope<P>& own) {
  { p.stop(q, own) } -> std::same_as<ending>;
};

/// A schedule: `schedule(sequence, plan, own)` sets the ranges of the next forward pass,
/// plan::score, plan::forced and, with a cache, plan::feed. It may change sequence.block_length.
template <class P>
concept scheduling = part<P> && requires(const P& p, sequence_view& q, plan& n, scope<P>& own) {
  { p.schedule(q, n, own) } -> std::same_as<void>;
};

/// Lookahead (policy/lookahead.hpp): after each step it tries the `branches` masked positions of
/// highest `worth(candidate)`, one in each branch, and the next step continues with the branch
/// whose masked positions have the highest mean worth over the lowest `lowest_share` of them.
template <class P>
concept branching = part<P> && requires(const P& p, const detail::own_candidate<P>& c) {
  { p.branches } -> std::convertible_to<index_t>;
  { p.worth(c) } -> std::same_as<float>;
  { p.score_of_branch(0.0F, 0.0F) } -> std::same_as<float>;
};

/// A part with rules that the ranges of its knobs (core/knob.hpp) cannot express: `check(layout)`.
/// Errors: it throws std::invalid_argument that names argument, value and rule. Called on the host
/// when a sequence starts, after the check of the knobs and before any change.
template <class P>
concept checked = requires(const P& p, const layout& g) {
  p.check(g);
};

/// A part whose rules depend on the model: `check(layout, model_info)`.
template <class P>
concept checked_with_model = requires(const P& p, const layout& g, const model_info& m) {
  p.check(g, m);
};

/// A part that is incompatible with some others: `composed_with<Leaves>()` has a static_assert with
/// a sentence for each case; Leaves is the policy's leaf_list.
template <class P, class Leaves>
concept choosy = requires {
  P::template composed_with<Leaves>();
};

/// A schedule that scores several blocks at a time: `reach(layout)` returns the most positions.
template <class P>
concept reaching = requires(const P& p, const layout& g) {
  { p.reach(g) } -> std::same_as<index_t>;
};

/// A schedule that plans each lookahead branch separately: `replan(sequence, plan, own)`, called
/// with the branch's token in place, changes the plan of the anchor into the branch's. It may
/// change score.last, feed.last, last_block and forced, and keeps plan::score within the session's
/// window. It is called for every branch with a copy of its state, then once with its state for the
/// winning branch.
template <class P>
concept replanning = scheduling<P> &&
    requires(const P& p, sequence_view& q, plan& n, scope<P>& own) {
  { p.replan(q, n, own) } -> std::same_as<void>;
};

/// A commit rule that reads standing_in_run::run_rank; it declares `static constexpr bool
/// needs_runs = true`. Others are given a standing, which has no run_rank. Cost: O(length of the
/// run) a candidate.
template <class P>
concept run_aware = part<P> && detail::ranks_in_runs<P>;

}  // namespace unmask
