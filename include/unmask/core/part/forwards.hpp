// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

#include <cstdint>

/// The bound on the forward passes of a decode.
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

/// Number of blocks of an answer.
[[nodiscard]] UNMASK_HD constexpr std::int64_t blocks_of(const sequence_shape& g) {
  const std::int64_t answer = std::int64_t{g.length} - g.prompt_length;
  return (answer + g.block_length - 1) / g.block_length;
}

}  // namespace detail

}  // namespace unmask
