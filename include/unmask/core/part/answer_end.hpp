// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// A stopping part that determines where the answer ends: `answer_end(sequence) -> index_t`, one
/// past the last position of the answer within the committed prefix; `sequence.length` if nothing
/// there ends it. Called once, when the sequence has ended, whichever part ended it: the lowest
/// position of all parts is sequence_report::answer_end, at most the committed prefix.
template <class P>
concept delimiting = stopping<P> && requires(const P& p, const sequence_view& q) {
  { p.answer_end(q) } -> std::same_as<index_t>;
};

namespace detail {

// One past the first EOS token in the committed prefix that may end the answer; `length` if there
// is none.
[[nodiscard]] UNMASK_HD inline index_t end_at_eos(const sequence_view& q) {
  index_t p = q.prompt_length;
  while (p < q.committed_prefix && !q.ends_at(p)) {
    ++p;
  }
  return p < q.committed_prefix ? p + 1 : q.length;
}

// Where a part ends the answer; `length` for one that does not.
template <class P>
[[nodiscard]] UNMASK_HD index_t answer_end_of(const P& p, const sequence_view& q) {
  if constexpr (delimiting<P>) {
    return p.answer_end(q);
  } else {
    return q.length;
  }
}

}  // namespace detail

}  // namespace unmask
