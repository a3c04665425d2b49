// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/held_list.hpp>
#include <unmask/core/record.hpp>
#include <unmask/core/sequence_view.hpp>
#include <unmask/core/standing.hpp>
#include <unmask/core/watch_list.hpp>

#include <concepts>
#include <type_traits>

/// A policy is a product of parts. A part is a trivially copyable value that takes part in one or
/// more stages of a step by having the stage's function; the concepts below name the stages. A
/// function with a name that no stage has is the part's own: core/part_check.hpp says what is found.
namespace UNMASK_NAMESPACE {

/// Stands for state that a part does not have.
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
/// is the start state; the session alone resets it: at the start, and when the position commits or
/// is reopened.
template <class P>
using position_state_of = typename detail::position_state<P>::type;

/// State that part P keeps for each sequence.
template <class P>
using sequence_state_of = typename detail::sequence_state<P>::type;

/// What part P folds over the candidates of a step before any of them is admitted.
template <class P>
using tally_of = typename detail::tally<P>::type;

/// What a part's functions get as their last argument: its own state and the step they are in.
/// What is about one position is called for all at once, in any order, and writes `state` alone;
/// `sequence` may be written by stop(), schedule(), replan(), and revisit(), in position order.
template <class P>
struct scope {
  position_state_of<P>& state;
  sequence_state_of<P>& sequence;
  const tally_of<P>& tally;
  const step_info& at;
};

/// The candidates of this step directly left and right of one; an invalid record stands for none.
template <statistics S>
struct neighbours {
  candidate<S> left;
  candidate<S> right;
};

namespace detail {

// A candidate with every statistic and a scope to ask a part which functions it has. What a part
// may really read is checked when its function is compiled with its own declared statistics.
template <class P>
using own_candidate = candidate<P::required>;

// What a revising part may do with a row; declared only. The real one is stats/row.hpp.
template <statistics S>
struct row_archetype {
  [[nodiscard]] UNMASK_HD record<S> total() const;
  [[nodiscard]] UNMASK_HD float logit(token_id token) const;
  [[nodiscard]] UNMASK_HD bool watches(token_id token) const;
  UNMASK_HD void add(token_id token, float delta);
  UNMASK_HD void keep_only(const auto* tokens, index_t count);
};

}  // namespace detail

/// A trivially copyable value that declares the statistics it reads.
template <class P>
concept part = std::is_trivially_copyable_v<P> && std::is_class_v<P> && requires {
  { P::required } -> std::convertible_to<statistics>;
};

/// Orders candidates: the higher score commits earlier. A NaN score comes last.
template <class P>
concept ranking = part<P> &&(
    requires(const P& p, const detail::own_candidate<P>& c) {
      { p.score(c) } -> std::same_as<float>;
    } ||
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
      { p.score(c, own) } -> std::same_as<float>;
    });

/// A ranking whose scores fall as the confidence does says so with `static constexpr bool
/// orders_by_confidence = true`: some rules hold along such an order only.
template <class P>
concept ordering_by_confidence = ranking<P> && requires {
  requires bool{P::orders_by_confidence};
};

