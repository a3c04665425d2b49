// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/llada_weights.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace example {
namespace {

std::size_t positive(const gguf_file& file, std::string_view key) {
  const std::uint32_t value = file.u32(key);
  if (value == 0) {
    file.fail("metadata " + quoted(key) + ": 0, must be at least 1");
  }
  return value;
}

float positive_real(const gguf_file& file, std::string_view key) {
  const double value = file.real(key);
  if (!(value > 0) || !(value <= 1e30)) {
    file.fail("metadata " + quoted(key) + ": " + std::to_string(value) +
              ", must be positive and finite");
  }
  return static_cast<float>(value);
}

void refuse_if_set(const gguf_file& file, std::string_view key) {
  if (file.has(key) && file.boolean(key)) {
    file.fail("metadata " + quoted(key) + ": true is not supported, must be false");
  }
}

void require_lanes(const gguf_file& file, std::string_view what, std::size_t value) {
  if (value % lanes != 0) {
    file.fail(std::string(what) + " " + std::to_string(value) + ", must be a multiple of " +
              std::to_string(lanes));
  }
}

/// Metadata key of the architecture.
std::string key(std::string_view architecture, std::string_view name) {
  return std::string(architecture) + "." + std::string(name);
}

/// An architecture and what its files have.
struct architecture {
  std::string_view name;
  layer_kind kind;
  std::string_view epsilon;  ///< key of the norms' epsilon
  bool masked_lm;  ///< has embeddings of positions and segments, and a transform in the head
};

constexpr layer_kind bert_layers{.layer_norm = true,
                                 .norm_first = false,
                                 .biases = true,
                                 .rotary = false,
                                 .inner = activation::gelu};
constexpr std::array<architecture, 3> architectures{{
    {"llada", {}, "attention.layer_norm_rms_epsilon", false},
    {"bert", bert_layers, "attention.layer_norm_epsilon", true},
    {"albert", bert_layers, "attention.layer_norm_epsilon", true},
}};

const architecture& architecture_of(const gguf_file& file) {
  const std::string_view name = file.string("general.architecture");
  for (const architecture& known : architectures) {
    if (known.name == name) {
      return known;
    }
  }
  file.fail("metadata 'general.architecture': " + quoted(name) +
            ", must be 'llada', 'bert' or 'albert'");
}

/// The activation of a file without gates: exact GELU unless it names the other.
activation read_activation(const gguf_file& file, const std::string& name) {
  const std::string_view text = file.has(name) ? file.string(name) : "gelu";
  if (text != "gelu" && text != "gelu_tanh") {
    file.fail("metadata '" + name + "': " + quoted(text) + ", must be 'gelu' or 'gelu_tanh'");
  }
  return text == "gelu" ? activation::gelu : activation::gelu_tanh;
}

/// Whether tokens have embeddings of another width, which a matrix projects.
bool projects(const gguf_file& file, const architecture& a) {
  return a.masked_lm && file.has(key(a.name, "token_embedding_length"));
}

// A tensor that the forward does not know would be left out silently.
void check_tensor_count(const gguf_file& file, const architecture& a, const llada_config& config) {
  const std::size_t in_layer = a.masked_lm ? 16 : 9;
  const std::size_t outside = !a.masked_lm ? 3 : projects(file, a) ? 13 : 11;
  const std::size_t count = file.tensors().size();
  if (config.stored_layers > count || count != outside + in_layer * config.stored_layers) {
    file.fail("tensor count: " + std::to_string(count) + ", must be " + std::to_string(outside) +
              " and " + std::to_string(in_layer) + " for each of the " +
              std::to_string(config.stored_layers) + " layers");
  }
}

llada_config read_config(const gguf_file& file, const architecture& a) {
  const auto size = [&](std::string_view name) { return positive(file, key(a.name, name)); };
  const auto size_or = [&](std::string_view name, std::size_t otherwise) {
    return file.has(key(a.name, name)) ? size(name) : otherwise;
  };
  const auto shown = [&](std::string_view name) { return "metadata '" + key(a.name, name) + "'"; };
  llada_config config;
  config.kind = a.kind;
  config.vocabulary = size("vocab_size");
  config.context = size("context_length");
  config.width = size("embedding_length");
  config.layers = size("block_count");
  config.heads = size("attention.head_count");
  config.feed_forward = size("feed_forward_length");
  config.norm_epsilon = positive_real(file, key(a.name, a.epsilon));
  config.embedding = config.width;
  config.stored_layers = config.layers;
  if (config.kind.rotary) {
    config.rope_theta = positive_real(file, key(a.name, "rope.freq_base"));
  }
  if (a.masked_lm) {
    config.embedding = size_or("token_embedding_length", config.width);
    config.stored_layers = size_or("stored_block_count", config.layers);
    config.kind.inner = read_activation(file, key(a.name, "feed_forward_activation"));
  }
  if (file.has(key(a.name, "attention.block_length"))) {
    config.attention = {size("attention.block_length"), size("attention.prefix_length")};
    if (config.attention.length > config.context || config.attention.prefix > config.context) {
      file.fail(shown("attention.block_length") + ": " + std::to_string(config.attention.length) +
                " after " + std::to_string(config.attention.prefix) +
                " positions, must both be at most the context length " +
                std::to_string(config.context));
    }
  }
  refuse_if_set(file, key(a.name, "attention.causal"));
  refuse_if_set(file, "diffusion.shift_logits");

  if (const std::size_t heads = file.u32(key(a.name, "attention.head_count_kv"));
      heads != config.heads) {
    file.fail(shown("attention.head_count_kv") + ": " + std::to_string(heads) +
              ", must equal the head count " + std::to_string(config.heads));
  }
  if (config.width % config.heads != 0) {
    file.fail(shown("embedding_length") + ": " + std::to_string(config.width) +
              ", must be a multiple of the head count " + std::to_string(config.heads));
  }
  config.head_width = config.width / config.heads;
  if (config.kind.rotary) {
    if (const std::size_t turned = file.u32(key(a.name, "rope.dimension_count"));
        turned != config.head_width) {
      file.fail(shown("rope.dimension_count") + ": " + std::to_string(turned) +
                ", must equal the head width " + std::to_string(config.head_width));
    }
  }
  if (config.layers % config.stored_layers != 0) {
    file.fail(shown("stored_block_count") + ": " + std::to_string(config.stored_layers) +
              ", must divide the block count " + std::to_string(config.layers));
  }
  require_lanes(file, "head width", config.head_width);
  require_lanes(file, shown("feed_forward_length") + ":", config.feed_forward);
  require_lanes(file, shown("token_embedding_length") + ":", config.embedding);

  if (const std::size_t tokens = file.strings("tokenizer.ggml.tokens").size();
      tokens != config.vocabulary) {
    file.fail(shown("vocab_size") + ": " + std::to_string(config.vocabulary) + ", must equal the " +
              std::to_string(tokens) + " tokens of the tokenizer");
  }
  check_tensor_count(file, a, config);
  return config;
}

/// A matrix [outputs, inputs], or for no outputs a vector of `inputs`.
std::vector<float>
read(const gguf_file& file, const std::string& name, std::size_t inputs, std::size_t outputs = 0) {
  const std::array<std::uint64_t, 2> shape = {inputs, outputs};
  const gguf_tensor& tensor = file.tensor(name, std::span(shape).first(outputs == 0 ? 1 : 2));
  std::vector<float> values(tensor.elements);
  tensor.dequantize(values);
  return values;
}

/// Reads the tensors of one file by the description of its layers.
struct reader {
  const gguf_file& file;
  const llada_config& config;

