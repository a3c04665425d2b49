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

}  // namespace unmask
