// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Reference rules of SGLang.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "goldens/reference_run.hpp"

namespace unmask::goldens {

/// One forward of LowConfidence. Returns whether the block was finished when the forward began.
class sglang_low_confidence {
 public:
  explicit sglang_low_confidence(const arguments& args)
      : threshold_(args.get<double>("threshold")) {}

  [[nodiscard]] static int max_steps(int block_length) { return block_length + 1; }
  void begin_block(const decode_run&, range) {}

  bool step(decode_run& run, range block) const {
    const candidate_rows k(run, run.masked(block));
    if (k.positions.empty()) {
      return true;
    }
    commit_above(run, k, run.in_dtype(threshold_));
    return false;
  }

  /// Everything strictly above the threshold, else the best.
  static void commit_above(decode_run& run, const candidate_rows& k, double threshold) {
    bool any = false;
    for (std::size_t i = 0; i < k.rows.size(); ++i) {
      if (k.rows[i].p > threshold) {
        run.write(k.positions[i], k.rows[i].argmax);
        any = true;
      }
    }
    if (!any) {
      const std::size_t best = run.ranked(k.positions, k.confidences()).front();
      run.write(k.positions[best], k.rows[best].argmax);
    }
  }

 private:
  double threshold_;
};

/// One forward of JointThreshold: masks as in LowConfidence, and edits of the tokens that this
/// block committed earlier. Finished by a forward that changes nothing, or when the forwards
/// without a mask exceed their budget; that forward reports it.
class sglang_joint_threshold {
 public:
  explicit sglang_joint_threshold(const arguments& args)
      : threshold_(args.get<double>("threshold"))
      , edit_threshold_(args.get<double>("edit_threshold"))
      , post_edit_steps_(args.get<int>("max_post_edit_steps"))
      , penalty_(args.get_or<double>("penalty_lambda", 0)) {
    if (penalty_ != 0) {
      throw schema_error("sglang.joint_threshold: penalty_lambda is not covered by the reference");
    }
  }

  [[nodiscard]] int max_steps(int block_length) const {
    return block_length + post_edit_steps_ + 1;
  }

  void begin_block(const decode_run& run, range block) {
    editable_ = run.masked(block);
    without_mask_ = 0;
    finished_ = false;
  }

  bool step(decode_run& run, range block) {
    if (finished_) {
      return true;
    }
    const candidate_rows masks(run, run.masked(block));
    std::vector<int> committed;
    for (const int p : editable_) {
      if (!run.is_masked(p)) {
        committed.push_back(p);
      }
    }
    if (masks.positions.empty() && ++without_mask_ > post_edit_steps_) {
      finished_ = true;
      return true;
    }
    const candidate_rows edits(run, committed);
    bool any = !masks.positions.empty();
    for (std::size_t i = 0; i < committed.size(); ++i) {
      const prediction& row = edits.rows[i];
      if (row.p > run.in_dtype(edit_threshold_) && row.argmax != run.at(committed[i])) {
        run.write(committed[i], row.argmax);
        any = true;
      }
    }
    if (!masks.positions.empty()) {
      sglang_low_confidence::commit_above(run, masks, run.in_dtype(threshold_));
    }
    finished_ = !any;
    return finished_;
  }

 private:
  double threshold_;
  double edit_threshold_;
  int post_edit_steps_;
  double penalty_;
  std::vector<int> editable_;
  int without_mask_ = 0;
  bool finished_ = false;
};

/// SGLang's synchronous loop, one or more sequences in step. The block that holds the prompt's
/// tail comes first; the model gets nothing right of the block. A block ends when all sequences
/// report it finished, or, after `max_steps` decisions, as it is; the forward that follows the
/// last decision then commits nothing.
template <class Rule>
void sglang_blocks(std::vector<decode_run>& runs, const arguments& args, int prompt_length) {
  const int length = args.get<int>("block_length");
  const int total = prompt_length + args.get<int>("gen_length");
  std::vector<Rule> rules(runs.size(), Rule(args));
  for (int start = prompt_length / length * length; start < total; start += length) {
    const range block{start, start + length};
    for (std::size_t b = 0; b < runs.size(); ++b) {
      runs[b].resize(block.end);
      rules[b].begin_block(runs[b], block);
    }
    const int limit = rules.front().max_steps(length);
    bool all_done = false;
    for (int s = 0; s <= limit && !all_done; ++s) {
      all_done = true;
      for (std::size_t b = 0; b < runs.size(); ++b) {
        runs[b].begin_forward(block, runs[b].masked(block));
        const bool decides = s < limit;
        const bool done = decides && rules[b].step(runs[b], block);
        runs[b].end_forward();
        all_done = all_done && done;
      }
    }
  }
}

}  // namespace unmask::goldens
