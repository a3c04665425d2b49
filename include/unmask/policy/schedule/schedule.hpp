// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/part.hpp>
#include <unmask/core/sequential_blocks.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes the whole answer as one block, whatever layout::block_length says. The session's window
/// must hold the answer.
///
/// Source: J. Ye et al., Dream 7B (2025), which decodes without blocks.
struct whole_sequence {
  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "whole_sequence", "whole_sequence", "the whole answer as one block"};

  [[nodiscard]] index_t reach(const layout& g) const { return g.length - g.prompt; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    q.block_length = q.length - q.prompt;
    next.score = {q.prompt, q.length};
    next.first_block = 0;
    next.last_block = 1;
    next.forced = 1;
  }
};
static_assert(scheduling<whole_sequence>);

}  // namespace unmask
