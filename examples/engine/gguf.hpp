// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// Types of metadata values, numbered as in the file.
enum class gguf_value_type : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Types of tensor elements that this reader understands, numbered as in the file.
enum class gguf_tensor_type : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8 };

/// A metadata value: the place of its checked bytes. Decoded on access, so that a file can not
/// make the reader allocate more than a small multiple of the file's own size.
struct gguf_value {
  gguf_value_type type = gguf_value_type::u8;
  gguf_value_type element = gguf_value_type::u8;  ///< element type; arrays only
  std::uint64_t count = 1;                        ///< number of elements; 1 unless an array
  std::span<const std::byte> bytes;               ///< little endian; strings with their lengths
};

/// A tensor: its name, its shape with the contiguous dimension first, and its bytes, whose number
/// has been checked against type and shape.
struct gguf_tensor {
  std::string_view name;
  gguf_tensor_type type = gguf_tensor_type::f32;
  std::size_t dimensions = 0;                         ///< 1 to 4
  std::array<std::uint64_t, 4> shape = {1, 1, 1, 1};  ///< entries past `dimensions` are 1
  std::size_t elements = 0;                           ///< product of the shape
  std::span<const std::byte> bytes;

  /// Writes all elements as f32, in file order. Throws std::invalid_argument unless `out` has
  /// exactly `elements` entries.
  void dequantize(std::span<float> out) const;
};

/// A GGUF version 3 file, held in memory.
///
/// Every count, length and offset is checked before it is used; a file that breaks a rule gives a
/// std::runtime_error naming the file, the field, its value and the rule. Views returned by the
/// members stay valid as long as the object, or the object it was moved into.
class gguf_file {
 public:
  /// Reads `path`. Throws std::runtime_error if it can not be read or is not a valid file.
  explicit gguf_file(const std::string& path);

  /// Takes the bytes of a file; `name` stands for the path in messages.
  gguf_file(std::string name, std::vector<std::byte> bytes);

  gguf_file(const gguf_file&) = delete;
  gguf_file& operator=(const gguf_file&) = delete;
  gguf_file(gguf_file&&) noexcept;
  gguf_file& operator=(gguf_file&&) noexcept;
  ~gguf_file();

  /// The path, or the name given instead of one.
  const std::string& name() const { return name_; }

  /// All metadata and all tensors, by name.
  const std::map<std::string_view, gguf_value>& metadata() const { return metadata_; }
  const std::map<std::string_view, gguf_tensor>& tensors() const { return tensors_; }

  /// Whether the file has the metadata key.
  bool has(std::string_view key) const { return metadata_.contains(key); }

  /// The value of a metadata key. Each throws std::runtime_error if the key is missing, has
  /// another type, or does not fit into the result. Any integer type serves `integer` and `u32`,
  /// both floating-point types serve `real`, all numeric element types serve `reals`.
  std::int64_t integer(std::string_view key) const;
  std::uint32_t u32(std::string_view key) const;
  double real(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string_view string(std::string_view key) const;
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;

  /// The tensor of that name and exactly that shape (contiguous dimension first). Throws
  /// std::runtime_error if it is missing or shaped differently.
  const gguf_tensor& tensor(std::string_view name, std::span<const std::uint64_t> shape) const;

  /// Throws std::runtime_error with this file's name before the message.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const gguf_value& at(std::string_view key) const;

  std::string name_;
  std::vector<std::byte> bytes_;
  std::map<std::string_view, gguf_value> metadata_;
  std::map<std::string_view, gguf_tensor> tensors_;
};

/// `text` in quotes for a message: cut to 60 bytes, bytes that do not print replaced by '?'.
std::string quoted(std::string_view text);

}  // namespace example
