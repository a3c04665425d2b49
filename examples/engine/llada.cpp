// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/llada.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace example {

llada_model::llada_model(const gguf_file& file)
    : llada_model(std::make_shared<const llada_weights>(llada_weights::load(file))) {}

llada_model::llada_model(std::shared_ptr<const llada_weights> weights)
    : weights_(std::move(weights)) {
  if (weights_ == nullptr) {
    throw std::invalid_argument("weights are null, must be loaded");
  }
}

/// Checks a batch and returns the number of rows it asks for.
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
  rotary_.reserve(positions, config());
  scratch_.reserve(positions, positions, config());
  store_.reserve(positions, config().width);
  hidden_.resize(std::max(hidden_.size(), positions * config().width));
  logits_.resize(std::max(logits_.size(), rows * config().vocabulary));
}

void llada_model::embed(std::span<const std::int32_t> tokens) {
  const std::size_t width = config().width;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::copy_n(weights_->embedding.data() + static_cast<std::size_t>(tokens[i]) * width,
                width,
                hidden_.data() + i * width);
  }
}

void llada_model::forward_one(const sequence_window& window, float* logits) {
  const std::size_t count = window.tokens.size();
  const std::size_t wanted = window.last - window.first;
  if (wanted == 0) {
    return;
  }
  embed(window.tokens);
  hidden_rows rows{hidden_.data(), std::span(positions_).first(count)};
  for (const llada_layer& layer : weights_->layers) {
    update_keys_values(config(), layer, rotary_, rows, scratch_, store_);
    // After the last layer's keys nothing reads the rows that are not wanted.
    if (&layer == &weights_->layers.back()) {
      rows = {rows.data + window.first * config().width,
              rows.positions.subspan(window.first, wanted)};
    }
    add_attention(config(), layer, rotary_, store_, count, rows, scratch_);
    add_feed_forward(config(), layer, rows, scratch_);
  }
  const row_block<float> normed{scratch_.normed.data(), wanted, config().width};
  rms_norm(
      {rows.data, wanted, config().width}, weights_->output_norm, config().norm_epsilon, normed);
  multiply({normed.data, wanted, config().width},
           weights_->head.view(),
           {logits, wanted, config().vocabulary});
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
