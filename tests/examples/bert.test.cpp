// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// BERT and ALBERT in the example engine: tiny random models beside a naive forward pass in double
// precision, files that are wrong, and the tokenizer of the longest match.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/kernels.hpp"
#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"
#include "gguf_writer.hpp"

namespace example::bert_test {
namespace {

using tokens = std::vector<std::int32_t>;
using numbers = std::vector<double>;

/// Sizes of a model, and its tensors by name, random.
struct tiny_model {
  std::string architecture;
  std::size_t stored_layers, layers, embedding;
  std::string gelu;
  std::size_t vocabulary = 13, context = 20, width = 32, heads = 2, inner = 40;
  struct stored {
    std::vector<std::uint64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, stored> tensors = {};
  std::mt19937 random{7};

  void tensor(const std::string& name, std::vector<std::uint64_t> shape, float offset = 0) {
    std::size_t count = 1;
    for (const std::uint64_t extent : shape) {
      count *= extent;
    }
    std::normal_distribution<float> normal(offset, shape.size() == 2 ? 0.3F : 0.2F);
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(random); });
    tensors[name] = {std::move(shape), std::move(values)};
  }
  void matrix(const std::string& name, std::size_t in, std::size_t out) {
    tensor(name + ".weight", {in, out});
    tensor(name + ".bias", {out});
  }
  void norm(const std::string& name, std::size_t size) {
    tensor(name + ".weight", {size}, 1);
    tensor(name + ".bias", {size});
  }

  void fill() {
    tensor("token_embd.weight", {embedding, vocabulary});
    tensor("position_embd.weight", {embedding, context});
    tensor("token_types.weight", {embedding, 2});
    norm("token_embd_norm", embedding);
    if (architecture == "albert") {
      matrix("token_embd_proj", embedding, width);
    }
    for (std::size_t i = 0; i < stored_layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
        matrix(prefix + name, width, width);
      }
      norm(prefix + "attn_output_norm", width);
      matrix(prefix + "ffn_up", width, inner);
      matrix(prefix + "ffn_down", inner, width);
      norm(prefix + "layer_output_norm", width);
    }
    matrix("output_transform", width, embedding);
    norm("output_norm", embedding);
    matrix("output", embedding, vocabulary);
  }

  /// The file, in which `change` may have made a mistake.
  struct numbers_of_file {
    std::uint32_t vocabulary, context, width, heads, heads_kv, inner, layers, stored, embedding;
    float epsilon = 1e-6F;
    bool causal = false;
    std::string architecture, gelu;
  };
  std::vector<std::byte>
  bytes(const std::function<void(numbers_of_file&, tiny_model&)>& change = {}) const {
    tiny_model copy = *this;
    const auto u32 = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
    numbers_of_file n{u32(vocabulary),
                      u32(context),
                      u32(width),
                      u32(heads),
                      u32(heads),
                      u32(inner),
                      u32(layers),
                      u32(stored_layers),
                      u32(embedding),
                      1e-6F,
                      false,
                      architecture,
                      gelu};
    if (change) {
      change(n, copy);
    }
    testing::gguf_writer w;
    const std::string a = n.architecture + ".";
    w.add("general.architecture", n.architecture);
    w.add(a + "vocab_size", n.vocabulary);
    w.add(a + "context_length", n.context);
    w.add(a + "embedding_length", n.width);
    w.add(a + "block_count", n.layers);
    w.add(a + "feed_forward_length", n.inner);
    w.add(a + "attention.head_count", n.heads);
    w.add(a + "attention.head_count_kv", n.heads_kv);
    w.add(a + "attention.layer_norm_epsilon", n.epsilon);
    w.add(a + "attention.causal", n.causal);
    w.add(a + "feed_forward_activation", n.gelu);
    if (n.architecture == "albert") {
      w.add(a + "token_embedding_length", n.embedding);
      w.add(a + "stored_block_count", n.stored);
    }
    w.add("tokenizer.ggml.model", "longest_match");
    w.add("tokenizer.ggml.tokens",
          std::vector<std::string>{"[PAD]",
                                   "[UNK]",
                                   "[CLS]",
                                   "[SEP]",
                                   "[MASK]",
                                   "C",
                                   "Cl",
                                   "[C@H]",
                                   "[C@@H]",
                                   "(",
                                   ")",
                                   ">>",
                                   "="});
    w.add("tokenizer.ggml.token_type",
          std::vector<std::int32_t>{5, 2, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1});
    w.add("tokenizer.ggml.bos_token_id", 2U);
    w.add("tokenizer.ggml.eos_token_id", 3U);
    w.add("tokenizer.ggml.mask_token_id", 4U);
    w.add("tokenizer.ggml.add_eos_token", true);
    for (const auto& [name, t] : copy.tensors) {
      w.tensor(name, t.shape, t.values);
    }
    return w.bytes();
  }
  gguf_file file(const std::function<void(numbers_of_file&, tiny_model&)>& change = {}) const {
    return {"tiny.gguf", bytes(change)};
  }

