// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A transformer small enough to read: what an engine does to run single positions of its layers.
///
/// Each layer mixes a position's hidden state with the values of all positions it attends to, so
/// that every decision changes every hidden state. Sums run in position order and a position's row
/// is computed alone: a pass that runs everything gives the bits of one that ran everything before.

#include <unmask/session.hpp>

#include <cmath>
#include <span>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

/// The engine's memory of one sequence, from one forward pass to the next.
struct toy_memory {
  std::vector<std::vector<float>> values;    ///< [layer][position * width]: K/V
  std::vector<std::vector<float>> outputs;   ///< [layer][position * width]: what the layer added
  std::vector<std::vector<float>> previous;  ///< [layer][position * width]: lent to at_layer()
  long computed = 0;                         ///< layer-positions computed so far

  toy_memory() = default;
  /// Filled with NaN: nothing may be read before a pass has written it.
  toy_memory(index_t layers, index_t length, index_t width) {
    const std::vector<float> unwritten(
        static_cast<std::size_t>(length) * static_cast<std::size_t>(width), std::nanf(""));
    values.assign(static_cast<std::size_t>(layers), unwritten);
    outputs = previous = values;
  }
};

/// A pass that skips nothing: what layer_pass is to an engine without a session.
struct full_pass {
  feature reads = feature::hidden;
  skipping skipped = skipping::dropped;
  std::vector<index_t> every;
  std::vector<index_t> wanted;

  full_pass(index_t length, std::span<const index_t> rows)
      : wanted(rows.begin(), rows.end()) {
    for (index_t p = 0; p < length; ++p) {
      every.push_back(p);
    }
  }
  [[nodiscard]] std::span<const index_t> positions() const { return every; }
  [[nodiscard]] range keys() const { return {0, static_cast<index_t>(every.size())}; }
  [[nodiscard]] static bool hooks(index_t) { return false; }
  [[nodiscard]] std::span<const index_t> rows() const { return wanted; }
  static layer_choice at_layer(index_t, const host_hidden<float>&, const host_state<float>&) {
    return {};
  }
};

class toy_transformer {
 public:
  static constexpr index_t width = 12;
  index_t layers = 8;
  index_t vocab = 24;
  std::uint64_t seed = 1;

