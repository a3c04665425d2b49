// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// A part that remasks the least certain tokens. After the commit rule, of the committed positions
/// of the scored range and those that the step is about to commit, the `remask_count(context)` with
/// the lowest `remask_score(candidate, context)` are masked: a committed one again, one of the step
/// still. Ties: the lower position first; NaN is never remasked. `context.at` of remask_count is
/// that of the first scored position, with the number of tokens that the step commits as `commits`;
/// remask_score is called in parallel, reads the kept state of
/// a committed position, and with `static constexpr bool tracks_current = true` its
/// context.at.current_probability. Committed positions of the range are read.
///
/// A step may remask as many tokens as it commits while its commit rule may wait (extra_forwards),
/// one fewer later, and what the steps before it could have remasked and did not: counted from the
/// first, each pass gains a token. Each sequence may remask `extra_remasks(sequence_shape) ->
/// std::int64_t` more. With `goes_on(sequence, context) -> bool` a sequence without a masked
/// position is not complete as long as the result is true. A part that only remasks with some
/// values of its knobs has `edits_tokens_now() -> bool`. Cost: a sort of the scored range in each
/// step that remasks.
template <class P>
concept remasking_least = part<P> && requires(const P& p,
                                              const detail::own_candidate<P>& c,
                                              part_context<P>& context,
                                              const sequence_shape& g) {
  { p.remask_count(context) } -> std::same_as<index_t>;
  { p.remask_score(c, context) } -> std::same_as<float>;
  { p.extra_remasks(g) } -> std::convertible_to<std::int64_t>;
};

/// A part whose sequence goes on without masked positions.
template <class P>
concept going_on =
    remasking_least<P> && requires(const P& p, const sequence_view& q, part_context<P>& context) {
      { p.goes_on(q, context) } -> std::same_as<bool>;
    };

}  // namespace unmask
