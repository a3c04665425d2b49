// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Unit for which a profile has a threshold.
enum class profile_mode : std::uint8_t {
  block,      ///< each block
  step_block  ///< each forward pass of each block
};

/// The statistic of the recorded confidences that becomes the threshold. Quartiles interpolate
/// linearly at rank q (n - 1) of the ascending sample; the lower whisker is the smallest confidence
/// that is at least q1 - 1.5 (q3 - q1).
enum class metric : std::uint8_t { mean, q1, median, q3, min_whisker };

/// The confidences that are recorded.
enum class collect : std::uint8_t {
  committed,  ///< of the tokens that each step committed: session::committed()
  candidates  ///< of every masked position of each step: session::candidates(), which needs
              ///< session_capacity::trace
};

/// One-shot calibrated threshold: commits a candidate whose confidence exceeds, strictly, the
/// threshold that a profile gives for its block or for its block's forward pass:
///
///     confidence > min(T, cap) (1 - slack)
///
/// One decode with a fixed threshold is enough to calibrate: see threshold_calibrator,
/// calibrating(), and examples/profile_store.hpp for one of each task. Without a profile (`blocks`
/// = 0, the default) the rule is confidence > threshold, with neither cap nor slack: the same type
/// decodes the sequence that calibrates and all later ones.
///
/// Blocks after the last calibrated one use its thresholds; passes after the last calibrated one of
/// a block use that one's threshold. The profile is part of the value, without a pointer, and each
/// sequence of a batch may have its own. A profile is valid for one model, one task, one block
/// length and one way to cache; only the block length can be checked.
///
/// No threshold exceeds cap (1 - slack), which is 0.60 and 0.72 with the paper's settings. If all
/// recorded confidences are above the cap, as those of committed tokens are, the rule equals
/// threshold{cap * (1 - slack)}: compare with that.
///
/// Range: threshold in [0, 1], cap in (0, 1], slack in [0, 1), cells in [0, 1]. `Cells`: one for
/// each block, or for each pass and block, at most the positions of an answer if every pass
/// commits. Reads stat::confidence.
/// Cost: O(1) a candidate; 6 bytes a cell and 28 more in the value, no state.
/// Example: `calibrated_threshold("profile.json")`, rows a60 b90 c60 d90, blocks of 2, thresholds
/// 0.5 0.8: `ab__` `ab_d` `abcd`.
/// The paper does not say which confidences make a profile. Figure 1, which starts low, and
/// algorithm 1, line 17, which tests every position of the block, speak for all candidates.
/// `committed` is the default because it needs no session_capacity::trace, and because a profile of
/// candidates commits more and is right less often: neither of the two beats a constant on Sudoku
/// (bench/results/sudoku.md).
///
/// Source: J. Shen and Y. Ro, Beyond static cutoffs: one-shot dynamic thresholding for diffusion
/// language models (2025), section 3 and algorithm 1; defaults from section 4.1 (GSM8K). Choices
/// that the paper leaves open (which confidences are recorded, steps and blocks without any,
/// quartiles) are this library's.
template <int Cells = 256>
struct calibrated_threshold {
  static_assert(Cells >= 1 && Cells <= 65535, "a profile has 1 to 65535 cells");

  /// The static rule: for the sequence that calibrates, and for blocks without recorded
  /// confidences.
  float threshold = 0.9F;
  float cap = 0.75F;   ///< No cell counts for more than this.
  float slack = 0.2F;  ///< Share that is taken off a cell.
  /// Options of the calibration; changing them does not change an existing profile.
  profile_mode mode = profile_mode::block;
  metric statistic = metric::q1;  ///< Statistic of the recorded confidences that makes a cell.
  collect recorded = collect::committed;  ///< Which confidences are recorded.

  /// The profile: the sequence_shape::block_length with which it was recorded, the number of
  /// calibrated blocks, and for block b the thresholds cells[ends[b - 1]] .. cells[ends[b] - 1],
  /// one for each forward pass.
  index_t block_length = 0;
  index_t blocks = 0;              ///< Calibrated blocks; 0: no profile.
  std::uint16_t ends[Cells] = {};  ///< One past the last cell of each block.
  float cells[Cells] = {};         ///< Thresholds, one a forward pass.

