// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes block after block, the first token of each from the pass that stores the text before it:
/// its last row predicts the token right of it, as in a causal model. That token, the seed, commits
/// whatever its confidence; then passes over the block alone decide the rest.
///
/// With `causal` the passes that store are causal (model_info::causal_attention), otherwise they
/// have the attention of the blocks. Their row p - 1 predicts position p whatever
/// model_info::logits_shift says. `aligned` is that of semi_autoregressive: a first block that
/// contains the end of the prompt has no seed, nor has one at position 0 or one that begins with a
/// token that was given. With `sub_block` a pass decides the first part of the block that has a
/// masked position. Parts have `sub_block` positions, counted from the beginning of the block; 0:
/// the whole block.
///
/// The engine keeps K/V: a pass attends to the K/V of the last pass that computed a position, which
/// is one that stores for all text left of its block. Range: sub_block >= 0. State: 12 bytes a
/// sequence. Example: `threshold(0.7) + seeded_blocks`, prompt x, rows a60 b70 c90 d80, blocks of
/// 2: `a___` `ab__` `abc_` `abcd`. Source: `generate` of Nemotron-Labs-Diffusion, causal, as in
/// mlx-vlm; Fast-dLLM v2, of its blocks, aligned.
struct seeded_blocks {
  bool causal = false;
  bool aligned = false;
  index_t sub_block = 0;

  struct sequence_state {
    index_t block = 0;
    index_t stored = 0;   ///< the K/V left of it are final after the planned pass
    bool seeded = false;  ///< the pass for the seed of the block was planned
  };

  static constexpr statistics required = stat::none;
  static constexpr bool plans_positions = true;
  static constexpr part_label label{
      "seeded_blocks", "one block after another, the first token of each from the pass before it"};
  static constexpr knob<seeded_blocks> knobs[] = {
      {"causal", &seeded_blocks::causal},
      {"aligned", &seeded_blocks::aligned},
      {"sub_block", &seeded_blocks::sub_block, at_least(0)}};

  /// Errors: std::invalid_argument for an engine without causal attention, with `causal`.
  void check_attention(const model_info& m) const {
    if (causal) {
      detail::check_attention(label.name, attention_kind::causal, m);
    }
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    if (aligned) {
      q.align_blocks();
    }
    sequence_state& s = context.sequence;
    while (s.block + 1 < q.blocks() && q.masked_in(q.block(s.block)) == 0) {
      s = {s.block + 1, s.stored, false};
    }
    const range block = q.block(s.block);
    const index_t begins = q.first_block() + s.block * q.block_length;  // left of the prompt's end
    next.first_block = s.block;
    next.last_block = s.block + 1;
    next.forced = 1;
    next.freeze = {0, s.stored};
    if (!s.seeded && begins == block.first && begins > 0 && q.is_masked(begins)) {
      s.seeded = true;
      next.score = {begins, begins + 1};
      next.query = {math::min(s.stored, begins - 1), begins};
      next.keys = {0, begins};
      next.logits_shift = 1;
      next.attention = causal ? attention_kind::causal : attention_kind::bidirectional;
      s.stored = begins;
      return;
    }
    const index_t first = q.first_masked_in(block);
    const index_t part = sub_block > 0 ? begins + (first - begins) / sub_block * sub_block : begins;
    next.score = {first,
                  sub_block > 0 && sub_block < block.last - part ? part + sub_block : block.last};
    const index_t row = math::max(first - next.logits_shift, index_t{0});
    next.query = {math::min(s.stored, row), block.last};
    next.keys = {0, block.last};
  }
};
static_assert(scheduling<seeded_blocks>);

}  // namespace unmask
