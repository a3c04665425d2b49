// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <vector>

#include "engine/gguf.hpp"
#include "engine/kernels.hpp"

namespace example {

/// The sizes and constants of a model, from the metadata of its file.
struct llada_config {
  std::size_t vocabulary = 0;  ///< tokens, hence logits a row
  std::size_t context = 0;     ///< longest sequence, in tokens
  std::size_t width = 0;       ///< entries of a hidden state
  std::size_t layers = 0;
  std::size_t heads = 0;         ///< attention heads; keys and values have as many
  std::size_t head_width = 0;    ///< width / heads
  std::size_t feed_forward = 0;  ///< entries inside the feed forward
  float norm_epsilon = 0;        ///< added to the mean square in every norm
  float rope_theta = 0;          ///< base of the rotary wavelengths
};

/// The weights of one layer, as f32.
struct llada_layer {
  std::vector<float> attention_norm;
  weight_matrix query, key, value, output;
  std::vector<float> feed_forward_norm;
  weight_matrix gate, up, down;
};

/// All weights of a model. Never changed once loaded, so that any number of `llada_model`s, one to
/// a thread, can share them.
struct llada_weights {
  llada_config config;
  std::vector<float> embedding;  ///< [vocabulary, width], row-major
  std::vector<llada_layer> layers;
  std::vector<float> output_norm;
  weight_matrix head;

  /// Reads and converts the weights. Throws std::runtime_error naming the file and the field if the
  /// architecture is not `llada`, if the file requires something that the forward pass does not
  /// support (grouped keys, causal attention, shifted logits, unknown tensors, widths that are not
  /// multiples of 8), or if a tensor is missing or has another shape.
  static llada_weights load(const gguf_file& file);
};

}  // namespace example
