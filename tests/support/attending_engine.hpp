// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A model that needs no weights and runs every kind of attention: the logits of a row are a hash
/// of the tokens near it that it sees, so that each decision feeds back into the next pass.

#include <unmask/core/request.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

/// Rows of `vocab` logits. Mask tokens are not seen.
struct attending_engine {
  std::uint64_t seed = 0;
  index_t vocab = 0;
  token_id mask = no_token;
  double spread = 6.0;  ///< logits are in [0, spread)
  /// Share, of 256, of positions and contexts in which tokens on the right matter.
  std::uint64_t right = 64;

  /// The row that predicts position q of `tokens`.
  [[nodiscard]] std::vector<float>
  row(index_t q, std::span<const token_id> tokens, attention_kind sees) const {
    std::uint64_t context = mixed(seed + static_cast<std::uint64_t>(q));
    const auto see = [&](index_t p) {
      const bool is_there = p >= 0 && p < static_cast<index_t>(tokens.size());
      if (is_there && tokens[static_cast<std::size_t>(p)] != mask) {
        context = mixed(context ^ (static_cast<std::uint64_t>(tokens[static_cast<std::size_t>(p)]) +
                                   (static_cast<std::uint64_t>(p - q + 8) << 32U)));
      }
    };
    see(q - 1);
    see(q - 2);
    if (sees != attention_kind::causal && mixed(context) % 256 < right) {
      see(q + 1);
      if (sees == attention_kind::bidirectional) {
        see(q);
      }
    }
    std::vector<float> logits;
    for (index_t v = 0; v < vocab; ++v) {
      const std::uint64_t bits = mixed(context + static_cast<std::uint64_t>(v));
      logits.push_back(static_cast<float>(unit(bits) * spread));
    }
    return logits;
  }

  /// The rows of all segments of a request, packed; a pass sees its keys.
  [[nodiscard]] std::vector<float> rows(const forward_request& request,
                                        std::span<const token_id> tokens) const {
    std::vector<float> all;
    for (const segment& s : request.segments) {
      const auto end = static_cast<std::size_t>(s.keys.last);
      for (index_t p = s.rows.first; p < s.rows.last; ++p) {
        const std::vector<float> one = row(p + s.logits_shift, tokens.first(end), s.attention);
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    return all;
  }
};

}  // namespace unmask::testing
