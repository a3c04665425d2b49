// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/llada_layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace example {
namespace {

// Rows whose scores are held at once: they stay in cache, and memory grows with the length of the
// sequence only, not with its square. A multiple of the kernels' tile.
constexpr std::size_t score_rows = 48;

void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) {
    buffer.resize(size);
  }
}

row_block<float> block(std::vector<float>& buffer, std::size_t rows, std::size_t stride) {
  return {buffer.data(), rows, stride};
}

row_block<const float> input(row_block<float> rows) {
  return {rows.data, rows.rows, rows.stride};
}

row_block<const float> input(hidden_rows rows, std::size_t width) {
  return {rows.data, rows.positions.size(), width};
}

/// The rows as attention or feed forward reads them: normed first, or as they are.
row_block<const float>
read_by(const llada_config& config, const norm& first, hidden_rows rows, layer_scratch& scratch) {
  const row_block<const float> in = input(rows, config.width);
  if (!config.kind.norm_first) {
    return in;
  }
  const row_block<float> normed = block(scratch.normed, in.rows, config.width);
  first.apply(in, normed);
  return input(normed);
}

/// Scores of the row at `position` to weights: those of hidden keys are 0.
void weigh(std::span<float> scores,
           std::size_t position,
           std::size_t count,
           float scale,
           hidden_keys hides) {
  const std::size_t seen = hides.behind.seen(position, count);
  if (hides.own) {
    scores[position] = std::numeric_limits<float>::lowest();
  }
  scaled_softmax(scores.data(), seen, scale);
  std::fill(scores.begin() + static_cast<std::ptrdiff_t>(seen), scores.end(), 0.0F);
  if (hides.own) {
    scores[position] = 0.0F;  // an exponential may be tiny and not 0
  }
}

}  // namespace

void activate(activation function, std::span<float> x) {
  if (function == activation::gelu_tanh) {
    gelu_tanh(x);
  } else {
    gelu(x);
  }
}

void key_values::reserve(std::size_t positions, std::size_t width) {
  width_ = width;
  grow(keys_, padded(positions) * width);
  grow(values_, positions * width);
}

void key_values::put(std::size_t position,
                     std::span<const float> key,
                     std::span<const float> value) {
  float* lane = keys_.data() + position / lanes * width_ * lanes + position % lanes;
  for (std::size_t i = 0; i < width_; ++i) {
    lane[i * lanes] = key[i];
  }
  std::copy(value.begin(), value.end(), values_.data() + position * width_);
}

void key_values::get(std::size_t position, std::span<float> key, std::span<float> value) const {
  const float* lane = keys_.data() + position / lanes * width_ * lanes + position % lanes;
  for (std::size_t i = 0; i < width_; ++i) {
    key[i] = lane[i * lanes];
  }
  std::copy_n(values_.data() + position * width_, width_, value.data());
}

panels key_values::keys(std::size_t head, std::size_t head_width, std::size_t count) const {
  return {keys_.data() + head * head_width * lanes, head_width, count, width_ * lanes, lanes};
}

panels key_values::values(std::size_t head, std::size_t head_width, std::size_t count) const {
  return {values_.data() + head * head_width, count, head_width, lanes, width_};
}

