// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace example {
namespace {

constexpr std::string_view space_piece = "\xE2\x96\x81";  // U+2581, how the file writes a space

/// The UTF-8 character at the front of a text that is not empty; a byte that starts none is
/// returned alone.
std::string_view first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (size > text.size()) {
    return text.substr(0, 1);
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      return text.substr(0, 1);
    }
  }
  return text.substr(0, size);
}

/// A character for a message: as it is if it prints, else its bytes in hexadecimal.
std::string shown(std::string_view character) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (character.size() == 1 && character[0] >= ' ' && character[0] <= '~') {
    return "'" + std::string(character) + "'";
  }
  std::string result;
  for (const char c : character) {
    const auto byte = static_cast<unsigned char>(c);
    result += {'\\', 'x', digits[byte >> 4], digits[byte & 0xFU]};
  }
  return character.size() > 1 ? "'" + std::string(character) + "' (" + result + ")" : result;
}

/// The numbers of a file's token types, as llama.cpp has them.
constexpr double unknown_type = 2, control_type = 3, unused_type = 5;

std::int32_t special(const gguf_file& file, std::string_view key, std::size_t vocabulary) {
  const std::uint32_t id = file.u32(key);
  if (id >= vocabulary) {
    file.fail("metadata " + quoted(key) + ": " + std::to_string(id) +
              ", must be below the vocabulary size " + std::to_string(vocabulary));
  }
  return static_cast<std::int32_t>(id);
}

}  // namespace

char_tokenizer::char_tokenizer(const char_tokenizer&) = default;
char_tokenizer::char_tokenizer(char_tokenizer&&) noexcept = default;
char_tokenizer& char_tokenizer::operator=(const char_tokenizer&) = default;
char_tokenizer& char_tokenizer::operator=(char_tokenizer&&) noexcept = default;
char_tokenizer::~char_tokenizer() = default;

char_tokenizer::char_tokenizer(const gguf_file& file) {
  const std::vector<std::string_view> tokens = file.strings("tokenizer.ggml.tokens");
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    file.fail("metadata 'tokenizer.ggml.tokens': too many tokens, must be below 2^31");
  }
  mask_ = special(file, "tokenizer.ggml.mask_token_id", tokens.size());
  end_ = special(file, "tokenizer.ggml.eos_token_id", tokens.size());
  begin_ = special(file, "tokenizer.ggml.bos_token_id", tokens.size());
  if (mask_ == end_ || mask_ == begin_ || end_ == begin_) {
    file.fail("metadata 'tokenizer.ggml.mask_token_id', 'eos_token_id', 'bos_token_id': " +
              std::to_string(mask_) + ", " + std::to_string(end_) + ", " + std::to_string(begin_) +
              ", must be different");
  }

  constexpr std::string_view model = "tokenizer.ggml.model",
                             add_end = "tokenizer.ggml.add_eos_token";
  const bool longest_match = file.has(model) && file.string(model) == "longest_match";
  ends_all_ = longest_match && file.has(add_end) && file.boolean(add_end);
  std::vector<double> types;
  if (longest_match) {
    types = file.reals("tokenizer.ggml.token_type");
    if (types.size() != tokens.size()) {
      file.fail("metadata 'tokenizer.ggml.token_type': " + std::to_string(types.size()) +
                " types, must be as many as the " + std::to_string(tokens.size()) + " tokens");
    }
  }

  pieces_.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const bool edge = id == end_ || id == begin_;
    const double type = types.empty() ? 0 : types[i];
    if (type == unknown_type || type == unused_type || (edge && ends_all_)) {
      never_.push_back(id);
    }
    if (id == mask_ || edge || type == unknown_type || type == control_type ||
        type == unused_type) {
      continue;
    }
    const std::string_view piece = tokens[i] == space_piece ? " " : tokens[i];
    if (piece.empty() || (!longest_match && first_character(piece).size() != piece.size())) {
      file.fail("metadata 'tokenizer.ggml.tokens': token " + std::to_string(i) + " is " +
                quoted(piece) + ", must be " +
                (longest_match ? "at least one character" : "one character"));
    }
    pieces_[i] = piece;
    longest_ = std::max(longest_, piece.size());
    if (!tokens_.emplace(piece, id).second) {
      file.fail("metadata 'tokenizer.ggml.tokens': token " + std::to_string(i) + " is " +
                quoted(piece) + " again, must be unique");
    }
  }
}

std::vector<std::int32_t> char_tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> result;
  result.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    auto found = tokens_.end();
    for (std::size_t size = std::min(longest_, text.size() - offset);
         size > 0 && found == tokens_.end();
         --size) {
      found = tokens_.find(text.substr(offset, size));
    }
    if (found == tokens_.end()) {
      throw std::invalid_argument("character " + shown(first_character(text.substr(offset))) +
                                  " at offset " + std::to_string(offset) +
                                  " is not in the vocabulary");
    }
    result.push_back(found->second);
    offset += found->first.size();
  }
  return result;
}

std::vector<std::int32_t> char_tokenizer::encode_masked(std::string_view text) const {
  std::vector<std::int32_t> result;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('_', start), text.size());
    const std::vector<std::int32_t> between = encode(text.substr(start, end - start));
    result.insert(result.end(), between.begin(), between.end());
    if (end < text.size()) {
      result.push_back(mask_);
    }
    start = end + 1;
  }
  return result;
}

std::vector<std::int32_t> char_tokenizer::canvas(std::string_view prompt,
                                                 std::span<const std::int32_t> answer) const {
  std::vector<std::int32_t> result = encode(prompt);
  result.insert(result.begin(), begin_);
  result.insert(result.end(), answer.begin(), answer.end());
  if (ends_all_) {
    result.push_back(end_);
  }
  return result;
}

std::vector<std::int32_t> char_tokenizer::canvas(std::string_view prompt,
                                                 std::size_t answer_length) const {
  return canvas(prompt, std::vector<std::int32_t>(answer_length, mask_));
}

std::vector<std::uint8_t> char_tokenizer::masked(std::span<const std::int32_t> tokens) const {
  std::vector<std::uint8_t> result;
  for (const std::int32_t token : tokens) {
    result.push_back(token == mask_ ? 1 : 0);
  }
  return result;
}

std::string char_tokenizer::text_of(std::int32_t token) const {
  return token == end_ ? "<eos>" : token == begin_ ? "<bos>" : decode({&token, 1});
}

std::string char_tokenizer::decode(std::span<const std::int32_t> tokens,
                                   std::string_view mask_text) const {
  std::string result;
  for (std::size_t i = 0; i < tokens.size() && tokens[i] != end_; ++i) {
    if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= pieces_.size()) {
      throw std::invalid_argument("token " + std::to_string(tokens[i]) + " at position " +
                                  std::to_string(i) + ", must be below the vocabulary size " +
                                  std::to_string(pieces_.size()));
    }
    result += tokens[i] == mask_ ? mask_text : pieces_[static_cast<std::size_t>(tokens[i])];
  }
  return result;
}

}  // namespace example
