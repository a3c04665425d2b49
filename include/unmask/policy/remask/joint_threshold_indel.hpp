// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>
#include <unmask/policy/presets/released/loop.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes block after block, edits what is committed, and lets the model erase tokens and insert
/// new ones (LLaDA2.2): two tokens of the vocabulary are commands. `erase_token`, proposed at a
/// position, removes it, and the text of the block moves left; `insert_token` puts a masked
/// position before it, and the text moves right. What leaves the block at its end is lost;
/// positions that become free there are masked. The length of the sequence stays.
///
/// A pass is over one block; blocks are aligned at multiples of the block length from position 0,
/// so that the first contains the end of the prompt. An *original* position was masked when the
/// block began; masks that moving text leaves are not. In a step, from the rows of all masked and
/// committed positions of the block:
///
///  1. A step in which no original position is masked uses one of `most_edits`; the step that uses
///     the last is final, and so is step block_length + most_edits + 1. With most_edits = 0 the step
///     that commits the last original position is final.
///  2. Of the masked positions those with a confidence above `threshold` are written, but at least
///     1 + (number of masked positions that are not original) of highest confidence; in the final
///     step, and if none is original, all.
///  3. A committed token is replaced if another is proposed with a confidence above
///     `edit_threshold`. At an original masked position the mask token is not proposed; elsewhere it
///     may be, and masks the position.
///  4. The final step proposes neither a command nor the mask token.
///  5. Against loops: if the block was once as it is now, the least certain changing proposal is
///     replaced by the most probable token that was never written at that position (of the last
///     `memory` ones).
///
/// A step that writes nothing ends the block; so does the final one, after which one more pass
/// decides nothing, so that an engine stores the K/V of what was written.
///
/// Confidences are of the whole row with the mask token, which needs model_info::suppress_mask =
/// false; without it the mask token has no share in them and is never proposed. An invalid row has
/// confidence 0. Does not combine with draws, truncation, remasking, lookahead, canvas, layer rules
/// or constraints. With a command, text moves: a start with a fixed position in the answer is
/// refused. Range: threshold and edit_threshold in [0, 1], most_edits in [0, 62], block_length <=
/// 64; erase_token and insert_token in the vocabulary and different, or -1 for none. Ties: the
/// lower position, the lower token. State: 5.5 KB a sequence. That a block is as it once was is
/// told by a hash of 64 bits. Cost: one thread, O(block_length * (block_length + memory)) a step;
/// at most block_length + most_edits + 2 passes a block. Example:
/// `joint_threshold_indel(erase_token=4)`, rows a90 e90 c90, then a90 c90 d90: `ac_` `acd` `acd`.
/// Example: `joint_threshold_indel(insert_token=5)`, rows a90 f90 c90, then a90 b90 c90: `a__`
/// `abc` `abc`. Source: SGLang 0.5.23, `JointThresholdInDel` of `srt/dllm/algorithm`
/// (sgl-project/sglang, Apache-2.0); no paper is known.
struct joint_threshold_indel {
  float threshold = 0.5F;
  float edit_threshold = 0.0F;
  index_t most_edits = 16;
  token_id erase_token = -1;
  token_id insert_token = -1;

  static constexpr index_t most_positions = 64;  ///< of a block
  static constexpr index_t memory = 16;          ///< tokens written at a position
  static constexpr index_t most_steps = 128;     ///< of a block

  struct sequence_state {
    index_t block = 0;
    index_t updates = 0;
    index_t edits = 0;     ///< steps of the block without a masked original position
    index_t seen = 0;      ///< number of `blocks`
    bool repeats = false;  ///< the block is one of them
    bool ended = false;    ///< the step decides nothing more on the block
    bool decides = false;  ///< the pass that is planned
    std::uint64_t blocks[most_steps] = {};  ///< hashes of the block before each step
    index_t written_count[most_positions] = {};
    token_id written[most_positions][memory] = {};  ///< by position of the block, a ring
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool paces = true;
  static constexpr bool counts_steps = true;
  static constexpr bool rewrites_blocks = true;
  static constexpr index_t tracks = 3 + memory;

  static constexpr part_label label{
      "joint_threshold_indel",
      "edits a block until nothing changes; two tokens erase a position and insert a masked one"};
  static constexpr knob<joint_threshold_indel> knobs[] = {
      {"threshold", &joint_threshold_indel::threshold, within(0, 1)},
      {"edit_threshold", &joint_threshold_indel::edit_threshold, within(0, 1)},
      {"most_edits", &joint_threshold_indel::most_edits, within(0, 62)},
      {"erase_token", &joint_threshold_indel::erase_token, at_least(-1)},
      {"insert_token", &joint_threshold_indel::insert_token, at_least(-1)}};