  static constexpr statistics required = stat::confidence;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "calibrated_threshold",
      "takes the threshold of each block, or of each step of it, from a saved profile"};
  static constexpr index_t capacity = Cells;
  static constexpr knob<calibrated_threshold> knobs[] = {
      {"threshold", &calibrated_threshold::threshold, within(0, 1)},
      {"cap", &calibrated_threshold::cap, above(0).up_to(1)},
      {"slack", &calibrated_threshold::slack, at_least(0).below(1)},
      word_knob<&calibrated_threshold::mode>("mode", "block|step_block"),
      word_knob<&calibrated_threshold::statistic>("statistic", "mean|q1|median|q3|min_whisker"),
      word_knob<&calibrated_threshold::recorded>("recorded", "committed|candidates")};

  /// Errors: std::invalid_argument unless the knobs are in range and the profile, if there is one,
  /// has the block length of the sequence.
  void check(const sequence_shape& g) const {
    check_values();
    if (blocks > 0) {
      check_argument(block_length == g.block_length,
                     "calibrated_threshold::block_length",
                     block_length,
                     "sequence_shape::block_length = ",
                     g.block_length,
                     ", or the profile was made for other blocks");
    }
  }

  /// Checks everything that does not depend on a sequence_shape.
  void check_values() const;

  /// True if there is a profile.
  [[nodiscard]] UNMASK_HD bool calibrated() const { return blocks > 0; }

  /// Index of the first cell of block b, 0 <= b <= blocks.
  [[nodiscard]] UNMASK_HD index_t first_cell(index_t b) const { return b == 0 ? 0 : ends[b - 1]; }

  /// Threshold in that step: a confidence has to exceed it.
  [[nodiscard]] UNMASK_HD float bound(const step_info& at) const {
    if (!calibrated()) {
      return threshold;
    }
    const index_t b = math::min(at.block_index, blocks - 1);
    const index_t cell = math::min(first_cell(b) + at.block_step, first_cell(b + 1) - 1);
    return math::clamp(cells[cell], 0.0F, cap) * (1.0F - slack);
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    return c.confidence() > bound(context.at);
  }

  friend bool operator==(const calibrated_threshold&, const calibrated_threshold&) = default;
};
static_assert(commit_rule<calibrated_threshold<>>);

template <int Cells>
void calibrated_threshold<Cells>::check_values() const {
  check_argument(threshold >= 0.0F && threshold <= 1.0F,
                 "calibrated_threshold::threshold",
                 threshold,
                 "in [0, 1]");
  check_argument(cap > 0.0F && cap <= 1.0F, "calibrated_threshold::cap", cap, "in (0, 1]");
  check_argument(slack >= 0.0F && slack < 1.0F, "calibrated_threshold::slack", slack, "in [0, 1)");
  check_argument(blocks >= 0 && blocks <= Cells,
                 "calibrated_threshold::blocks",
                 blocks,
                 "in [0, Cells = ",
                 Cells,
                 "]");
  if (blocks > 0) {
    check_argument(
        block_length >= 1, "calibrated_threshold::block_length", block_length, "at least 1");
  }
  for (index_t b = 0; b < blocks; ++b) {
    const index_t steps = index_t{ends[b]} - first_cell(b);
    check_argument(steps >= 1 && (steps == 1 || mode == profile_mode::step_block),
                   "steps of calibrated_threshold::ends",
                   steps,
                   mode == profile_mode::block ? "1 for each block in mode block" : "at least 1");
    check_argument(
        ends[b] <= Cells, "calibrated_threshold::ends", ends[b], "at most Cells = ", Cells);
    for (index_t i = first_cell(b); i < ends[b]; ++i) {
      check_argument(cells[i] >= 0.0F && cells[i] <= 1.0F,
                     "calibrated_threshold::cells",
                     cells[i],
                     "in [0, 1]");
    }
  }
}

}  // namespace unmask
