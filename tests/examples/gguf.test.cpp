// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/gguf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"

namespace example::gguf_test {
namespace {

const std::vector<std::byte>& original() {
  static const std::vector<std::byte> bytes = testing::weights_bytes("q8_0");
  return bytes;
}

/// A copy of the real file, to be damaged. Places are found by the names in it.
class damaged_file {
 public:
  std::vector<std::byte> bytes = original();

  /// Offset just past the first occurrence of a key or name that stands with its length before it.
  std::size_t after(std::string_view name) const {
    std::string pattern(8, '\0');
    pattern[0] = static_cast<char>(name.size());
    pattern += name;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t found = text.find(pattern);
    if (found == std::string_view::npos) {
      throw std::logic_error("no " + std::string(name) + " in the file");
    }
    return found + pattern.size();
  }

  /// Overwrites bytes with a number, little endian.
  template <class T>
  void put(std::size_t offset, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes.at(offset + i) = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
  }

  void text(std::size_t offset, std::string_view value) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      bytes.at(offset + i) = static_cast<std::byte>(value[i]);
    }
  }

  /// Overwrites a 4-byte metadata value (after the 4 bytes of its type).
  void value(std::string_view key, std::uint32_t number) { put(after(key) + 4, number); }
};

// Past a tensor's name: dimensions (4), two extents (8 each), element type (4), offset (8).
constexpr std::size_t first_extent = 4, second_extent = 12, element_type = 20, data_offset = 24;
constexpr std::string_view some_matrix = "blk.3.ffn_up.weight";

/// Everything that a program does with a file: parse, tokenizer, weights.
void load(std::vector<std::byte> bytes) {
  const gguf_file file("damaged.gguf", std::move(bytes));
  const char_tokenizer tokenizer(file);
  const llada_model model(file);
}

