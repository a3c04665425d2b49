// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/presets/released/fast_dllm.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>

namespace UNMASK_NAMESPACE::released {

/// dInfer's loop: it tests whether a block is complete only before a group of clamp(masks /
/// tokens_per_forward, 1, unroll) forward passes, so the last passes of a group may have nothing to
/// decide. A complete block with an EOS token ends the sequence; with `early_stop` everything right
/// of it becomes the EOS token, otherwise it stays masked. With `aligned` blocks start at multiples
/// of the block length from position 0 instead of after the prompt.
///
/// The loop never ends while only mask tokens are proposed.
/// Range: unroll >= 1, tokens_per_forward >= 1.
/// Source: inclusionAI, dInfer, `generate_uniform.py` (inclusionAI/dInfer fce4e32).
struct dinfer_blocks {
  index_t unroll = 4;
  index_t tokens_per_forward = 8;
  bool early_stop = true;  ///< Whether all positions after an EOS token become that token.
  bool aligned = false;    ///< Whether blocks start at multiples of their length from position 0.
  struct sequence_state {
    index_t block = 0;
    index_t group = 0;  ///< remaining forward passes of the group
    bool eos_token = false;
  };
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  static constexpr part_label label{"dinfer_blocks"};
  static constexpr knob<dinfer_blocks> knobs[] = {
      {"unroll", &dinfer_blocks::unroll, at_least(1)},
      {"tokens_per_forward", &dinfer_blocks::tokens_per_forward, at_least(1)}};

  /// The first block may begin left of the answer.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return (detail::blocks_of(g) + 1) * unroll;
  }

  /// Advances past the complete blocks; schedule() follows at once and continues from there.
  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    sequence_state& s = context.sequence;
    for (range b = block(q, s.block); s.group == 0 && !b.empty() && q.masked_in(b) == 0;
         b = block(q, s.block)) {
      for (index_t p = b.first; p < b.last; ++p) {
        s.eos_token = s.eos_token || q.ends_at(p);
      }
      if (s.eos_token) {
        return early_stop ? ending::eos_token : ending::running;
      }
      ++s.block;
    }
    return ending::running;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    const range b = block(q, s.block);
    if (s.eos_token || b.empty()) {
      next.end = s.eos_token ? ending::eos_token : ended(q);
      return;
    }
    if (s.group == 0) {
      s.group = math::max(math::min(q.masked_in(b) / tokens_per_forward, unroll), index_t{1});
    }
    --s.group;
    score_one_block(q, next, b);
    next.freeze = {0, b.first};
  }

 private:
  [[nodiscard]] UNMASK_HD range block(const sequence_view& q, index_t b) const {
    return aligned ? aligned_block(q, b) : q.block(b);
  }
};
static_assert(scheduling<dinfer_blocks> && stopping<dinfer_blocks> && pacing<dinfer_blocks>);

/// Most probable token first, proposed mask tokens last (score -1).
///
/// Reads stat::confidence. Source: as threshold_or_best.
struct by_confidence_of_text {
  static constexpr statistics required = stat::confidence;
  UNMASK_HD float score(const auto& c) const {
    return c.token == c.current ? -1.0F : c.confidence();
  }
};
static_assert(ranking<by_confidence_of_text>);

/// Commits confidences of min(threshold, best - 1e-5) or more, never proposed mask tokens: if all
/// are below the threshold, the best one commits together with those within 1e-5 of it. Combines
/// with by_confidence_of_text.
///
/// Range: [0, 1]. Reads stat::confidence.
/// Source: inclusionAI, dInfer, `ThresholdParallelDecoder` of `parallel_strategy.py`
/// (inclusionAI/dInfer fce4e32).
struct threshold_or_best {
  float threshold = 0.9F;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{"threshold_or_best"};
  static constexpr knob<threshold_or_best> knobs[] = {
      {"threshold", &threshold_or_best::threshold, within(0, 1)}};

  /// The confidence, so that rank_info::largest_before is the best one.
  UNMASK_HD float cost(const auto& c) const { return c.confidence(); }
  UNMASK_HD bool commits(const auto& c, const rank_info& s) const {
    const float best = s.rank == 0 ? c.confidence() : s.largest_before;
    return c.token != c.current && c.confidence() >= math::min(threshold, best - 1e-5F);
  }
};
static_assert(commit_rule<threshold_or_best>);

/// dInfer's threshold. Source: as threshold_or_best.
[[nodiscard]] constexpr auto dinfer_threshold(float threshold, const dinfer_blocks& loop = {}) {
  return policy{by_confidence_of_text{}, threshold_or_best{threshold}, loop};
}

/// dInfer's threshold on rows with trace credit. Rows that propose the mask token are candidates if
/// credit makes another token the most probable one. The release resets all credit when a decision
/// leaves no mask in the whole sequence, and only then, so that the sequence after one with an
/// early end starts with its credit; a session resets it when a sequence starts.
///
/// Source: `CreditThresholdParallelDecoder` of the file of threshold_or_best.
template <int Slots = 64>
[[nodiscard]] constexpr auto
dinfer_credit(float threshold,
              const trace_credit<Slots>& credit = credit_released<Slots>,
              const dinfer_blocks& loop = {}) {
  return policy{by_confidence_of_text{}, threshold_or_best{threshold}, credit, loop};
}

/// dInfer's hierarchical decoding; a threshold of 1 is none. Source: `HierarchyDecoder` of the file
/// of threshold_or_best, which commits all equally good winners of a run where this commits the
/// first.
[[nodiscard]] constexpr auto
dinfer_hierarchy(float low, float threshold, const dinfer_blocks& loop = {}) {
  return policy{by_confidence{}, hierarchical{low, threshold}, loop};
}

/// dInfer's hierarchical decoding with remasking. Source: `get_transfer_index_hierarchy_remask` of
/// the same file.
[[nodiscard]] constexpr auto
dinfer_hierarchy_remask(float low, float threshold, float remask, const dinfer_blocks& loop = {}) {
  return policy{by_confidence{}, hierarchical{low, threshold}, remask_below{remask}, loop};
}

/// The older form of hierarchical decoding: the same rule in Fast-dLLM's loop, without an early
/// end. Source: `get_transfer_index_hierarchy_fast_v2` of the same file.
[[nodiscard]] constexpr auto dinfer_hierarchy_fast_v2(float low, float threshold) {
  return policy{by_confidence{}, hierarchical{low, threshold}, fast_dllm_blocks{}};
}

}  // namespace unmask::released
