// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file Row edits beside their definition: every row of a decode as a dense vector of doubles,
/// edited and summed the slow way, compared with the statistics of the policy's candidates.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/entropy_below.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/by_name.hpp"
#include "support/dice.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing {

/// The dice with the steps of splitmix64.
struct chances : dice {
  explicit chances(std::uint64_t seed)
      : dice(seed - step, step) {}
  static constexpr std::uint64_t step = 0x9E3779B97F4A7C15U;
};

/// A model that needs no weights: row r is a hash of the tokens within two positions of r.
struct hashed_model {
  std::uint64_t seed = 0;
  index_t vocab = 0;
  double sharpness = 8.0;
  /// Share of rows that prefer token `loved`.
  double love = 0.0;
  token_id loved = 0;

  [[nodiscard]] std::vector<float> row(const std::vector<token_id>& tokens, index_t r) const {
    std::uint64_t key = seed;
    const auto size = static_cast<index_t>(tokens.size());
    for (index_t p = std::max(r - 2, 0); p <= std::min(r + 2, size - 1); ++p) {
      key = chances(key ^ static_cast<std::uint64_t>(tokens[static_cast<std::size_t>(p)])).bits() +
            static_cast<std::uint64_t>(r);
    }
    chances c(key);
    std::vector<float> z;
    for (index_t v = 0; v < vocab; ++v) {
      z.push_back(c.chance(0.02) ? -std::numeric_limits<float>::infinity() : c.real(-2.0, 2.0));
    }
    const token_id best = c.chance(love) ? loved : c.within(0, vocab - 1);
    z[static_cast<std::size_t>(best)] = c.real(0.0, sharpness);
    return z;
  }
};

/// Input of a rule about a row's position.
struct dense_view {
  const std::vector<token_id>& tokens;
  const std::vector<bool>& open;
  const sequence_shape& geometry;
  const model_info& model;
  index_t position;

  [[nodiscard]] bool stands(index_t p) const {
    return p >= 0 && p < geometry.length && !open[static_cast<std::size_t>(p)];
  }
  [[nodiscard]] token_id token(index_t p) const { return tokens[static_cast<std::size_t>(p)]; }
};

/// An edit by its definition. `reset` is called when a position commits or is remasked.
struct dense_rule {
  std::function<void(std::vector<double>&, const dense_view&)> edit;
  std::function<void(index_t)> reset = [](index_t) {};
};

/// A row as given to a rule.
struct seen_row {
  index_t position = 0;
  token_id token = no_token;
  double confidence = 0.0;
  double margin = 0.0;
  double entropy = 0.0;
  bool valid = true;
  double gap = 0.0;  ///< of the two best logits
};

[[nodiscard]] inline seen_row dense_statistics(const std::vector<double>& z, index_t position) {
  seen_row r;
  r.position = position;
  double best = -std::numeric_limits<double>::infinity();
  double second = best;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (z[v] > best) {
      second = best;
      best = z[v];
      r.token = static_cast<token_id>(v);
    } else {
      second = std::max(second, z[v]);
    }
  }
  r.valid = std::isfinite(best);
  r.gap = best - second;
  double sum = 0.0;
  for (const double x : z) {
    sum += std::exp(x - best);
  }
  for (const double x : z) {
    const double p = std::exp(x - best) / sum;
    r.entropy -= p > 0.0 ? p * std::log(p) : 0.0;
  }
  r.confidence = 1.0 / sum;
  r.margin = (1.0 - std::exp(second - best)) / sum;
  return r;
}

/// Commits the best-ranked token, as every rule does: or-ed to another, so that candidates have the
/// entropy of their rows.
inline constexpr entropy_below reads_entropy{0.0F};

/// Trace credit by its definition: a number for every token of the vocabulary.
[[nodiscard]] inline dense_rule dense_credit(float strength, float decay, float exponent) {
  auto credit = std::make_shared<std::vector<std::vector<double>>>();
  return {[=](std::vector<double>& z, const dense_view& at) {
            credit->resize(static_cast<std::size_t>(at.geometry.length));
            std::vector<double>& own = (*credit)[static_cast<std::size_t>(at.position)];
            own.resize(z.size(), 0.0);
            const seen_row raw = dense_statistics(z, at.position);
            if (!raw.valid) {
              return;
            }
            for (double& c : own) {
              c *= decay;
            }
            own[static_cast<std::size_t>(raw.token)] += std::pow(raw.confidence, exponent);
            for (std::size_t v = 0; v < z.size(); ++v) {
              z[v] += strength * std::log1p(own[v]);
            }
          },
          [=](index_t p) {
            if (static_cast<std::size_t>(p) < credit->size()) {
              (*credit)[static_cast<std::size_t>(p)].clear();
            }
          }};
}

