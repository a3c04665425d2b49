// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/commit.hpp>
#include <unmask/policy/cache/cache.hpp>

namespace UNMASK_NAMESPACE {

/// Computes all positions in the pass after an uncertain commit: when the largest entropy of the
/// rows of the last step's tokens exceeds `threshold` nats. Other passes compute the masked
/// positions of the scored range and the `recent` latest tokens, wherever they are; all other
/// positions keep their K/V.
///
/// An invalid row has infinite entropy. After a step without commits nothing is refreshed. Of the
/// tokens of one step the one at the higher position counts as the later. The first pass of a
/// sequence computes everything. The positions of a pass are a set: for engines with
/// hooks in their layers.
///
/// Range: threshold >= 0, recent in [0, most]. Reads stat::entropy.
/// State: 268 bytes a sequence.
/// Cost: O(commits + recent) a step and O(recent) a position.
/// Example: `tokens_per_step + entropy_cache(0.6, 1)`, prompt xy, rows a90 b80 c60b40 d50, 1
/// layers: runs 0-5 2-5 3-5 0-5.
/// Source: M. Cheong et al., EntropyCache: decoded token entropy guided KV caching for diffusion
/// language models (2026): its abstract, and the overview figure of its repository, which has no
/// code. The figure's comparison, E > tau, is read as the abstract has it: more entropy is more
/// drift, so it refreshes. The order within a step and the paper's values of tau and k could not be
/// checked; the defaults are this library's.
struct entropy_cache {
  static constexpr index_t most = 64;

  float threshold = 1.0F;
  index_t recent = 16;

  struct sequence_state {
    range scored;  ///< scored range of the next pass
    index_t count = 0;
    index_t latest[most] = {};  ///< positions of tokens, the latest first
  };
  struct step_reduction {
    float largest = 0.0F;  ///< largest entropy
    UNMASK_HD void merge(const step_reduction& other) {
      largest = math::max(largest, other.largest);
    }
  };

  static constexpr statistics required = stat::entropy;

  static constexpr part_label label{
      "entropy_cache",
      "runs masked and recent positions; all of them after a token of entropy above threshold"};
  static constexpr knob<entropy_cache> knobs[] = {
      {"threshold", &entropy_cache::threshold, at_least(0).in("nats")},
      {"recent", &entropy_cache::recent, within(0, most)}};

  UNMASK_HD step_reduction review(const auto& c, const auto&) const {
    const float entropy = c.entropy();
    return {c.valid() && entropy <= math::infinity() ? entropy : math::infinity()};
  }

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    note(q, context.sequence);
    context.sequence.scored = next.score;
    next.refresh = context.step_reduction.largest > threshold;
  }
  UNMASK_HD bool in_query(const layer_row& row, const auto& context) const {
    const sequence_state& s = context.sequence;
    bool runs = s.scored.contains(row.position) && context.at.view->is_masked(row.position);
    for (index_t k = 0; k < s.count && !runs; ++k) {
      runs = s.latest[k] == row.position;
    }
    return runs;
  }

 private:
  // Puts the tokens of the last step before the earlier ones.
  UNMASK_HD void note(const sequence_view& q, sequence_state& s) const {
    index_t kept = 0;
    for (index_t k = 0; k < s.count; ++k) {
      if (!q.wrote_in({s.latest[k], s.latest[k] + 1})) {
        s.latest[kept++] = s.latest[k];
      }
    }
    index_t fresh = 0;  // a remasked position has no token
    for (index_t c = q.commit_count - 1; c >= 0 && fresh < recent; --c) {
      fresh += q.is_masked(q.commits[c].position) ? 0 : 1;
    }
    kept = math::min(kept, recent - fresh);
    for (index_t k = kept - 1; k >= 0; --k) {
      s.latest[k + fresh] = s.latest[k];
    }
    s.count = fresh + kept;
    for (index_t c = q.commit_count - 1, k = 0; k < fresh; --c) {
      if (!q.is_masked(q.commits[c].position)) {
        s.latest[k++] = q.commits[c].position;
      }
    }
  }
};
static_assert(picking<entropy_cache> && reviewing<entropy_cache>);

}  // namespace unmask
