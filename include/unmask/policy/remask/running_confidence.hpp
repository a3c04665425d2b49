// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/commit.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// How the share of a block that stays masked falls.
enum class masked_curve : std::uint8_t { linear, cosine };

/// Score by which a committed token is kept.
enum class kept_score : std::uint8_t { confidence, margin, entropy };

/// Fills a block in `steps` passes. Each pass commits every candidate, and then masks the least
/// certain tokens again, new or old: those whose score in the pass that committed them is lowest.
/// After pass i = 0, 1, ... of the block,
///
///     floor(n r),   r = 1 - (i + 1) / steps   or, with `cosine`, cos((i + 1) / steps * pi / 2)
///
/// of the n positions that were masked when the block was first scored are masked, after the last
/// pass none. A token that survives keeps its score; one that is committed again gets a new one.
/// With `remask` = false no token is masked again: each pass commits the best-ranked candidates
/// until the same number is left masked.
///
/// The score is the confidence, the margin, or the negative entropy. Combines with schedules of one
/// block at a time; with semi_autoregressive(whole_prefix=true), as in the released code, tokens of
/// earlier blocks are also masked again.
/// Range: steps >= 1. Reads stat::confidence, stat::margin and stat::entropy.
/// Ties: the lower position is masked first. A row of NaN is not a candidate.
/// State: 4 bytes a position.
/// Cost: reads the rows of the block's committed positions, whose values it does not use; a sort of
/// the block in each pass. `steps` passes a block at most.
/// Example: `running_confidence(2)`, rows a90 b60 c80 d70, then e95 f60 g80 h70: `a_c_` `afch`.
/// Source: H. He, K. Renz, Y. Cao and A. Geiger, MDPO: overcoming the training-inference divide of
/// masked diffusion language models (2025), running confidence remasking (RCR), as its released
/// code does it: the paper takes the running maximum of the confidences.
struct running_confidence {
  index_t steps = 32;
  masked_curve mode = masked_curve::linear;
  kept_score order = kept_score::confidence;
  bool remask = true;

  struct position_state {
    float score = 0.0F;  ///< of a committed token, in the pass that committed it
  };
  struct step_reduction {
    UNMASK_HD void merge(const step_reduction&) {}
  };

  static constexpr statistics required = stat::confidence | stat::margin | stat::entropy;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "running_confidence", "commits all and masks the least certain again, fewer in each step"};
  static constexpr knob<running_confidence> knobs[] = {
      {"steps", &running_confidence::steps, at_least(1)},
      word_knob<&running_confidence::mode>("mode", "linear|cosine"),
      word_knob<&running_confidence::order>("order", "by_confidence|by_margin|by_entropy"),
      {"remask", &running_confidence::remask}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return remask ? detail::blocks_of(g) * steps : 0;
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_remasks(const sequence_shape&) const { return 0; }
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return remask; }

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    return remask || s.rank < context.at.block_masked - masked_after(context.at);
  }

  UNMASK_HD step_reduction review(const auto& c, auto& context) const {
    context.state.score = score_of(c);
    return {};
  }

  [[nodiscard]] UNMASK_HD index_t remask_count(const auto& context) const {
    return masked_after(context.at);
  }
  UNMASK_HD float remask_score(const auto& c, const auto& context) const {
    return context.at.view->is_masked(c.position) ? score_of(c) : context.state.score;
  }

  /// Number of the block's positions that are masked after the step.
  [[nodiscard]] UNMASK_HD index_t masked_after(const step_info& at) const {
    if (at.block_step + 1 >= steps) {
      return 0;
    }
    const float share =
        math::divide(static_cast<float>(at.block_step + 1), static_cast<float>(steps));
    const float left = mode == masked_curve::linear ? 1.0F - share : cosine(share);
    const float positions = static_cast<float>(at.block_masked_at_first);
    return static_cast<index_t>(math::product(positions, math::max(left, 1e-6F)));
  }

 private:
  [[nodiscard]] UNMASK_HD float score_of(const auto& c) const {
    return order == kept_score::confidence ? c.confidence()
           : order == kept_score::margin   ? c.margin()
                                           : -c.entropy();
  }

  // cos(x pi / 2) for x in [0, 1], error below 1e-7.
  [[nodiscard]] UNMASK_HD static float cosine(float x) {
    const float angle = math::product(x, 1.57079633F);
    const float y = math::product(angle, angle);
    float sum = math::fma(y, 2.0876757e-9F, -2.7557319e-7F);
    sum = math::fma(sum, y, 2.4801587e-5F);
    sum = math::fma(sum, y, -1.3888889e-3F);
    sum = math::fma(sum, y, 4.1666667e-2F);
    sum = math::fma(sum, y, -0.5F);
    return math::fma(sum, y, 1.0F);
  }
};
static_assert(commit_rule<running_confidence> && remasking_least<running_confidence> &&
              reviewing<running_confidence>);

}  // namespace unmask