/// The message of the std::runtime_error that loading gives; empty if it gives none.
std::string message_of(std::vector<std::byte> bytes) {
  try {
    load(std::move(bytes));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// End of the header: the last tensor's description.
std::size_t header_end() {
  return damaged_file().after("output.weight") + data_offset + 8;
}

struct damage {
  const char* word;  ///< to be in the message
  std::function<void(damaged_file&)> apply;
};

const damage damages[] = {
    {"magic", [](damaged_file& f) { f.text(0, "GGML"); }},
    {"magic", [](damaged_file& f) { f.text(0, "FUGG"); }},
    {"version: 2", [](damaged_file& f) { f.put<std::uint32_t>(4, 2); }},
    {"version", [](damaged_file& f) { f.put<std::uint32_t>(4, 0x03000000); }},
    {"tensor count", [](damaged_file& f) { f.put(8, ~std::uint64_t{0}); }},
    {"tensor count", [](damaged_file& f) { f.put<std::uint64_t>(8, 1U << 30); }},
    {"tensor", [](damaged_file& f) { f.put<std::uint64_t>(8, 58); }},
    {"tensor count", [](damaged_file& f) { f.put<std::uint64_t>(8, 56); }},
    {"metadata count", [](damaged_file& f) { f.put(16, ~std::uint64_t{0} / 2); }},
    {"metadata entry 0", [](damaged_file& f) { f.put(24, ~std::uint64_t{0}); }},
    {"tensor 0", [](damaged_file& f) { f.put<std::uint64_t>(16, 39); }},
    {"value type", [](damaged_file& f) { f.put<std::uint32_t>(f.after("general.name"), 13); }},
    {"general.name",
     [](damaged_file& f) { f.put(f.after("general.name") + 4, ~std::uint64_t{7}); }},
    {"boolean",
     [](damaged_file& f) { f.put<std::uint8_t>(f.after("llada.attention.causal") + 4, 2); }},
    {"array length",
     [](damaged_file& f) { f.put(f.after("tokenizer.ggml.scores") + 8, std::uint64_t{1} << 62); }},
    {"array length",
     [](damaged_file& f) { f.put(f.after("tokenizer.ggml.tokens") + 8, ~std::uint64_t{0} / 8); }},
    {"element type",
     [](damaged_file& f) { f.put<std::uint32_t>(f.after("tokenizer.ggml.tokens") + 4, 99); }},
    {"array of strings",
     [](damaged_file& f) {
       f.text(f.after("tokenizer.ggml.tokens") - 6, "xxxxxx");
       f.text(f.after("tokenizer.ggml.scores") - 6, "tokens");
     }},
    {"twice", [](damaged_file& f) { f.text(f.after("llama.block_count") - 17, "llada"); }},
    {"twice", [](damaged_file& f) { f.text(f.after("blk.2.attn_q.weight") - 15, "1"); }},
    {"element type",
     [](damaged_file& f) { f.put<std::uint32_t>(f.after(some_matrix) + element_type, 2); }},
    {"element type",
     [](damaged_file& f) { f.put<std::uint32_t>(f.after(some_matrix) + element_type, 999); }},
    {"dimensions", [](damaged_file& f) { f.put<std::uint32_t>(f.after(some_matrix), 0); }},
    {"dimensions", [](damaged_file& f) { f.put<std::uint32_t>(f.after(some_matrix), 5); }},
    {"dimension 0 is 0",
     [](damaged_file& f) { f.put<std::uint64_t>(f.after(some_matrix) + first_extent, 0); }},
    {"too large",
     [](damaged_file& f) { f.put(f.after(some_matrix) + first_extent, ~std::uint64_t{31}); }},
    {"too large",
     [](damaged_file& f) {
       f.put<std::uint32_t>(f.after(some_matrix) + element_type, 0);
       f.put(f.after(some_matrix) + first_extent, std::uint64_t{1} << 55);
     }},
    {"multiple of 32",
     [](damaged_file& f) { f.put<std::uint64_t>(f.after(some_matrix) + first_extent, 129); }},
    {"offset",
     [](damaged_file& f) { f.put(f.after(some_matrix) + second_extent, std::uint64_t{1} << 40); }},
    {"offset",
     [](damaged_file& f) { f.put(f.after(some_matrix) + data_offset, ~std::uint64_t{31}); }},
    {"offset",
     [](damaged_file& f) {
       f.put<std::uint64_t>(f.after(some_matrix) + data_offset, original().size());
     }},
    {"alignment",
     [](damaged_file& f) { f.put<std::uint64_t>(f.after(some_matrix) + data_offset, 33); }},
    {"shape [160, 384], must be [128, 384]",
     [](damaged_file& f) { f.put<std::uint64_t>(f.after(some_matrix) + first_extent, 160); }},
    {"shape",
     [](damaged_file& f) { f.put<std::uint64_t>(f.after(some_matrix) + second_extent, 96); }},
    {"'blk.3.ffn_up.weight' is missing",
     [](damaged_file& f) { f.text(f.after(some_matrix) - 6, "bright"); }},
    {"'llama', must be 'llada'",
     [](damaged_file& f) { f.text(f.after("general.architecture") + 12, "llama"); }},
    {"tokenizer.ggml.mask_token_id' is missing",
     [](damaged_file& f) { f.text(f.after("tokenizer.ggml.mask_token_id") - 2, "xx"); }},
    {"mask_token_id': 98", [](damaged_file& f) { f.value("tokenizer.ggml.mask_token_id", 98); }},
    {"must be different", [](damaged_file& f) { f.value("tokenizer.ggml.mask_token_id", 1); }},
    {"one character", [](damaged_file& f) { f.value("tokenizer.ggml.mask_token_id", 7); }},
    {"wrong type", [](damaged_file& f) { f.put<std::uint32_t>(f.after("llada.block_count"), 6); }},
    {"llada.block_count", [](damaged_file& f) { f.value("llada.block_count", 0); }},
    {"layers", [](damaged_file& f) { f.value("llada.block_count", ~0U); }},
    {"layers", [](damaged_file& f) { f.value("llada.block_count", 5); }},
    {"vocab_size", [](damaged_file& f) { f.value("llada.vocab_size", 99); }},
    {"embedding_length", [](damaged_file& f) { f.value("llada.embedding_length", 130); }},
    {"dimension_count", [](damaged_file& f) { f.value("llada.embedding_length", ~3U); }},
    {"head_count", [](damaged_file& f) { f.value("llada.attention.head_count", 0); }},
    {"head_count_kv", [](damaged_file& f) { f.value("llada.attention.head_count_kv", 2); }},
    {"dimension_count", [](damaged_file& f) { f.value("llada.rope.dimension_count", 16); }},
    {"multiple of 8", [](damaged_file& f) { f.value("llada.feed_forward_length", 380); }},
    {"epsilon",
     [](damaged_file& f) { f.value("llada.attention.layer_norm_rms_epsilon", 0x7FC00000); }},
    {"freq_base", [](damaged_file& f) { f.value("llada.rope.freq_base", 0x80000001); }},
    {"causal",
     [](damaged_file& f) { f.put<std::uint8_t>(f.after("llada.attention.causal") + 4, 1); }},
};

TEST(gguf, the_original_loads) {
  EXPECT_EQ(message_of(original()), "");
  const gguf_file file(testing::weights_path());
  EXPECT_EQ(file.string("general.name"), "tiny-llada");
  EXPECT_EQ(file.u32("llada.block_count"), 6U);
  EXPECT_EQ(file.integer("general.file_type"), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(file.real("llada.attention.layer_norm_rms_epsilon")), 1e-5F);
  EXPECT_FALSE(file.boolean("llada.attention.causal"));
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").at(3), "\xE2\x96\x81");
  EXPECT_EQ(file.reals("tokenizer.ggml.token_type").at(0), 3.0);
  EXPECT_EQ(file.reals("tokenizer.ggml.scores"), std::vector<double>(98, 0.0));
  EXPECT_THROW(file.u32("general.name"), std::runtime_error);
  EXPECT_THROW(file.string("general.title"), std::runtime_error);
}

TEST(gguf, a_damaged_file_is_refused_with_a_reason) {
  for (std::size_t i = 0; i < std::size(damages); ++i) {
    damaged_file file;
    damages[i].apply(file);
    const std::string message = message_of(file.bytes);
    EXPECT_NE(message.find(damages[i].word), std::string::npos)
        << "case " << i << ": " << damages[i].word << " is not in: " << message;
    EXPECT_EQ(message.find("damaged.gguf: "), 0U) << message;
  }
}

TEST(gguf, a_file_cut_anywhere_is_refused) {
  const auto& bytes = original();
  std::vector<std::size_t> lengths(header_end() + 1);  // every length, so every field boundary
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = i;
  }
  for (std::size_t length = header_end(); length < bytes.size(); length += 99'991) {
    lengths.push_back(length);
  }
  // The tensor that lies last; the padding after it may be missing.
  const gguf_file whole("whole.gguf", bytes);
  const std::byte* end = nullptr;
  for (const auto& [name, tensor] : whole.tensors()) {
    end = std::max(end, tensor.bytes.data() + tensor.bytes.size());
  }
  const std::byte* start = whole.tensors().at("token_embd.weight").bytes.data();  // lies first
  const std::size_t used = (header_end() + 31) / 32 * 32 + static_cast<std::size_t>(end - start);
  EXPECT_EQ(message_of({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(used)}), "");
  lengths.push_back(used - 1);
  for (const std::size_t length : lengths) {
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(gguf_file("cut.gguf", cut), std::runtime_error) << length;
  }
}

TEST(gguf, paths_that_are_no_files_are_refused) {
  EXPECT_THROW(gguf_file(std::filesystem::path("no such file.gguf")), std::runtime_error);
  EXPECT_THROW(gguf_file(std::filesystem::path(UNMASK_EXAMPLES_DIR)), std::runtime_error);
  EXPECT_THROW(gguf_file(testing::weights_path().replace_filename("README.md")),
               std::runtime_error);
}

TEST(gguf, arrays_may_nest_but_not_without_end) {
  const auto nested = [](int depth) {
    damaged_file file;
    file.bytes.assign(original().begin(), original().begin() + 8);
    const auto append = [&file](std::uint64_t value, int size) {
      for (int i = 0; i < size; ++i) {
        file.bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
      }
    };
    append(0, 8);  // tensors
    append(1, 8);  // metadata: one entry with the key "k", an array of ... of no bytes
    append(1, 8);
    append('k', 1);
    append(9, 4);
    for (int i = 1; i < depth; ++i) {
      append(9, 4);
      append(1, 8);
    }
    append(0, 4);
    append(0, 8);
    return file.bytes;
  };
  EXPECT_EQ(gguf_file("nested.gguf", nested(4)).metadata().at("k").count, 1U);
  EXPECT_THROW(gguf_file("nested.gguf", nested(4)).reals("k"), std::runtime_error);
  EXPECT_THROW(gguf_file("nested.gguf", nested(5)), std::runtime_error);
  EXPECT_THROW(gguf_file("nested.gguf", nested(1000)), std::runtime_error);
}

TEST(gguf, random_damage_never_does_worse_than_throw) {
  const std::size_t end = header_end();
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes = original();
    for (std::uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % end] ^= static_cast<std::byte>(1 + random() % 255);
    }
    if (seed % 4 == 0) {  // and an extreme count, length, extent or offset somewhere
      const std::uint64_t extreme = (std::uint64_t{1} << random() % 64) - random() % 3;
      std::memcpy(bytes.data() + random() % (end - 8), &extreme, sizeof extreme);
    }
    try {
      const gguf_file file("random.gguf", std::move(bytes));
      const char_tokenizer tokenizer(file);
      // The weights are always converted in the same way, so a part of the seeds is enough.
      if (seed % 16 == 0) {
        llada_model model(file);
        model.forward(tokenizer.canvas("", 3), 0, 4);
      }
      ++accepted;
    } catch (const std::runtime_error&) {
      ++refused;
    } catch (const std::invalid_argument&) {  // a context shorter than the canvas
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 500);
}

TEST(gguf, half_precision_is_exact) {
  std::array<std::byte, 16> bytes{};
  const std::uint16_t halves[] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x8000, 0x03FF, 0x7C00, 0x3555};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[2 * i] = static_cast<std::byte>(halves[i] & 0xFF);
    bytes[2 * i + 1] = static_cast<std::byte>(halves[i] >> 8);
  }
  const gguf_tensor tensor{"halves", gguf_tensor_type::f16, 1, {8, 1, 1, 1}, 8, bytes};
  std::array<float, 8> out{};
  tensor.dequantize(out);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      out,
      (std::array<float, 8>{1, -2, 65504, 0x1p-24F, -0.0F, 0x1.FF8p-15F, infinity, 0x1.554p-2F}));
  EXPECT_TRUE(std::signbit(out[4]));
  EXPECT_THROW(tensor.dequantize(std::span(out).first(7)), std::invalid_argument);
}

}  // namespace
}  // namespace example::gguf_test
