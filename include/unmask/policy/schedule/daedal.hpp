// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>
#include <unmask/policy/schedule/fill_block.hpp>

namespace UNMASK_NAMESPACE {

/// Finds the length of an answer while it decodes: begins short, lengthens the answer until the
/// model expects its end, and later replaces a very uncertain masked position by several.
///
/// The *expectation of the end* is the sum of the probabilities of the EOS token at the last
/// `end_window` positions at which it is the most probable token, committed ones included, divided
/// by `end_window`, however many there are.
///
///  1. The answer begins with `initial` masked positions. While the expectation is below
///     `grow_below`, a pass appends `expansion` masked positions and commits nothing. Then
///     end_window / 2 committed EOS tokens are appended.
///  2. Blocks are decoded from left to right. A step commits the masked positions of the block with
///     a confidence above `high` or, if there is none, the best one. While the expectation is below
///     `expand_below`, the least certain of the others with a confidence below `low` is replaced by
///     `expansion` masked positions.
///
/// The answer never becomes longer than sequence_shape::length allows: what does not fit is cut at
/// its end. Blocks are counted from the prompt, so text that moves comes to lie in later blocks.
/// report().answer_end is the end of the answer, prompt included; EOS tokens follow it.
///
/// Text moves: a start with a fixed position in the answer is refused, and so is one with a
/// committed position after `initial`, which the answer does not have yet. Committed tokens move
/// with the text, and what is moved out of the sequence is lost. The mask token is never committed;
/// with model_info::suppress_mask = false it has its share in the confidences. An invalid row has
/// confidence 0. Does not combine with draws, truncation, remasking, lookahead, canvas, caches,
/// layer rules or constraints. Range: initial, expansion and end_window at least 1; thresholds in
/// [0, 1]. Ties: the lower position. State: 8 bytes a sequence. Cost: each step reads the rows of
/// the whole answer, and takes one thread O(answer); at most one pass for each position that the
/// answer may have, and one for each expansion. Example: `daedal(2, 0.5, expansion=2,
/// end_window=2)`, rows a90 b90 c90 e90, EOS e: `____` `____` `abce`. Source: Li et al., "Beyond
/// Fixed: Training-Free Variable-Length Denoising for Diffusion Large Language Models" (DAEDAL),
/// 2025, sections 3.2 and 3.3; released code in `LLaDA_DAEDAL.py` (Li-Jinsong/DAEDAL, Apache-2.0),
/// from which the appended EOS tokens come.
struct daedal {
  index_t initial = 64;
  float high = 0.9F;
  float low = 0.1F;
  index_t expansion = 8;
  float grow_below = 0.5F;
  float expand_below = 0.9F;
  index_t end_window = 32;

  struct sequence_state {
    index_t block = 0;     ///< first position of the block, counted from the prompt
    bool decodes = false;  ///< the answer has its first length
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool paces = true;
  static constexpr bool counts_steps = true;
  static constexpr bool rewrites_blocks = true;
  static constexpr index_t tracks = 1;

  static constexpr part_label label{
      "daedal", "lengthens the answer until its end is expected, and where the model is uncertain"};
  static constexpr knob<daedal> knobs[] = {{"initial", &daedal::initial, at_least(1)},
                                           {"high", &daedal::high, within(0, 1)},
                                           {"low", &daedal::low, within(0, 1)},
                                           {"expansion", &daedal::expansion, at_least(1)},
                                           {"grow_below", &daedal::grow_below, within(0, 1)},
                                           {"expand_below", &daedal::expand_below, within(0, 1)},
                                           {"end_window", &daedal::end_window, at_least(1)}};

  [[nodiscard]] UNMASK_HD index_t begin_length(const sequence_shape& g) const {
    return g.prompt_length + math::min(initial, g.length - g.prompt_length);
  }
  [[nodiscard]] index_t reach(const sequence_shape& g) const { return g.length - g.prompt_length; }
  /// Passes that lengthen the answer, and those for positions that an expansion pushes out of it.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    const std::int64_t answer = std::int64_t{g.length} - g.prompt_length;
    return answer / expansion + 2 + math::min(expansion, max_length);
  }

  UNMASK_HD bool commits(const auto&, const rank_info&) const { return false; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    while (s.decodes && block_of(q, s).first < q.length && q.masked_in(block_of(q, s)) == 0) {
      s.block += q.block_length;
    }
    const range block = block_of(q, s);
    if (block.first >= q.length) {
      next.end = q.masked_count == 0 ? ending::complete : ending::max_steps;
      return;
    }
    next.score = {q.prompt_length, q.length};
    next.first_block = q.block_of(block.first);
    next.last_block = next.first_block + 1;
    next.freeze = {0, s.decodes ? block.first : q.prompt_length};
  }

  UNMASK_HD void track(tracked_list& list, auto& context) const {
    list.add(context.at.view->mask_token);
  }

  UNMASK_HD void rewrite_block(auto& rows, auto& context) const {
    sequence_state& s = context.sequence;
    const sequence_view& q = *context.at.view;
    const index_t size = rows.size();
    const float expectation = expectation_of_end(rows, q.eos_token);
    if (!s.decodes) {
      if (expectation < grow_below && size < rows.most()) {
        rows.append(expansion, rows.mask_token());
      } else {
        rows.append(q.eos_token == no_token ? 0 : end_window / 2, q.eos_token);
        s.decodes = true;
      }
      return;
    }
    const range block = block_of(q, s);
    const range inner = {block.first - q.prompt_length, block.last - q.prompt_length};
    const bool expands = expectation < expand_below && size < rows.most();
    index_t least = -1;
    float least_confidence = low;
    const index_t best = detail::fill_block(
        rows,
        inner,
        high,
        [](index_t, token_id) {},
        [&](index_t i, float confidence) {
          if (confidence < least_confidence) {
            least = i;
            least_confidence = confidence;
          }
        });
    if (best >= 0 && best == least) {  // it is committed: another one expands
      least = least_certain(rows, inner, best);
    }
    if (expands && least >= 0) {
      const index_t masks = math::min(expansion, rows.most());
      rows.insert(least, masks - 1);
      rows.resize(size - 1 + masks);
    }
  }

 private:
  [[nodiscard]] UNMASK_HD static range block_of(const sequence_view& q, const sequence_state& s) {
    const index_t first = q.prompt_length + s.block;
    return {first, math::min(first + q.block_length, q.length)};
  }

  [[nodiscard]] UNMASK_HD float expectation_of_end(const auto& rows, token_id eos) const {
    float sum = 0.0F;
    index_t found = 0;
    for (index_t i = rows.size() - 1; i >= 0 && found < end_window; --i) {
      if (eos == no_token || !(rows.is_masked(i) || rows.is_committed(i))) {
        continue;
      }
      const auto c = rows.best(i);
      if (c.token == eos) {
        sum += c.probability;
        ++found;
      }
    }
    return math::divide(sum, static_cast<float>(end_window));
  }

  // The masked position of least confidence below `low` other than `committed`; -1 for none.
  [[nodiscard]] UNMASK_HD index_t least_certain(const auto& rows,
                                                range inner,
                                                index_t committed) const {
    index_t least = -1;
    float confidence = low;
    for (index_t i = inner.first; i < inner.last; ++i) {
      if (rows.is_masked(i) && i != committed && rows.best(i).probability < confidence) {
        least = i;
        confidence = rows.best(i).probability;
      }
    }
    return least;
  }
};
static_assert(block_rewriting<daedal> && growing<daedal> && scheduling<daedal> && pacing<daedal> &&
              reaching<daedal>);

}  // namespace unmask
