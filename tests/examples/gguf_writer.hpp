// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf.hpp"

namespace example::testing {

/// Makes the bytes of a GGUF file, of metadata and f32 tensors.
class gguf_writer {
 public:
  void add(const std::string& key, std::uint32_t value) {
    entry(key, gguf_value_type::u32);
    number(metadata_, value, 4);
  }
  void add(const std::string& key, float value) {
    entry(key, gguf_value_type::f32);
    number(metadata_, __builtin_bit_cast(std::uint32_t, value), 4);
  }
  void add(const std::string& key, bool value) {
    entry(key, gguf_value_type::boolean);
    number(metadata_, value ? 1 : 0, 1);
  }
  void add(const std::string& key, std::string_view value) {
    entry(key, gguf_value_type::string);
    text(metadata_, value);
  }
  void add(const std::string& key, const char* value) { add(key, std::string_view(value)); }
  void add(const std::string& key, const std::vector<std::string>& values) {
    array(key, gguf_value_type::string, values.size());
    for (const std::string& value : values) {
      text(metadata_, value);
    }
  }
  void add(const std::string& key, const std::vector<std::int32_t>& values) {
    array(key, gguf_value_type::i32, values.size());
    for (const std::int32_t value : values) {
      number(metadata_, static_cast<std::uint32_t>(value), 4);
    }
  }

  /// A tensor, contiguous dimension first.
  void tensor(std::string name, std::vector<std::uint64_t> shape, std::vector<float> values) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(values)});
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    for (const char c : std::string_view("GGUF")) {
      out.push_back(static_cast<std::byte>(c));
    }
    number(out, 3, 4);
    number(out, tensors_.size(), 8);
    number(out, entries_, 8);
    out.insert(out.end(), metadata_.begin(), metadata_.end());
    std::uint64_t offset = 0;
    for (const stored& t : tensors_) {
      text(out, t.name);
      number(out, t.shape.size(), 4);
      for (const std::uint64_t extent : t.shape) {
        number(out, extent, 8);
      }
      number(out, 0, 4);
      number(out, offset, 8);
      offset += (t.values.size() * 4 + 31) / 32 * 32;
    }
    for (const stored& t : tensors_) {
      out.resize((out.size() + 31) / 32 * 32);
      for (const float value : t.values) {
        number(out, __builtin_bit_cast(std::uint32_t, value), 4);
      }
    }
    return out;
  }

 private:
  struct stored {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::vector<float> values;
  };

  static void number(std::vector<std::byte>& out, std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) {
      out.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  static void text(std::vector<std::byte>& out, std::string_view value) {
    number(out, value.size(), 8);
    for (const char c : value) {
      out.push_back(static_cast<std::byte>(c));
    }
  }
  void entry(const std::string& key, gguf_value_type type) {
    ++entries_;
    text(metadata_, key);
    number(metadata_, static_cast<std::uint32_t>(type), 4);
  }
  void array(const std::string& key, gguf_value_type element, std::size_t count) {
    entry(key, gguf_value_type::array);
    number(metadata_, static_cast<std::uint32_t>(element), 4);
    number(metadata_, count, 8);
  }

  std::vector<std::byte> metadata_;
  std::uint64_t entries_ = 0;
  std::vector<stored> tensors_;
};

}  // namespace example::testing