namespace detail {

template <class P>
inline constexpr bool ranks_in_runs = false;
template <class P>
  requires(P::needs_runs)
inline constexpr bool ranks_in_runs<P> = true;

template <class P>
using standing_for = std::conditional_t<ranks_in_runs<P>, standing_in_run, standing>;

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

/// Says which candidates commit in this step. Joined by `&&` and `||`, or all_of and any_of.
template <class P>
concept admission = detail::leaf_admission<P> || detail::is_composite<P>::value;

/// Changes a logit while its row is read: `edit(logit, token) -> float`, or `edit(logit, token,
/// at)` with the step it is read in (no block). A part of which only some values edit says with
/// `edits_now() -> bool` whether this one does: rows that nothing edits are read where they are.
template <class P>
concept logit_edit = part<P> &&(
    requires(const P& p, float z, token_id v) {
      { p.edit(z, v) } -> std::same_as<float>;
    } ||
    requires(const P& p, float z, token_id v, const step_info& at) {
      { p.edit(z, v, at) } -> std::same_as<float>;
    });

/// Draws the proposed token at random instead of taking the best one: reads stat::sampled, and
/// `draw_temperature()` > 0 says from which distribution.
template <class P>
concept drawing = part<P> && requires(const P& p) {
  { p.draw_temperature() } -> std::same_as<float>;
};

/// Keeps only the most probable tokens of a row: reads stat::kept, and `kept() -> truncation` says
/// which. Several parts keep what all of them keep.
template <class P>
concept truncating = part<P> && requires(const P& p) {
  { p.kept() } -> std::same_as<truncation>;
};

/// Names the tokens whose logits the part will ask for or edit after the read: `watch(list, own)`
/// calls list.add(token) for at most `watches` different tokens, once for each open position.
template <class P>
concept watching = part<P> && requires(const P& p, watch_list& list, scope<P>& own) {
  { P::watches } -> std::convertible_to<index_t>;
  { p.watch(list, own) } -> std::same_as<void>;
};

/// Edits a row after its read, and keeps state: `revise(row, own)`, once for each open position of
/// the scored range whose row is valid, in written order of the parts. `row` offers total(), the
/// record with the edits so far, and to a part that says `watches` (0 if it names none): logit(token)
/// of a watched token; add(token, delta), which edits a watched token or raises the best one;
/// keep_only(tokens, count), which takes all others out. A delta that is a product should be a
/// math::product, or the compiler may join it with the logit.
template <class P>
concept revision = part<P> &&
    requires(const P& p, detail::row_archetype<P::required>& row, scope<P>& own) {
  { p.revise(row, own) } -> std::same_as<void>;
};

/// Takes tokens out of rows and says which stay: `allows(token, at) -> bool`. Asked only about rows
/// with a NaN, an infinite best or nothing finite, which no part revises: what they commit is the
/// best token that all parts allow or, without one, the lowest.
template <class P>
concept restricting = part<P> && requires(const P& p, token_id v, const step_info& at) {
  { p.allows(v, at) } -> std::same_as<bool>;
};

/// Asks how probable some tokens are: `inquire(row, own, out) -> index_t` writes at most
/// `inquiries` answers for an open position, in its turn among the revising parts, and says how
/// many. The library fills in slot, position and step; session::probabilities() has them after the
/// step.
template <class P>
concept inquiring = part<P> && requires(const P& p,
                                        detail::row_archetype<P::required>& row,
                                        scope<P>& own,
                                        token_probability* out) {
  { P::inquiries } -> std::convertible_to<index_t>;
  { p.inquire(row, own, out) } -> std::same_as<index_t>;
};

/// A watching or revising part whose edit depends on the tokens around a position, which it reads
/// from `own.at.view` both times. The tokens that lookahead places between the two calls are then
/// watched at every position, too, so that the edit is exact in every branch. A part of
/// which only some values do so says with `reads_sequence_now() -> bool` whether this one does.
template <class P>
concept sequence_reading = part<P> && requires {
  requires bool{P::reads_sequence};
};

/// A watching or revising part that has its turn at settled positions, too, where those are read
/// for a revisiting part: an edit of the row that keeps no state at the position.
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

/// Puts candidates behind the others for this step, whatever their statistics: `delays(candidate,
/// own)` or `delays(candidate, neighbours, own)`. The strictest of several parts decides. Lookahead
/// tries no delayed candidate.
template <class P>
concept delaying = part<P> &&(detail::delaying_beside<P> || detail::delaying_alone<P>);

/// Folds something over all candidates before any is admitted: `survey(candidate, own) -> tally`,
/// merged in position order by `tally::merge`; admits() then reads `own.tally`.
template <class P>
concept surveying = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own, tally_of<P>& sum) {
  typename P::tally;
  { p.survey(c, own) } -> std::same_as<typename P::tally>;
  sum.merge(sum);
};

/// What to do with a settled position.
enum class verdict : std::uint8_t {
  keep,
  replace,  ///< write the proposed token over the settled one; never the mask token
  reopen    ///< put the mask token back
};

/// Looks again at settled positions of the scored range: `revisit(candidate, own) -> verdict`,
/// where candidate.current is the settled token. Their rows are read, too. Only a policy with such
/// a part ever rewrites a settled token. Called in position order, by one lane. A step reopens fewer
/// tokens than it commits, whatever the parts want, and beyond that as many in a sequence as they
/// declare in `extra_forwards` (core/forwards.hpp); see step_info::may_reopen.
/// A part of which only some values revisit says with `revisits_now() -> bool` whether this one
/// does: settled positions are not read for it otherwise.
template <class P>
concept revisiting = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
  { p.revisit(c, own) } -> std::same_as<verdict>;
};

