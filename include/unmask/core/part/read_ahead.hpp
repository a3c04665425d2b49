// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// A part that tracks positions before their block is decoded. If `reads_ahead() -> bool` is true,
/// the rows of all masked positions after the scored range are read, too, as far as the pass
/// computes them. They are processed like those of the scored range, with the numbers of the last
/// active block in context.at, and are not candidates. The window must then have room for the
/// answer.
template <class P>
concept reading_ahead = part<P> && requires(const P& p) {
  { p.reads_ahead() } -> std::same_as<bool>;
};

}  // namespace unmask
