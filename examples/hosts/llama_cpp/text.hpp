// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint.hpp>

#include <algorithm>
#include <llama.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// The tokens of a text, with `begin` behind the begin token if the model has one. `special` also
/// reads special tokens that are spelled out, as a chat template leaves them. Throws
/// std::invalid_argument for a text that the vocabulary can not spell.
inline std::vector<llama_token>
tokens_of(const llama_vocab* vocab, const std::string& text, bool special, bool begin = true) {
  std::vector<llama_token> tokens(text.size() + 2);  // a begin and an EOS token
  int count = -1;
  try {
    count = llama_tokenize(vocab,
                           text.data(),
                           static_cast<int>(text.size()),
                           tokens.data(),
                           static_cast<int>(tokens.size()),
                           begin,
                           special);
  } catch (const std::exception&) {  // libllama throws for a byte without a token
  }
  if (count < 0) {
    throw std::invalid_argument("prompt must be text that the model's vocabulary can spell, got '" +
                                text + "'");
  }
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

/// The tokens of an answer at the start of a decode, in which each '_' is a mask token.
inline std::vector<llama_token> tokens_of_given(const llama_vocab* vocab,
                                                const std::string& given) {
  std::vector<llama_token> tokens;
  for (std::size_t from = 0; from < given.size();) {
    const std::size_t to = std::min(given.find('_', from), given.size());
    if (to > from) {
      const auto piece = tokens_of(vocab, given.substr(from, to - from), false, false);
      tokens.insert(tokens.end(), piece.begin(), piece.end());
    } else {
      tokens.push_back(llama_vocab_mask(vocab));
    }
    from = std::max(to, from + 1);
  }
  return tokens;
}

/// Longest text of a token, in bytes; tokens with a longer one have none.
inline constexpr std::size_t most_token_bytes = 256;

/// The bytes of each token, for constraints: none for special tokens. Tokens that end a generation
/// end an answer.
inline unmask::vocabulary vocabulary_of(const llama_vocab* vocab, const unmask::model_info& info) {
  std::vector<std::string> bytes(static_cast<std::size_t>(info.vocab));
  std::vector<unmask::token_id> ends;
  for (llama_token v = 0; v < info.vocab; ++v) {
    char piece[most_token_bytes];
    const bool has_text = !llama_vocab_is_control(vocab, v) && v != info.mask_token;
    const int size = has_text ? llama_token_to_piece(vocab, v, piece, sizeof piece, 0, false) : 0;
    bytes[static_cast<std::size_t>(v)].assign(piece, static_cast<std::size_t>(std::max(size, 0)));
    if (llama_vocab_is_eog(vocab, v) && v != info.eos_token) {
      ends.push_back(v);
    }
  }
  const std::vector<std::string_view> views(bytes.begin(), bytes.end());
  return {views, info, ends};
}

/// The text of tokens up to the first that ends a generation. Masks appear as `mask_text`.
inline std::string text_of(const llama_vocab* vocab,
                           std::span<const llama_token> tokens,
                           const std::string& mask_text = "_") {
  std::string text;
  for (const llama_token token : tokens) {
    if (llama_vocab_is_eog(vocab, token)) {
      break;
    }
    char piece[most_token_bytes];
    const int size = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
    text += token == llama_vocab_mask(vocab)
                ? mask_text
                : std::string(piece, static_cast<std::size_t>(std::max(size, 0)));
  }
  return text;
}

}  // namespace example
