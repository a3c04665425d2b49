// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/commit.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>

/// Remasking discrete diffusion (ReMDM): commit rules that mask a few of the least certain tokens
/// again. The paper draws tokens and positions; its released variants here are deterministic.
/// Source: G. Wang et al., Remasking discrete diffusion models with inference-time scaling (2025).
namespace UNMASK_NAMESPACE {

/// Commits `count` tokens a pass until the share `ratio` of the answer is committed, then loops,
/// then continues as before. Each of the `loop_steps` rounds of the loop is two passes: the first
/// commits nothing, and masks the `count` committed tokens that are now least probable; the next
/// commits the `count` best-ranked of all masked positions.
///
///     floor(ratio L / count) passes, 2 loop_steps passes, and the rest, for an answer of L
///
/// Without any pass before it the loop is left out. A complete answer also loops. Decides the whole
/// answer as one block: with single_block, or a block length of the answer.
///
/// Range: count >= 1, ratio in [0, 1], loop_steps >= 0. Reads stat::confidence.
/// Ties: the lower position is masked first. A token whose probability is NaN stays.
/// Cost: reads the rows of committed positions in every pass; no state.
/// Example: `remdm_loop(1, 0.7, 1)`, rows a90 b80 c70, then a90 b80 c70, then a90 b50 c70: `a__`
/// `ab_` `a__` `a_c` `abc`.
/// Source: the loop of UNCODE's released code, P. Huang et al., Empirical analysis of decoding
/// biases in masked diffusion models (2025).
struct remdm_loop {
  index_t count = 1;
  float ratio = 0.75F;
  index_t loop_steps = 10;

  static constexpr statistics required = stat::confidence;
  static constexpr bool counts_steps = true;
  static constexpr bool tracks_current = true;
  static constexpr part_label label{
      "remdm_loop", "commits count tokens a step; on the way it masks weak ones again, in a loop"};
  static constexpr knob<remdm_loop> knobs[] = {
      {"count", &remdm_loop::count, at_least(1)},
      {"ratio", &remdm_loop::ratio, within(0, 1)},
      {"loop_steps", &remdm_loop::loop_steps, at_least(0)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return loop_end(g.length - g.prompt_length);
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_remasks(const sequence_shape& g) const {
    return loop_begin(g.length - g.prompt_length) > 0 ? std::int64_t{loop_steps} * count : 0;
  }

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    return s.rank < count && !masks(context.at);
  }
  [[nodiscard]] UNMASK_HD index_t remask_count(const auto& context) const {
    return masks(context.at) ? count : 0;
  }
  // Probability of the token, less 1: of nearly certain tokens, which differ in the last bits of
  // their probabilities, by the mass of all others.
  UNMASK_HD float remask_score(const auto& c, const auto& context) const {
    const float p = context.at.current_probability;
    return c.token == c.current && p > 0.5F ? -math::divide(c.rest, c.total()) : p - 1.0F;
  }
  [[nodiscard]] UNMASK_HD bool goes_on(const sequence_view& q, const auto&) const {
    return q.step < loop_end(q.length - q.prompt_length);
  }

 private:
  // Passes before the loop, and before its end, for an answer of the given length.
  [[nodiscard]] UNMASK_HD std::int64_t loop_begin(index_t answer) const {
    const float committed = math::product(ratio, static_cast<float>(answer));
    return static_cast<index_t>(committed) / count;
  }
  [[nodiscard]] UNMASK_HD std::int64_t loop_end(index_t answer) const {
    const std::int64_t begin = loop_begin(answer);
    const std::int64_t end = begin + 2 * std::int64_t{loop_steps};
    return begin > 0 ? end : 0;
  }
  // True for a step that masks tokens.
  [[nodiscard]] UNMASK_HD bool masks(const step_info& at) const {
    const index_t answer = at.view->length - at.view->prompt_length;
    const std::int64_t begin = loop_begin(answer);
    return at.step >= begin && at.step < loop_end(answer) && (at.step - begin) % 2 == 0;
  }
};
static_assert(commit_rule<remdm_loop> && going_on<remdm_loop>);

/// Decides a block of B positions in 2B passes: the best-ranked token in each but the B passes from
/// pass floor(7 B / 8) on. Before each of those the `count` tokens that had the lowest confidence
/// when they were committed are masked again, and the pass commits `count`. A block without a
/// masked position is complete.
///
/// Range: count >= 1. Reads stat::confidence.
/// Ties: the lower position is masked first. A row of NaN keeps its place.
/// State: 4 bytes a position.
/// Cost: reads the rows of the block's committed positions, whose values it does not use.
/// Example: `remdm_conf`, rows a90 b80: `__` `__` `a_` `ab`.
/// Source: the released code's variant by confidence for LLaDA, with the best token instead of a
/// drawn one; it stops after a block with an EOS token, as stop_at_eos(whole_block=true) does.
struct remdm_conf {
  index_t count = 1;

  struct position_state {
    float confidence = 0.0F;  ///< of a committed token, in the pass that committed it
  };
  struct step_reduction {
    UNMASK_HD void merge(const step_reduction&) {}
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "remdm_conf", "one token a step, and near the block's end count tokens masked and replaced"};
  static constexpr knob<remdm_conf> knobs[] = {{"count", &remdm_conf::count, at_least(1)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return 2 * detail::blocks_of(g) * g.block_length;
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_remasks(const sequence_shape& g) const {
    return detail::blocks_of(g) * count;
  }

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    return s.rank < (loops(context.at.block_step, context.at) ? count : 1);
  }
  UNMASK_HD step_reduction review(const auto& c, auto& context) const {
    context.state.confidence = c.confidence();
    return {};
  }
  [[nodiscard]] UNMASK_HD index_t remask_count(const auto& context) const {
    return loops(context.at.block_step + 1, context.at) ? count : 0;
  }
  UNMASK_HD float remask_score(const auto& c, const auto& context) const {
    return context.at.view->is_masked(c.position) ? c.confidence() : context.state.confidence;
  }

 private:
  // True for a pass of the block before which tokens are masked.
  [[nodiscard]] UNMASK_HD static bool loops(index_t pass, const step_info& at) {
    const index_t first = at.block_masked_at_first - (at.block_masked_at_first + 7) / 8;
    return pass >= first && pass < first + at.block_masked_at_first;
  }
};
static_assert(commit_rule<remdm_conf> && remasking_least<remdm_conf> && reviewing<remdm_conf>);

}  // namespace unmask