  /// True with a command: text moves, and no fixed position could stay.
  [[nodiscard]] bool moves_text() const { return erase_token >= 0 || insert_token >= 0; }
  void check(const sequence_shape& g, const model_info& m) const {
    check_argument(g.block_length <= most_positions,
                   "sequence_shape::block_length",
                   g.block_length,
                   "at most 64 with joint_threshold_indel");
    check_argument(erase_token < m.vocab && (erase_token < 0 || erase_token != m.mask_token),
                   "joint_threshold_indel::erase_token",
                   erase_token,
                   "-1 or a token of the vocabulary other than the mask token");
    check_argument(insert_token < m.vocab && (insert_token < 0 || (insert_token != m.mask_token &&
                                                                   insert_token != erase_token)),
                   "joint_threshold_indel::insert_token",
                   insert_token,
                   "-1 or a token of the vocabulary other than the mask token and erase_token");
  }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return (detail::blocks_of(g) + 1) * (std::int64_t{g.block_length} + most_edits + 2);
  }

  UNMASK_HD bool commits(const auto&, const rank_info&) const { return false; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    if (s.ended && !s.decides) {
      const index_t block = s.block + 1;
      s = {};
      s.block = block;
    }
    const range block = released::aligned_block(q, s.block);
    if (block.last <= math::max(block.first, q.prompt_length)) {
      next.end = released::ended(q);
      return;
    }
    s.decides = !s.ended;
    next.score = {s.ended ? block.last : math::max(block.first, q.prompt_length), block.last};
    next.first_block = q.block_of(block.last - 1);
    next.last_block = next.first_block + 1;
    next.query = {0, block.last};
    next.freeze = {0, block.first};
    const std::uint64_t now = hash_of(q, block);
    s.repeats = false;
    for (index_t k = 0; k < s.seen; ++k) {
      s.repeats = s.repeats || s.blocks[k] == now;
    }
    if (!s.repeats && s.decides && s.seen < most_steps) {
      s.blocks[s.seen++] = now;
    }
  }

  UNMASK_HD void track(tracked_list& list, auto& context) const {
    const sequence_view& q = *context.at.view;
    list.add(q.mask_token);
    for (const token_id command : {erase_token, insert_token}) {
      if (command >= 0) {
        list.add(command);
      }
    }
    const sequence_state& s = context.sequence;
    const index_t cell = context.at.position - released::aligned_block(q, s.block).first;
    for (index_t k = 0; s.repeats && k < math::min(s.written_count[cell], memory); ++k) {
      list.add(s.written[cell][k]);
    }
  }

  UNMASK_HD void rewrite_block(auto& rows, auto& context) const {
    sequence_state& s = context.sequence;
    const sequence_view& q = *context.at.view;
    const index_t size = rows.size();
    const index_t fixed =
        context.at.position - released::aligned_block(q, s.block).first;  // before the rows
    const token_id mask = rows.mask_token();
    const auto is_original = [&](index_t i) { return rows.is_masked(i) && !rows.is_inserted(i); };
    const auto is_special = [&](token_id v) {
      return v == mask || (v >= 0 && (v == erase_token || v == insert_token));
    };
    index_t masked = 0;
    index_t original = 0;
    for (index_t i = 0; i < size; ++i) {
      masked += rows.is_masked(i) ? 1 : 0;
      original += is_original(i) ? 1 : 0;
    }
    ++s.updates;
    s.edits += original == 0 ? 1 : 0;
    bool is_final = s.updates > q.block_length + most_edits ||
                    (most_edits > 0 ? s.edits >= most_edits : original == 0);

    choice proposed[most_positions];
    for (index_t i = 0; i < size; ++i) {
      const auto best = !is_final && is_original(i)
                            ? rows.best(i, [&](token_id v) { return v == mask; })
                            : rows.best(i);
      proposed[i] = {best.token, best.probability, false};
    }
    const index_t taken_original =
        take_masked(rows,
                    proposed,
                    original == 0 || is_final ? masked : 1 + masked - original,
                    original == 0 || is_final ? 2.0F : threshold,
                    is_original);
    if (most_edits == 0 && original > 0 && taken_original == original) {
      is_final = true;
      take_all(rows, proposed);
    }
    bool any = false;
    for (index_t i = 0; i < size; ++i) {
      choice& p = proposed[i];
      p.taken = p.taken || (rows.is_committed(i) && p.probability > edit_threshold &&
                            p.token != rows.token(i));
      any = any || p.taken;
    }
    if (!any) {
      s.ended = true;
      s.decides = false;
      return;
    }
    for (index_t i = 0; is_final && i < size; ++i) {
      if (proposed[i].taken && is_special(proposed[i].token)) {
        take(proposed[i], rows.best(i, is_special));
      }
    }
    if (!is_final && s.repeats) {
      leave_loop(rows, proposed, s, fixed, is_original);
    }
    bool changes = false;
    for (index_t i = 0; i < size; ++i) {
      const choice& p = proposed[i];
      if (!p.taken) {
        continue;
      }
      changes = changes || p.token != rows.token(i);
      note(s, fixed + i, p.token);
      if (p.token >= 0 && p.token == erase_token) {
        rows.erase(i);
      } else if (p.token >= 0 && p.token == insert_token) {
        rows.insert(i);
      } else if (p.token != rows.token(i)) {
        rows.write(i, p.token, p.probability);
      }
    }
    s.ended = is_final;
    s.decides = !is_final || changes;
  }

