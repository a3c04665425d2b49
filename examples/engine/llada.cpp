// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/llada.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace example {

llada_model::llada_model(const gguf_file& file)
    : llada_model(std::make_shared<const llada_weights>(llada_weights::load(file))) {}

llada_model::llada_model(const llada_model&) = default;
llada_model::llada_model(llada_model&&) noexcept = default;
llada_model& llada_model::operator=(const llada_model&) = default;
llada_model& llada_model::operator=(llada_model&&) noexcept = default;
llada_model::~llada_model() = default;

llada_model::llada_model(std::shared_ptr<const llada_weights> weights)
    : weights_(std::move(weights)) {
  if (weights_ == nullptr) {
    throw std::invalid_argument("weights are null, must be loaded");
  }
}

/// Checks a batch and returns the number of requested rows.
std::size_t llada_model::validate(std::span<const sequence_window> batch) const {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& [tokens, first, last] = batch[i];
    const std::string name = "sequence " + std::to_string(i) + ": ";
    if (tokens.size() > config().context) {
      throw std::invalid_argument(name + std::to_string(tokens.size()) +
                                  " tokens, must be at most the context length " +
                                  std::to_string(config().context));
    }
    if (first > last || last > tokens.size()) {
      throw std::invalid_argument(name + "window " + std::to_string(first) + " to " +
                                  std::to_string(last) + ", must lie in the " +
                                  std::to_string(tokens.size()) + " tokens");
    }
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      if (tokens[at] < 0 || static_cast<std::size_t>(tokens[at]) >= config().vocabulary) {
        throw std::invalid_argument(name + "token " + std::to_string(tokens[at]) + " at position " +
                                    std::to_string(at) +
                                    ", must be at least 0 and below the vocabulary size " +
                                    std::to_string(config().vocabulary));
      }
    }
    rows += last - first;
  }
  return rows;
}

void llada_model::reserve(std::size_t positions, std::size_t rows) {
  while (positions_.size() < positions) {
    positions_.push_back(static_cast<std::int32_t>(positions_.size()));
  }
  present_.resize(positions_.size());
  rotary_.reserve(positions, config());
  scratch_.reserve(positions, positions, config());
  store_.reserve(positions, config().width);
  own_.reserve(positions, config().width);
  hidden_.resize(std::max(hidden_.size(), positions * config().width));
  logits_.resize(std::max(logits_.size(), rows * config().vocabulary));
}

/// The hidden states in front of the first layer of the tokens at these positions.
hidden_rows llada_model::embed(std::span<const std::int32_t> tokens,
                               std::span<const std::int32_t> positions) {
  const embedding_weights& weights = weights_->embedding;
  const bool projects = weights.projection.has_value();
  const std::size_t count = positions.size(), width = config().embedding;
  float* const rows = projects ? scratch_.normed.data() : hidden_.data();
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::size_t>(positions[i]);
    const auto token = static_cast<std::size_t>(tokens[position]);
    std::copy_n(weights.tokens.data() + token * width, width, rows + i * width);
    if (!weights.positions.empty()) {
      add({rows + i * width, width}, std::span(weights.positions).subspan(position * width, width));
    }
    present_[i] = positions[i];
  }
  if (weights.after) {
    weights.after->apply({rows, count, width}, {rows, count, width});
  }
  if (projects) {
    weights.projection->apply({rows, count, width}, {hidden_.data(), count, config().width});
  }
  return {hidden_.data(), std::span(present_).first(positions.size())};
}

/// Drops all rows but those chosen, which are indices of rows, ascending.
hidden_rows llada_model::keep(hidden_rows rows, std::span<const std::int32_t> chosen) {
  const std::size_t width = config().width;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto from = static_cast<std::size_t>(chosen[i]);
    if (from != i) {
      std::copy_n(rows.data + from * width, width, rows.data + i * width);
      present_[i] = present_[from];
    }
  }
  return {rows.data, rows.positions.first(chosen.size())};
}

/// Adds the attention of the rows over what the sequence keeps: all of it, or, where keys were
/// dropped, those that stay and those of the blocks, side by side.
std::span<const float> llada_model::attend(std::size_t layer,
                                           std::size_t attended,
                                           hidden_rows rows,
                                           const sequence_memory& memory) {
  const llada_layer& weights = weights_->layer(layer);
  const layer_memory& kept = memory.layers[layer];
  if (!memory.drops_keys) {
    return add_attention(
        config(), weights, rotary_, kept.store, attended, rows, scratch_, memory.hides);
  }
  keys_.resize(std::max(keys_.size(), 2 * config().width));
  const std::span key = std::span(keys_).first(config().width);
  const std::span value = std::span(keys_).subspan(config().width, config().width);
  std::size_t count = 0;
  auto stays = kept.kept_keys.begin();
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(attended); ++p) {
    const bool listed = stays != kept.kept_keys.end() && *stays == p;
    stays += listed ? 1 : 0;
    if (listed || (p >= memory.blocks_first && p < memory.blocks_last)) {
      kept.store.get(static_cast<std::size_t>(p), key, value);
      store_.put(count++, key, value);
    }
  }
  return add_attention(config(), weights, rotary_, store_, count, rows, scratch_);
}

