// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Random languages over few tokens, and a walk of their bytes that shares no code with the
/// library.

#include <unmask/constraint.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

/// A byte automaton, the bytes of each token, and a model.
struct language {
  byte_table bytes;
  std::vector<std::string> words;  // "" for tokens without text
  model_info model;
  std::vector<token_id> also_eos;

  [[nodiscard]] std::vector<std::string_view> views() const { return {words.begin(), words.end()}; }
  [[nodiscard]] vocabulary lifted_to() const { return {views(), model, also_eos}; }
  [[nodiscard]] bool is_eos(token_id v) const {
    bool also = v == model.eos_token;
    for (const token_id e : also_eos) {
      also = also || v == e;
    }
    return also;
  }

  /// The state of the bytes after a string of tokens: dead_state if it leaves the language, and
  /// `ended` after an EOS token.
  static constexpr std::uint32_t ended = 0xfffffffe;
  [[nodiscard]] std::uint32_t walk(std::span<const token_id> tokens,
                                   std::optional<std::uint32_t> from = {}) const {
    std::uint32_t state = from.value_or(bytes.start);
    for (const token_id v : tokens) {
      if (is_eos(v)) {
        const bool may_end = state == ended || bytes.accepting[state] != 0;
        if (!may_end) {
          return dead_state;
        }
        state = ended;
        continue;
      }
      const std::string& word = words[static_cast<std::size_t>(v)];
      if (v == model.mask_token || word.empty() || state == ended) {
        return dead_state;
      }
      for (const char c : word) {
        state = bytes.next[256 * std::size_t{state} + static_cast<std::uint8_t>(c)];
        if (state == dead_state) {
          return dead_state;
        }
      }
    }
    return state;
  }
  [[nodiscard]] bool has(std::span<const token_id> tokens) const {
    const std::uint32_t state = walk(tokens);
    return state == ended || (state != dead_state && bytes.accepting[state] != 0);
  }
  /// Calls use(tokens) for each string of `length` tokens.
  void for_each_string(int length, const auto& use) const {
    std::vector<token_id> tokens(static_cast<std::size_t>(length), 0);
    while (true) {
      use(std::span<const token_id>(tokens));
      std::size_t i = 0;
      while (i < tokens.size() && ++tokens[i] == model.vocab) {
        tokens[i++] = 0;
      }
      if (i == tokens.size()) {
        return;
      }
    }
  }
};

/// A byte automaton with the bytes a, b, c, ... , some of whose states may lead nowhere.
[[nodiscard]] inline byte_table random_bytes(dice& d, int states, int letters) {
  byte_table out;
  out.start = static_cast<std::uint32_t>(d.within(0, states - 1));
  out.next.assign(256 * static_cast<std::size_t>(states), dead_state);
  const double density = d.real(0.3, 1.0);
  for (int q = 0; q < states; ++q) {
    out.accepting.push_back(d.chance(0.4) ? 1 : 0);
    for (int b = 0; b < letters; ++b) {
      if (d.chance(density)) {
        out.next[256 * static_cast<std::size_t>(q) + 'a' + static_cast<std::size_t>(b)] =
            static_cast<std::uint32_t>(d.within(0, states - 1));
      }
    }
  }
  return out;
}

/// Words of one to three letters, some of them equal, and some tokens without text.
[[nodiscard]] inline std::vector<std::string> random_words(dice& d, int vocab) {
  std::vector<std::string> words(static_cast<std::size_t>(vocab));
  for (std::string& word : words) {
    const int length = d.chance(0.1) ? 0 : d.chance(0.6) ? 1 : d.within(2, 3);
    for (int i = 0; i < length; ++i) {
      word += static_cast<char>('a' + d.within(0, 2));
    }
  }
  return words;
}

/// A language over the tokens of a model.
[[nodiscard]] inline language random_language(dice& d, const model_info& model, int most_states) {
  language out;
  out.bytes = random_bytes(d, d.within(1, most_states), 3);
  out.model = model;
  out.words = random_words(d, model.vocab);
  return out;
}

/// A language of few tokens, of a model with a mask token, perhaps an EOS token and a second one.
[[nodiscard]] inline language random_language(dice& d, int vocab = 6, int most_states = 6) {
  language out;
  out.bytes = random_bytes(d, d.within(1, most_states), 3);
  out.model = {.vocab = vocab, .mask_token = d.within(0, vocab - 1)};
  out.words = random_words(d, vocab);
  if (d.chance(0.6)) {
    do {
      out.model.eos_token = d.within(0, vocab - 1);
    } while (out.model.eos_token == out.model.mask_token);
    const token_id second = d.within(0, vocab - 1);
    if (d.chance(0.2) && second != out.model.mask_token) {
      out.also_eos.push_back(second);
    }
  }
  return out;
}

/// The constraint of a language, or none if none of its strings can be written.
[[nodiscard]] inline std::optional<constraint> constraint_of(const language& l,
                                                             const constraint_limits& limits) {
  try {
    return constraint(l.bytes.view(), l.lifted_to(), limits);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace unmask::testing