void rotary_table::reserve(std::size_t positions, const llada_config& config) {
  if (!config.kind.rotary) {
    return;
  }
  pairs_ = config.head_width / 2;
  for (std::size_t position = cosines_.size() / pairs_; position < positions; ++position) {
    for (std::size_t pair = 0; pair < pairs_; ++pair) {
      const double exponent =
          -2.0 * static_cast<double>(pair) / static_cast<double>(config.head_width);
      const double angle = static_cast<double>(position) *
                           std::pow(static_cast<double>(config.rope_theta), exponent);
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void rotary_table::rotate(std::size_t position, std::span<float> row) const {
  if (pairs_ == 0) {
    return;
  }
  rotate_pairs(row,
               std::span(cosines_).subspan(position * pairs_, pairs_),
               std::span(sines_).subspan(position * pairs_, pairs_));
}

void layer_scratch::reserve(std::size_t rows, std::size_t positions, const llada_config& config) {
  for (std::vector<float>* buffer : {&query, &key, &value, &attended}) {
    grow(*buffer, rows * config.width);
  }
  for (std::vector<float>* buffer : {&normed, &projected}) {  // in the head, too
    grow(*buffer, rows * std::max(config.width, config.embedding));
  }
  grow(up, rows * config.feed_forward);
  if (config.kind.inner == activation::gated_silu) {
    grow(gate, rows * config.feed_forward);
  }
  grow(scores, score_rows * padded(positions));
}

std::span<const float> input_of(const llada_config& config,
                                const llada_layer& layer,
                                layer_input what,
                                hidden_rows rows,
                                layer_scratch& scratch) {
  const std::size_t count = rows.positions.size(), width = config.width;
  const row_block<const float> in = read_by(config, layer.attention_norm, rows, scratch);
  if (what == layer_input::normed) {
    return {in.data, count * width};
  }
  const linear& weights = what == layer_input::query ? layer.query
                          : what == layer_input::key ? layer.key
                                                     : layer.value;
  weights.apply(in, block(scratch.projected, count, width));
  return std::span(scratch.projected).first(count * width);
}

void add_and_norm(const llada_config& config,
                  const norm& following,
                  std::span<const float> added,
                  std::span<float> rows) {
  add(rows, added);
  if (!config.kind.norm_first) {
    const std::size_t count = rows.size() / config.width;
    following.apply({rows.data(), count, config.width}, {rows.data(), count, config.width});
  }
}

void update_keys_values(const llada_config& config,
                        const llada_layer& layer,
                        const rotary_table& rotary,
                        hidden_rows rows,
                        layer_scratch& scratch,
                        key_values& store) {
  const std::size_t count = rows.positions.size(), width = config.width;
  const row_block<const float> in = read_by(config, layer.attention_norm, rows, scratch);
  layer.key.apply(in, block(scratch.key, count, width));
  layer.value.apply(in, block(scratch.value, count, width));
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::size_t>(rows.positions[i]);
    const std::span<float> key(scratch.key.data() + i * width, width);
    rotary.rotate(position, key);
    store.put(position, key, std::span(scratch.value).subspan(i * width, width));
  }
}

std::span<const float> add_attention(const llada_config& config,
                                     const llada_layer& layer,
                                     const rotary_table& rotary,
                                     const key_values& store,
                                     std::size_t count,
                                     hidden_rows rows,
                                     layer_scratch& scratch,
                                     hidden_keys hides) {
  const std::size_t queries = rows.positions.size(), width = config.width;
  // The norm is computed here again, not kept from update_keys_values: it is cheap, and the two
  // calls may be about different rows.
  const row_block<const float> in = read_by(config, layer.attention_norm, rows, scratch);
  layer.query.apply(in, block(scratch.query, queries, width));
  for (std::size_t i = 0; i < queries; ++i) {
    rotary.rotate(static_cast<std::size_t>(rows.positions[i]),
                  std::span(scratch.query).subspan(i * width, width));
  }

  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_width));
  const std::size_t stride = padded(count);
  for (std::size_t head = 0; head < config.heads; ++head) {
    const panels keys = store.keys(head, config.head_width, count);
    const panels values = store.values(head, config.head_width, count);
    for (std::size_t first = 0; first < queries; first += score_rows) {
      const std::size_t part = std::min(score_rows, queries - first);
      const std::size_t start = first * width + head * config.head_width;
      const row_block<float> scores = block(scratch.scores, part, stride);
      multiply({scratch.query.data() + start, part, width}, keys, scores);
      for (std::size_t i = 0; i < part; ++i) {
        weigh({scores.data + i * stride, stride},
              static_cast<std::size_t>(rows.positions[first + i]),
              count,
              scale,
              hides);
      }
      multiply(input(scores), values, {scratch.attended.data() + start, part, width});
    }
  }
  const row_block<float> projected = block(scratch.projected, queries, width);
  layer.output.apply(input(block(scratch.attended, queries, width)), projected);
  const std::span<const float> added(projected.data, queries * width);
  add_and_norm(config, layer.attention_norm, added, {rows.data, queries * width});
  return added;
}

std::span<const float> add_feed_forward(const llada_config& config,
                                        const llada_layer& layer,
                                        hidden_rows rows,
                                        layer_scratch& scratch) {
  const std::size_t count = rows.positions.size(), width = config.width;
  const std::size_t inner = config.feed_forward;
  const row_block<const float> in = read_by(config, layer.feed_forward_norm, rows, scratch);
  const row_block<float> up = block(scratch.up, count, inner);
  layer.up.apply(in, up);
  row_block<float> active = up;
  if (config.kind.inner == activation::gated_silu) {
    active = block(scratch.gate, count, inner);
    layer.gate.apply(in, active);
    gated_silu({active.data, count * inner}, {up.data, count * inner});
  } else {
    activate(config.kind.inner, {up.data, count * inner});
  }
  const row_block<float> projected = block(scratch.projected, count, width);
  layer.down.apply(input(active), projected);
  const std::span<const float> added(projected.data, count * width);
  add_and_norm(config, layer.feed_forward_norm, added, {rows.data, count * width});
  return added;
}

}  // namespace example
