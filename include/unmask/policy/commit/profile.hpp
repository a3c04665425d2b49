// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// What a profile has a threshold for.
enum class profile_mode : std::uint8_t {
  block,      ///< each block
  step_block  ///< each forward pass of each block
};

/// Which statistic of the recorded confidences becomes the threshold. Quartiles interpolate
/// linearly at rank q (n - 1) of the ascending sample; the lower whisker is the smallest confidence
/// that is at least q1 - 1.5 (q3 - q1).
enum class metric : std::uint8_t { mean, q1, median, q3, min_whisker };

/// Which confidences are recorded.
enum class collect : std::uint8_t {
  committed,  ///< of the tokens that each step wrote: session::committed()
  candidates  ///< of every open position of each step: session::candidates(), which needs
              ///< limits::trace
};

/// Admits a candidate whose confidence exceeds the threshold that a profile gives for its block, or
/// for its block's forward pass, strictly:
///
///     confidence > min(T, cap) (1 - slack)
///
/// One decode with a fixed threshold is enough to calibrate: see profile_recorder, calibrating()
/// and profile_store. Without a profile (`blocks` = 0, the start) the rule is confidence >
/// threshold, with neither cap nor slack: the same type decodes the calibration's sequence and all
/// later ones.
///
/// A block behind the last calibrated one takes that one's thresholds, a pass behind the last
/// calibrated one of a block that pass's. The profile is part of the value: no pointer, each
/// sequence of a batch may have its own. It holds for one model, one task, one block length and one
/// way to cache; only the block length can be checked.
///
/// Bound to know: no threshold exceeds cap (1 - slack), which the paper's settings put at 0.60 and
/// 0.72. Where all that was recorded lies above the cap, as committed tokens do, the rule is
/// confidence_above{cap * (1 - slack)}: measure against that.
///
/// Range threshold in [0, 1], cap in (0, 1], slack in [0, 1), cells in [0, 1]. `Cells`: one a
/// block, or one a pass and block, which the positions of an answer bound if every pass commits.
/// O(1) a candidate; 6 bytes a cell and 28 more in the value, no state. Reads stat::confidence.
/// Source: J. Shen and Y. Ro, Beyond static cutoffs: one-shot dynamic thresholding for diffusion
/// language models (2025), section 3 and algorithm 1; defaults from section 4.1 (GSM8K). What the
/// paper leaves open (what is recorded, steps and blocks that were not, quartiles) is this
/// library's.
template <int Cells = 256>
struct profile_threshold {
  static_assert(Cells >= 1 && Cells <= 65535, "a profile has 1 to 65535 cells");

  /// The static rule: of the calibration's sequence, and of blocks without any confidence recorded.
  float threshold = 0.9F;
  float cap = 0.75F;  ///< No cell counts for more than this.
  float slack = 0.2F;  ///< Share that is taken off a cell.
  /// How a recorder calibrates; a profile that is there does not change with them.
  profile_mode mode = profile_mode::block;
  metric statistic = metric::q1;  ///< Statistic of the recorded confidences that makes a cell.
  collect recorded = collect::committed;  ///< Which confidences are recorded.

  /// The profile: layout::block_length it was recorded with, calibrated blocks, and of block b the
  /// thresholds cells[ends[b - 1]] .. cells[ends[b] - 1], one a forward pass.
  index_t block_length = 0;
  index_t blocks = 0;  ///< Calibrated blocks; 0: no profile.
  std::uint16_t ends[Cells] = {};  ///< One behind the last cell of each block.
  float cells[Cells] = {};  ///< Thresholds, one a forward pass.

  static constexpr statistics required = stat::confidence;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "profile_threshold",
      "profile_threshold",
      "the thresholds of a profile that was recorded and saved, one a block or a step of it"};
  static constexpr index_t capacity = Cells;

  /// Throws unless the knobs are in range and the profile, if there is one, belongs to such a
  /// layout.
  void check(const layout& g) const {
    check_values();
    if (blocks > 0) {
      check_argument(block_length == g.block_length,
                     "profile_threshold::block_length",
                     block_length,
                     "layout::block_length = ",
                     g.block_length,
                     ", or the profile was made for other blocks");
    }
  }

  /// The same without a layout.
  void check_values() const;

  /// True if there is a profile.
  [[nodiscard]] UNMASK_HD bool calibrated() const { return blocks > 0; }

  /// Where the cells of block b begin, 0 <= b <= blocks.
  [[nodiscard]] UNMASK_HD index_t first_cell(index_t b) const { return b == 0 ? 0 : ends[b - 1]; }

  /// What a confidence has to exceed in that step.
  [[nodiscard]] UNMASK_HD float bound(const step_info& at) const {
    if (!calibrated()) {
      return threshold;
    }
    const index_t b = math::min(at.block_index, blocks - 1);
    const index_t cell = math::min(first_cell(b) + at.block_step, first_cell(b + 1) - 1);
    return math::clamp(cells[cell], 0.0F, cap) * (1.0F - slack);
  }

  UNMASK_HD bool admits(const auto& c, const standing&, const auto& own) const {
    return c.confidence() > bound(own.at);
  }

  friend bool operator==(const profile_threshold&, const profile_threshold&) = default;
};
static_assert(admission<profile_threshold<>>);

template <int Cells>
void profile_threshold<Cells>::check_values() const {
  check_argument(threshold >= 0.0F && threshold <= 1.0F,
                 "profile_threshold::threshold",
                 threshold,
                 "in [0, 1]");
  check_argument(cap > 0.0F && cap <= 1.0F, "profile_threshold::cap", cap, "in (0, 1]");
  check_argument(slack >= 0.0F && slack < 1.0F, "profile_threshold::slack", slack, "in [0, 1)");
  check_argument(blocks >= 0 && blocks <= Cells,
                 "profile_threshold::blocks",
                 blocks,
                 "in [0, Cells = ",
                 Cells,
                 "]");
  if (blocks > 0) {
    check_argument(
        block_length >= 1, "profile_threshold::block_length", block_length, "at least 1");
  }
  for (index_t b = 0; b < blocks; ++b) {
    const index_t steps = index_t{ends[b]} - first_cell(b);
    check_argument(steps >= 1 && (steps == 1 || mode == profile_mode::step_block),
                   "steps of profile_threshold::ends",
                   steps,
                   mode == profile_mode::block ? "1 for each block in mode block" : "at least 1");
    check_argument(ends[b] <= Cells, "profile_threshold::ends", ends[b], "at most Cells = ", Cells);
    for (index_t i = first_cell(b); i < ends[b]; ++i) {
      check_argument(
          cells[i] >= 0.0F && cells[i] <= 1.0F, "profile_threshold::cells", cells[i], "in [0, 1]");
    }
  }
}

}  // namespace unmask
