// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>
#include <unmask/policy/schedule/fill_block.hpp>

namespace UNMASK_NAMESPACE {

/// How the number of positions grows with the distance of a density from its bound: not at all, by
/// one unit more, or twice the units for each tenth.
enum class length_growth : std::uint8_t { constant, linear, doubling };

/// Finds the length of an answer while it decodes, and both lengthens and shortens it: the
/// *density* of the end is the share of the masked positions at which the EOS token is the most
/// probable one.
///
///  1. Blocks are decoded from left to right. A step commits the masked positions of the block with
///     a confidence above `high` or, if there is none, the best one.
///  2. The density is computed over the positions of the whole answer that were masked before the
///  step.
///     Below `low_density` masked positions are inserted before the first committed EOS token or, if
///     there is none, appended; above `high_density` the answer is cut at its end, committed tokens
///     included. They are `unit` positions, and by `growth` more: times 1, 2, 3, ... (`linear`) or
///     1, 2, 4, 8 (`doubling`) for each begun tenth of the distance of the density from its bound, at
///     most 8 times.
///
/// The length stays after 64 steps, and once it was sequence_shape::length, which it never exceeds.
/// Positions that are inserted left of the block are decided next: the released code leaves them
/// masked.
///
/// report().answer_end is the end of the answer, prompt included; EOS tokens follow it. A start
/// with fixed or committed positions is treated as by `daedal`. The mask token is never committed;
/// with model_info::suppress_mask = false it has its share in the confidences. Needs
/// model_info::eos_token. Combines with the same parts as `daedal`.
/// Range: initial and unit at least 1; high and the densities in [0, 1], low_density at most
/// high_density.
/// Ties: the lower position.
/// State: 12 bytes a sequence.
/// Cost: each step reads the rows of the whole answer, and takes one thread O(answer); at most one
/// pass for each position that the answer may have, and 64.
/// Example: `rho_eos(1, 0.5, 1)`, EOS e, rows a90 b90 e90: `a__` `abe`.
/// Source: Yang, Jiang, Shao, "rho-EOS: Training-free Bidirectional Variable-Length Control for
/// Masked Diffusion LLMs", 2026, and its released code, `LLaDA_rho_EOS.py` (yjyddq/rho-EOS,
/// Apache-2.0).
struct rho_eos {
  index_t initial = 64;
  float high = 0.9F;
  index_t unit = 8;
  float low_density = 0.4F;
  float high_density = 0.6F;
  length_growth growth = length_growth::doubling;

  static constexpr index_t adjusting_steps = 64;

  struct sequence_state {
    index_t block = 0;     ///< first position of the block, counted from the prompt
    index_t steps = 0;     ///< of the sequence
    bool is_full = false;  ///< it had all positions that it may have
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool paces = true;
  static constexpr bool counts_steps = true;
  static constexpr bool rewrites_blocks = true;
  static constexpr index_t tracks = 1;

  static constexpr part_label label{
      "rho_eos", "lengthens and shortens the answer by the share of masked positions that end it"};
  static constexpr knob<rho_eos> knobs[] = {
      {"initial", &rho_eos::initial, at_least(1)},
      {"high", &rho_eos::high, within(0, 1)},
      {"unit", &rho_eos::unit, at_least(1)},
      {"low_density", &rho_eos::low_density, within(0, 1)},
      {"high_density", &rho_eos::high_density, within(0, 1)},
      word_knob<&rho_eos::growth>("growth", "constant|linear|doubling")};

  void check(const sequence_shape&, const model_info& m) const {
    check_argument(low_density <= high_density,
                   "rho_eos::low_density",
                   low_density,
                   "at most rho_eos::high_density = ",
                   high_density);
    check_argument(m.eos_token != no_token,
                   "model_info::eos_token",
                   m.eos_token,
                   "a token with rho_eos, which counts the positions that end the answer");
  }

  [[nodiscard]] UNMASK_HD index_t begin_length(const sequence_shape& g) const {
    return g.prompt_length + math::min(initial, g.length - g.prompt_length);
  }
  [[nodiscard]] index_t reach(const sequence_shape& g) const { return g.length - g.prompt_length; }
  /// Steps that change the length may undo what they commit.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return adjusting_steps;
  }

