// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.hpp"

// Files that the tests of the example engine read.
namespace example::testing {

/// Path of the model's weights, f16.
inline std::filesystem::path weights_path() {
  return std::filesystem::path(UNMASK_EXAMPLES_DIR) / "tiny_llada" / "tiny-f16.gguf";
}

/// The half-precision number nearest to a positive one that is not too large for it.
inline std::uint16_t half_of(float x) {
  if (x < 0x1p-14F) {  // subnormal
    return static_cast<std::uint16_t>(std::lround(x * 0x1p24F));
  }
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) - (112U << 23U) + 0x1000U) >>
                                    13U);
}

/// Appends the low bytes of a number, the lowest first.
inline void append(std::vector<std::byte>& to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    to.push_back(static_cast<std::byte>(number >> (8 * i)));
  }
}

/// Appends 32 numbers as a block of q8_0: the scale, then whole multiples of it.
inline void append_q8_0(std::vector<std::byte>& to, std::span<const float> numbers) {
  float largest = 0.0F;
  for (const float x : numbers) {
    largest = std::max(largest, std::abs(x));
  }
  append(to, half_of(largest / 127.0F), 2);
  for (const float x : numbers) {
    append(to, static_cast<std::uint64_t>(largest > 0 ? std::lround(x * 127.0F / largest) : 0), 1);
  }
}

/// The bytes of the file with its matrices in another type: kind is f32, f16 or q8_0. Names, shapes
/// and metadata stay where they are.
inline std::vector<std::byte> weights_bytes(const std::string& kind) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::filesystem::file_size(weights_path())));
  std::ifstream stream(weights_path(), std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) {
    throw std::runtime_error("can not read " + weights_path().string());
  }
  if (kind == "f16") {
    return bytes;
  }
  const auto type = kind == "f32" ? gguf_tensor_type::f32 : gguf_tensor_type::q8_0;
  const gguf_file file("weights", bytes);
  std::vector<const gguf_tensor*> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    tensors.push_back(&tensor);
  }
  std::ranges::sort(tensors, {}, [](const gguf_tensor* t) { return t->bytes.data(); });
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto put = [&](std::size_t at, std::uint64_t number, int size) {
    std::vector<std::byte> value;
    append(value, number, size);
    std::ranges::copy(value, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  };
  std::vector<std::byte> data;
  for (const gguf_tensor* t : tensors) {
    data.resize((data.size() + 31) / 32 * 32);
    // Past the name: the number of dimensions (4 bytes), extents (8 each), type (4), offset (8).
    std::string pattern(8, '\0');  // its length stands before a name
    pattern[0] = static_cast<char>(t->name.size());
    pattern += t->name;
    const std::size_t at = text.find(pattern) + pattern.size() + 4 + 8 * t->dimensions;
    put(at + 4, data.size(), 8);
    if (t->type == gguf_tensor_type::f32) {
      data.insert(data.end(), t->bytes.begin(), t->bytes.end());
      continue;
    }
    put(at, static_cast<std::uint64_t>(type), 4);
    std::vector<float> numbers(t->elements);
    t->dequantize(numbers);
    for (std::size_t i = 0; i < numbers.size(); i += 32) {
      const std::span block = std::span(numbers).subspan(i, 32);
      if (type == gguf_tensor_type::q8_0) {
        append_q8_0(data, block);
      } else {
        for (const float x : block) {
          append(data, std::bit_cast<std::uint32_t>(x), 4);
        }
      }
    }
  }
  const auto length =
      tensors.back()->bytes.data() + tensors.back()->bytes.size() - tensors.front()->bytes.data();
  bytes.resize(bytes.size() - (static_cast<std::size_t>(length) + 31) / 32 * 32);  // the header
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

/// Path of a file with weights_bytes(kind), which is removed at the end of the program if it was
/// written for that.
inline std::filesystem::path weights_file(const std::string& kind) {
  if (kind == "f16") {
    return weights_path();
  }
  struct written {
    std::filesystem::path path;
    explicit written(const std::string& name)
        : path(std::filesystem::temp_directory_path() /
               ("tiny-" + name + "-" + std::to_string(std::random_device{}()) + ".gguf")) {
      const std::vector<std::byte> bytes = weights_bytes(name);
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
    written(const written&) = delete;
    written& operator=(const written&) = delete;
    ~written() { std::filesystem::remove(path); }
  };
  static std::map<std::string, written> files;
  return files.try_emplace(kind, kind).first->second.path;
}

/// Every line of a file with one JSON value a line. Throws if the file has none.
inline std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<nlohmann::json> result;
  for (std::string line; std::getline(stream, line);) {
    result.push_back(nlohmann::json::parse(line));
  }
  if (result.empty()) {
    throw std::runtime_error("nothing to read in " + path.string());
  }
  return result;
}

inline std::vector<nlohmann::json> prompts() {
  return json_lines(std::filesystem::path(UNMASK_EXAMPLES_DIR) / "tiny_llada" / "prompts.jsonl");
}

inline std::vector<nlohmann::json> reference(const std::string& name) {
  return json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "tiny_llada" / (name + ".jsonl"));
}

}  // namespace example::testing