  linear matrix(const std::string& name, std::size_t inputs, std::size_t outputs) const {
    linear result{{read(file, name + ".weight", inputs, outputs), outputs, inputs}, {}};
    if (config.kind.biases) {
      result.bias = read(file, name + ".bias", outputs);
    }
    return result;
  }

  norm rows(const std::string& name, std::size_t width) const {
    norm result{read(file, name + ".weight", width), {}, config.norm_epsilon};
    if (config.kind.layer_norm) {
      result.bias = read(file, name + ".bias", width);
    }
    return result;
  }

  llada_layer layer(const std::string& prefix) const {
    const std::size_t width = config.width, inner = config.feed_forward;
    llada_layer result;
    result.attention_norm =
        rows(prefix + (config.kind.norm_first ? "attn_norm" : "attn_output_norm"), width);
    result.query = matrix(prefix + "attn_q", width, width);
    result.key = matrix(prefix + "attn_k", width, width);
    result.value = matrix(prefix + "attn_v", width, width);
    result.output = matrix(prefix + "attn_output", width, width);
    result.feed_forward_norm =
        rows(prefix + (config.kind.norm_first ? "ffn_norm" : "layer_output_norm"), width);
    if (config.kind.inner == activation::gated_silu) {
      result.gate = matrix(prefix + "ffn_gate", width, inner);
    }
    result.up = matrix(prefix + "ffn_up", width, inner);
    result.down = matrix(prefix + "ffn_down", inner, width);
    return result;
  }

  /// Positions with the embedding of the first segment, in which all tokens are.
  std::vector<float> positions() const {
    std::vector<float> table = read(file, "position_embd.weight", config.embedding, config.context);
    constexpr std::size_t segments = 2;
    const std::vector<float> segment = read(file, "token_types.weight", config.embedding, segments);
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] += segment[i % config.embedding];
    }
    return table;
  }
};

}  // namespace

void linear::apply(row_block<const float> in, row_block<float> out) const {
  multiply(in, matrix.view(), out);
  if (!bias.empty()) {
    add_to_rows(bias, {out.data, in.rows, out.stride});
  }
}

void norm::apply(row_block<const float> in, row_block<float> out) const {
  if (bias.empty()) {
    rms_norm(in, weight, epsilon, out);
  } else {
    layer_norm(in, weight, bias, epsilon, out);
  }
}

llada_weights llada_weights::load(const gguf_file& file) {
  const architecture& a = architecture_of(file);
  llada_weights weights;
  weights.config = read_config(file, a);
  const reader from{file, weights.config};
  const std::size_t width = weights.config.width, embedding = weights.config.embedding;
  const std::size_t vocabulary = weights.config.vocabulary;

  weights.embedding.tokens = read(file, "token_embd.weight", embedding, vocabulary);
  if (a.masked_lm) {
    weights.embedding.positions = from.positions();
    weights.embedding.after = from.rows("token_embd_norm", embedding);
    weights.head.transform = from.matrix("output_transform", width, embedding);
  }
  if (projects(file, a)) {
    weights.embedding.projection = from.matrix("token_embd_proj", embedding, width);
  }
  for (std::size_t i = 0; i < weights.config.stored_layers; ++i) {
    weights.stored_layers.push_back(from.layer("blk." + std::to_string(i) + "."));
  }
  weights.head.before = from.rows("output_norm", embedding);
  weights.head.output = from.matrix("output", embedding, vocabulary);
  return weights;
}

}  // namespace example
