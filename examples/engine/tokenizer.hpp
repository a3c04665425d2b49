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

/// The tokenizer of a model whose tokens are single characters or, where the file says
/// `longest_match`, of one whose text is cut from the left into the longest tokens.
class char_tokenizer {
 public:
  /// Reads the vocabulary and the special tokens of a file. Throws std::runtime_error if one of
  /// them is missing, an id is outside the vocabulary, or a token that is not special is empty,
  /// there twice or, without `longest_match`, not one character.
  explicit char_tokenizer(const gguf_file& file);

  char_tokenizer(const char_tokenizer&);
  char_tokenizer(char_tokenizer&&) noexcept;
  char_tokenizer& operator=(const char_tokenizer&);
  char_tokenizer& operator=(char_tokenizer&&) noexcept;
  ~char_tokenizer();

  std::size_t vocabulary() const { return pieces_.size(); }
  std::int32_t mask() const { return mask_; }    ///< stands for a masked position
  std::int32_t end() const { return end_; }      ///< ends an answer
  std::int32_t begin() const { return begin_; }  ///< stands before every prompt

  /// Whether the EOS token stands behind every sequence, so that it never ends an answer early.
  bool ends_all() const { return ends_all_; }

  /// Tokens that no answer has: unused and unknown ones and, with ends_all(), begin and end.
  std::span<const std::int32_t> never() const { return never_; }

  /// The tokens of a text, without special tokens. Throws std::invalid_argument naming the
  /// character and its byte offset if no token starts there.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// Like encode(), with a mask token for each '_'.
  std::vector<std::int32_t> encode_masked(std::string_view text) const;

  /// The sequence to start decoding from: the begin token, the prompt, the answer's tokens and,
  /// with ends_all(), the EOS token, which belongs to the answer. Throws as `encode`.
  std::vector<std::int32_t> canvas(std::string_view prompt,
                                   std::span<const std::int32_t> answer) const;

  /// Overload for an answer of `answer_length` mask tokens.
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
  std::size_t longest_ = 0;  // bytes of the longest piece
  std::vector<std::int32_t> never_;
  std::int32_t mask_ = 0, end_ = 0, begin_ = 0;
  bool ends_all_ = false;
};

}  // namespace example