  /// The logits that `pass` requests behind the last layer, row by row.
  template <class Pass>
  std::vector<float> forward(Pass&& pass, const token_id* tokens, toy_memory& memory) const {
    std::vector<index_t> positions(pass.positions().begin(), pass.positions().end());
    std::vector<float> hidden = embedded(tokens, positions);
    for (index_t l = 0; l < layers; ++l) {
      std::vector<index_t> rows(positions.size());  // of those that this layer computes
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = static_cast<index_t>(i);
      }
      if (!hook_follows_layer(pass.reads)) {
        if (pass.hooks(l)) {
          const std::vector<float> inputs = normalised(hidden);
          const layer_choice kept = pass.at_layer(l, view(inputs), stored(memory, l));
          rows.assign(kept.rows.begin(), kept.rows.end());
          if (pass.skipped == skipping::dropped) {
            hidden = gathered(hidden, rows);
            positions.assign(kept.positions.begin(), kept.positions.end());
            for (std::size_t i = 0; i < rows.size(); ++i) {
              rows[i] = static_cast<index_t>(i);
            }
          }
        }
      }
      compute(l, hidden, positions, rows, pass.keys(), memory);
      if (hook_follows_layer(pass.reads)) {
        if (pass.hooks(l)) {
          const layer_choice kept = pass.at_layer(l, view(hidden), stored(memory, l));
          hidden = gathered(hidden, kept.rows);
          positions.assign(kept.positions.begin(), kept.positions.end());
        }
      }
    }
    return head(gathered(hidden, pass.rows()));
  }

 private:
  static std::size_t at(index_t row, index_t column) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(column);
  }
  static host_hidden<float> view(const std::vector<float>& rows) {
    return {rows.data(), static_cast<index_t>(rows.size()) / width, width};
  }
  static host_state<float> stored(toy_memory& memory, index_t layer) {
    std::vector<float>& rows = memory.previous[static_cast<std::size_t>(layer)];
    return {rows.data(), static_cast<index_t>(rows.size()) / width, width};
  }

  /// A weight in [-1, 1).
  [[nodiscard]] float weight(std::uint64_t kind, std::uint64_t i, std::uint64_t j) const {
    const std::uint64_t bits = mixed(mixed(seed * 1000003U + kind) ^ (i << 20U) ^ j);
    return static_cast<float>(static_cast<std::int64_t>(bits >> 40U) - (1 << 23)) * 0x1p-23F;
  }

  [[nodiscard]] std::vector<float> embedded(const token_id* tokens,
                                            std::span<const index_t> positions) const {
    std::vector<float> rows;
    for (const index_t p : positions) {
      for (index_t d = 0; d < width; ++d) {
        rows.push_back(weight(1, static_cast<std::uint64_t>(tokens[p]), unsigned(d)) +
                       0.5F * weight(2, static_cast<std::uint64_t>(p), unsigned(d)));
      }
    }
    return rows;
  }

  static std::vector<float> normalised(const std::vector<float>& rows) {
    std::vector<float> out(rows.size());
    for (index_t r = 0; r < static_cast<index_t>(rows.size()) / width; ++r) {
      float square = 0.0F;
      for (index_t d = 0; d < width; ++d) {
        square += rows[at(r, d)] * rows[at(r, d)];
      }
      const float scale = 1.0F / std::sqrt(square / static_cast<float>(width) + 1e-6F);
      for (index_t d = 0; d < width; ++d) {
        out[at(r, d)] = rows[at(r, d)] * scale;
      }
    }
    return out;
  }

  static std::vector<float> gathered(const std::vector<float>& rows,
                                     std::span<const index_t> wanted) {
    std::vector<float> out;
    for (const index_t r : wanted) {
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(at(r, 0));
      out.insert(out.end(), first, first + width);
    }
    return out;
  }

  /// One layer: writes the values of `rows`, then adds to every hidden state what the layer gives
  /// it: computed now for `rows`, stored for the others.
  void compute(index_t layer,
               std::vector<float>& hidden,
               std::span<const index_t> positions,
               std::span<const index_t> rows,
               range attend,
               toy_memory& memory) const {
    std::vector<float>& values = memory.values[static_cast<std::size_t>(layer)];
    std::vector<float>& outputs = memory.outputs[static_cast<std::size_t>(layer)];
    const std::vector<float> inputs = normalised(hidden);
    const auto kind = static_cast<std::uint64_t>(layer) * 8;
    for (const index_t r : rows) {
      const index_t p = positions[static_cast<std::size_t>(r)];
      for (index_t d = 0; d < width; ++d) {
        values[at(p, d)] = inputs[at(r, d)] * weight(kind + 3, unsigned(d), 0) +
                           inputs[at(r, (d + 1) % width)] * weight(kind + 4, unsigned(d), 0);
      }
    }
    memory.computed += static_cast<long>(rows.size());
    for (const index_t r : rows) {
      const index_t p = positions[static_cast<std::size_t>(r)];
      for (index_t d = 0; d < width; ++d) {
        float sum = 0.0F;
        for (index_t j = attend.first; j < attend.last; ++j) {
          sum += values[at(j, d)] / (1.0F + std::fabs(static_cast<float>(j - p)));
        }
        outputs[at(p, d)] = 0.3F * std::tanh(sum + inputs[at(r, (d + 5) % width)] *
                                                       weight(kind + 5, unsigned(d), 0));
      }
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      for (index_t d = 0; d < width; ++d) {
        hidden[at(static_cast<index_t>(i), d)] += outputs[at(positions[i], d)];
      }
    }
  }

  [[nodiscard]] std::vector<float> head(const std::vector<float>& rows) const {
    std::vector<float> logits;
    for (index_t r = 0; r < static_cast<index_t>(rows.size()) / width; ++r) {
      for (index_t v = 0; v < vocab; ++v) {
        float sum = 0.0F;
        for (index_t d = 0; d < width; ++d) {
          sum += rows[at(r, d)] * weight(6, static_cast<std::uint64_t>(v), unsigned(d));
        }
        logits.push_back(2.0F * sum);
      }
    }
    return logits;
  }
};

}  // namespace unmask::testing
