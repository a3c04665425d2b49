// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/stats/row_accumulator.hpp>
#include <unmask/stats/sum_of_lanes.hpp>

/// A random token from a row that is read once.
///
/// A chunk of 2,048 columns takes part in the draw with the key ln(sum of e^(z/T)) plus its own
/// Gumbel number. The largest key belongs to each chunk with a probability equal to its share of
/// the row's weight, so draws merge like a maximum; inside the chunk a column is picked by its
/// weight. Together this is an exact draw from softmax(z/T). It costs one logarithm a chunk and one
/// pick in the few chunks that lead while the row is read. The keys of random numbers contain the
/// chunk's place in the whole vocabulary.
namespace UNMASK_NAMESPACE::canonical {

inline constexpr index_t chunk_columns = 2048;

/// Column j of a chunk belongs to lane j mod 64.
inline constexpr index_t lanes = 64;

/// Weight of a column relative to the chunk's best; 0 for -inf.
[[nodiscard]] UNMASK_HD inline float draw_weight(float z, float best, float inverse_temperature) {
  const float weight = math::exp_nonpositive((z - best) * inverse_temperature);
  return z > -math::infinity() ? weight : 0.0F;  // a choice, not a branch
}

/// Sum of the weights of some columns, in the order in which the sums of a chunk are added: the
/// lanes in ascending order, then by halving.
[[nodiscard]] UNMASK_HD inline float
weight_of_columns(const float* z, index_t count, float best, float inverse_temperature) {
  float lane[lanes] = {};
  index_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    for (index_t i = 0; i < lanes; ++i) {
      lane[i] += draw_weight(z[j + i], best, inverse_temperature);
    }
  }
  for (index_t i = 0; j + i < count; ++i) {
    lane[i] += draw_weight(z[j + i], best, inverse_temperature);
  }
  return sum_of_lanes(lane);
}

/// The `token` of the random key for one use of the chunk that starts at token `first`: distinct
/// for every chunk and use, as a chunk has 2,048 columns.
enum class draw_use : token_id { key, run, column };
[[nodiscard]] UNMASK_HD constexpr token_id draw_token(token_id first, draw_use use) {
  return first + static_cast<token_id>(use);
}

/// Walks along weights, in order, to the one in which `target` lies. The preceding weights are
/// summed and compared with the target; subtracting them from the target instead would be a product
/// and a subtraction, which a compiler may fuse. A weight of zero is never picked.
struct draw_walk {
  float target;
  float passed = 0.0F;
  index_t index = 0;

  [[nodiscard]] UNMASK_HD bool goes_on() const { return passed <= target; }
  UNMASK_HD void pass(index_t i, float weight) {
    if (goes_on()) {
      index = weight > 0.0F ? i : index;
      passed += weight;
    }
  }
};

/// Key of a participant with the weight e^(x inverse) times `weight` and the Gumbel number `noise`.
/// Without a weight, or with NaN for it, the key is -inf: it cannot win. Keys are thus totally
/// ordered.
[[nodiscard]] UNMASK_HD inline float draw_key(float x, float inverse, float weight, float noise) {
  return weight > 0.0F ? math::fma(x, inverse, math::log(weight)) + noise : -math::infinity();
}

/// Key of one token that takes part on its own: a tracked token, which is not in its chunk any
/// more, or a token that a truncation keeps. Its random numbers differ from the numbers of every
/// chunk: bit 31 is set. A key below `to_beat` may be -inf: of most tokens of a long list it is,
/// and costs no logarithm then.
[[nodiscard]] UNMASK_HD inline float draw_key_alone(float x,
                                                    float weight,
                                                    token_id token,
                                                    const draw_request& draw,
                                                    float to_beat = -math::infinity()) {
  if (draw.forced != no_token) {
    return draw_request::forced_key(token == draw.forced);
  }
  if (!(draw.temperature > 0.0F)) {
    return -math::infinity();
  }
  random_key key = draw.key;
  key.token = static_cast<token_id>(static_cast<std::uint32_t>(token) | 0x80000000U);
  const float inverse = math::divide(1.0F, draw.temperature);
  const std::uint32_t bits = random_bits(key);
  const float most = math::fma(x, inverse, most_gumbel_of_32_bits(bits));
  const float rounding = math::fma(0x1p-20F, most < 0.0F ? -most : most, 0x1p-10F);
  return weight <= 1.0F && most + rounding < to_beat
             ? -math::infinity()
             : draw_key(x, inverse, weight, gumbel_of_32_bits(bits));
}

