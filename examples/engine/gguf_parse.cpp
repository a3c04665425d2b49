// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/gguf_parse.hpp"

#include <bit>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace example::detail {
namespace {

constexpr std::uint32_t supported_version = 3;
constexpr std::uint64_t default_alignment = 32;
constexpr std::uint64_t largest_alignment = 1U << 16;
constexpr int deepest_array = 4;

/// Bytes of a number; 0 for strings and arrays, whose size is in the file.
std::uint64_t size_of(gguf_value_type type) {
  switch (type) {
  case gguf_value_type::u8:
  case gguf_value_type::i8:
  case gguf_value_type::boolean:
    return 1;
  case gguf_value_type::u16:
  case gguf_value_type::i16:
    return 2;
  case gguf_value_type::u32:
  case gguf_value_type::i32:
  case gguf_value_type::f32:
    return 4;
  case gguf_value_type::u64:
  case gguf_value_type::i64:
  case gguf_value_type::f64:
    return 8;
  case gguf_value_type::string:
  case gguf_value_type::array:
    break;
  }
  return 0;
}

/// Walks over the bytes of a file and refuses every step past their end.
class cursor {
 public:
  cursor(const std::string& file, std::span<const std::byte> bytes)
      : file_(file)
      , bytes_(bytes) {}

  /// Names the part of the file that the next reads belong to.
  void enter(std::string part) { part_ = std::move(part); }

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }
  std::span<const std::byte> since(std::size_t start) const {
    return bytes_.subspan(start, offset_ - start);
  }

  [[noreturn]] void fail(std::string_view field, const std::string& message) const {
    throw std::runtime_error(file_ + ": " + part_ + (part_.empty() ? "" : ", ") +
                             std::string(field) + ": " + message);
  }

  const std::byte* skip(std::uint64_t size, std::string_view field) {
    if (size > left()) {
      fail(field,
           "truncated file: needs " + std::to_string(size) + " bytes at offset " +
               std::to_string(offset_) + ", only " + std::to_string(left()) + " are left");
    }
    const std::byte* start = bytes_.data() + offset_;
    offset_ += static_cast<std::size_t>(size);
    return start;
  }

  template <class T>
  T number(std::string_view field) {
    return little_endian<T>(skip(sizeof(T), field));
  }

  /// A count of entries that take at least `smallest` bytes each.
  std::uint64_t count(std::string_view field, std::uint64_t smallest) {
    const auto value = number<std::uint64_t>(field);
    if (value > left() / smallest) {
      fail(field,
           "count " + std::to_string(value) + " is too large: entries of at least " +
               std::to_string(smallest) + " bytes must fit in the " + std::to_string(left()) +
               " bytes left");
    }
    return value;
  }

  std::string_view string(std::string_view field) {
    const auto size = number<std::uint64_t>(field);
    const std::byte* start = skip(size, field);
    return {reinterpret_cast<const char*>(start), static_cast<std::size_t>(size)};
  }

  gguf_value_type value_type(std::string_view field) {
    const auto number_of_type = number<std::uint32_t>(field);
    if (number_of_type > static_cast<std::uint32_t>(gguf_value_type::f64)) {
      fail(field, "unknown value type " + std::to_string(number_of_type) + ", must be 0 to 12");
    }
    return static_cast<gguf_value_type>(number_of_type);
  }

 private:
  const std::string& file_;
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::string part_;
};

void skip_elements(cursor& at, gguf_value_type type, std::uint64_t count, int depth);

/// Steps over type, count and elements of an array; returns the first two.
std::pair<gguf_value_type, std::uint64_t> skip_array(cursor& at, int depth) {
  if (depth > deepest_array) {
    at.fail("array", "nested deeper than " + std::to_string(deepest_array));
  }
  const gguf_value_type element = at.value_type("element type");
  const std::uint64_t number_size = size_of(element);
  const std::uint64_t smallest =
      number_size > 0 ? number_size : (element == gguf_value_type::string ? 8 : 12);
  const std::uint64_t count = at.count("array length", smallest);
  skip_elements(at, element, count, depth);
  return {element, count};
}

void skip_elements(cursor& at, gguf_value_type type, std::uint64_t count, int depth) {
  if (const std::uint64_t size = size_of(type); size > 0) {
    const std::byte* start = at.skip(size * count, "value");  // count was checked against the file
    if (type == gguf_value_type::boolean) {
      for (std::uint64_t i = 0; i < count; ++i) {
        if (std::to_integer<unsigned>(start[i]) > 1) {
          at.fail("value",
                  "a boolean must be 0 or 1, not " +
                      std::to_string(std::to_integer<unsigned>(start[i])));
        }
      }
    }
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == gguf_value_type::string) {
      at.string("string");
    } else {
      skip_array(at, depth + 1);
    }
  }
}

gguf_value read_value(cursor& at) {
  gguf_value value;
  value.type = at.value_type("value type");
  std::size_t start = at.offset();
  if (value.type == gguf_value_type::array) {
    std::tie(value.element, value.count) = skip_array(at, 1);
    start += sizeof(std::uint32_t) + sizeof(std::uint64_t);  // the elements only
  } else {
    skip_elements(at, value.type, 1, 0);
  }
  value.bytes = at.since(start);
  return value;
}