  // --- the naive forward pass ---

  double at(const std::string& name, std::size_t i) const {
    return static_cast<double>(tensors.at(name).values.at(i));
  }
  numbers multiplied(const numbers& x, const std::string& name) const {
    const auto& shape = tensors.at(name + ".weight").shape;
    numbers y(shape[1]);
    for (std::size_t out = 0; out < y.size(); ++out) {
      y[out] = at(name + ".bias", out);
      for (std::size_t in = 0; in < shape[0]; ++in) {
        y[out] += x[in] * at(name + ".weight", out * shape[0] + in);
      }
    }
    return y;
  }
  numbers normed(const numbers& x, const std::string& name) const {
    double mean = 0, variance = 0;
    for (const double v : x) {
      mean += v / static_cast<double>(x.size());
    }
    for (const double v : x) {
      variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    }
    numbers y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + 1e-6) * at(name + ".weight", i) +
             at(name + ".bias", i);
    }
    return y;
  }
  numbers activated(numbers x) const {
    for (double& v : x) {
      v = gelu == "gelu"
              ? v / 2 * (1 + std::erf(v / std::sqrt(2.0)))
              : v / 2 *
                    (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    }
    return x;
  }
  static numbers sum(numbers a, const numbers& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] += b[i];
    }
    return a;
  }

  std::vector<numbers> logits(const tokens& sequence) const {
    std::vector<numbers> rows;
    for (std::size_t p = 0; p < sequence.size(); ++p) {
      numbers x(embedding);
      for (std::size_t i = 0; i < embedding; ++i) {
        x[i] = at("token_embd.weight", static_cast<std::size_t>(sequence[p]) * embedding + i) +
               at("position_embd.weight", p * embedding + i) + at("token_types.weight", i);
      }
      x = normed(x, "token_embd_norm");
      rows.push_back(architecture == "albert" ? multiplied(x, "token_embd_proj") : x);
    }
    for (std::size_t l = 0; l < layers; ++l) {
      const std::string prefix = "blk." + std::to_string(l * stored_layers / layers) + ".";
      std::vector<numbers> queries, keys, values, next;
      for (const numbers& x : rows) {
        queries.push_back(multiplied(x, prefix + "attn_q"));
        keys.push_back(multiplied(x, prefix + "attn_k"));
        values.push_back(multiplied(x, prefix + "attn_v"));
      }
      const std::size_t size = width / heads;
      for (std::size_t p = 0; p < rows.size(); ++p) {
        numbers attended(width);
        for (std::size_t h = 0; h < heads; ++h) {
          numbers weights(rows.size());
          double total = 0;
          for (std::size_t k = 0; k < rows.size(); ++k) {
            double score = 0;
            for (std::size_t i = h * size; i < (h + 1) * size; ++i) {
              score += queries[p][i] * keys[k][i];
            }
            weights[k] = std::exp(score / std::sqrt(static_cast<double>(size)));
            total += weights[k];
          }
          for (std::size_t k = 0; k < rows.size(); ++k) {
            for (std::size_t i = h * size; i < (h + 1) * size; ++i) {
              attended[i] += weights[k] / total * values[k][i];
            }
          }
        }
        const numbers x = normed(sum(rows[p], multiplied(attended, prefix + "attn_output")),
                                 prefix + "attn_output_norm");
        next.push_back(normed(
            sum(x, multiplied(activated(multiplied(x, prefix + "ffn_up")), prefix + "ffn_down")),
            prefix + "layer_output_norm"));
      }
      rows = next;
    }
    for (numbers& x : rows) {
      x = multiplied(normed(activated(multiplied(x, "output_transform")), "output_norm"), "output");
    }
    return rows;
  }
};