/// The mean query of those rows, just computed, that stand in the blocks.
std::span<const float> llada_model::mean_query(hidden_rows rows, const dropped_keys& dropping) {
  const std::size_t width = config().width;
  query_.assign(width, 0.0F);
  float count = 0.0F;
  for (std::size_t i = 0; i < rows.positions.size(); ++i) {
    if (rows.positions[i] >= dropping.first && rows.positions[i] < dropping.last) {
      add(query_, std::span(scratch_.query).subspan(i * width, width));
      ++count;
    }
  }
  for (float& entry : query_) {
    entry /= count;
  }
  return query_;
}

/// The first keys of a store, [count, width].
std::span<const float> llada_model::keys_of(const key_values& store, std::size_t count) {
  const std::size_t width = config().width;
  keys_.resize(std::max(keys_.size(), (count + 1) * width));
  const std::span value = std::span(keys_).subspan(count * width, width);
  for (std::size_t p = 0; p < count; ++p) {
    store.get(p, std::span(keys_).subspan(p * width, width), value);
  }
  return std::span(keys_).first(count * width);
}

/// Takes the rows through a layer.
void llada_model::compute(std::size_t layer,
                          std::size_t attended,
                          hidden_rows rows,
                          sequence_memory& memory) {
  const llada_layer& weights = weights_->layer(layer);
  update_keys_values(config(), weights, rotary_, rows, scratch_, memory.layers[layer].store);
  attend(layer, attended, rows, memory);
  add_feed_forward(config(), weights, rows, scratch_);
  memory.computed += static_cast<std::int64_t>(rows.positions.size());
}

/// Takes the rows through a layer that computes the chosen ones only: each of the others gets what
/// the layer added to it when it was last computed.
void llada_model::compute_some(std::size_t layer,
                               std::size_t attended,
                               hidden_rows rows,
                               std::span<const std::int32_t> chosen,
                               sequence_memory& memory) {
  const std::size_t width = config().width;
  const llada_layer& weights = weights_->layer(layer);
  layer_memory& kept = memory.layers[layer];
  kept.attention.resize(std::max(kept.attention.size(), attended * width));
  kept.feed_forward.resize(kept.attention.size());
  chosen_.resize(std::max(chosen_.size(), chosen.size()));
  chosen_hidden_.resize(std::max(chosen_hidden_.size(), chosen.size() * width));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto from = static_cast<std::size_t>(chosen[i]);
    chosen_[i] = rows.positions[from];
    std::copy_n(rows.data + from * width, width, chosen_hidden_.data() + i * width);
  }
  const hidden_rows some{chosen_hidden_.data(), std::span(chosen_).first(chosen.size())};
  const auto remember = [&](std::span<const float> added, std::vector<float>& where) {
    for (std::size_t i = 0; i < some.positions.size(); ++i) {
      const auto position = static_cast<std::size_t>(some.positions[i]);
      std::copy_n(added.data() + i * width, width, where.data() + position * width);
    }
  };
  update_keys_values(config(), weights, rotary_, some, scratch_, kept.store);
  remember(attend(layer, attended, some, memory), kept.attention);
  remember(add_feed_forward(config(), weights, some, scratch_), kept.feed_forward);
  // In the order of a layer that computes them: the same additions, hence the same bits.
  for (std::size_t i = 0; i < rows.positions.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(rows.positions[i]) * width;
    const std::span<float> row(rows.data + i * width, width);
    add_and_norm(
        config(), weights.attention_norm, std::span(kept.attention).subspan(at, width), row);
    add_and_norm(
        config(), weights.feed_forward_norm, std::span(kept.feed_forward).subspan(at, width), row);
  }
  memory.computed += static_cast<std::int64_t>(chosen.size());
}

/// Takes the rows through the last layer and returns those whose logits are requested: nothing
/// reads the others after the layer's keys.
hidden_rows llada_model::compute_last(std::size_t attended,
                                      hidden_rows rows,
                                      std::span<const std::int32_t> wanted,
                                      sequence_memory& memory) {
  const llada_layer& weights = weights_->layer(config().layers - 1);
  update_keys_values(config(), weights, rotary_, rows, scratch_, memory.layers.back().store);
  memory.computed += static_cast<std::int64_t>(rows.positions.size());
  rows = keep(rows, wanted);
  attend(config().layers - 1, attended, rows, memory);
  add_feed_forward(config(), weights, rows, scratch_);
  return rows;
}