/// The number of bytes of `elements` elements in rows of `row`.
std::uint64_t
tensor_bytes(const cursor& at, gguf_tensor_type type, std::uint64_t elements, std::uint64_t row) {
  constexpr std::uint64_t block = 32, block_bytes = 34;  // a half-precision scale and 32 integers
  if (type == gguf_tensor_type::q8_0 && row % block != 0) {
    at.fail("shape",
            "first dimension " + std::to_string(row) +
                " must be a multiple of 32 for element type q8_0");
  }
  const std::uint64_t units = type == gguf_tensor_type::q8_0 ? elements / block : elements;
  const std::uint64_t size = type == gguf_tensor_type::q8_0  ? block_bytes
                             : type == gguf_tensor_type::f16 ? 2
                                                             : 4;
  if (units > std::numeric_limits<std::size_t>::max() / size) {
    at.fail("shape", std::to_string(elements) + " elements are too large for this machine");
  }
  return units * size;
}

/// A tensor as described, its bytes not yet placed.
struct description {
  gguf_tensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

description read_description(cursor& at, std::uint64_t index) {
  description result;
  gguf_tensor& tensor = result.tensor;
  at.enter("tensor " + std::to_string(index));
  tensor.name = at.string("name");
  at.enter("tensor " + quoted(tensor.name));
  const auto dimensions = at.number<std::uint32_t>("dimensions");
  if (dimensions < 1 || dimensions > tensor.shape.size()) {
    at.fail("dimensions", std::to_string(dimensions) + ", must be 1 to 4");
  }
  tensor.dimensions = dimensions;
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto extent = at.number<std::uint64_t>("shape");
    if (extent == 0) {
      at.fail("shape", "dimension " + std::to_string(i) + " is 0, must be at least 1");
    }
    if (extent > std::numeric_limits<std::uint64_t>::max() / elements) {
      at.fail("shape",
              "dimension " + std::to_string(i) + " of " + std::to_string(extent) +
                  " is too large: the number of elements must fit in 64 bits");
    }
    tensor.shape[i] = extent;
    elements *= extent;
  }
  const auto type = at.number<std::uint32_t>("element type");
  tensor.type = static_cast<gguf_tensor_type>(type);
  if (tensor.type != gguf_tensor_type::f32 && tensor.type != gguf_tensor_type::f16 &&
      tensor.type != gguf_tensor_type::q8_0) {
    at.fail("element type",
            "unsupported type " + std::to_string(type) + ", must be 0 (f32), 1 (f16) or 8 (q8_0)");
  }
  result.size = tensor_bytes(at, tensor.type, elements, tensor.shape[0]);
  tensor.elements = static_cast<std::size_t>(elements);
  result.offset = at.number<std::uint64_t>("offset");
  return result;
}

std::uint64_t alignment_of(const cursor& at, const gguf_header& header) {
  const auto found = header.metadata.find("general.alignment");
  if (found == header.metadata.end()) {
    return default_alignment;
  }
  if (found->second.type != gguf_value_type::u32) {
    at.fail("general.alignment", "must be of type u32");
  }
  const auto alignment = little_endian<std::uint32_t>(found->second.bytes.data());
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > largest_alignment) {
    at.fail("general.alignment",
            std::to_string(alignment) + ", must be a power of two, 8 to " +
                std::to_string(largest_alignment));
  }
  return alignment;
}

}  // namespace

std::string_view string_at(const std::byte* bytes) {
  const auto size = little_endian<std::uint64_t>(bytes);
  return {reinterpret_cast<const char*>(bytes) + sizeof(size), static_cast<std::size_t>(size)};
}

gguf_header parse_gguf(const std::string& file, std::span<const std::byte> bytes) {
  cursor at(file, bytes);
  gguf_header header;

  at.enter("header");
  constexpr std::string_view magic = "GGUF";
  const std::byte* start = at.skip(magic.size(), "magic");
  const std::string_view found(reinterpret_cast<const char*>(start), magic.size());
  if (found != magic) {
    at.fail("magic", quoted(found) + ", must be 'GGUF'");
  }
  if (const auto version = at.number<std::uint32_t>("version"); version != supported_version) {
    at.fail("version", std::to_string(version) + ", must be 3");
  }
  // The smallest tensor is a length, an empty name, one dimension, a type and an offset; the
  // smallest metadata entry a length, an empty key, a type and one byte.
  const std::uint64_t tensor_count = at.count("tensor count", 8 + 4 + 8 + 4 + 8);
  const std::uint64_t metadata_count = at.count("metadata count", 8 + 4 + 1);

  for (std::uint64_t i = 0; i < metadata_count; ++i) {
    at.enter("metadata entry " + std::to_string(i));
    const std::string_view key = at.string("key");
    at.enter("metadata " + quoted(key));
    const gguf_value value = read_value(at);
    if (!header.metadata.emplace(key, value).second) {
      at.fail("key", "given twice, must be unique");
    }
  }
  at.enter("metadata");
  const std::uint64_t alignment = alignment_of(at, header);

  std::vector<description> descriptions;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    descriptions.push_back(read_description(at, i));
  }

  at.enter("tensor data");
  if (tensor_count > 0) {
    at.skip((alignment - at.offset() % alignment) % alignment, "padding");
  }
  const std::span<const std::byte> data = bytes.subspan(at.offset());
  for (description& each : descriptions) {
    at.enter("tensor " + quoted(each.tensor.name));
    if (each.offset % alignment != 0) {
      at.fail("offset",
              std::to_string(each.offset) + ", must be a multiple of the alignment " +
                  std::to_string(alignment));
    }
    if (each.offset > data.size() || each.size > data.size() - each.offset) {
      at.fail("offset",
              std::to_string(each.offset) + " with " + std::to_string(each.size) +
                  " bytes: must lie in the " + std::to_string(data.size()) +
                  " bytes of tensor data (truncated file?)");
    }
    each.tensor.bytes =
        data.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.size));
    if (!header.tensors.emplace(each.tensor.name, each.tensor).second) {
      at.fail("name", "given twice, must be unique");
    }
  }
  return header;
}

}  // namespace example::detail