  UNMASK_HD bool commits(const auto&, const rank_info&) const { return false; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    advance(q, s, 0);
    const range block = block_of(q, s);
    if (block.first >= q.length) {
      next.end = q.masked_count == 0 ? ending::complete : ending::max_steps;
      return;
    }
    next.score = {q.prompt_length, q.length};
    next.first_block = q.block_of(block.first);
    next.last_block = next.first_block + 1;
    next.freeze = {0, q.prompt_length};
  }

  UNMASK_HD void track(tracked_list& list, auto& context) const {
    list.add(context.at.view->mask_token);
  }

  UNMASK_HD void rewrite_block(auto& rows, auto& context) const {
    sequence_state& s = context.sequence;
    const sequence_view& q = *context.at.view;
    const index_t size = rows.size();
    ++s.steps;
    s.is_full = s.is_full || size >= rows.most();
    const float density = density_of_end(rows, q.eos_token);
    const range block = block_of(q, s);
    const range inner = {block.first - q.prompt_length, block.last - q.prompt_length};
    index_t end = 0;  // the first EOS token, including this step
    while (end < size && (rows.is_masked(end) || rows.token(end) != q.eos_token)) {
      ++end;
    }
    index_t written = 0;
    detail::fill_block(
        rows,
        inner,
        high,
        [&](index_t i, token_id token) {
          ++written;
          end = token == q.eos_token ? math::min(end, i) : end;
        },
        [](index_t, float) {});
    advance(q, s, written);
    if (s.is_full || s.steps > adjusting_steps) {
      return;
    }
    if (density < low_density) {
      const index_t count = positions_for(low_density - density, rows.most() - size);
      if (end < size) {
        rows.insert(end, count);
        s.block = math::min(s.block, end);
      }
      rows.resize(size + count);
    } else if (density > high_density) {
      const index_t left = size - positions_for(density - high_density, size);
      rows.resize(left);
      s.block = math::min(s.block, left);
    }
  }

 private:
  [[nodiscard]] UNMASK_HD static range block_of(const sequence_view& q, const sequence_state& s) {
    const index_t first = q.prompt_length + s.block;
    return {first, math::min(first + q.block_length, q.length)};
  }

  // To the first block with a masked position, after the given number of positions of the present
  // block were written.
  UNMASK_HD static void advance(const sequence_view& q, sequence_state& s, index_t written) {
    for (range block = block_of(q, s); block.first < q.length && q.masked_in(block) == written;
         block = block_of(q, s)) {
      s.block = block.last - q.prompt_length;
      written = 0;
    }
  }

  [[nodiscard]] UNMASK_HD static float density_of_end(const auto& rows, token_id eos) {
    index_t masked = 0;
    index_t ends = 0;
    for (index_t i = 0; i < rows.size(); ++i) {
      if (rows.is_masked(i)) {
        ++masked;
        ends += rows.best(i).token == eos ? 1 : 0;
      }
    }
    return masked > 0 ? math::divide(static_cast<float>(ends), static_cast<float>(masked)) : 0.0F;
  }

  // Positions for a density at the given distance from its bound, at most the given number.
  [[nodiscard]] UNMASK_HD index_t positions_for(float distance, index_t limit) const {
    constexpr index_t most = 8;
    const float begun = math::divide(distance, 0.1F);
    index_t tenths = static_cast<index_t>(begun);
    tenths = math::max(tenths + (static_cast<float>(tenths) < begun ? 1 : 0), index_t{1});
    const index_t times = growth == length_growth::constant ? 1
                          : growth == length_growth::linear ? tenths
                          : tenths > 3                      ? most
                                                            : index_t{1} << (tenths - 1);
    const std::int64_t wanted = std::int64_t{math::min(times, most)} * unit;
    return wanted < limit ? static_cast<index_t>(wanted) : limit;
  }
};
static_assert(block_rewriting<rho_eos> && growing<rho_eos> && scheduling<rho_eos> &&
              pacing<rho_eos> && reaching<rho_eos> && tracking<rho_eos>);

}  // namespace unmask
