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

// Key of a chunk in the draw.
template <statistics S>
[[nodiscard]] UNMASK_HD float draw_key(const auto& b,
                                       const draw_request& draw,
                                       const chunk_logits& z,
                                       token_id first,
                                       const record<S>& r) {
  if (draw.forced != no_token) {
    const index_t column = draw.forced - first;
    return draw_request::forced_key(column >= 0 && column < canonical::chunk_columns);
  }
  random_key key = draw.key;
  key.token = canonical::draw_token(first, canonical::draw_use::key);
  const float inverse = math::divide(1.0F, draw.temperature);
  float weight = r.total();
  if (draw.temperature != 1.0F) {
    float even = 0.0F;
    float odd = 0.0F;
    unrolled<lane_columns>([&](index_t k) {
      even += draw_weight(z[2 * k], r.best, inverse);
      odd += draw_weight(z[2 * k + 1], r.best, inverse);
    });
    weight = sum_of_lanes(b, even, odd);
  }
  return canonical::draw_key(r.best, inverse, weight, random_gumbel(key));
}

// Picks a column of the chunk that starts at token `first`, whose best logit is `best`.
[[nodiscard]] UNMASK_HD inline place pick_column(const auto& b,
                                                 const draw_request& draw,
                                                 const chunk_logits& z,
                                                 index_t count,
                                                 token_id first,
                                                 float best) {
  if (draw.forced != no_token) {
    const index_t column = draw.forced - first;
    float even = 0.0F;
    float odd = 0.0F;
    unrolled<lane_columns>([&](index_t k) {
      even = k == column / canonical::lanes ? z[2 * k] : even;
      odd = k == column / canonical::lanes ? z[2 * k + 1] : odd;
    });
    const index_t within = column % canonical::lanes;
    return {column, b.shuffle(within % 2 == 0 ? even : odd, within / 2)};
  }
  random_key key = draw.key;
  const float inverse = math::divide(1.0F, draw.temperature);
  const index_t runs = (count + canonical::lanes - 1) / canonical::lanes;
  const auto weight_of_run = [&](index_t k) {
    return sum_of_lanes(
        b, draw_weight(z[2 * k], best, inverse), draw_weight(z[2 * k + 1], best, inverse));
  };
  float total = 0.0F;
  unrolled<lane_columns>([&](index_t k) {
    if (k < runs) {
      total += weight_of_run(k);
    }
  });
  key.token = canonical::draw_token(first, canonical::draw_use::run);
  canonical::draw_walk along{math::product(random_uniform(key), total)};
  float weight = 0.0F;  // of the run picked
  float even = -math::infinity();
  float odd = even;
  unrolled<lane_columns>([&](index_t k) {
    if (k < runs && along.goes_on()) {
      const float w = weight_of_run(k);
      along.pass(k, w);
      if (along.index == k) {
        weight = w;
        even = z[2 * k];
        odd = z[2 * k + 1];
      }
    }
  });
  key.token = canonical::draw_token(first, canonical::draw_use::column);
  canonical::draw_walk within{math::product(random_uniform(key), weight)};
  const index_t run = along.index * canonical::lanes;
  rolled<warp_threads>([&](index_t t) {
    within.pass(2 * t, draw_weight(b.shuffle(even, t), best, inverse));
    within.pass(2 * t + 1, draw_weight(b.shuffle(odd, t), best, inverse));
  });
  const index_t holder = within.index / 2;
  const float logit = b.shuffle(within.index % 2 == 0 ? even : odd, holder);
  return {run + within.index, logit};
}

}  // namespace detail

}  // namespace unmask::device