/// Models of every kind: shared layers, several stored ones, either GELU, embeddings that are
/// narrower, as wide and wider than the rest.
std::vector<tiny_model> models() {
  std::vector<tiny_model> all{{"bert", 3, 3, 32, "gelu"},
                              {"bert", 1, 1, 32, "gelu_tanh"},
                              {"albert", 1, 4, 16, "gelu"},
                              {"albert", 2, 4, 32, "gelu_tanh"},
                              {"albert", 3, 3, 48, "gelu"}};
  for (tiny_model& m : all) {
    m.fill();
  }
  return all;
}

const tokens sequence = {2, 5, 9, 4, 4, 10, 11, 4, 7, 12, 3};

std::vector<float> copy(const logits_view& z) {
  return {z.data, z.data + z.rows * z.vocabulary};
}
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(bert, logits_are_those_of_a_naive_forward_pass) {
  for (const tiny_model& tiny : models()) {
    llada_model model(tiny.file());
    for (const std::size_t length : {std::size_t{1}, std::size_t{2}, sequence.size()}) {
      const tokens part(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(length));
      const std::vector<numbers> expected = tiny.logits(part);
      const logits_view z = model.forward(part, 0, length);
      ASSERT_EQ(z.rows, length);
      for (std::size_t row = 0; row < length; ++row) {
        for (std::size_t token = 0; token < tiny.vocabulary; ++token) {
          ASSERT_NEAR(static_cast<double>(z.row(row)[token]), expected[row][token], 2e-5)
              << tiny.architecture << ' ' << tiny.stored_layers << ", row " << row;
        }
      }
    }
  }
}

TEST(bert, a_row_depends_neither_on_the_window_nor_on_the_batch) {
  for (const tiny_model& tiny : models()) {
    llada_model model(tiny.file());
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    const tokens other(tiny.context, 6);
    const sequence_window batch[] = {{other, 0, other.size()}, {sequence, 3, 8}};
    const std::vector<float> both = copy(model.forward(batch));
    const auto vocabulary = static_cast<std::ptrdiff_t>(tiny.vocabulary);
    EXPECT_TRUE(same_bits({full.begin() + 3 * vocabulary, full.begin() + 8 * vocabulary},
                          {both.end() - 5 * vocabulary, both.end()}));
  }
}

/// Chooses rows in front of every layer; those not chosen keep what the layer added before.
struct choosing_pass {
  std::vector<unmask::index_t> all, chosen;
  unmask::feature reads = unmask::feature::key;
  unmask::skipping skipped = unmask::skipping::kept;

  std::span<const unmask::index_t> positions() const { return all; }
  unmask::range keys() const { return {0, static_cast<unmask::index_t>(all.size())}; }
  bool hooks(unmask::index_t) const { return true; }
  unmask::layer_choice at_layer(unmask::index_t,
                                const unmask::host_hidden<float>&,
                                const unmask::host_state<float>&) const {
    return {chosen, chosen};
  }
  unmask::eviction evict() const { return unmask::eviction::none; }
  std::span<const unmask::index_t> rows() const { return all; }
};