/// One random request for compare_rows().
struct dense_request {
  model_info model;
  sequence_shape geometry;
  std::vector<token_id> suppressed;
  hashed_model logits;
  index_t branches = 0;
};

[[nodiscard]] inline dense_request random_dense_request(chances& c, index_t vocab) {
  dense_request r;
  r.model.vocab = vocab;
  r.model.mask_token = c.within(0, vocab - 1);
  r.model.eos_token = (r.model.mask_token + c.within(1, vocab - 1)) % vocab;
  r.geometry.prompt_length = c.within(0, 5);
  r.geometry.length = r.geometry.prompt_length + c.within(1, 20);
  r.geometry.block_length = c.within(1, 10);
  for (index_t i = c.within(0, 3); i > 0; --i) {
    r.suppressed.push_back(c.within(0, vocab - 1));
  }
  r.logits = {.seed = c.bits(), .vocab = vocab};
  return r;
}

/// Decodes one request and compares every row. `rules` are those of the policy's parts, in written
/// order; the policy reads margin and entropy. Returns the number of rows. By name unless the
/// policy is of parts with less memory than those that texts know.
template <bool ByName = true, class Policy>
int compare_rows(const Policy& p, std::vector<dense_rule> rules, const dense_request& q) {
  const sequence_shape& g = q.geometry;
  const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
  std::vector<token_id> tokens(at(g.length), 0);
  chances c(q.logits.seed);
  for (token_id& v : tokens) {
    v = c.within(0, q.model.vocab - 1);
  }
  const auto decoded = [&p] {
    if constexpr (ByName) {
      return by_name(p);
    } else {
      return p;
    }
  }();
  session<std::remove_const_t<decltype(decoded)>> s(q.model,
                                                    {.sequences = 1,
                                                     .length = g.length,
                                                     .window = g.length,
                                                     .branches = q.branches,
                                                     .trace = true});
  start_options options;
  options.suppressed = q.suppressed;
  s.start(0, decoded, tokens_view<memory::host>(tokens), g, options);
  std::vector<bool> open(at(g.length), false);
  for (index_t i = g.prompt_length; i < g.length; ++i) {
    open[at(i)] = true;
  }
  int rows = 0;
  while (const std::optional<forward_request> request = s.next()) {
    const range score = s.planned().score;
    std::vector<token_id> before = tokens;
    std::vector<placement> placed = {{}};
    std::vector<float> logits;
    for (const segment& part : request->segments) {
      std::vector<token_id> x = before;
      for (const placement& one : part.placed) {
        x[at(one.position)] = one.token;
        placed.push_back(one);
      }
      for (index_t r = part.rows.first; r < part.rows.last; ++r) {
        const std::vector<float> z = q.logits.row(x, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
    }
    s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
    const std::span<const candidate_entry> candidates = s.candidates();
    const index_t winner = s.planned().winner;
    if (winner > 0) {
      before[at(placed[at(winner)].position)] = placed[at(winner)].token;
      open[at(placed[at(winner)].position)] = false;
    }
    for (index_t i = score.first; i < score.last; ++i) {
      if (!open[at(i)]) {
        continue;
      }
      std::vector<double> z;
      for (const float x : q.logits.row(before, i)) {
        z.push_back(x);
      }
      z[at(q.model.mask_token)] = -std::numeric_limits<double>::infinity();
      for (const token_id v : q.suppressed) {
        z[at(v)] = -std::numeric_limits<double>::infinity();
      }
      if (dense_statistics(z, i).valid) {
        for (const dense_rule& rule : rules) {
          rule.edit(z, {before, open, g, q.model, i});
        }
      }
      const seen_row expected = dense_statistics(z, i);
      const auto got = std::find_if(candidates.begin(), candidates.end(), [i](const auto& e) {
        return e.position == i && e.log_probability > -std::numeric_limits<float>::infinity();
      });
      EXPECT_EQ(got != candidates.end(), expected.valid) << "position " << i;
      if (got == candidates.end() || !expected.valid) {
        continue;
      }
      if (expected.gap > 1e-5) {
        EXPECT_EQ(got->token, expected.token) << "position " << i;
      }
      EXPECT_NEAR(got->confidence, expected.confidence, 1e-5) << "position " << i;
      EXPECT_NEAR(got->margin, expected.margin, 1e-5) << "position " << i;
      EXPECT_NEAR(got->entropy, expected.entropy, 1e-5 * std::max(1.0, expected.entropy))
          << "position " << i;
      ++rows;
    }
    for (const commit_entry& e : s.committed()) {
      open[at(e.position)] = e.token == q.model.mask_token;
      for (const dense_rule& rule : rules) {
        rule.reset(e.position);
      }
    }
    if (::testing::Test::HasFailure()) {
      return rows;
    }
  }
  return rows;
}

/// Decodes a policy's requests together in one session and each alone: tokens, ends and forwards
/// must be equal. The policies may differ in their knobs.
template <class Policy>
void expect_batch_changes_nothing(const std::vector<Policy>& policies,
                                  const std::vector<dense_request>& q) {
  const auto decode = [&](const std::vector<std::size_t>& which) {
    session_capacity capacity{
        .sequences = static_cast<index_t>(which.size()), .length = 1, .window = 1, .branches = 0};
    std::vector<std::vector<token_id>> texts;
    for (const std::size_t k : which) {
      capacity.length = std::max(capacity.length, q[k].geometry.length);
      capacity.window = capacity.length;
      capacity.branches = std::max(capacity.branches, q[k].branches);
      texts.emplace_back(static_cast<std::size_t>(q[k].geometry.length), 1);
    }
    session<Policy> s(q[which[0]].model, capacity);
    for (std::size_t i = 0; i < which.size(); ++i) {
      s.start(static_cast<index_t>(i),
              policies[which[i]],
              tokens_view<memory::host>(texts[i]),
              q[which[i]].geometry);
    }
    while (const std::optional<forward_request> request = s.next()) {
      std::vector<float> logits;
      for (const segment& part : request->segments) {
        const auto i = static_cast<std::size_t>(part.slot);
        std::vector<token_id> x = texts[i];
        for (const auto& placed : part.placed) {
          x[static_cast<std::size_t>(placed.position)] = placed.token;
        }
        for (index_t r = part.rows.first; r < part.rows.last; ++r) {
          const std::vector<float> z = q[which[i]].logits.row(x, r);
          logits.insert(logits.end(), z.begin(), z.end());
        }
      }
      s.supply(host_logits<float>(logits.data(), request->rows, q[which[0]].model.vocab));
    }
    std::vector<std::string> results;
    for (std::size_t i = 0; i < which.size(); ++i) {
      const sequence_report& r = s.report(static_cast<index_t>(i));
      std::string text = std::to_string(static_cast<int>(r.end)) + "/" +
                         std::to_string(r.forwards) + "/" + std::to_string(r.rewritten) + ":";
      for (const token_id v : texts[i]) {
        text += " " + std::to_string(v);
      }
      results.push_back(text);
    }
    return results;
  };
  std::vector<std::size_t> all;
  for (std::size_t k = 0; k < q.size(); ++k) {
    all.push_back(k);
  }
  const std::vector<std::string> together = decode(all);
  for (const std::size_t k : all) {
    EXPECT_EQ(together[k], decode({k})[0]) << "sequence " << k;
  }
}

/// Decodes and hands every step's commits to `look(commits, tokens before the step)`. Returns the
/// number of steps.
template <class Policy, class Look>
int each_step(const Policy& p, const dense_request& q, Look&& look) {
  std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), q.model.eos_token);
  session<by_name_type<Policy>> s(q.model,
                                  {.sequences = 1,
                                   .length = q.geometry.length,
                                   .window = q.geometry.length,
                                   .branches = q.branches});
  s.start(0, by_name(p), tokens_view<memory::host>(text), q.geometry);
  int steps = 0;
  while (const auto request = s.next()) {
    const std::vector<token_id> before = text;
    const std::vector<float> logits = requested_rows(
        *request, text, [&](const auto& x, index_t i) { return q.logits.row(x, i); });
    s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
    look(s.committed(), before);
    ++steps;
  }
  return steps;
}

}  // namespace unmask::testing