/// Lets settled positions of the scored range compete again: `remasks(candidate, own) -> bool`. One
/// that does is ranked and admitted together with the open ones, in the same step; admitted, it
/// takes its proposed token, otherwise the mask token comes back. So that every step settles more
/// than it opens, at least one candidate more than there are such positions is admitted.
template <class P>
concept remasking = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own) {
  { p.remasks(c, own) } -> std::same_as<bool>;
};

/// Decides on a canvas: no position settles before the end. After each step an admitted position
/// holds its proposed token and every other one `refill(position, own) -> token_id`, which also
/// gives the first canvas (at step -1); when the sequence ends, each position gets `conclude(own)
/// -> token_id`.
template <class P>
concept renoising = part<P> && requires(const P& p, scope<P>& own) {
  { p.refill(index_t{}, own) } -> std::same_as<token_id>;
  { p.conclude(own) } -> std::same_as<token_id>;
};

/// A revisiting part that reads own.at.current_probability: the settled token is watched then,
/// which makes its probability exact. `watches_current_now() -> bool` as reads_sequence_now().
template <class P>
concept current_watching = revisiting<P> && requires {
  requires bool{P::watches_current};
};

/// Ends a sequence: `stop(sequence, own) -> ending`, asked after the commits of every step.
template <class P>
concept stopping = part<P> && requires(const P& p, const sequence_view& q, scope<P>& own) {
  { p.stop(q, own) } -> std::same_as<ending>;
};

/// Chooses what the next forward pass is about: `schedule(sequence, plan, own)` sets plan::score,
/// plan::forced and, with a cache, plan::feed. May narrow or widen sequence.block_length.
template <class P>
concept scheduling = part<P> && requires(const P& p, sequence_view& q, plan& n, scope<P>& own) {
  { p.schedule(q, n, own) } -> std::same_as<void>;
};

/// Looks ahead: after each step the `branches` open positions of highest `worth(candidate)` are
/// tried, one in each branch, and the next step goes on with the branch whose open positions are
/// worth most on average over the lowest `lowest_share` of them. See policy/lookahead.hpp.
template <class P>
concept branching = part<P> && requires(const P& p, const detail::own_candidate<P>& c) {
  { p.branches } -> std::convertible_to<index_t>;
  { p.worth(c) } -> std::same_as<float>;
  { p.score_of_branch(0.0F, 0.0F) } -> std::same_as<float>;
};

/// A part with rules that the ranges of its knobs (core/knob.hpp) do not say: `check(layout)` throws
/// std::invalid_argument that names the argument, its value and the rule. Called on the host when a
/// sequence starts, behind the check of the knobs and before any change.
template <class P>
concept checked = requires(const P& p, const layout& g) {
  p.check(g);
};

/// A part whose knobs, or the part itself, do not go with every model: `check(layout, model_info)`.
template <class P>
concept checked_with_model = requires(const P& p, const layout& g, const model_info& m) {
  p.check(g, m);
};

/// A part that does not go with every other says so: `composed_with<Leaves>()` holds static_asserts
/// with a sentence each, where Leaves is the policy's leaf_list.
template <class P, class Leaves>
concept choosy = requires {
  P::template composed_with<Leaves>();
};

/// A schedule that scores more than one block at a time says how many positions: `reach(layout)`.
template <class P>
concept reaching = requires(const P& p, const layout& g) {
  { p.reach(g) } -> std::same_as<index_t>;
};

/// A schedule that plans each lookahead branch on its own: `replan(sequence, plan, own)`, called
/// with a branch's token in its place, turns the plan made for the anchor into the branch's. It may
/// change score.last, feed.last, last_block and forced, and keep plan::score within the session's
/// window. It is asked about every branch with a copy of its state, then once with its state for
/// the one that won.
template <class P>
concept replanning = scheduling<P> &&
    requires(const P& p, sequence_view& q, plan& n, scope<P>& own) {
  { p.replan(q, n, own) } -> std::same_as<void>;
};

/// An admission that reads standing_in_run::run_rank says so with `static constexpr bool needs_runs
/// = true`: others are given a standing, which has no run_rank. O(length of the run) a candidate.
template <class P>
concept run_aware = part<P> && detail::ranks_in_runs<P>;

}  // namespace unmask
