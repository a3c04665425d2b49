// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// A part that follows positions before their block is decoded: `reads_ahead() -> bool` says that
/// the rows of all open positions behind the scored range are read, too, as far as the pass runs
/// them. They are revised like those of the scored range, with the numbers of the last active
/// block in own.at, and are no candidates. The window must then hold the answer.
template <class P>
concept reading_ahead = part<P> && requires(const P& p) {
  { p.reads_ahead() } -> std::same_as<bool>;
};

namespace detail {

// True when a part of the policy wants the rows behind the scored range.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD constexpr bool reads_ahead([[maybe_unused]] const Policy& p) {
  if constexpr (I == Policy::leaf_total || !Policy::reads_ahead) {
    return false;
  } else if constexpr (reading_ahead<typename Policy::template leaf_type<I>>) {
    return p.template part_at<I>().reads_ahead() || reads_ahead<I + 1>(p);
  } else {
    return reads_ahead<I + 1>(p);
  }
}

}  // namespace detail

}  // namespace unmask
