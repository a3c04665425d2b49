// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/semi_autoregressive.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes the whole answer as one block, whatever sequence_shape::block_length says. The session's
/// window must hold the answer.
///
/// Example: `tokens_per_step + single_block`, rows a60 b70 c90 d80, blocks of 2: `__c_` `__cd`
/// `_bcd` `abcd`.
/// Source: J. Ye et al., Dream 7B (2025), which decodes without blocks.
struct single_block {
  static constexpr statistics required = stat::none;
  static constexpr bool decides_one_block = true;
  static constexpr part_label label{"single_block", "the whole answer is one block"};

  [[nodiscard]] index_t reach(const sequence_shape& g) const { return g.length - g.prompt_length; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    q.block_length = q.length - q.prompt_length;
    next.score = {q.prompt_length, q.length};
    next.last_block = 1;
    next.forced = 1;
  }
};
static_assert(scheduling<single_block>);

}  // namespace unmask
