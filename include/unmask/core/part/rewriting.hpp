// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

/// Parts that rewrite tokens which are committed.
namespace UNMASK_NAMESPACE {

/// A part that remasks the least certain tokens. After the commit rule, of the committed positions
/// of the scored range and those that the step is about to commit, the `remask_count(context)` with
/// the lowest `remask_score(candidate, context)` are masked: a committed one again, one of the step
/// still. Ties: the lower position first; NaN is never remasked. remask_count gets `context.at` of
/// the first scored position, with the number of tokens that the step commits as `commits`;
/// remask_score is called in parallel, reads the kept state of a committed position, and with
/// `static constexpr bool tracks_current = true` its context.at.current_probability. Committed
/// positions of the range are read.
///
/// A step may remask the number of tokens that it commits while its commit rule may wait
/// (extra_forwards), one fewer later, and what the steps before it could have remasked and did not:
/// counted from the first, each pass gains a token. Each sequence may remask
/// `extra_remasks(sequence_shape) -> std::int64_t` more. With `goes_on(sequence, context) -> bool`
/// a sequence without a masked position is not complete as long as the result is true. A part that
/// only remasks with some values of its knobs has `edits_tokens_now() -> bool`. Cost: a sort of the
/// scored range in each step that remasks.
template <class P>
concept remasking_least = part<P> && requires(const P& p,
                                              const detail::own_candidate<P>& c,
                                              part_context<P>& context,
                                              const sequence_shape& g) {
  { p.remask_count(context) } -> std::same_as<index_t>;
  { p.remask_score(c, context) } -> std::same_as<float>;
  { p.extra_remasks(g) } -> std::convertible_to<std::int64_t>;
};

/// A part whose sequence continues without masked positions.
template <class P>
concept going_on =
    remasking_least<P> && requires(const P& p, const sequence_view& q, part_context<P>& context) {
      { p.goes_on(q, context) } -> std::same_as<bool>;
    };

/// A part that looks at some committed tokens again without them. After the commit rule of a step,
/// the `hide_count(context)` committed positions of the scored range with the lowest
/// `hide_score(candidate, context)` are hidden: in the next pass, of pass_kind::hiding, the engine
/// finds the mask token there, and where the step has just committed. The rows of those that were
/// committed before are read, the tokens are put back, and of these positions the
/// `reconsider_count(context)` with the lowest `reconsider_score(candidate, context)` take the
/// proposed token, where candidate.current is the token that was hidden and
/// context.at.current_probability its probability. Ties: the lower position; NaN is neither hidden
/// nor replaced. A step that hides nothing has no such pass.
///
/// With `redecides()` a step in which a token was replaced decides again about its commits, in one
/// more pass. context.at.block_step counts neither pass. Counts are asked once for the scored
/// range, scores in parallel. `extra_checks(sequence_shape) -> std::int64_t` is the largest number
/// of both passes. A sequence that is cancelled in such a pass keeps the masks, and its
/// sequence_report::answer_end is at most the start of the scored range.
/// Cost: two sorts of the scored range in each step that hides; 8 bytes a position of the window.
template <class P>
concept reconsidering = part<P> && requires(const P& p,
                                            const detail::own_candidate<P>& c,
                                            part_context<P>& context,
                                            const sequence_shape& g) {
  { p.hide_count(context) } -> std::same_as<index_t>;
  { p.hide_score(c, context) } -> std::same_as<float>;
  { p.reconsider_count(context) } -> std::same_as<index_t>;
  { p.reconsider_score(c, context) } -> std::same_as<float>;
  { p.redecides() } -> std::same_as<bool>;
  { p.extra_checks(g) } -> std::convertible_to<std::int64_t>;
};

namespace detail {

struct rows_of_block {};  // instead of step::block_rows

}  // namespace detail

/// A rule that rewrites the scored block as a whole, and may move text in it: `rewrite_block(rows,
/// context)` is called once a step, by one thread, instead of the commit rule. It sees every
/// position of the scored range, masked or committed, and its row, and says what is written there.
/// Declared by `static constexpr bool rewrites_blocks = true`, in a part that also has `schedule`,
/// `track` and `commits`, which returns false. `context.at` concerns the first position.
///
/// `rows` (step::block_rows) has, for i in [0, rows.size()) from the left:
///
///  - `is_masked(i)`, `is_committed(i)`, `is_inserted(i)`: a fixed position is neither masked nor
///    committed; an inserted one was not there when the sequence began;
///  - `token(i)`: the present token, `mask_token()` at a masked position;
///  - `best(i)`, `best(i, skips)`: the most probable token of the row, or of those tokens for which
///    `skips(token)` is false; it may skip tokens that `track` named; `token` is no_token if none is
///    left. `probability` is that in the whole row. Ties: the lower token;
///  - `write(i, token, probability)`: the position gets this token; the mask token masks it again;
///  - `erase(i)`: the position is removed, the text right of it moves left;
///  - `insert(i, count = 1)`: masked positions are put before it, the text right of it moves right;
///  - `most()`: the size that the range may have, `resize(size)`: that which it gets, for a range
///    that ends with the sequence; `append(count, token)`: `count` positions more after that, masked
///    ones or committed ones with a token. The sequence is then longer or shorter.
///
/// Positions without a call stay as they are. After the writes the block is put together from left
/// to right and cut at its end; positions that become free there are masked. Everything that
/// belongs to a position moves with its token (step::move_position).
///
/// A start with a fixed position in the answer is refused, because text that moves could not leave
/// it where it is; not with `moves_text() -> bool` that returns false, for a value of the part that
/// only writes.
///
/// With `begin_length(sequence_shape) -> index_t` the sequence begins with this number of
/// positions, prompt included; it may have up to sequence_shape::length. Every decode has to end: a
/// part says how many passes it takes in extra_forwards(sequence_shape).
template <class P>
concept block_rewriting =
    part<P> && requires(const P& p, detail::rows_of_block& rows, part_context<P>& context) {
      requires bool { P::rewrites_blocks };
      { p.rewrite_block(rows, context) } -> std::same_as<void>;
    };

namespace detail {

// Whether a rule moves text.
template <class P>
[[nodiscard]] bool moves_text(const P& p) {
  if constexpr (requires { p.moves_text(); }) {
    return p.moves_text();
  } else {
    return block_rewriting<P>;
  }
}

}  // namespace detail

/// Such a rule whose sequences begin shorter than they may become.
template <class P>
concept growing = block_rewriting<P> && requires(const P& p, const sequence_shape& g) {
  { p.begin_length(g) } -> std::same_as<index_t>;
};

}  // namespace unmask
