// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes by name with the model of a recorded line.

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/json_node.hpp"
#include "goldens/place.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// How a recorded loop decodes: a text, and the length of its blocks.
struct decoded_by {
  std::string policy;
  index_t block_length = 0;
  /// The released loop stops behind an EOS token and leaves masks, which the library fills with it:
  /// the last forward pass is compared as far as it was recorded.
  bool leaves_masks = false;
};

/// True if the best token of a row is the mask token.
[[nodiscard]] inline bool proposes(std::span<const float> row, token mask) {
  return std::ranges::max_element(row) - row.begin() == mask;
}

/// The verdict about a decode that differs from the recorded one. A release that proposes the mask
/// token "commits" it, and with a fixed number of passes leaves it; the library decides a block
/// until it has none.
[[nodiscard]] inline verdict differs(const std::string& what, bool proposes_mask) {
  return proposes_mask
             ? verdict::skip("the release proposes the mask token, the library never does: " + what)
             : verdict::fail(what);
}

/// A decode by name with the model of a line.
struct decode_of_line {
  context_model model;
  tokens x;
  std::size_t visible = 0;     ///< tokens that the model is given
  bool proposes_mask = false;  ///< at a masked position of some pass so far
  std::vector<float> logits = {};
  unmask::session<named_policy, place> session;
  decode_of_line(const node& line, const decoded_by& by, std::size_t length)
      : model(read_context_model(line.at("model")))
      , x(answer_of(line, model, length))
      , visible(length)
      , session(read_policy(by.policy),
                {.vocab = model.V,
                 .mask_token = model.mask_id,
                 .eos_token = model.eos_id,
                 .suppress_mask = false,
                 .causal_attention = true,
                 .shadow_attention = true},
                tokens_view<place::space>(x.data(), static_cast<index_t>(length)),
                {.prompt_length = static_cast<index_t>(line.get<tokens>("prompt").size()),
                 .length = static_cast<index_t>(length),
                 .block_length = by.block_length}) {}

  /// The tokens that a segment runs: those of the sequence, and its own.
  [[nodiscard]] tokens text_of(const segment& s) const {
    tokens text = x;
    for (const placement& p : s.placed) {
      text[static_cast<std::size_t>(p.position)] = p.token;
    }
    return text;
  }

  /// Runs the model for a request.
  void supply(const forward_request& request) {
    const auto columns = static_cast<std::size_t>(model.V);
    logits.resize(static_cast<std::size_t>(request.rows) * columns);
    for (const segment& s : request.segments) {
      const tokens text = text_of(s);
      for (index_t p = s.rows.first; p < s.rows.last; ++p) {
        const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * columns;
        const std::span<float> row = std::span(logits).subspan(at, columns);
        const index_t position = p + s.logits_shift;
        model.row(position, std::span(text).first(visible), row, s.attention);
        proposes_mask =
            proposes_mask || (decides(s, position, text) && proposes(row, model.mask_id));
      }
    }
    session.supply(rows_view<float, place::space>{logits.data(), request.rows, model.V});
  }

  /// The verdict about a decode that differs from the recorded one.
  [[nodiscard]] verdict fail(const std::string& what) const { return differs(what, proposes_mask); }

 private:
  // True if the row of a position decides about it: that of a committed one does in causal passes.
  [[nodiscard]] bool decides(const segment& s, index_t position, const tokens& text) const {
    return s.attention == attention_kind::causal ||
           (s.attention == attention_kind::bidirectional &&
            text[static_cast<std::size_t>(position)] == model.mask_id);
  }
  // The tokens before the first pass: the prompt, then masks.
  static tokens answer_of(const node& line, const context_model& model, std::size_t length) {
    auto all = line.get<tokens>("prompt");
    all.resize(length, model.mask_id);
    return all;
  }
};

}  // namespace unmask::goldens
