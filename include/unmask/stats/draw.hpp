// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/stats/row_accumulator.hpp>

/// A random token from a row that is read once.
///
/// A chunk of 2,048 columns takes part in the draw with the key ln(sum of e^(z/T)) + a Gumbel
/// number of its own. The largest key falls on each chunk with its share of the row's weight, so a
/// draw merges like a maximum; inside the chunk a column is picked by its weight. Together that is
/// an exact draw from softmax(z/T), at the price of one logarithm a chunk and one pick in the few
/// chunks that lead while the row is read. Random numbers are keyed by the chunk's place in the
/// whole vocabulary.
namespace UNMASK_NAMESPACE::canonical {

inline constexpr index_t chunk_columns = 2048;

/// Columns that share a pick: a run of the chunk, picked first, then a column of the run.
inline constexpr index_t draw_run = 64;

/// Weight of a column relative to the chunk's best; 0 for -inf.
[[nodiscard]] UNMASK_HD inline float draw_weight(float z, float best, float inverse_temperature) {
  return z > -math::infinity() ? math::exp_nonpositive((z - best) * inverse_temperature) : 0.0F;
}

/// Sum of the weights of some columns, in column order.
[[nodiscard]] UNMASK_HD inline float
weight_of_columns(const float* z, index_t count, float best, float inverse_temperature) {
  float sum = 0.0F;
  for (index_t j = 0; j < count; ++j) {
    sum += draw_weight(z[j], best, inverse_temperature);
  }
  return sum;
}

/// The `token` of the random key for one use of the chunk that starts at token `first`: distinct
/// for every chunk and use, as a chunk has 2,048 columns.
enum class draw_use : token_id { key, run, column };
[[nodiscard]] UNMASK_HD constexpr token_id draw_token(token_id first, draw_use use) {
  return first + static_cast<token_id>(use);
}

/// Gives a chunk's record its key and, if the key exceeds `to_beat`, the column drawn from the
/// chunk; a chunk that does not lead the row's draw cannot win it and needs no column. `z` are its
/// `count` edited logits, `first` the token of column 0. With temperature 1 the weight of the chunk
/// is the sum it has already; O(count) more otherwise, and for the draw itself.
template <statistics S>
UNMASK_HD void draw_column(record<S>& r,
                           const draw_request& draw,
                           const float* z,
                           index_t count,
                           token_id first,
                           float to_beat) {
  if constexpr (provides_v<S, stat::sampled>) {
    random_key key = draw.key;
    key.token = draw_token(first, draw_use::key);
    const float inverse = math::divide(1.0F, draw.temperature);
    const bool plain = draw.temperature == 1.0F;
    const float weight = plain ? r.total() : weight_of_columns(z, count, r.best, inverse);
    r.key = math::fma(r.best, inverse, math::log(weight)) + random_gumbel(key);
    if (!(r.key > to_beat)) {
      return;
    }
    // Runs first, then a column of the run: two short sums instead of one long one.
    float run_weight[chunk_columns / draw_run];
    const index_t runs = (count + draw_run - 1) / draw_run;
    float total = 0.0F;
    for (index_t i = 0; i < runs; ++i) {
      const index_t begin = i * draw_run;
      run_weight[i] =
          weight_of_columns(z + begin, math::min(draw_run, count - begin), r.best, inverse);
      total += run_weight[i];
    }
    key.token = draw_token(first, draw_use::run);
    float target = random_uniform(key) * total;
    index_t run = 0;
    for (index_t i = 0; i < runs && target >= 0.0F; ++i) {
      run = run_weight[i] > 0.0F ? i : run;
      target -= run_weight[i];
    }
    key.token = draw_token(first, draw_use::column);
    target = random_uniform(key) * run_weight[run];
    index_t column = run * draw_run;
    const index_t end = math::min(column + draw_run, count);
    for (index_t j = column; j < end && target >= 0.0F; ++j) {
      const float w = draw_weight(z[j], r.best, inverse);
      column = w > 0.0F ? j : column;
      target -= w;
    }
    r.drawn = first + column;
    r.drawn_logit = z[column];
  }
}

}  // namespace unmask::canonical
