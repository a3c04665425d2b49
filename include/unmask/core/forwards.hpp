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

/// Forward passes at the start of a sequence that may commit nothing: the most that an admission
/// declares.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_waits(const Policy& p, const layout& g) {
  if constexpr (I == Policy::leaf_total) {
    return 0;
  } else {
    const std::int64_t others = most_waits<I + 1>(p, g);
    if constexpr (leaf_admission<typename Policy::template leaf_type<I>>) {
      const std::int64_t own = extra_forwards_of(p.template part_at<I>(), g);
      return own > others ? own : others;
    } else {
      return others;
    }
  }
}

/// Tokens of a sequence that may be reopened beyond those that commits outnumber: what all parts
/// that revisit declare.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_reopened(const Policy& p, const layout& g) {
  if constexpr (I == Policy::leaf_total) {
    return 0;
  } else {
    const std::int64_t others = most_reopened<I + 1>(p, g);
    if constexpr (revisiting<typename Policy::template leaf_type<I>>) {
      return saturated_sum(others, extra_forwards_of(p.template part_at<I>(), g));
    } else {
      return others;
    }
  }
}

/// Passes that may commit nothing because of the schedule or the canvas.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_idle(const Policy& p, const layout& g) {
  if constexpr (I == Policy::leaf_total) {
    return 0;
  } else {
    using leaf = typename Policy::template leaf_type<I>;
    const std::int64_t others = most_idle<I + 1>(p, g);
    if constexpr (scheduling<leaf> || renoising<leaf>) {
      return saturated_sum(others, extra_forwards_of(p.template part_at<I>(), g));
    } else {
      return others;
    }
  }
}

}  // namespace detail

/// The most forward passes that a decode takes, whatever the logits: the positions of the answer,
/// and the most that an admission declares in `extra_forwards`, and the sums of what the revisiting
/// parts and of what schedule and canvas declare. Each pass settles at least one position more than
/// it opens, apart from those declared, so that a sequence that opens n of these positions takes n
/// passes and those declared. One that is not complete after the bound, because a schedule planned
/// passes without anything to decide, ends with ending::step_budget.
///
/// Does not hold with model_info::suppress_mask = false. INT64_MAX stands for everything above.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_forwards(const Policy& p, const layout& g) {
  const std::int64_t answer = std::int64_t{g.length} - g.prompt;
  return detail::saturated_sum(
      detail::saturated_sum(answer, detail::most_waits(p, g)),
      detail::saturated_sum(detail::most_reopened(p, g), detail::most_idle(p, g)));
}

}  // namespace unmask
