// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/gguf.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/gguf_parse.hpp"

namespace example {
namespace {

using detail::little_endian;

std::vector<std::byte> read_bytes(const std::string& path) {
  const auto fail = [&path](const std::string& why) -> void {
    throw std::runtime_error(path + ": " + why);
  };
  // A directory opens as a stream and then reports an enormous size, so it is tested first.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    fail("not a readable file, must be a regular file");
  }
  std::ifstream stream(path, std::ios::binary);
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!stream || error) {
    fail("can not be opened");
  }
  if (size > static_cast<std::uintmax_t>(std::numeric_limits<std::streamsize>::max())) {
    fail("file of " + std::to_string(size) + " bytes is too large to read");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (stream.gcount() != static_cast<std::streamsize>(size)) {
    fail("can not be read to its end");
  }
  return bytes;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: exact as fraction times 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + (127 - 15);
  return __builtin_bit_cast(float, sign | (widened << 23) | (fraction << 13));
}

double number_at(const std::byte* bytes, gguf_value_type type) {
  switch (type) {
  case gguf_value_type::u8:
    return little_endian<std::uint8_t>(bytes);
  case gguf_value_type::i8:
    return little_endian<std::int8_t>(bytes);
  case gguf_value_type::u16:
    return little_endian<std::uint16_t>(bytes);
  case gguf_value_type::i16:
    return little_endian<std::int16_t>(bytes);
  case gguf_value_type::u32:
    return little_endian<std::uint32_t>(bytes);
  case gguf_value_type::i32:
    return little_endian<std::int32_t>(bytes);
  case gguf_value_type::u64:
    return static_cast<double>(little_endian<std::uint64_t>(bytes));
  case gguf_value_type::i64:
    return static_cast<double>(little_endian<std::int64_t>(bytes));
  case gguf_value_type::f32:
    return little_endian<float>(bytes);
  case gguf_value_type::f64:
    return little_endian<double>(bytes);
  default:
    throw std::logic_error("not a number type");
  }
}

}  // namespace

void gguf_tensor::dequantize(std::span<float> out) const {
  if (out.size() != elements) {
    throw std::invalid_argument("tensor " + quoted(name) + " has " + std::to_string(elements) +
                                " elements, the output has " + std::to_string(out.size()) +
                                ", must be equal");
  }
  const std::byte* from = bytes.data();
  if (type == gguf_tensor_type::f32) {
    for (float& value : out) {
      value = little_endian<float>(from);
      from += 4;
    }
  } else if (type == gguf_tensor_type::f16) {
    for (float& value : out) {
      value = half_to_float(little_endian<std::uint16_t>(from));
      from += 2;
    }
  } else {  // q8_0: blocks of a half-precision scale and 32 signed bytes
    for (std::size_t block = 0; block < out.size(); block += 32) {
      const float scale = half_to_float(little_endian<std::uint16_t>(from));
      from += 2;
      for (std::size_t i = 0; i < 32; ++i) {
        out[block + i] = scale * static_cast<float>(little_endian<std::int8_t>(from++));
      }
    }
  }
}

gguf_file::gguf_file(const std::string& path)
    : gguf_file(path, read_bytes(path)) {}

// Here, so that programs do not compile them.
gguf_file::gguf_file(gguf_file&&) noexcept = default;
gguf_file& gguf_file::operator=(gguf_file&&) noexcept = default;
gguf_file::~gguf_file() = default;

gguf_file::gguf_file(std::string name, std::vector<std::byte> bytes)
    : name_(std::move(name))
    , bytes_(std::move(bytes)) {
  detail::gguf_header header = detail::parse_gguf(name_, bytes_);
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
}

void gguf_file::fail(const std::string& message) const {
  throw std::runtime_error(name_ + ": " + message);
}

const gguf_value& gguf_file::at(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    fail("metadata " + quoted(key) + " is missing");
  }
  return found->second;
}

