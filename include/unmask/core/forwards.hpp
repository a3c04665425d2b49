// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

#include <cstdint>

/// The bound on the forward passes of a decode.
namespace UNMASK_NAMESPACE {

/// Part that may take more forward passes than one for each open position, and says how many more
/// at most: `extra_forwards(layout) -> std::int64_t`, on host and device. A part without it: 0.
///
/// The step enforces what is declared, whatever the part does. An admission: the first so many
/// passes of a sequence may commit nothing; after them every pass does. A part that revisits: so
/// many tokens of a sequence are reopened although their step does not commit more than it reopens.
/// A schedule or a canvas: so many passes that commit nothing; one that paces itself, or never
/// settles, has to declare them.
template <class P>
concept extending = part<P> && requires(const P& p, const layout& g) {
  { p.extra_forwards(g) } -> std::convertible_to<std::int64_t>;
};

/// A schedule that decides itself when the sequence is complete, by setting plan::end: for released
/// code that runs forwards on full blocks or leaves masks behind. It declares `extra_forwards`.
template <class P>
concept pacing = scheduling<P> && requires {
  requires bool{P::paces};
};

namespace detail {

inline constexpr std::int64_t no_bound = INT64_MAX;

[[nodiscard]] UNMASK_HD constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return b > no_bound - a ? no_bound : a + b;
}

template <class P>
[[nodiscard]] UNMASK_HD std::int64_t extra_forwards_of(const P& p, const layout& g) {
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
[[nodiscard]] UNMASK_HD constexpr std::int64_t blocks_of(const layout& g) {
  const std::int64_t answer = std::int64_t{g.length} - g.prompt;
  return (answer + g.block_length - 1) / g.block_length;
}

}  // namespace detail

}  // namespace unmask
