// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// Token editing (T2T): rewrites a committed token when the model prefers another one with a
/// confidence above `threshold`, strictly; with 0 always. The prompt and other fixed positions
/// never change, nor does a token in the step that writes it. A rewritten token is reported like a
/// commit.
///
/// With `to_mask` (T2M) the position is masked again instead, and decided anew: lowest positions
/// first, fewer in a step than it commits, and at most `allowance` more for the whole sequence,
/// which are its additional forward passes.
///
/// Committed positions of the scored range are also read, so every step reads the rows of the whole
/// range. Combines with edited_blocks: other schedules leave a block as soon as it is complete.
/// Reads stat::confidence. No state. Range: threshold in [0, 1], allowance >= 0. Example:
/// `tokens_per_step + edit_committed(0.5) + edited_blocks`, rows a90, then b80: `a` `b` `b`.
/// Example: `tokens_per_step + edit_committed(0.5, to_mask=true, allowance=1) + edited_blocks`,
/// rows a90, then b80: `a` `_` `b` `b`. Source: SGLang, `JointThreshold` of `srt/dllm/algorithm`,
/// its edits of tokens. Its penalty on repeating the left neighbour is neighbour_penalty.
struct edit_committed {
  float threshold = 0.0F;
  bool to_mask = false;
  index_t allowance = 0;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{
      "edit_committed",
      "replaces or masks a committed token when another one has a probability above threshold"};
  static constexpr knob<edit_committed> knobs[] = {
      {"threshold", &edit_committed::threshold, within(0, 1)},
      {"to_mask", &edit_committed::to_mask},
      {"allowance", &edit_committed::allowance, at_least(0)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return to_mask ? allowance : 0;
  }

  UNMASK_HD verdict edit_token(const auto& c, const auto& context) const {
    if (c.token == c.current || !(c.confidence() > threshold)) {
      return verdict::keep;
    }
    return !to_mask ? verdict::replace : context.at.may_remask ? verdict::remask : verdict::keep;
  }
};
static_assert(token_editing<edit_committed>);

/// Decodes block after block, and stays on a complete block so that a part that edits tokens can
/// edit it: until a forward pass on the complete block changes nothing, or `most_edits` such passes
/// were made.
///
/// A block in which all is fixed is left at once; one that is complete because its tokens were
/// given as committed (start_options::editable) is edited. Without a part that edits tokens each
/// block costs one idle pass. With stop_at_eos a sequence ends when its EOS token is committed,
/// before that block is edited; with `ends_at_eos` it ends after the block that holds an EOS token,
/// if no position up to its end is masked.
///
/// With `most_forwards` a block is left as it is after this number of passes, with its masked
/// positions; 0: no limit. A sequence that has such positions at its end ends with
/// ending::max_steps. `aligned`: see semi_autoregressive.
/// Range: most_edits >= 0; 0 is semi_autoregressive; most_forwards >= 0.
/// State: 16 bytes a sequence.
/// Cost: O(block length) a step, at most most_edits additional forward passes a block.
/// Example: `tokens_per_step + edit_committed + edited_blocks(1)`, rows a90, then b80, then c80:
/// `a` `b`.
/// Example: `threshold + edit_committed(0.5) + edited_blocks`, begins xy, rows a90 b40c40: `ay`
/// `ay`.
/// Example: `tokens_per_step + edited_blocks(0, most_forwards=1)`, rows a90 b80 c70 d60, blocks of
/// 2: `a___` `a_c_`.
/// Example: `tokens_per_step(2) + edited_blocks(1, ends_at_eos=true)`, rows a90 e80 c70 d60, EOS e,
/// blocks of 2: `ae__` `aeee`.
/// Source: SGLang, `JointThreshold` of `srt/dllm/algorithm`, its `max_post_edit_steps`. There one
/// more pass follows, which decides nothing. `generate` of LLaDA2.1 ends after the edited block
/// that holds an EOS token; `generate` of mlx-vlm has a largest number of passes.
struct edited_blocks {
  index_t most_edits = 16;
  bool aligned = false;
  bool ends_at_eos = false;
  index_t most_forwards = 0;

  struct sequence_state {
    index_t block = 0;
    index_t edits = 0;     ///< forward passes planned for the block while it was complete
    index_t forwards = 0;  ///< forward passes planned for the block
  };

  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;
  static constexpr bool paces = true;

  static constexpr part_label label{
      "edited_blocks",
      "one block after another, each until a pass on the complete block changes nothing"};
  static constexpr knob<edited_blocks> knobs[] = {
      {"most_edits", &edited_blocks::most_edits, at_least(0)},
      {"aligned", &edited_blocks::aligned},
      {"ends_at_eos", &edited_blocks::ends_at_eos},
      {"most_forwards", &edited_blocks::most_forwards, at_least(0)}};

  void check(const sequence_shape&, const model_info& m) const {
    check_argument(!ends_at_eos || m.eos_token != no_token,
                   "model_info::eos_token",
                   "no_token",
                   "a token if edited_blocks has ends_at_eos, which would otherwise never end");
  }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return detail::blocks_of(g, aligned) * most_edits;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    if (aligned) {
      q.align_blocks();
    }
    sequence_state& s = context.sequence;
    while (s.block < q.blocks() && is_done(q, s)) {
      if (ends_at_eos && q.committed_prefix >= q.block(s.block).last &&
          q.holds_eos(q.block(s.block))) {
        next.end = ending::eos_token;
        return;
      }
      s = {s.block + 1, 0, 0};
    }
    if (s.block >= q.blocks()) {
      next.end = q.masked_count == 0 ? ending::complete : ending::max_steps;
      return;
    }
    next.score = q.block(s.block);
    next.freeze = {0, math::min(next.score.first, q.committed_prefix)};
    next.first_block = s.block;
    next.last_block = s.block + 1;
    next.forced = 1;
    s.edits += q.masked_in(next.score) == 0 ? 1 : 0;
    ++s.forwards;
  }

 private:
  // True if the block is left: it had its passes; or it is complete, and nothing in it may be
  // edited, or the last pass was on it, complete, and changed nothing.
  [[nodiscard]] UNMASK_HD bool is_done(const sequence_view& q, const sequence_state& s) const {
    if (most_forwards > 0 && s.forwards >= most_forwards) {
      return true;
    }
    return q.masked_in(q.block(s.block)) == 0 &&
           (s.edits >= most_edits || (s.edits > 0 && q.changed == 0) ||
            (s.forwards == 0 && q.committed_in(q.block(s.block)) == 0));
  }
};
static_assert(scheduling<edited_blocks> && pacing<edited_blocks>);

}  // namespace unmask
