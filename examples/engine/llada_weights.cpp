// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/llada_weights.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace example {
namespace {

constexpr std::size_t tensors_of_a_layer = 9;
constexpr std::size_t tensors_outside_layers = 3;

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

llada_config read_config(const gguf_file& file) {
  const std::string_view architecture = file.string("general.architecture");
  if (architecture != "llada") {
    file.fail("metadata 'general.architecture': " + quoted(architecture) + ", must be 'llada'");
  }

  llada_config config;
  config.vocabulary = positive(file, "llada.vocab_size");
  config.context = positive(file, "llada.context_length");
  config.width = positive(file, "llada.embedding_length");
  config.layers = positive(file, "llada.block_count");
  config.heads = positive(file, "llada.attention.head_count");
  config.feed_forward = positive(file, "llada.feed_forward_length");
  config.norm_epsilon = positive_real(file, "llada.attention.layer_norm_rms_epsilon");
  config.rope_theta = positive_real(file, "llada.rope.freq_base");
  refuse_if_set(file, "llada.attention.causal");
  refuse_if_set(file, "diffusion.shift_logits");

  if (const std::uint32_t heads = file.u32("llada.attention.head_count_kv");
      heads != config.heads) {
    file.fail("metadata 'llada.attention.head_count_kv': " + std::to_string(heads) +
              ", must equal the head count " + std::to_string(config.heads));
  }
  if (config.width % config.heads != 0) {
    file.fail("metadata 'llada.embedding_length': " + std::to_string(config.width) +
              ", must be a multiple of the head count " + std::to_string(config.heads));
  }
  config.head_width = config.width / config.heads;
  if (const std::uint32_t turned = file.u32("llada.rope.dimension_count");
      turned != config.head_width) {
    file.fail("metadata 'llada.rope.dimension_count': " + std::to_string(turned) +
              ", must equal the head width " + std::to_string(config.head_width));
  }
  require_lanes(file, "head width", config.head_width);
  require_lanes(file, "metadata 'llada.feed_forward_length':", config.feed_forward);

  if (const std::size_t tokens = file.strings("tokenizer.ggml.tokens").size();
      tokens != config.vocabulary) {
    file.fail("metadata 'llada.vocab_size': " + std::to_string(config.vocabulary) +
              ", must equal the " + std::to_string(tokens) + " tokens of the tokenizer");
  }

  // A tensor that the forward does not know (a bias, say) would be left out silently.
  const std::size_t count = file.tensors().size();
  if (config.layers > count ||
      count != tensors_outside_layers + tensors_of_a_layer * config.layers) {
    file.fail("tensor count: " + std::to_string(count) + ", must be 3 and 9 for each of the " +
              std::to_string(config.layers) + " layers");
  }
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

weight_matrix read_matrix(const gguf_file& file,
                          const std::string& name,
                          std::size_t inputs,
                          std::size_t outputs) {
  return {read(file, name, inputs, outputs), outputs, inputs};
}

}  // namespace

llada_weights llada_weights::load(const gguf_file& file) {
  llada_weights weights;
  weights.config = read_config(file);
  const std::size_t width = weights.config.width;
  const std::size_t inner = weights.config.feed_forward;
  const std::size_t vocabulary = weights.config.vocabulary;

  weights.embedding = read(file, "token_embd.weight", width, vocabulary);
  for (std::size_t i = 0; i < weights.config.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    llada_layer& layer = weights.layers.emplace_back();
    layer.attention_norm = read(file, prefix + "attn_norm.weight", width);
    layer.query = read_matrix(file, prefix + "attn_q.weight", width, width);
    layer.key = read_matrix(file, prefix + "attn_k.weight", width, width);
    layer.value = read_matrix(file, prefix + "attn_v.weight", width, width);
    layer.output = read_matrix(file, prefix + "attn_output.weight", width, width);
    layer.feed_forward_norm = read(file, prefix + "ffn_norm.weight", width);
    layer.gate = read_matrix(file, prefix + "ffn_gate.weight", width, inner);
    layer.up = read_matrix(file, prefix + "ffn_up.weight", width, inner);
    layer.down = read_matrix(file, prefix + "ffn_down.weight", inner, width);
  }
  weights.output_norm = read(file, "output_norm.weight", width);
  weights.head = read_matrix(file, "output.weight", width, vocabulary);
  return weights;
}

}  // namespace example