 private:
  struct choice {
    token_id token = no_token;
    float probability = 0.0F;
    bool taken = false;
  };

  UNMASK_HD static void take(choice& p, const auto& best) {
    p.token = best.token;
    p.probability = best.probability;
  }

  [[nodiscard]] UNMASK_HD static std::uint64_t hash_of(const sequence_view& q, range block) {
    std::uint64_t h = 0x9e3779b97f4a7c15U;
    for (index_t p = block.first; p < block.last; ++p) {
      h = (h ^ static_cast<std::uint32_t>(q.tokens[p])) * 0xff51afd7ed558ccdU;
      h ^= h >> 32U;
    }
    return h;
  }

  // Takes the masked positions with a confidence above `bound` or, if there are fewer than `least`,
  // the `least` positions of highest confidence. Returns how many of them are original.
  UNMASK_HD static index_t take_masked(
      const auto& rows, choice* proposed, index_t least, float bound, const auto& is_original) {
    index_t taken = 0;
    index_t taken_original = 0;
    const auto add = [&](index_t i) {
      proposed[i].taken = true;
      ++taken;
      taken_original += is_original(i) ? 1 : 0;
    };
    for (index_t i = 0; i < rows.size(); ++i) {
      if (rows.is_masked(i) && proposed[i].probability > bound) {
        add(i);
      }
    }
    while (taken < least) {
      index_t best = -1;
      for (index_t i = 0; i < rows.size(); ++i) {
        if (rows.is_masked(i) && !proposed[i].taken &&
            (best < 0 || proposed[i].probability > proposed[best].probability)) {
          best = i;
        }
      }
      if (best < 0) {
        break;
      }
      add(best);
    }
    return taken_original;
  }

  UNMASK_HD static void take_all(const auto& rows, choice* proposed) {
    for (index_t i = 0; i < rows.size(); ++i) {
      proposed[i].taken = proposed[i].taken || rows.is_masked(i);
    }
  }

  UNMASK_HD static void note(sequence_state& s, index_t cell, token_id token) {
    for (index_t k = 0; k < math::min(s.written_count[cell], memory); ++k) {
      if (s.written[cell][k] == token) {
        return;
      }
    }
    s.written[cell][s.written_count[cell]++ % memory] = token;
  }

  // The least certain proposal that changes something becomes a token that was never written there.
  UNMASK_HD static void leave_loop(const auto& rows,
                                   choice* proposed,
                                   const sequence_state& s,
                                   index_t fixed,
                                   const auto& is_original) {
    index_t least = -1;
    for (index_t i = 0; i < rows.size(); ++i) {
      if (proposed[i].taken && proposed[i].token != rows.token(i) &&
          (least < 0 || proposed[i].probability < proposed[least].probability)) {
        least = i;
      }
    }
    if (least < 0) {
      return;
    }
    const token_id mask = rows.mask_token();
    const bool bars_mask = is_original(least);
    const auto was_written = [&](token_id v) {
      bool found = bars_mask && v == mask;
      for (index_t k = 0; k < math::min(s.written_count[fixed + least], memory); ++k) {
        found = found || s.written[fixed + least][k] == v;
      }
      return found;
    };
    const auto other = rows.best(least, was_written);
    if (other.token != no_token) {
      take(proposed[least], other);
    }
  }
};
static_assert(block_rewriting<joint_threshold_indel> && scheduling<joint_threshold_indel> &&
              pacing<joint_threshold_indel> && tracking<joint_threshold_indel>);

}  // namespace unmask
