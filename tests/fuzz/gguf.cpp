// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of a GGUF file, whatever they are: an error in words, or a file all of whose values and
// tensors can be read, and which the tokenizer and the model take or refuse.

#include "engine/gguf.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "fuzz/target.hpp"

namespace unmask::fuzz {
namespace {

// Calls read(); an error is one of the file, in words.
void read_or_refuse(const auto& read) {
  try {
    read();
  } catch (const std::runtime_error& e) {
    require(is_message(e.what()), "a message in words, got '" + std::string(e.what()) + "'");
  }
}

}  // namespace

UNMASK_FUZZ_TARGET(gguf) {
  std::vector<std::byte> file(data.size());
  std::transform(data.begin(), data.end(), file.begin(), [](auto b) { return std::byte{b}; });
  read_or_refuse([&] {
    const example::gguf_file gguf("file", std::move(file));
    std::size_t all_of_one = data.size();  // an entry that is read as every type; errors are slow
    for (const auto& [name, value] : gguf.metadata()) {
      const std::string_view key = name;
      const bool is_any = all_of_one++ % gguf.metadata().size() == 0;
      const auto read_as = [&](bool is_type, const auto& read) {
        if (is_type || is_any) {
          read_or_refuse(read);
        }
      };
      using type = example::gguf_value_type;
      const bool is_array = value.type == type::array;
      read_as(value.type == type::u64, [&] { static_cast<void>(gguf.integer(key)); });
      read_as(value.type == type::u32, [&] { static_cast<void>(gguf.u32(key)); });
      read_as(value.type == type::f64, [&] { static_cast<void>(gguf.real(key)); });
      read_as(value.type == type::boolean, [&] { static_cast<void>(gguf.boolean(key)); });
      read_as(value.type == type::string, [&] { static_cast<void>(gguf.string(key)); });
      read_as(is_array && value.element == type::string, [&] {
        const std::size_t count = gguf.strings(key).size();
        require(count == gguf.metadata().at(key).count, "as many strings as the file says");
      });
      read_as(is_array && value.element != type::string, [&] {
        const std::size_t count = gguf.reals(key).size();
        require(count == gguf.metadata().at(key).count, "as many numbers as the file says");
      });
    }
    for (const auto& [name, tensor] : gguf.tensors()) {
      std::vector<float> numbers(tensor.elements);
      tensor.dequantize(numbers);
      const std::span shape(tensor.shape.data(), tensor.dimensions);
      require(&gguf.tensor(name, shape) == &gguf.tensors().at(name), "a tensor by its name");
    }
    read_or_refuse([&] { const example::char_tokenizer tokenizer(gguf); });
    read_or_refuse([&] { const example::llada_model model(gguf); });
  });
}

}  // namespace unmask::fuzz
