// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace UNMASK_NAMESPACE {

namespace detail::constraints {

/// The texts of a vocabulary as a trie in depth-first order.
struct trie {
  /// By node, in depth-first order, children by byte: its byte, its depth (1 for the first byte),
  /// the node after its subtree, and its text, an index, or no_text.
  std::vector<std::uint8_t> byte;
  std::vector<std::uint32_t> depth;
  std::vector<std::uint32_t> end;
  std::vector<std::uint32_t> text;
  /// By text, in the order of the nodes: its tokens, ascending, are tokens[first_token[i],
  /// first_token[i + 1]), and its bytes are those on the path to node_of[i].
  std::vector<std::uint32_t> first_token;
  std::vector<token_id> tokens;
  std::vector<std::uint32_t> node_of;
  std::uint32_t most_depth = 0;
  bool has_byte[256] = {};  ///< whether a token contains the byte

  static constexpr std::uint32_t no_text = 0xffffffffU;

  [[nodiscard]] std::size_t texts() const { return node_of.size(); }
};

/// Data of a vocabulary that a constraint needs.
struct vocabulary_data {
  model_info model;
  std::vector<token_id> ends;  ///< tokens that end an answer, ascending
  trie texts;
};

[[nodiscard]] UNMASK_LIBRARY vocabulary_data vocabulary_of(std::span<const std::string_view> bytes,
                                                           const model_info& model,
                                                           std::span<const token_id> also_eos);

}  // namespace detail::constraints

/// The bytes of each token of a model, sorted once for all constraints. A cheap handle: copies
/// share the data.
///
/// Tokens are strings of bytes, not of characters: half a UTF-8 character is one, and a byte that a
/// tokenizer writes as `<0x0A>` or a space that it writes as `\u2581` or `\u0120` is the byte that
/// it means.
class vocabulary {
 public:
  /// Takes the bytes of every token, "" for tokens without text, which then occur in no string of a
  /// language. The mask token and the EOS token never count as text. `also_eos` are further tokens
  /// that end an answer, such as the end of a chat turn: like the EOS token they may follow a
  /// complete string, and only such tokens may follow them.
  ///
  /// Cost: O(bytes log vocab), 0.1 s and 15 MB for 150,000 tokens.
  /// Errors: std::invalid_argument unless there is an entry for each token of the model.
  vocabulary(std::span<const std::string_view> bytes,
             const model_info& model,
             std::span<const token_id> also_eos = {})
      : data_(std::make_shared<const detail::constraints::vocabulary_data>(
            detail::constraints::vocabulary_of(bytes, model, also_eos))) {}

  /// The model that it belongs to.
  [[nodiscard]] const model_info& model() const { return data_->model; }
  /// Its data, for the constraints that are lifted to it.
  [[nodiscard]] const detail::constraints::vocabulary_data& data() const { return *data_; }

 private:
  std::shared_ptr<const detail::constraints::vocabulary_data> data_;
};

#if UNMASK_DEFINES
namespace detail::constraints {

// Tokens that end an answer, ascending and without repeats.
UNMASK_LIBRARY std::vector<token_id> ends_of(const model_info& model,
                                             std::span<const token_id> also_eos) {
  std::vector<token_id> ends(also_eos.begin(), also_eos.end());
  for (const token_id v : ends) {
    check_argument(v >= 0 && v < model.vocab && v != model.mask_token,
                   "also_eos",
                   v,
                   "a token in [0, model_info::vocab = ",
                   model.vocab,
                   ") other than the mask token");
  }
  if (model.eos_token != no_token) {
    ends.push_back(model.eos_token);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  check_argument(ends.empty() || model.eos_token != no_token,
                 "model_info::eos_token",
                 "no_token",
                 "given where also_eos is: it fills what a stopped answer leaves masked");
  return ends;
}

UNMASK_LIBRARY vocabulary_data vocabulary_of(std::span<const std::string_view> bytes,
                                             const model_info& model,
                                             std::span<const token_id> also_eos) {
  check_argument(model.vocab >= 1, "model_info::vocab", model.vocab, "at least 1");
  if (bytes.size() != static_cast<std::size_t>(model.vocab)) {
    message()
        .add("constraint: token_bytes has ")
        .add(bytes.size())
        .add(" entries, the model ")
        .add(model.vocab)
        .add(": give \"\" for tokens without text")
        .refuse();
  }
  vocabulary_data out{model, ends_of(model, also_eos), {}};
  std::vector<token_id> order;
  for (token_id v = 0; v < model.vocab; ++v) {
    if (!bytes[static_cast<std::size_t>(v)].empty() && v != model.mask_token &&
        !std::binary_search(out.ends.begin(), out.ends.end(), v)) {
      order.push_back(v);
    }
  }
  const auto text_of = [&](token_id v) { return bytes[static_cast<std::size_t>(v)]; };
  std::sort(order.begin(), order.end(), [&](token_id a, token_id b) {
    const int by_text = text_of(a).compare(text_of(b));
    return by_text < 0 || (by_text == 0 && a < b);
  });
  trie& t = out.texts;
  std::vector<std::uint32_t> path;  // nodes of the bytes of the text before
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      t.end[path.back()] = static_cast<std::uint32_t>(t.byte.size());
    }
  };
  for (const token_id v : order) {
    const std::string_view text = text_of(v);
    if (text != before) {
      std::size_t shared = 0;
      while (shared < before.size() && shared < text.size() && before[shared] == text[shared]) {
        ++shared;
      }
      close(shared);
      for (std::size_t i = shared; i < text.size(); ++i) {
        path.push_back(static_cast<std::uint32_t>(t.byte.size()));
        t.byte.push_back(static_cast<std::uint8_t>(text[i]));
        t.depth.push_back(static_cast<std::uint32_t>(i + 1));
        t.end.push_back(0);
        t.text.push_back(trie::no_text);
        t.has_byte[static_cast<std::uint8_t>(text[i])] = true;
      }
      t.text[path.back()] = static_cast<std::uint32_t>(t.node_of.size());
      t.node_of.push_back(path.back());
      t.first_token.push_back(static_cast<std::uint32_t>(t.tokens.size()));
      t.most_depth = std::max(t.most_depth, static_cast<std::uint32_t>(text.size()));
      before = text;
    }
    t.tokens.push_back(v);
  }
  close(0);
  t.first_token.push_back(static_cast<std::uint32_t>(t.tokens.size()));
  return out;
}

}  // namespace detail::constraints
#endif

}  // namespace unmask
