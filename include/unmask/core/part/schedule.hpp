// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

#include <cstdint>

/// Functions of a schedule about its passes, and the bound on the forward passes of a decode.
namespace UNMASK_NAMESPACE {

/// Part that may need more forward passes than one for each masked position, and declares the
/// maximum of the additional ones: `extra_forwards(sequence_shape) -> std::int64_t`, on host and
/// device. Without this function: 0.
///
/// The step enforces the declared number n, whatever the part does. A commit rule: the first n
/// passes of a sequence may commit nothing; every later pass commits. A part that edits tokens: n
/// tokens of a sequence may be remasked in steps that do not commit more than they remask. A
/// schedule or a canvas: n passes may commit nothing; a schedule that sets plan::end itself, or one
/// that never commits, has to declare them.
template <class P>
concept extending = part<P> && requires(const P& p, const sequence_shape& g) {
  { p.extra_forwards(g) } -> std::convertible_to<std::int64_t>;
};

/// A schedule that decides itself when the sequence is complete, by setting plan::end: for released
/// code that runs forward passes on complete blocks or leaves masks. It has
/// `extra_forwards`.
template <class P>
concept pacing = scheduling<P> && requires {
  requires bool { P::paces };
};

namespace detail {

inline constexpr std::int64_t no_bound = INT64_MAX;

[[nodiscard]] UNMASK_HD constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return b > no_bound - a ? no_bound : a + b;
}

template <class P>
[[nodiscard]] UNMASK_HD std::int64_t extra_forwards_of(const P& p, const sequence_shape& g) {
  if constexpr (extending<P>) {
    const std::int64_t declared = p.extra_forwards(g);
    return declared > 0 ? declared : 0;
  } else {
    static_cast<void>(p);
    static_cast<void>(g);
    return 0;
  }
}

/// Number of blocks of an answer; with `aligned` of blocks that begin at multiples of their length.
[[nodiscard]] UNMASK_HD constexpr std::int64_t blocks_of(const sequence_shape& g,
                                                         bool aligned = false) {
  const index_t in_prompt = aligned ? g.prompt_length % g.block_length : 0;
  const std::int64_t all = std::int64_t{g.length} - g.prompt_length + in_prompt;
  return (all + g.block_length - 1) / g.block_length;
}

}  // namespace detail

/// A schedule that finds the end of a block in the rows of its first pass: `block_end(sequence,
/// plan, context) -> index_t` is called after the step reduction, which it reads from
/// `context.step_reduction`, and may write `context.sequence`. The step decides [plan.score.first,
/// the result) as if the shorter range had been planned; a result at or after plan.score.last, or
/// not after plan.score.first, changes nothing. plan.score.first must be masked: a layer rule that
/// skips positions computes it, so that every step commits. A part that only ends blocks with some
/// values of its knobs has `ends_blocks_now() -> bool`.
/// Cost: a step that is shortened ranks and reduces its candidates twice.
template <class P>
concept block_ending =
    part<P> &&
    requires(const P& p, const sequence_view& q, const plan& now, part_context<P>& context) {
      { p.block_end(q, now, context) } -> std::same_as<index_t>;
    };

/// A part that tracks positions before their block is decoded. If `reads_ahead() -> bool` is true,
/// the rows of all masked positions after the scored range are also read, as far as the pass
/// computes them. They are processed like the rows of the scored range, with the numbers of the
/// last active block in context.at, and are not candidates. The window must then have room for the
/// answer.
template <class P>
concept reading_ahead = part<P> && requires(const P& p) {
  { p.reads_ahead() } -> std::same_as<bool>;
};

/// A schedule whose passes alternate between drafts and checks, by plan::kind. The tokens that
/// a pass of pass_kind::drafting commits are drafts: positions from the first of its scored
/// range on are not part of the committed prefix, so nothing stops at them. A pass of
/// pass_kind::checking has no commit rule: `accepts(candidate, context) -> bool` says of each
/// committed position of the scored range, in parallel, whether its token `candidate.current`
/// stays, given the proposed `candidate.token`. At the first that does not, or that is
/// masked, the proposed token is written, and every position right of it is masked again. A row of
/// NaN proposes the token that it commits elsewhere.
///
/// The masked tokens are not charged: `extra_forwards` must cover drafts that are not accepted.
/// With `static constexpr bool tracks_current = true`, context.at.current_probability is the
/// probability of candidate.current.
template <class P>
concept verifying =
    scheduling<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, part_context<P>& context) {
      { p.accepts(c, context) } -> std::same_as<bool>;
    };

}  // namespace unmask
