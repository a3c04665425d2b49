// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>

/// Early skipping as released with ES-dLLM for LLaDA: its bonuses and its floor, which the paper
/// does not have, its refresh schedule and its loop.
///
/// Source: zhuzj19/ES-dLLM 3c5151d, `skip_in_hidden_state` and `get_importance_score` of
/// `early_skipping.py`, `batch_generate` and `sample_tokens_LLaDA` of `generate.py`.
namespace UNMASK_NAMESPACE::released {

/// early_skip with the additions of the released code: a cap on the change, a floor under the
/// number kept, +2 for the two most confident positions, +5 for the leftmost masked one, +3 for
/// those just committed. Every bonus outweighs the rest of the importance, which lies in [0, 1].
template <feature Indicator = feature::hidden>
[[nodiscard]] constexpr auto early_skip_released(float weight = 0.5F) {
  basic_early_skip<Indicator> rule;
  rule.weight = weight;
  rule.floor = true;
  rule.cap = true;
  rule.first_masked = 5.0F;
  rule.committed = 3.0F;
  rule.confident = 2.0F;
  rule.forgets_held = true;
  return rule;
}

/// Block after block, each for at most one forward pass per position: positions that are masked
/// then stay masked. Source: `batch_generate`.
struct es_dllm_blocks {
  struct sequence_state {
    index_t block = 0;
    index_t opened = 0;  ///< the step in which the block was first scored
  };
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  /// The last block may be short.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return g.block_length;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    while (s.block < q.blocks() &&
           (q.masked_in(q.block(s.block)) == 0 || q.step - s.opened >= q.block_length)) {
      ++s.block;
      s.opened = q.step;
    }
    if (s.block >= q.blocks()) {
      next.end = ended(q);
      return;
    }
    score_one_block(q, next, q.block(s.block));
  }
};
static_assert(scheduling<es_dllm_blocks> && pacing<es_dllm_blocks>);

/// Refresh schedule of the release. Source: `prompt_update_freq` and `block_update_freq` of
/// `batch_generate`.
[[nodiscard]] constexpr block_cache es_dllm_cache(index_t prompt_period, index_t block_period) {
  return {.prompt_period = prompt_period,
          .block_period = block_period,
          .reaches_back = true,
          .aligned = true};
}

/// ES-dLLM's parallel mode: commits every kept position above the threshold, or else the best one.
/// An EOS token is rejected while its left neighbour is masked until the answer has an EOS token,
/// `delay_eos_generation` of `config.py`.
[[nodiscard]] constexpr auto es_dllm_parallel(float threshold,
                                              const early_skip& skip = early_skip_released(),
                                              const block_cache& cache = es_dllm_cache(64, 16)) {
  return policy{by_confidence{},
                unmask::threshold{threshold},
                skip,
                cache,
                es_dllm_blocks{},
                eos_gate{.until_first = true}};
}

/// ES-dLLM's other mode: the best `tokens` kept positions in each step; those after the first only
/// above the threshold. EOS tokens as in es_dllm_parallel().
[[nodiscard]] constexpr auto es_dllm_fixed(index_t tokens,
                                           float threshold = 0.0F,
                                           const early_skip& skip = early_skip_released(),
                                           const block_cache& cache = es_dllm_cache(64, 16)) {
  return policy{by_confidence{},
                tokens_per_step{tokens} && unmask::threshold{threshold},
                skip,
                cache,
                es_dllm_blocks{},
                eos_gate{.until_first = true}};
}

}  // namespace unmask::released
