// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

/// Parts that run several states of a sequence in a pass.
namespace UNMASK_NAMESPACE {

/// Drafts (policy/drafts.hpp): after each step up to `branches` states that later steps may reach,
/// each with `tokens` more of the best-ranked candidates than the one before it, are run beside the
/// sequence; a step whose commits lead to one of them is followed by the next step at once, from
/// the rows of that state. With `partial` a step commits no more than the largest draft that it
/// would commit completely.
template <class P>
concept drafting = part<P> && requires(const P& p) {
  { p.branches } -> std::convertible_to<index_t>;
  { p.tokens } -> std::convertible_to<index_t>;
  { p.partial } -> std::convertible_to<bool>;
};

/// Beam search over positions (policy/beam.hpp): a pass runs up to `width` states of the sequence,
/// its members. Each is decided from its own rows; if the commit rule commits nothing, it continues
/// with each of its `width` best-ranked candidates. `score_of(candidate) -> float` is what a token
/// adds to the score of a member; the members of the highest scores stay.
template <class P>
concept beam_searching = part<P> && requires(const P& p, const detail::own_candidate<P>& c) {
  { p.width } -> std::convertible_to<index_t>;
  { p.score_of(c) } -> std::same_as<float>;
};

}  // namespace unmask