std::int64_t gguf_file::integer(std::string_view key) const {
  const gguf_value& value = at(key);
  const std::byte* bytes = value.bytes.data();
  switch (value.type) {
  case gguf_value_type::u8:
    return little_endian<std::uint8_t>(bytes);
  case gguf_value_type::i8:
    return little_endian<std::int8_t>(bytes);
  case gguf_value_type::u16:
    return little_endian<std::uint16_t>(bytes);
  case gguf_value_type::i16:
    return little_endian<std::int16_t>(bytes);
  case gguf_value_type::u32:
    return little_endian<std::uint32_t>(bytes);
  case gguf_value_type::i32:
    return little_endian<std::int32_t>(bytes);
  case gguf_value_type::i64:
    return little_endian<std::int64_t>(bytes);
  case gguf_value_type::u64: {
    const auto large = little_endian<std::uint64_t>(bytes);
    if (!std::in_range<std::int64_t>(large)) {
      fail("metadata " + quoted(key) + ": " + std::to_string(large) +
           ", must fit in a signed 64-bit integer");
    }
    return static_cast<std::int64_t>(large);
  }
  default:
    fail("metadata " + quoted(key) + ": wrong type, must be an integer");
  }
}

std::uint32_t gguf_file::u32(std::string_view key) const {
  const std::int64_t value = integer(key);
  if (!std::in_range<std::uint32_t>(value)) {
    fail("metadata " + quoted(key) + ": " + std::to_string(value) +
         ", must fit in an unsigned 32-bit integer");
  }
  return static_cast<std::uint32_t>(value);
}

double gguf_file::real(std::string_view key) const {
  const gguf_value& value = at(key);
  if (value.type != gguf_value_type::f32 && value.type != gguf_value_type::f64) {
    fail("metadata " + quoted(key) + ": wrong type, must be f32 or f64");
  }
  return number_at(value.bytes.data(), value.type);
}

bool gguf_file::boolean(std::string_view key) const {
  const gguf_value& value = at(key);
  if (value.type != gguf_value_type::boolean) {
    fail("metadata " + quoted(key) + ": wrong type, must be a boolean");
  }
  return std::to_integer<unsigned>(value.bytes[0]) != 0;
}

std::string_view gguf_file::string(std::string_view key) const {
  const gguf_value& value = at(key);
  if (value.type != gguf_value_type::string) {
    fail("metadata " + quoted(key) + ": wrong type, must be a string");
  }
  return detail::string_at(value.bytes.data());
}

std::vector<std::string_view> gguf_file::strings(std::string_view key) const {
  const gguf_value& value = at(key);
  if (value.type != gguf_value_type::array || value.element != gguf_value_type::string) {
    fail("metadata " + quoted(key) + ": wrong type, must be an array of strings");
  }
  std::vector<std::string_view> result;
  const std::byte* bytes = value.bytes.data();
  for (std::uint64_t i = 0; i < value.count; ++i) {
    result.push_back(detail::string_at(bytes));
    bytes += sizeof(std::uint64_t) + result.back().size();
  }
  return result;
}

std::vector<double> gguf_file::reals(std::string_view key) const {
  const gguf_value& value = at(key);
  if (value.type != gguf_value_type::array || value.element == gguf_value_type::string ||
      value.element == gguf_value_type::array || value.element == gguf_value_type::boolean) {
    fail("metadata " + quoted(key) + ": wrong type, must be an array of numbers");
  }
  std::vector<double> result;
  if (value.count == 0) {
    return result;
  }
  const std::size_t size = value.bytes.size() / static_cast<std::size_t>(value.count);
  for (std::size_t offset = 0; offset < value.bytes.size(); offset += size) {
    result.push_back(number_at(value.bytes.data() + offset, value.element));
  }
  return result;
}

const gguf_tensor& gguf_file::tensor(std::string_view name,
                                     std::span<const std::uint64_t> shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    fail("tensor " + quoted(name) + " is missing");
  }
  const gguf_tensor& result = found->second;
  const auto text = [](std::span<const std::uint64_t> extents) {
    std::string list;
    for (const std::uint64_t extent : extents) {
      list += (list.empty() ? "" : ", ") + std::to_string(extent);
    }
    return "[" + list + "]";
  };
  const std::span actual(result.shape.data(), result.dimensions);
  if (!std::equal(actual.begin(), actual.end(), shape.begin(), shape.end())) {
    fail("tensor " + quoted(name) + ": shape " + text(actual) + ", must be " + text(shape));
  }
  return result;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string result = "'";
  for (const char c : text.substr(0, longest)) {
    result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result + (text.size() > longest ? "...'" : "'");
}

}  // namespace example
