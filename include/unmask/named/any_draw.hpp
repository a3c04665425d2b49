// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/named/replay_by_address.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>

#include <limits>

namespace UNMASK_NAMESPACE {

/// temperature and the heat of a canvas, in this order.
struct any_transform {
  placed<temperature> of_logits = {};
  canvas of_canvas = {};
  bool has_canvas = false;

  static constexpr statistics required = stat::none;

  [[nodiscard]] UNMASK_HD bool transforms_now() const {
    return has_canvas || of_logits.transforms_now();
  }
  /// Without a canvas the second factor is 1, which changes no bit.
  [[nodiscard]] UNMASK_HD auto transform_at(const step_info& at) const {
    return transforms_in_turn<logit_factor, logit_factor>{
        {of_logits.factor()}, has_canvas ? of_canvas.transform_at(at) : logit_factor{}};
  }
};
static_assert(logits_transform<any_transform>);

/// sampling, the draws of a canvas, the tokens of a trace, or none. A canvas is decoded with
/// single_block as schedule.
struct any_draw {
  using position_state = canvas::position_state;
  using sequence_state = canvas::sequence_state;
  using step_reduction = canvas::step_reduction;

  static constexpr statistics required = sampling::required | canvas::required;
  static constexpr index_t text_index = std::numeric_limits<index_t>::max();  // stop() comes last

  sampling draw = {.temperature = 0.0F};
  canvas noise = {};
  bool has_canvas = false;
  replay_by_address traced = {};
  bool has_trace = false;

  /// Statistics that the draw reads. named_policy::device_read() adds those of a draw without a
  /// canvas.
  [[nodiscard]] statistics required_now() const {
    return has_canvas ? canvas::required : stat::none;
  }

  UNMASK_LIBRARY void check(const sequence_shape& g, const model_info& m) const;
  [[nodiscard]] UNMASK_HD bool renoises_now() const { return has_canvas; }
  /// False: no state is kept at positions.
  [[nodiscard]] bool remembers_now() const { return has_canvas; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return has_canvas ? noise.extra_forwards(g) : 0;
  }
  [[nodiscard]] UNMASK_HD float draw_temperature() const {
    return has_canvas  ? noise.draw_temperature()
           : has_trace ? traced.draw_temperature()
                       : draw.draw_temperature();
  }
  [[nodiscard]] UNMASK_HD bool forces_now() const { return has_trace; }
  [[nodiscard]] UNMASK_HD token_id forced_token(const step_info& at) const {
    return has_trace ? traced.forced_token(at) : no_token;
  }
  [[nodiscard]] UNMASK_HD detail::placed_tokens filled_tokens(index_t step) const {
    return has_trace ? traced.filled_tokens(step) : detail::placed_tokens{};
  }
  [[nodiscard]] UNMASK_HD bool processes_now() const { return has_canvas; }
  UNMASK_HD void process(auto& row, auto& context) const {
    if (has_canvas) {
      noise.process(row, context);
    }
  }
  [[nodiscard]] UNMASK_HD bool reduces_now() const { return has_canvas; }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return has_canvas ? noise.reduce(c, context) : step_reduction{};
  }
  UNMASK_HD token_id refill(index_t position, auto& context) const {
    return noise.refill(position, context);
  }
  UNMASK_HD token_id conclude(auto& context) const { return noise.conclude(context); }
  UNMASK_HD bool is_absorbed(auto& context) const { return noise.is_absorbed(context); }
  UNMASK_HD void absorb(auto& context) const { noise.absorb(context); }
  [[nodiscard]] UNMASK_HD bool stops_now() const { return has_canvas || has_trace; }
  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    return has_canvas  ? noise.stop(q, context)
           : has_trace ? traced.stop(q, context)
                       : ending::running;
  }
};
static_assert(renoising<any_draw> && absorbing<any_draw> && stopping<any_draw> &&
              forcing<any_draw> && step_reducing<any_draw> && logits_processor<any_draw>);

#if UNMASK_DEFINES
UNMASK_LIBRARY void any_draw::check(const sequence_shape& g, const model_info& m) const {
  if (has_canvas) {
    check_part(noise, g, m);
  }
  if (has_trace) {
    check_part(traced, g, m);
  }
  check_part(draw, g, m);
}
#endif

/// top_k, top_p, min_p and confidence_after_truncation together.
struct any_truncation {
  truncation rules = {};
  bool has_rules = false;

  static constexpr statistics required = stat::kept;

  [[nodiscard]] UNMASK_HD bool truncates_now() const { return has_rules; }
  [[nodiscard]] statistics required_now() const { return has_rules ? required : stat::none; }
  [[nodiscard]] UNMASK_HD truncation kept() const { return rules; }
};
static_assert(truncating<any_truncation>);

}  // namespace unmask