TEST(bert, what_layers_keep_is_normed_as_what_they_compute) {
  for (const tiny_model& tiny : models()) {
    llada_model model(tiny.file());
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    choosing_pass pass;
    for (unmask::index_t p = 0; p < std::ssize(sequence); ++p) {
      pass.all.push_back(p);
    }
    sequence_memory memory;
    pass.chosen = pass.all;
    EXPECT_TRUE(same_bits(copy(model.forward(pass, sequence, memory)), full));
    for (const std::vector<unmask::index_t>& some :
         {std::vector<unmask::index_t>{}, {0, 3, 4}, pass.all}) {
      pass.chosen = some;  // nothing changed, so what is computed is what was kept
      EXPECT_TRUE(same_bits(copy(model.forward(pass, sequence, memory)), full)) << some.size();
    }
  }
}

TEST(bert, gelu_is_within_its_bound) {
  std::vector<float> x, exact, fast;
  for (int i = -20'000; i < 20'000; ++i) {
    x.push_back(static_cast<float>(i) / 1000.0F);
  }
  x.insert(x.end(), {-1e30F, 1e30F, -100.0F, 100.0F, 0.0F, -0.0F, 1e-30F, -1e-30F});
  exact = fast = x;
  gelu(exact);
  gelu_tanh(fast);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]);
    const double bound = 1e-6 * std::max(1.0, std::abs(v));
    EXPECT_NEAR(static_cast<double>(exact[i]), v / 2 * std::erfc(-v / std::sqrt(2.0)), bound) << v;
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(static_cast<double>(fast[i]), v / 2 * (1 + std::tanh(inner)), bound) << v;
  }
}

// --- files that are wrong ---

