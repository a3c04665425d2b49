// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/step/active.hpp>
#include <unmask/step/truncate.hpp>

namespace UNMASK_NAMESPACE::step {

/// Refuses soft tokens with a policy whose rows are not those of one whole sequence.
template <class Policy>
void check_soft_tokens(const Policy& policy, index_t count) {
  if (count == 0) {
    return;
  }
  const char* const why =
      branches_now(policy)
          ? "lookahead, drafts or a beam: the rows of a branch are of another sequence"
      : rewrites_blocks_now(policy)
          ? "a rule that rewrites blocks: the text moves after its rows were read"
      : truncates_now(policy) && truncation_of(policy).renormalises
          ? "confidence_after_truncation: its rows have no probabilities of the other tokens"
          : nullptr;
  if (why != nullptr) {
    unmask::detail::message()
        .add("start_options::soft_tokens does not combine with ")
        .add(why)
        .refuse();
  }
}

}  // namespace unmask::step
