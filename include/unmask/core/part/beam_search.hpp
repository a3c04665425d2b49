// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Beam search over positions (policy/beam.hpp): a pass runs up to `width` states of the sequence,
/// its members. Each is decided from its own rows; where the commit rule commits nothing, it goes
/// on with each of its `width` best-ranked candidates. `score_of(candidate) -> float` is what a
/// token adds to the score of a member; the members of the highest scores stay.
template <class P>
concept beam_searching = part<P> && requires(const P& p, const detail::own_candidate<P>& c) {
  { p.width } -> std::convertible_to<index_t>;
  { p.score_of(c) } -> std::same_as<float>;
};

}  // namespace unmask