std::string
message_of(const tiny_model& tiny,
           const std::function<void(tiny_model::numbers_of_file&, tiny_model&)>& change) {
  try {
    const gguf_file file = tiny.file(change);
    const char_tokenizer text(file);
    const llada_model model(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(bert, a_missing_tensor_or_one_of_another_shape_is_named) {
  for (const tiny_model& tiny : models()) {
    for (const auto& [name, stored] : tiny.tensors) {
      const std::string renamed = message_of(tiny, [&](auto&, tiny_model& m) {
        m.tensors["x"] = m.tensors.at(name);
        m.tensors.erase(name);
      });
      EXPECT_EQ(renamed, "tiny.gguf: tensor '" + name + "' is missing");
      const std::string dropped =
          message_of(tiny, [&](auto&, tiny_model& m) { m.tensors.erase(name); });
      EXPECT_NE(
          dropped.find("tensor count: " + std::to_string(tiny.tensors.size() - 1) + ", must be "),
          std::string::npos)
          << dropped;
      const std::string reshaped = message_of(tiny, [&](auto&, tiny_model& m) {
        auto& t = m.tensors.at(name);
        t.shape[0] += 8;
        t.values.resize(t.values.size() * 2 + 8);
        t.values.resize(t.shape.size() == 2 ? t.shape[0] * t.shape[1] : t.shape[0]);
      });
      EXPECT_NE(reshaped.find("tensor '" + name + "': shape ["), std::string::npos) << reshaped;
      EXPECT_NE(reshaped.find(", must be ["), std::string::npos) << reshaped;
    }
  }
}

TEST(bert, wrong_metadata_is_named) {
  using file = tiny_model::numbers_of_file;
  const struct {
    std::string said;
    std::function<void(file&)> apply;
  } mistakes[] = {
      {"'roberta', must be 'llada', 'bert' or 'albert'",
       [](file& f) { f.architecture = "roberta"; }},
      {"feed_forward_activation': 'relu', must be 'gelu' or 'gelu_tanh'",
       [](file& f) { f.gelu = "relu"; }},
      {"stored_block_count': 3, must divide the block count 4", [](file& f) { f.stored = 3; }},
      {"stored_block_count': 0, must be at least 1", [](file& f) { f.stored = 0; }},
      {"for each of the 2 layers", [](file& f) { f.stored = 2; }},
      {"for each of the 4000000000 layers", [](file& f) { f.stored = f.layers = 4'000'000'000U; }},
      {"token_embedding_length': 12, must be a multiple of 8", [](file& f) { f.embedding = 12; }},
      {"must be a multiple of the head count 3", [](file& f) { f.heads = f.heads_kv = 3; }},
      {"head width 4, must be a multiple of 8", [](file& f) { f.heads = f.heads_kv = 8; }},
      {"head_count_kv': 1, must equal the head count 2", [](file& f) { f.heads_kv = 1; }},
      {"feed_forward_length': 44, must be a multiple of 8", [](file& f) { f.inner = 44; }},
      {"vocab_size': 14, must equal the 13 tokens", [](file& f) { f.vocabulary = 14; }},
      {"'position_embd.weight': shape [16, 20], must be [16, 21]", [](file& f) { f.context = 21; }},
      {"layer_norm_epsilon': 0", [](file& f) { f.epsilon = 0; }},
      {"causal': true is not supported", [](file& f) { f.causal = true; }},
  };
  const tiny_model albert = models().at(2);
  EXPECT_EQ(message_of(albert, {}), "");
  for (const auto& mistake : mistakes) {
    const std::string message = message_of(albert, [&](file& f, tiny_model&) { mistake.apply(f); });
    EXPECT_NE(message.find(mistake.said), std::string::npos) << mistake.said << "\n" << message;
    EXPECT_EQ(message.find("tiny.gguf: "), 0U) << message;
  }
}

TEST(bert, random_damage_never_does_worse_than_throw) {
  std::vector<std::vector<std::byte>> files;
  std::vector<std::size_t> headers;
  for (const tiny_model& tiny : models()) {
    files.push_back(tiny.bytes());
    std::size_t data = 0;
    for (const auto& [name, t] : tiny.tensors) {
      data += (t.values.size() * 4 + 31) / 32 * 32;
    }
    headers.push_back(files.back().size() - data);
  }
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes = files[seed % files.size()];
    const std::size_t end = headers[seed % files.size()];
    for (std::uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % end] ^= static_cast<std::byte>(1 + random() % 255);
    }
    try {
      const gguf_file file("random.gguf", std::move(bytes));
      const char_tokenizer text(file);
      llada_model model(file);
      model.forward(text.canvas("C", 3), 0, 4);
      ++accepted;
    } catch (const std::runtime_error&) {
      ++refused;
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 20);
}

// --- the tokenizer ---

TEST(bert, text_is_cut_into_the_longest_tokens) {
  const char_tokenizer text(models().front().file());
  EXPECT_EQ(text.encode("CCl(C)=[C@@H]>>[C@H]"), (tokens{5, 6, 9, 5, 10, 12, 8, 11, 7}));
  EXPECT_EQ(text.encode_masked("_CCl__>>_"), (tokens{4, 5, 6, 4, 4, 11, 4}));
  EXPECT_EQ(text.encode_masked(""), tokens{});
  EXPECT_EQ(text.decode(text.encode_masked("C_[C@H]")), "C_[C@H]");
  EXPECT_EQ(text.decode(tokens{2, 5, 6, 3, 5}), "CCl");
  EXPECT_TRUE(text.ends_all());
  EXPECT_EQ(tokens(text.never().begin(), text.never().end()), (tokens{0, 1, 2, 3}));
  for (const std::string bad : {"Cx", "C[SEP]", "C[MASK]", "C>", "C_[C@"}) {
    try {
      static_cast<void>(text.encode_masked(bad));
      ADD_FAILURE() << bad;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("is not in the vocabulary"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace example::bert_test
