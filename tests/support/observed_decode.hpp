// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes a sequence on a small made-up model and shows a test every step, with the rows once more
/// in double precision.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "support/by_name.hpp"

namespace unmask::testing {

/// Logits that are a hash of a position and the tokens around it.
struct made_up_model {
  std::uint64_t seed = 1;
  index_t vocab = 12;
  /// Largest advantage of a row's favourite, in nats.
  double sharpness = 8.0;

  [[nodiscard]] model_info info() const { return {.vocab = vocab, .mask_token = vocab - 1}; }

  void row(std::span<const token_id> x, index_t position, std::span<float> out) const {
    std::uint64_t key = hash(seed, static_cast<std::uint64_t>(position));
    for (index_t p = std::max(position - 2, 0);
         p <= std::min(position + 2, static_cast<index_t>(x.size()) - 1);
         ++p) {
      key = hash(key, static_cast<std::uint64_t>(x[static_cast<std::size_t>(p)]));
    }
    for (std::size_t v = 0; v < out.size(); ++v) {
      out[v] = static_cast<float>(2.0 * unit(hash(key, v)));
    }
    out[hash(key, 77) % out.size()] += static_cast<float>(sharpness * unit(hash(key, 78)));
  }

  [[nodiscard]] static std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
    std::uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 30U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  [[nodiscard]] static double unit(std::uint64_t h) {
    return static_cast<double>(h >> 40U) * 0x1p-24;
  }
};

/// A row of which `token` has the probability p > 1 / (vocab - 1); the last token is the mask
/// token, which has none.
inline void write_row(std::span<float> out, token_id token, double p) {
  const auto others = static_cast<double>(out.size()) - 2.0;
  std::fill(out.begin(), out.end(), static_cast<float>(std::log((1.0 - p) / others)));
  out[static_cast<std::size_t>(token)] = static_cast<float>(std::log(p));
  out.back() = -100.0F;
}

/// A row of which tokens 0 and 1 have the probability 1/2 each, exactly, and 0 is proposed.
inline void write_even_row(std::span<float> out) {
  std::fill(out.begin(), out.end(), -200.0F);
  out[0] = 0.0F;
  out[1] = 0.0F;
}

/// One row, read in double precision, without the mask token.
struct observed_row {
  index_t position = 0;
  token_id token = no_token;
  token_id current = no_token;
  double confidence = 0.0;
};

[[nodiscard]] inline observed_row
read_double(std::span<const float> z, index_t position, token_id current, token_id mask) {
  observed_row r{position, no_token, current, 0.0};
  double best = -1e300;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (static_cast<token_id>(v) != mask && static_cast<double>(z[v]) > best) {
      best = static_cast<double>(z[v]);
      r.token = static_cast<token_id>(v);
    }
  }
  double sum = 0.0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    sum += static_cast<token_id>(v) == mask ? 0.0 : std::exp(static_cast<double>(z[v]) - best);
  }
  r.confidence = 1.0 / sum;
  return r;
}

/// Record of a step for tests: its plan and its results.
struct observed_step {
  index_t step = 0;
  plan planned;
  /// Ascending: the masked positions of the scored range, and the others of it.
  std::vector<observed_row> masked;
  std::vector<observed_row> committed_rows;
  std::vector<commit_entry> committed;
};

/// Smallest distance of a confidence from a bound: below 1e-5 a decision is rounding.
[[nodiscard]] inline bool is_close(double a, double b) {
  return std::fabs(a - b) < 1e-5;
}

template <class Session, class Model>
void supply_one(Session& s,
                const forward_request& request,
                const Model& model,
                std::span<const token_id> tokens) {
  const index_t vocab = s.model().vocab;
  const auto columns = static_cast<std::size_t>(vocab);
  std::vector<float> logits(static_cast<std::size_t>(request.rows) * columns);
  for (const segment& part : request.segments) {
    for (index_t r = 0; r < part.rows.size(); ++r) {
      model.row(tokens,
                part.rows.first + r,
                std::span(logits).subspan(static_cast<std::size_t>(part.first_row + r) * columns,
                                          columns));
    }
  }
  s.supply(host_logits<float>{logits.data(), request.rows, vocab});
}

/// Decodes slot 0, which was started with `tokens`, and calls observe(observed_step) after each
/// step.
template <class Session, class Model>
void observe_decode(Session& s,
                    const Model& model,
                    const std::vector<token_id>& tokens,
                    const std::function<void(const observed_step&)>& observe) {
  const model_info info = s.model();
  std::vector<bool> open(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    open[i] = tokens[i] == info.mask_token;  // of a decode that proposes none
  }
  for (int guard = 0; guard < 100000; ++guard) {
    const std::optional<forward_request> request = s.next();
    if (!request) {
      return;
    }
    observed_step seen;
    seen.step = s.report().forwards;
    seen.planned = s.planned();
    std::vector<float> z(static_cast<std::size_t>(info.vocab));
    for (index_t p = seen.planned.score.first; p < seen.planned.score.last; ++p) {
      const auto at = static_cast<std::size_t>(p);
      model.row(tokens, p, z);
      (open[at] ? seen.masked : seen.committed_rows)
          .push_back(read_double(z, p, tokens[at], info.mask_token));
    }
    supply_one(s, *request, model, tokens);
    for (const commit_entry& e : s.committed()) {
      seen.committed.push_back(e);
      open[static_cast<std::size_t>(e.position)] = e.token == info.mask_token;
    }
    observe(seen);
  }
  FAIL() << "the decode does not end";
}

/// The same with a session of its own; gives the tokens.
template <class Policy, class Model>
std::vector<token_id> observe_decode(const Policy& p,
                                     const Model& model,
                                     const sequence_shape& g,
                                     const std::function<void(const observed_step&)>& observe) {
  std::vector<token_id> tokens(static_cast<std::size_t>(g.length), 0);
  session s{by_name(p), model.info(), tokens, g};
  observe_decode(s, model, tokens, observe);
  EXPECT_EQ(s.report().masked, 0);
  return tokens;
}

/// A decode as a list of everything that was committed.
template <class Policy, class Model>
std::vector<std::vector<index_t>>
commits_of(const Policy& p, const Model& model, const sequence_shape& g) {
  std::vector<std::vector<index_t>> all;
  observe_decode(p, model, g, [&](const observed_step& s) {
    all.emplace_back();
    for (const commit_entry& e : s.committed) {
      all.back().push_back(e.position * 1000 + e.token);
    }
  });
  return all;
}

[[nodiscard]] inline std::vector<index_t> positions_of(std::span<const commit_entry> entries) {
  std::vector<index_t> all;
  for (const commit_entry& e : entries) {
    all.push_back(e.position);
  }
  return all;
}

/// The position of the most confident row, the first of several; -1 if there is none.
[[nodiscard]] inline index_t best_of(std::span<const observed_row> rows) {
  index_t best = -1;
  double confidence = -1.0;
  for (const observed_row& r : rows) {
    if (r.confidence > confidence) {
      confidence = r.confidence;
      best = r.position;
    }
  }
  return best;
}

}  // namespace unmask::testing
