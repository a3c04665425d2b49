// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Drafts (policy/drafts.hpp): after each step up to `branches` states that later steps may reach,
/// each with `tokens` more of the best-ranked candidates than the one before it, are run beside the
/// sequence; a step whose commits lead to one of them is followed by the next step at once, from
/// the rows of that state. With `partial` a step commits no more than the largest draft of which it
/// commits every token.
template <class P>
concept drafting = part<P> && requires(const P& p) {
  { p.branches } -> std::convertible_to<index_t>;
  { p.tokens } -> std::convertible_to<index_t>;
  { p.partial } -> std::convertible_to<bool>;
};

}  // namespace unmask