/// Adds one tracked column to a row, and to its draw: the largest key still belongs to each
/// participant with a probability equal to its share of the whole weight.
template <statistics S>
UNMASK_HD void
push_alone(row_accumulator<S>& sum, float logit, token_id token, const draw_request& draw) {
  record<S> one = row_accumulator<S>::column(logit, token);
  if constexpr (provides_v<S, stat::sampled>) {
    if (one.token != no_token) {
      one.key = draw_key_alone(logit, 1.0F, token, draw);
      one.drawn = token;
      one.drawn_logit = logit;
    }
  }
  sum.merge(row_accumulator<S>{one});
}

/// True if the chunks of a row take part in a draw: not at temperature 0, and not if the row is
/// truncated first.
template <statistics S>
[[nodiscard]] UNMASK_HD bool draws(const row_options& row) {
  return provides_v<S, stat::sampled> && row.draw.temperature > 0.0F &&
         !(provides_v<S, stat::kept> && row.held != nullptr);
}

/// Sets the key of a chunk's record and, if the key exceeds `to_beat`, the column drawn from the
/// chunk; a chunk that does not lead the row's draw cannot win it and needs no column. `z` are its
/// `count` edited logits, `first` the token of column 0.
/// `weigh` is weight_of_columns, or a kernel that computes the same.
/// Cost: with temperature 1 the weight of the chunk is its existing sum; otherwise O(count) more,
/// and O(count) for the pick.
template <statistics S, class Weigh = decltype(&weight_of_columns)>
UNMASK_HD void draw_column(record<S>& r,
                           const draw_request& draw,
                           const float* z,
                           index_t count,
                           token_id first,
                           float to_beat,
                           Weigh weigh = &weight_of_columns) {
  if constexpr (provides_v<S, stat::sampled>) {
    if (draw.forced != no_token) {
      const index_t column = draw.forced - first;
      const bool is_here = column >= 0 && column < count;
      r.key = draw_request::forced_key(is_here);
      r.drawn = is_here ? draw.forced : no_token;
      r.drawn_logit = is_here ? z[column] : 0.0F;
      return;
    }
    random_key key = draw.key;
    key.token = draw_token(first, draw_use::key);
    const float inverse = math::divide(1.0F, draw.temperature);
    const bool plain = draw.temperature == 1.0F;
    const float weight = plain ? r.total() : weigh(z, count, r.best, inverse);
    r.key = draw_key(r.best, inverse, weight, random_gumbel(key));
    if (!(r.key > to_beat)) {
      return;
    }
    // Picks a run of 64 columns, then a column of the run: two short walks instead of a long one.
    float run_weight[chunk_columns / lanes];
    const index_t runs = (count + lanes - 1) / lanes;
    float total = 0.0F;
    for (index_t i = 0; i < runs; ++i) {
      const index_t begin = i * lanes;
      run_weight[i] = weigh(z + begin, math::min(lanes, count - begin), r.best, inverse);
      total += run_weight[i];
    }
    key.token = draw_token(first, draw_use::run);
    draw_walk along{random_uniform(key) * total};
    for (index_t i = 0; i < runs && along.goes_on(); ++i) {
      along.pass(i, run_weight[i]);
    }
    key.token = draw_token(first, draw_use::column);
    const index_t begin = along.index * lanes;
    draw_walk within{random_uniform(key) * run_weight[along.index]};
    for (index_t j = 0; j < math::min(lanes, count - begin) && within.goes_on(); ++j) {
      within.pass(j, draw_weight(z[begin + j], r.best, inverse));
    }
    r.drawn = first + begin + within.index;
    r.drawn_logit = z[begin + within.index];
  }
}

}  // namespace unmask::canonical
