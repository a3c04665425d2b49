// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes block after block, each until no position of it is masked: semi-autoregressive decoding.
/// The default schedule of a policy.
///
/// Example: `tokens_per_step + semi_autoregressive`, rows a60 b70 c90 d80, blocks of 2: `_b__`
/// `ab__` `abc_` `abcd`.
/// Source: S. Nie et al., Large language diffusion models (2025), section 2.4 and appendix B.
struct semi_autoregressive {
  struct sequence_state {
    index_t block = 0;
  };

  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "semi_autoregressive", "one block after another, from left to right; the default schedule"};

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    index_t& b = context.sequence.block;
    while (b + 1 < q.blocks() && q.masked_in(q.block(b)) == 0) {
      ++b;
    }
    next.score = q.block(b);
    next.freeze = {0, next.score.first};
    next.first_block = b;
    next.last_block = b + 1;
    next.forced = 1;
  }
};
static_assert(scheduling<semi_autoregressive>);

}  // namespace unmask
