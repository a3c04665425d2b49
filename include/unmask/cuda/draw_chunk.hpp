// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/stage_chunk.hpp>
#include <unmask/stats/draw.hpp>

/// canonical::draw_column, by a warp, in two halves: every chunk gets its key while it is read; the
/// column is picked once per row, when the winning chunk is known.
namespace UNMASK_NAMESPACE::device {

namespace detail {

// canonical::draw_weight.
[[nodiscard]] UNMASK_HD inline float draw_weight(float z, float best, float inverse_temperature) {
  return z > -math::infinity()
             ? math::exp_nonpositive(math::product(math::difference(z, best), inverse_temperature))
             : 0.0F;
}

// Weights of columns, a thread's lanes apart: canonical::weight_of_columns().
struct lane_weights {
  float best;
  float inverse_temperature;
  float even = 0.0F;
  float odd = 0.0F;

  template <index_t N>
  UNMASK_HD void add(const float (&z)[N]) {
    unrolled<N / 2>([&](index_t k) {
      even += draw_weight(z[2 * k], best, inverse_temperature);
      odd += draw_weight(z[2 * k + 1], best, inverse_temperature);
    });
  }
};

// Sets the key of a chunk's record in the draw; weigh(weights) adds the chunk's columns to
// lane_weights.
template <statistics S>
UNMASK_HD void draw_chunk(
    const auto& b, const draw_request& draw, token_id first, record<S>& r, const auto& weigh) {
  if (draw.forced != no_token) {
    const index_t column = draw.forced - first;
    r.key = draw_request::forced_key(column >= 0 && column < canonical::chunk_columns);
  } else {
    random_key key = draw.key;
    key.token = canonical::draw_token(first, canonical::draw_use::key);
    const float inverse = math::divide(1.0F, draw.temperature);
    float weight = r.total();
    if (draw.temperature != 1.0F) {
      lane_weights weights{r.best, inverse};
      weigh(weights);
      weight = sum_of_lanes(b, weights.even, weights.odd);
    }
    r.key = canonical::draw_key(r.best, inverse, weight, random_gumbel(key));
  }
  r.drawn = r.key > -math::infinity() ? first : no_token;
}

// True if canonical::draw_walk goes as far as a weight; `before` is the sum of those that precede
// it. It picks the last of these.
[[nodiscard]] UNMASK_HD inline bool is_passed(float before, float weight, float target) {
  return before <= target && weight > 0.0F;
}

// The largest of a warp's indices.
[[nodiscard]] UNMASK_HD inline index_t last_of_warp(const auto& b, index_t mine) {
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = b.shuffle_xor(static_cast<std::uint32_t>(mine), distance);
    mine = math::max(mine, static_cast<index_t>(other));
  }
  return mine;
}

// Picks a column of the chunk that starts at token `first`, whose best logit is `best`. `z` may be
// in memory: its indices are not constants.
[[nodiscard]] UNMASK_HD inline place pick_column(
    const auto& b, const draw_request& draw, const chunk_logits& z, token_id first, float best) {
  const auto logit_at = [&](index_t column) {
    const index_t within = column % canonical::lanes;
    return b.shuffle(z[2 * (column / canonical::lanes) + within % 2], within / 2);
  };
  if (draw.forced != no_token) {
    const index_t column = draw.forced - first;
    return {column, logit_at(column)};
  }
  random_key key = draw.key;
  const float inverse = math::divide(1.0F, draw.temperature);
  // Thread k has the weight of run k, and the weight of the runs that precede it.
  float weight = 0.0F;
  float before = 0.0F;
  float total = 0.0F;
  constexpr index_t at_a_time = 4;  // chains of additions that do not wait for each other
  rolled<lane_columns / at_a_time>([&](index_t group) {
    unrolled<at_a_time>([&](index_t n) {
      const index_t k = group * at_a_time + n;
      const float of_run = sum_of_lanes(
          b, draw_weight(z[2 * k], best, inverse), draw_weight(z[2 * k + 1], best, inverse));
      const bool mine = k == b.warp_lane();
      weight = mine ? of_run : weight;
      before = mine ? total : before;
      total += of_run;
    });
  });
  key.token = canonical::draw_token(first, canonical::draw_use::run);
  float target = math::product(random_uniform(key), total);
  const index_t run = last_of_warp(b, is_passed(before, weight, target) ? b.warp_lane() : 0);

  key.token = canonical::draw_token(first, canonical::draw_use::column);
  target = math::product(random_uniform(key), b.shuffle(weight, run));
  const float even = draw_weight(z[2 * run], best, inverse);
  const float odd = draw_weight(z[2 * run + 1], best, inverse);
  float passed = 0.0F;
  rolled<warp_threads / at_a_time>([&](index_t group) {
    unrolled<at_a_time>([&](index_t n) {
      const index_t t = group * at_a_time + n;
      before = t == b.warp_lane() ? passed : before;
      passed += b.shuffle(even, t);
      passed += b.shuffle(odd, t);
    });
  });
  const index_t lane = 2 * b.warp_lane();
  const index_t within = last_of_warp(b,
                                      is_passed(before + even, odd, target) ? lane + 1
                                      : is_passed(before, even, target)     ? lane
                                                                            : 0);
  const index_t column = run * canonical::lanes + within;
  return {column, logit_at(column)};
}

}  // namespace detail

}  // namespace unmask::device
