// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.hpp"

namespace example {

/// The tokenizer of a model whose tokens are single characters.
class char_tokenizer {
 public:
  /// Reads the vocabulary and the special tokens of a file. Throws std::runtime_error if one of
  /// them is missing, an id is outside the vocabulary, or a token that is not special is not one
  /// character.
  explicit char_tokenizer(const gguf_file& file);

  std::size_t vocabulary() const { return pieces_.size(); }
  std::int32_t mask() const { return mask_; }    ///< stands for a masked position
  std::int32_t end() const { return end_; }      ///< ends an answer
  std::int32_t begin() const { return begin_; }  ///< stands before every prompt

  /// The tokens of a text, one for each character, without special tokens. Throws
  /// std::invalid_argument naming the character and its byte offset if the vocabulary lacks it.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// The sequence to start decoding from: the begin token, the prompt and `answer_length` mask
  /// tokens. Throws as `encode`.
  std::vector<std::int32_t> canvas(std::string_view prompt, std::size_t answer_length) const;

  /// A byte for each token, 1 where it is the mask token: start_options::editable of a canvas.
  std::vector<std::uint8_t> masked(std::span<const std::int32_t> tokens) const;

  /// The text of one token, "<eos>" and "<bos>" for the end and begin tokens. Throws as `decode`.
  std::string text_of(std::int32_t token) const;

  /// The text up to the first EOS token, or all of it. Mask tokens appear as `mask_text`, begin
  /// tokens not at all. Throws std::invalid_argument for a token outside the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens, std::string_view mask_text = "_") const;

 private:
  std::vector<std::string> pieces_;  // text of each token; empty for special ones
  std::map<std::string, std::int32_t, std::less<>> tokens_;
  std::int32_t mask_ = 0, end_ = 0, begin_ = 0;
};

}  // namespace example
