// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>

#include <span>
#include <string>
#include <vector>

#include "goldens/lines.hpp"

namespace unmask::goldens {

/// How a released loop cuts a sequence into blocks and which masks its step is about.
struct loop_shape {
  index_t block_length = 0;
  /// Where the first block begins: at the prompt's end or, aligned, inside the prompt.
  index_t origin = 0;
  /// The masks of the block only; otherwise all masks left of the block's end.
  bool block_only = false;
  /// The model is fed the sequence as far as the block's end only.
  bool cut_at_block = false;
  /// The rows of everything right of the block are read as well.
  bool reads_tail = false;
  /// The rows of the block's committed positions are read as well.
  bool reads_committed = false;
  /// The recorded sum of logits is over every row of the block, not over its masks.
  bool sums_block = false;
};

/// One recorded sequence beside the tokens that a session decodes.
///
/// For each forward pass: begin() compares the request with the recording, write_row() is the
/// model, finish() compares the commits. Each answers with the difference in words, empty if there
/// is none.
class trace {
 public:
  trace(const commit_line& line, std::size_t index, const loop_shape& shape);

  [[nodiscard]] tokens& x() { return x_; }
  [[nodiscard]] std::size_t forwards() const { return step_; }

  /// Compares block, masks, guard and fed positions with the recorded step.
  [[nodiscard]] std::string begin(const plan& next, const segment& wanted);

  /// The rows that a decision may read; what the session gets of others is NaN.
  [[nodiscard]] std::vector<index_t> rows() const;

  /// Row i of the model's logits for the tokens that are fed.
  void write_row(index_t i, std::span<float> out) const;
  void write_row(index_t i, std::span<bfloat16> out) const;

  /// The recorded forward pass that begin() compared with.
  [[nodiscard]] const step& recorded() const { return *steps_[step_]; }

  /// Compares what the step changed with the recorded commits, and with `committed`, the session's
  /// own report of it. After an allowed difference among equal scores, tied() is true.
  [[nodiscard]] std::string finish(std::span<const commit_entry> committed, ending end);
  [[nodiscard]] bool tied() const { return tied_; }

  /// Compares the end of the decode: forward passes and final tokens.
  [[nodiscard]] std::string end(const sequence_report& report) const;

 private:
  [[nodiscard]] bool is_masked(index_t position) const;
  [[nodiscard]] std::string at_step(const std::string& what) const;
  [[nodiscard]] bool scores_are_equal(const std::vector<commit>& disputed) const;

  const commit_line& line_;
  const sequence& recorded_;
  std::vector<const step*> steps_;
  loop_shape shape_;
  tokens x_;
  std::vector<bool> open_;
  /// Step of the current forward pass.
  std::size_t step_ = 0;
  tokens before_;
  index_t fed_ = 0;
  bool tied_ = false;
};

}  // namespace unmask::goldens
