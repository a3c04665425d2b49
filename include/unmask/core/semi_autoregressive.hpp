// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes block after block, each until no position of it is masked: semi-autoregressive decoding.
/// The default schedule of a policy.
///
/// With `whole_prefix` a pass decides everything from the start of the answer to the end of the
/// block, so that parts that remask may do so left of it; the next block begins when no position up
/// to there is masked. The session's window must then hold the answer.
///
/// With `aligned` blocks begin at multiples of the block length, counted from position 0: the first
/// one contains the end of the prompt, and has fewer masked positions than the others. Released
/// code of such models decodes whole blocks: for the same decisions the sequence ends with one, and
/// what is right of the answer is not used.
///
/// Example: `tokens_per_step + semi_autoregressive`, rows a60 b70 c90 d80, blocks of 2: `_b__`
/// `ab__` `abc_` `abcd`.
/// Example: `tokens_per_step + semi_autoregressive(aligned=true)`, prompt x, rows a60 b70 c90,
/// blocks of 2: decides 1 2-3 2-3; `a__` `a_c` `abc`.
/// Source: S. Nie et al., Large language diffusion models (2025), section 2.4 and appendix B.
struct semi_autoregressive {
  bool whole_prefix = false;
  bool aligned = false;

  struct sequence_state {
    index_t block = 0;
  };

  static constexpr statistics required = stat::none;
  static constexpr bool decides_one_block = true;
  static constexpr part_label label{
      "semi_autoregressive", "one block after another, from left to right; the default schedule"};
  static constexpr knob<semi_autoregressive> knobs[] = {
      {"whole_prefix", &semi_autoregressive::whole_prefix},
      {"aligned", &semi_autoregressive::aligned}};

  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    const index_t answer = g.length - g.prompt_length;
    return whole_prefix ? answer : math::min(g.block_length, answer);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    if (aligned) {
      q.align_blocks();
    }
    index_t& b = context.sequence.block;
    const auto decided = [&] {
      return range{whole_prefix ? q.prompt_length : q.block(b).first, q.block(b).last};
    };
    while (b + 1 < q.blocks() && q.masked_in(decided()) == 0) {
      ++b;
    }
    next.score = decided();
    next.freeze = {0, next.score.first};
    next.first_block = b;
    next.last_block = b + 1;
    next.forced = 1;
  }
};
static_assert(scheduling<semi_autoregressive>);

}  // namespace unmask
