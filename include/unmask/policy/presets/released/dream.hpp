// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

namespace UNMASK_NAMESPACE::released {

/// Dream's sampler at temperature 0: by_confidence is its `maskgit_plus`, by_margin its
/// `topk_margin`, by_entropy its `entropy`. Another temperature t is temperature{t}, sampling{},
/// top_p{p} and confidence_after_truncation{}: it divides before it truncates. Needs
/// model_info::logits_shift = 1; without model_info::eos_token masks that are left stay masks.
/// Source: J. Ye et al., Dream 7B (2025), `generation_utils.py`.
template <ranking Ranking>
[[nodiscard]] constexpr auto dream(const Ranking& order, index_t steps, float epsilon = 1e-3F) {
  return policy{order, timesteps{steps, epsilon}, single_block{}, max_steps{steps}};
}

/// Fast-dLLM's single pass over Dream's whole sequence. A step has a quota of ranks; of these, the
/// ranks below `threshold`, except the first, are postponed and added to the next step's quota.
/// Otherwise the quota is (masks / steps) in each of `steps` steps; a rank postponed in the last
/// step adds a step, whose quota is only the postponed ranks.
///
/// Combines with by_confidence; the window must have room for the answer. Reads stat::confidence.
/// Range: steps >= 1, threshold in [0, 1].
/// Source: C. Wu et al., Fast-dLLM (2025), `confidence_threshold` of
/// `dream/model/generation_utils.py` (NVlabs/Fast-dLLM 24cc59e).
struct quota_above {
  index_t steps = 64;
  float threshold = 0.9F;
  struct sequence_state {
    index_t steps = 0;     ///< forward passes in all, as known so far
    index_t per_step = 0;  ///< number of ranks that each step adds to the quota
    index_t quota = 0;
    index_t put_off = 0;
  };
  static constexpr statistics required = stat::confidence;
  static constexpr bool paces = true;

  static constexpr part_label label{"quota_above"};
  static constexpr knob<quota_above> knobs[] = {
      {"steps", &quota_above::steps, at_least(1)},
      {"threshold", &quota_above::threshold, within(0, 1)}};

  [[nodiscard]] index_t reach(const sequence_shape& g) const { return single_block{}.reach(g); }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const { return steps; }

  UNMASK_HD bool commits(const auto& c, const rank_info& s, auto& context) const {
    sequence_state& q = context.sequence;
    if (s.rank >= q.quota) {
      return false;
    }
    if (s.rank == 0 || c.confidence() >= threshold) {
      return true;
    }
    // Confidences fall along the ranks, so exactly one candidate is the first postponed one and all
    // after it are also postponed: a single thread writes, and only schedule() reads.
    if (s.rank == 1 || s.score_before >= threshold) {
      q.put_off = math::min(q.quota, s.candidates) - s.rank;
    }
    return false;
  }

  UNMASK_HD void schedule(sequence_view& view, plan& next, auto& context) const {
    sequence_state& q = context.sequence;
    if (view.step == 0) {
      q.steps = steps;
      q.per_step = view.masked_count / steps;
    } else if (q.put_off > 0 && view.step >= q.steps) {
      q.per_step = 0;
      ++q.steps;
    }
    q.quota = q.per_step + q.put_off;
    q.put_off = 0;
    single_block{}.schedule(view, next, context);
    next.forced = 0;
    if (view.step >= q.steps) {
      next.end = ended(view);
    }
  }
};
static_assert(commit_rule<quota_above> && scheduling<quota_above> && pacing<quota_above>);

/// Fast-dLLM's `confidence_threshold` for Dream. Source: as quota_above.
[[nodiscard]] constexpr auto dream_confidence_threshold(index_t steps, float threshold) {
  return policy{by_confidence{}, quota_above{steps, threshold}};
}

}  // namespace unmask::released