logits_view llada_model::forward_shadow(std::span<const std::int32_t> tokens,
                                        std::int32_t mask,
                                        positions_range query,
                                        positions_range rows_wanted,
                                        std::size_t attended,
                                        const sequence_memory& memory) {
  if (config().attention.length > 0) {
    throw std::invalid_argument("a model with block-causal attention has no shadow");
  }
  const std::size_t width = config().width;
  const auto size = static_cast<std::size_t>(query.last - query.first);
  reserve(attended + size, size);
  shadow_.assign(tokens.begin(), tokens.end());
  std::fill(shadow_.begin() + query.first, shadow_.begin() + query.last, mask);
  keys_.resize(std::max(keys_.size(), 2 * width));
  const std::span key = std::span(keys_).first(width);
  const std::span value = std::span(keys_).subspan(width, width);
  hidden_rows rows =
      embed(shadow_, std::span(positions_).subspan(static_cast<std::size_t>(query.first), size));
  for (std::size_t l = 0; l < config().layers; ++l) {
    const llada_layer& weights = weights_->layer(l);
    update_keys_values(config(), weights, rotary_, rows, scratch_, own_);
    for (std::size_t p = 0; p < attended; ++p) {
      memory.layers[l].store.get(p, key, value);
      store_.put(p, key, value);
    }
    for (std::size_t i = 0; i < size; ++i) {
      own_.get(static_cast<std::size_t>(query.first) + i, key, value);
      store_.put(attended + i, key, value);
    }
    if (l + 1 == config().layers) {
      const auto skipped = static_cast<std::size_t>(rows_wanted.first - query.first);
      const auto count = static_cast<std::size_t>(rows_wanted.last - rows_wanted.first);
      rows = {rows.data + skipped * width, rows.positions.subspan(skipped, count)};
    }
    add_attention(config(),
                  weights,
                  rotary_,
                  store_,
                  attended + size,
                  rows,
                  scratch_,
                  hidden_keys{.own = true});
    add_feed_forward(config(), weights, rows, scratch_);
  }
  write_logits(rows, logits_.data());
  return {logits_.data(), rows.positions.size(), config().vocabulary};
}

void llada_model::write_logits(hidden_rows rows, float* logits) {
  const head_weights& head = weights_->head;
  const std::size_t count = rows.positions.size(), width = config().embedding;
  row_block<const float> in{rows.data, count, config().width};
  if (head.transform) {
    const row_block<float> transformed{scratch_.projected.data(), count, width};
    head.transform->apply(in, transformed);
    activate(config().kind.inner, {transformed.data, count * width});
    in = {transformed.data, count, width};
  }
  head.before.apply(in, {scratch_.normed.data(), count, width});
  head.output.apply({scratch_.normed.data(), count, width}, {logits, count, config().vocabulary});
}

void llada_model::forward_one(const sequence_window& window, float* logits) {
  const std::size_t count = window.tokens.size();
  const std::size_t wanted = window.last - window.first;
  if (wanted == 0) {
    return;
  }
  hidden_rows rows = embed(window.tokens, std::span(positions_).first(count));
  for (std::size_t l = 0; l < config().layers; ++l) {
    const llada_layer& layer = weights_->layer(l);
    update_keys_values(config(), layer, rotary_, rows, scratch_, store_);
    // After the last layer's keys nothing reads the rows that are not requested.
    if (l + 1 == config().layers) {
      rows = {rows.data + window.first * config().width,
              rows.positions.subspan(window.first, wanted)};
    }
    add_attention(
        config(), layer, rotary_, store_, count, rows, scratch_, {.behind = config().attention});
    add_feed_forward(config(), layer, rows, scratch_);
  }
  write_logits(rows, logits);
}

logits_view llada_model::forward(std::span<const sequence_window> batch) {
  const std::size_t rows = validate(batch);
  std::size_t longest = 0;
  for (const sequence_window& window : batch) {
    longest = std::max(longest, window.tokens.size());
  }
  reserve(longest, rows);

  // Sequences one after the other: they share weights, which stay in cache, and nothing else.
  float* logits = logits_.data();
  for (const sequence_window& window : batch) {
    forward_one(window, logits);
    logits += (window.last - window.first) * config().vocabulary;
  }
  return {logits_.data(), rows, config().vocabulary};
}

logits_view
llada_model::forward(std::span<const std::int32_t> tokens, std::size_t first, std::size_t last) {
  const sequence_window window{tokens, first, last};
  return forward(std::span(&window, 1));
}

}  // namespace example
