// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes several blocks at a time, each starting a little later than the one before it.
///
/// A block joins when the share `add` of the last joined block is committed, at most one block a
/// step; the first joins at once. A block must commit at least one token a step as soon as the
/// share `activate` of its predecessor is committed (for the first, at once); before that it
/// commits only what the commit rule commits. Once an EOS token is committed, no further block
/// joins, and the blocks that never joined are filled with it, unless `ends_at_eos` is false. A
/// block without masked positions is skipped, so every pass has a masked position.
///
/// The engine computes the sequence up to the last joined block, as for models that attend to no
/// later block (D2F). With `whole_canvas` it computes all of it: for models trained with the masks
/// of the whole answer (LLaDA, Dream), which give worse logits for a shorter sequence.
///
/// With lookahead, blocks join by the committed positions of the sequence itself, the anchor: all
/// branches have the same scored range. released::d2f_blocks plans each branch by its own tokens,
/// as the release does. At most `at_once` blocks are active, so a step scores up to at_once *
/// block_length positions.
///
/// Range: shares in [0, 1], at_once in [1, max_active_blocks].
/// Example: `tokens_per_step + block_pipeline(0.5, 0.5)`, rows a60 b70 c50 d80, blocks of 2:
/// decides 0-1 0-3 2-3; `_b__` `ab_d` `abcd`.
/// Source: X. Wang et al., Diffusion LLMs can do faster-than-AR inference via discrete diffusion
/// forcing (2025), its pipelined decoding, as used by LoPA (2025), section 4.
struct block_pipeline {
  float add = 0.1F;
  float activate = 0.95F;
  index_t at_once = 8;
  bool whole_canvas = false;
  bool ends_at_eos = true;

  struct sequence_state {
    index_t first = 0;
    index_t last = 0;
    std::uint64_t forced = 1;
    bool ended = false;
  };

  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "block_pipeline", "starts a block when the share add of the one before it is committed"};
  static constexpr knob<block_pipeline> knobs[] = {
      {"add", &block_pipeline::add, within(0, 1)},
      {"activate", &block_pipeline::activate, within(0, 1)},
      {"at_once", &block_pipeline::at_once, within(1, max_active_blocks)},
      {"whole_canvas", &block_pipeline::whole_canvas},
      {"ends_at_eos", &block_pipeline::ends_at_eos}};

  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    const std::int64_t most = std::int64_t{at_once} * g.block_length;
    const index_t answer = g.length - g.prompt_length;
    return most < answer ? static_cast<index_t>(most) : answer;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    const index_t old_first = s.first;
    if (s.first < s.last) {
      s.ended = s.ended || holds_eos(q, {q.block(s.first).first, q.block(s.last - 1).last});
    }
    const bool room = s.last < q.blocks() && s.last - retired(q, s) < at_once;
    if (!s.ended && room && (s.last == 0 || share(q, s.last - 1) >= add)) {
      ++s.last;
    }
    for (index_t b = s.first; b + 1 < s.last; ++b) {
      if (share(q, b) >= activate) {
        s.forced |= std::uint64_t{1} << (b + 1 - s.first);
      }
    }
    for (;;) {
      while (s.first < s.last && q.masked_in(q.block(s.first)) == 0) {
        s.ended = s.ended || holds_eos(q, q.block(s.first));  // it may have joined just now
        ++s.first;
        s.forced = s.forced >> 1U | (s.forced & 1U);
      }
      if (s.first < s.last) {
        break;
      }
      // No position of any joined block is masked: the next block joins whatever `add` is, or the
      // sequence is complete.
      if (s.ended || s.last == q.blocks()) {
        next.end = s.ended ? ending::eos_token : ending::complete;
        return;
      }
      ++s.last;
      s.forced = 1;
    }
    next.freeze = {q.block(old_first).first, q.block(s.first).first};
    next.score = {q.block(s.first).first, q.block(s.last - 1).last};
    next.query = {0, whole_canvas ? q.length : next.score.last};
    next.first_block = s.first;
    next.last_block = s.last;
    next.forced = s.forced;
  }

 private:
  // Share of a block's positions that are committed.
  [[nodiscard]] UNMASK_HD static float share(const sequence_view& q, index_t b) {
    const range r = q.block(b);
    return math::divide(static_cast<float>(r.size() - q.masked_in(r)),
                        static_cast<float>(r.size()));
  }

  // First block that is still active after this call.
  [[nodiscard]] UNMASK_HD static index_t retired(const sequence_view& q, const sequence_state& s) {
    index_t b = s.first;
    while (b < s.last && q.masked_in(q.block(b)) == 0) {
      ++b;
    }
    return b;
  }

  [[nodiscard]] UNMASK_HD bool holds_eos(const sequence_view& q, const range& r) const {
    return ends_at_eos && q.holds_eos(r);
  }
};
static_assert(scheduling<block_pipeline>);

}  // namespace unmask
