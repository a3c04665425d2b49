// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

/// Engines whose head is cut by columns: forward() gives the logits of some columns only.
namespace example {

using allowed_tokens = std::vector<unmask::token_id>;

/// The tokens of a segment's pass: a branch has one token placed.
inline allowed_tokens tokens_of(const unmask::segment& s, allowed_tokens tokens) {
  for (const auto& placed : s.placed) {
    tokens[static_cast<std::size_t>(placed.position)] = placed.token;
  }
  return tokens;
}

/// The engine of the example.
class sharded_engine {
 public:
  virtual ~sharded_engine() = default;
  virtual unmask::model_info model() const = 0;
  /// The tokens of a prompt, then room for the answer.
  virtual allowed_tokens canvas(const std::string& prompt, int masks) const = 0;
  /// The rows of a request, columns [columns.first, columns.last) of each.
  virtual std::vector<float> forward(const unmask::forward_request& request,
                                     const allowed_tokens& tokens,
                                     unmask::range columns) = 0;
};

/// The small LLaDA of examples/tiny_llada. Every rank runs all of it and uses its columns; an
/// engine with tensor parallelism would have computed no others.
class tiny_engine : public sharded_engine {
 public:
  explicit tiny_engine(const std::string& path)
      : file_(path)
      , text_(file_)
      , model_(file_) {}

  unmask::model_info model() const override {
    return {.vocab = static_cast<int>(text_.vocabulary()),
            .mask_token = text_.mask(),
            .eos_token = text_.end()};
  }
  allowed_tokens canvas(const std::string& prompt, int masks) const override {
    return text_.canvas(prompt, static_cast<std::size_t>(masks));
  }

  std::vector<float> forward(const unmask::forward_request& request,
                             const allowed_tokens& tokens,
                             unmask::range columns) override {
    std::vector<float> out;
    for (const unmask::segment& s : request.segments) {
      const auto logits = model_.forward(tokens_of(s, tokens),
                                         static_cast<std::size_t>(s.rows.first),
                                         static_cast<std::size_t>(s.rows.last));
      for (std::size_t r = 0; r < logits.rows; ++r) {
        const auto row = logits.row(r);
        out.insert(out.end(), row.begin() + columns.first, row.begin() + columns.last);
      }
    }
    return out;
  }

 private:
  gguf_file file_;
  char_tokenizer text_;
  llada_model model_;
};

/// A model without weights and with any vocabulary: a logit is a hash of the tokens around its
/// position and of its own token.
class hashed_engine : public sharded_engine {
 public:
  explicit hashed_engine(int vocab)
      : vocab_(vocab) {}

  unmask::model_info model() const override {
    return {.vocab = vocab_, .mask_token = vocab_ - 1, .eos_token = vocab_ - 2};
  }
  allowed_tokens canvas(const std::string& prompt, int masks) const override {
    allowed_tokens tokens(prompt.begin(), prompt.end());
    tokens.resize(tokens.size() + static_cast<std::size_t>(masks));
    return tokens;
  }

  std::vector<float> forward(const unmask::forward_request& request,
                             const allowed_tokens& tokens,
                             unmask::range columns) override {
    std::vector<float> out;
    for (const unmask::segment& s : request.segments) {
      const allowed_tokens seen = tokens_of(s, tokens);
      for (int row = s.rows.first; row < s.rows.last; ++row) {
        std::uint64_t around = 0;
        for (int p = row - 2; p <= row + 2; ++p) {
          const bool inside = p >= 0 && p < static_cast<int>(seen.size());
          around = mixed(
              around ^ static_cast<std::uint64_t>(inside ? seen[static_cast<std::size_t>(p)] : -1));
        }
        around = mixed(around + static_cast<std::uint64_t>(row));
        const auto favourite = static_cast<int>(around % static_cast<std::uint64_t>(vocab_));
        for (int v = columns.first; v < columns.last; ++v) {
          const float z = unit(mixed(around + static_cast<std::uint64_t>(v)));
          out.push_back(v == favourite ? 12.0F + 8.0F * unit(around) : 4.0F * z);
        }
      }
    }
    return out;
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {  // splitmix64
    z += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  static float unit(std::uint64_t hash) { return static_cast<float>(hash >> 40U) * 0x1p-24F; }

  int vocab_;
};

}  // namespace example
