// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Commits more tokens in each step of a block, as more of them are known: the best-ranked
///
///     floor(first growth^s)
///
/// in step s = 0, 1, ... of the block. With the defaults a block of n positions takes about log2 n
/// steps. With several blocks in a step each has its own number, of all ranks.
///
/// Range: first >= 1 and growth >= 1, finite; growth = 1 is tokens_per_step(first).
/// Ties: as the ranking.
/// Cost: O(1) a candidate, no state.
/// Example: `ascending_step_size`, rows a90 b80 c70 d60: `a___` `abc_` `abcd`.
/// Source: the ascending step size (ASS) of Yang et al., Taming masked diffusion language models
/// via consistency trajectory reinforcement learning with fewer decoding steps (2025): steps that
/// double. It was not compared with released code. Its early rejection of EOS tokens (EOSER) is a
/// penalty that falls: eos_penalty(falls_over=...).
struct ascending_step_size {
  float first = 1.0F;
  float growth = 2.0F;

  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "ascending_step_size",
      "commits growth times the tokens of the step before, in each step of a block"};
  static constexpr knob<ascending_step_size> knobs[] = {
      {"first", &ascending_step_size::first, at_least(1).finite()},
      {"growth", &ascending_step_size::growth, at_least(1).finite()}};

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    const float wanted = static_cast<float>(s.rank) + 1.0F;
    float count = first;
    bool grows = growth > 1.0F;
    for (index_t k = 0; k < context.at.block_step && grows && count < wanted; ++k) {
      const float next = math::product(count, growth);
      grows = next > count;  // not from infinity
      count = next;
    }
    return wanted <= count;
  }
};
static_assert(commit_rule<ascending_step_size>);

}  // namespace unmask
