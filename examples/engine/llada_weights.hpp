// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/gguf.hpp"
#include "engine/kernels.hpp"

namespace example {

/// Function inside a feed forward: silu(gate) * up, or GELU of up, exact or by its usual formula
/// with tanh.
enum class activation { gated_silu, gelu, gelu_tanh };

/// Differences between the layers of one architecture and those of another.
struct layer_kind {
  bool layer_norm = false;  ///< norms subtract the mean and have a bias; else root mean square
  bool norm_first = true;   ///< norms read what enters attention and feed forward; else the sums
                            ///< behind them
  bool biases = false;      ///< matrices have biases
  bool rotary = true;       ///< positions turn queries and keys; else each has an embedding
  activation inner = activation::gated_silu;
};

/// Blocks of positions whose rows attend to no later block. They are counted from `prefix` on; the
/// positions in front of it attend to one another. Causal attention has blocks of one.
struct causal_blocks {
  std::size_t length = 0;  ///< of a block; 0: every row attends to all positions
  std::size_t prefix = 0;
  std::size_t window = SIZE_MAX;  ///< rows from here on attend to all positions

  /// How many positions, the first ones, the row at `position` attends to, of `count`.
  std::size_t seen(std::size_t position, std::size_t count) const {
    if (length == 0 || position >= window) {
      return count;
    }
    const std::size_t last =
        position < prefix ? prefix : prefix + ((position - prefix) / length + 1) * length;
    return last < count ? last : count;
  }
};

/// The sizes and constants of a model, from the metadata of its file.
struct llada_config {
  layer_kind kind;
  std::size_t vocabulary = 0;  ///< tokens, hence logits a row
  std::size_t context = 0;     ///< longest sequence, in tokens
  std::size_t width = 0;       ///< entries of a hidden state
  std::size_t embedding = 0;   ///< entries of a token's embedding; width, but in ALBERT
  std::size_t layers = 0;
  std::size_t stored_layers = 0;  ///< in the file: each is used for layers / stored_layers in a row
  std::size_t heads = 0;          ///< attention heads; keys and values have as many
  std::size_t head_width = 0;     ///< width / heads
  std::size_t feed_forward = 0;   ///< entries inside the feed forward
  causal_blocks attention;        ///< its mask; none in most models
  float norm_epsilon = 0;         ///< added to the mean square, or the variance, in every norm
  float rope_theta = 0;           ///< base of the rotary wavelengths; 0 without them
};

/// in * matrix + bias.
struct linear {
  weight_matrix matrix;
  std::vector<float> bias;  ///< empty: none

  void apply(row_block<const float> in, row_block<float> out) const;
};

/// A norm of rows: by the root mean square, or a layer norm if it has a bias.
struct norm {
  std::vector<float> weight, bias;
  float epsilon = 0;

  /// `out` may be `in`.
  void apply(row_block<const float> in, row_block<float> out) const;
};

/// The weights of one layer, as f32.
struct llada_layer {
  norm attention_norm;
  linear query, key, value, output;
  norm feed_forward_norm;
  linear gate, up, down;  ///< gate: of gated_silu only
};

/// In front of the first layer: rows of tokens and positions are added, normed and projected.
struct embedding_weights {
  std::vector<float> tokens;         ///< [vocabulary, embedding], row-major
  std::vector<float> positions;      ///< [context, embedding]; empty: none
  std::optional<norm> after;         ///< of the sum
  std::optional<linear> projection;  ///< [width, embedding]
};

/// Behind the last layer: rows are transformed, normed and multiplied by the output matrix.
struct head_weights {
  std::optional<linear> transform;  ///< [embedding, width], followed by the activation
  norm before;                      ///< of what the output matrix reads
  linear output;                    ///< [vocabulary, embedding]
};

/// All weights of a model. Never changed once loaded, so that any number of `llada_model`s, one to
/// a thread, can share them.
struct llada_weights {
  llada_config config;
  embedding_weights embedding;
  std::vector<llada_layer> stored_layers;
  head_weights head;

  /// The weights of layer i of config.layers.
  const llada_layer& layer(std::size_t i) const {
    return stored_layers[i * stored_layers.size() / config.layers];
  }

  /// Reads and converts the weights. Throws std::runtime_error naming the file and the field if the
  /// architecture is not `llada`, `bert` or `albert`, if the file requires something that the
  /// forward pass does not support (grouped keys, causal attention, shifted logits, unknown
  /// tensors, widths that are not multiples of 8), or if a tensor is missing or has another shape.
  static llada_weights load(const gguf_file& file);
};

}  // namespace example
