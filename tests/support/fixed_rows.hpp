// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decoding by hand: rows with a given probability or entropy, the same in every step, and what a
/// policy commits step after step.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>
#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "support/by_name.hpp"

namespace unmask::testing {

using row = std::vector<float>;

/// Four tokens and a mask token behind them, which fills its column with the largest logit.
inline constexpr index_t small_vocab = 5;
inline constexpr model_info small_model = {.vocab = small_vocab, .mask_token = 4};

/// A row of small_model in which `token` has probability p and the others share the rest.
[[nodiscard]] inline row row_with_confidence(double p, token_id token = 0) {
  row z(small_vocab, static_cast<float>(std::log((1.0 - p) / 3.0)));
  z[static_cast<std::size_t>(token)] = static_cast<float>(std::log(p));
  z[4] = 100.0F;
  return z;
}

/// A row of small_model with that entropy in nats, at most ln 4.
[[nodiscard]] inline row row_with_entropy(double nats) {
  double low = 0.25;
  double high = 1.0 - 1e-12;
  for (int i = 0; i < 100; ++i) {
    const double p = (low + high) / 2.0;
    const double h = -p * std::log(p) - (1.0 - p) * std::log((1.0 - p) / 3.0);
    (h > nats ? low : high) = p;
  }
  return row_with_confidence((low + high) / 2.0);
}

/// The confidence that the library computes for a row of small_model, to the bit.
[[nodiscard]] inline float confidence_of(row z) {
  z[4] = -math::infinity();
  return canonical::fold_chunk<stat::confidence>(z.data(), small_vocab, 0).confidence();
}

/// Rows [rows.first, rows.last) of a table, one after the other.
[[nodiscard]] inline row packed(const std::vector<row>& table, range rows) {
  row all;
  for (index_t r = rows.first; r < rows.last; ++r) {
    const row& z = table[static_cast<std::size_t>(r)];
    all.insert(all.end(), z.begin(), z.end());
  }
  return all;
}

/// Commits of each step, until the sequence ended or `most` steps are done.
struct history {
  std::vector<std::vector<index_t>> positions;
  std::vector<token_id> tokens;
  sequence_report report;

  [[nodiscard]] std::vector<std::size_t> counts() const {
    std::vector<std::size_t> n;
    for (const auto& step : positions) {
      n.push_back(step.size());
    }
    return n;
  }
  /// All positions, in the order of their commits.
  [[nodiscard]] std::vector<index_t> order() const {
    std::vector<index_t> all;
    for (const auto& step : positions) {
      all.insert(all.end(), step.begin(), step.end());
    }
    return all;
  }
};

/// Decodes with a table of rows, one for each position of the sequence, the same in every step.
template <class Policy>
[[nodiscard]] history decode_rows(const Policy& p,
                                  const std::vector<row>& table,
                                  sequence_shape geometry,
                                  const model_info& model = small_model,
                                  int most = 1000) {
  history h;
  geometry.length = static_cast<index_t>(table.size());
  h.tokens.assign(table.size(), model.vocab - 2);
  session s{by_name(p), model, tokens_view<memory::host>(h.tokens), geometry};
  for (int i = 0; i < most; ++i) {
    const std::optional<forward_request> request = s.next();
    if (!request) {
      break;
    }
    const range rows = request->segments[0].rows;
    const row logits = packed(table, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), model.vocab));
    std::vector<index_t> positions;
    for (const commit_entry& e : s.committed()) {
      positions.push_back(e.position);
    }
    h.positions.push_back(positions);
  }
  h.report = s.report();
  return h;
}

/// The same with rows of those confidences behind a prompt, in one block.
template <class Policy>
[[nodiscard]] history decode_confidences(const Policy& p,
                                         const std::vector<double>& confidences,
                                         index_t prompt = 0,
                                         int most = 1000) {
  std::vector<row> table(static_cast<std::size_t>(prompt), row_with_confidence(0.5));
  for (const double c : confidences) {
    table.push_back(row_with_confidence(c));
  }
  const auto count = static_cast<index_t>(confidences.size());
  return decode_rows(p, table, {.prompt_length = prompt, .block_length = count}, small_model, most);
}

}  // namespace unmask::testing
