// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/random.hpp>

namespace UNMASK_NAMESPACE {

/// Denoises a canvas of random tokens instead of replacing masks: each step draws a token for every
/// position from its row at the step's temperature; a position that the commit rule accepts keeps
/// the drawn token, every other one gets a new random token. The answer is the most probable token
/// of each position in the last step.
///
/// The temperature falls from `hottest` to `coldest` + (hottest - coldest) / steps. The sequence
/// ends when the most probable tokens have stayed the same for `stable_steps` steps and the mean
/// entropy is below `certain` nats, or after `steps` steps. Combines with by_entropy and
/// entropy_bound. With `absorbing` a position that the commit rule has accepted is absorbed: it
/// keeps its token from step to step and is no longer a candidate. The sequence also ends when all
/// are absorbed; the answer has the most probable tokens of the last step, also at absorbed
/// positions. Without `draws` tokens are the most probable ones.
///
/// Models of this kind have no mask token: set model_info::mask_token to any token and
/// suppress_mask to false. A position whose row was never valid ends with the token that an invalid
/// row commits elsewhere, at log-probability -inf; otherwise a position with an invalid row keeps
/// the token of its last valid row.
///
/// Range: steps >= 1, least_temperature <= coldest <= hottest, stable_steps >= 0, where 0 means no
/// condition, certain >= 0, where 0 is never reached, vocab >= 1: the number of tokens that random
/// tokens are drawn from. Reads stat::entropy, sampled.
/// State: 8 bytes a position.
/// Example: `by_entropy + entropy_bound(0.01) + canvas(3)`, rows a99 b60 c99: `ayf` `apc` `abc`.
/// Source: DiffusionGemma (2026), its entropy-bound sampler, as in vLLM, SGLang and llama.cpp;
/// `absorbing` without draws is the default of mlx-vlm.
struct canvas {
  index_t vocab = 0;  ///< Number of tokens that noise is drawn from.
  index_t steps = 48;
  float coldest = 0.4F;
  float hottest = 0.8F;
  index_t stable_steps = 1;
  float certain = 0.005F;
  bool absorbing = false;
  bool draws = true;

  struct position_state {
    token_id best = no_token;
    bool changed = true;
    bool absorbed = false;
  };
  struct sequence_state {
    index_t held = 0;
    index_t absorbed = 0;  ///< positions
  };
  struct step_reduction {
    float entropy = 0.0F;
    index_t positions = 0;
    index_t changed = 0;
    UNMASK_HD void merge(const step_reduction& other) {
      entropy += other.entropy;
      positions += other.positions;
      changed += other.changed;
    }
  };

  static constexpr statistics required = stat::entropy | stat::sampled;

  static constexpr part_label label{
      "canvas",
      "fills the answer with random tokens and draws uncertain positions again in each step"};
  static constexpr knob<canvas> knobs[] = {
      {"steps", &canvas::steps, at_least(1)},
      {"coldest", &canvas::coldest, at_least(least_temperature)},
      {"hottest", &canvas::hottest, at_least(least_temperature)},
      {"stable_steps", &canvas::stable_steps, at_least(0)},
      {"certain", &canvas::certain, at_least(0).in("nats")},
      {"absorbing", &canvas::absorbing},
      {"draws", &canvas::draws}};

  void check(const sequence_shape&, const model_info&) const {
    check_argument(vocab >= 1, "canvas::vocab", vocab, "at least 1");
  }
  void check(const sequence_shape&) const {
    check_argument(
        hottest >= coldest, "canvas::hottest", hottest, "at least canvas::coldest = ", coldest);
  }
  [[nodiscard]] index_t reach(const sequence_shape& g) const { return g.length - g.prompt_length; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const { return steps; }

  /// Temperature of a step: from `hottest` down to `coldest`.
  [[nodiscard]] UNMASK_HD float temperature(index_t step) const {
    const float left = math::divide(static_cast<float>(steps - step), static_cast<float>(steps));
    return math::fma(hottest - coldest, left, coldest);
  }
  [[nodiscard]] UNMASK_HD logit_factor transform_at(const step_info& at) const {
    return {math::divide(1.0F, temperature(at.step))};
  }
  [[nodiscard]] UNMASK_HD float draw_temperature() const {
    return draws ? 1.0F : 0.0F;
  }  // the row is edited already

  UNMASK_HD void process(auto& row, auto& context) const {
    const token_id best = row.total().token;
    context.state.changed = best != context.state.best;
    context.state.best = best;
  }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return {c.entropy(), 1, context.state.changed ? 1 : 0};
  }

  UNMASK_HD token_id refill(index_t position, auto& context) const {
    const std::uint64_t bits = random_bits({.seed = context.at.seed,
                                            .sequence = context.at.sequence,
                                            .step = context.at.step,
                                            .position = position,
                                            .token = -4});
    return static_cast<token_id>((bits * static_cast<std::uint64_t>(vocab)) >> 32U);
  }
  UNMASK_HD token_id conclude(auto& context) const { return context.state.best; }

  /// Whether a position is absorbed; absorbs it.
  UNMASK_HD bool is_absorbed(auto& context) const { return absorbing && context.state.absorbed; }
  UNMASK_HD void absorb(auto& context) const { context.state.absorbed = true; }

  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    if (q.step == 0) {
      return ending::running;
    }
    index_t& held = context.sequence.held;
    held = context.step_reduction.changed == 0 ? held + 1 : 0;
    context.sequence.absorbed += absorbing ? q.new_commits : 0;
    if (absorbing && context.sequence.absorbed >= q.masked_count) {
      return ending::complete;
    }
    const bool sure = context.step_reduction.entropy <
                      certain * static_cast<float>(context.step_reduction.positions);
    if (held >= stable_steps && sure) {
      return ending::complete;
    }
    return q.step >= steps ? ending::max_steps : ending::running;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    q.block_length = q.length - q.prompt_length;
    next.score = {q.prompt_length, q.length};
    next.first_block = 0;
    next.last_block = 1;
  }
};
static_assert(renoising<canvas> && absorbing<canvas> && scheduling<canvas> && stopping<canvas> &&
              drawing<canvas> && step_reducing<canvas> && logits_processor<canvas> &&
              logits_transform<canvas>);

}  // namespace unmask
