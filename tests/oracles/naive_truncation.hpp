// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Truncated sampling by its definition: sort the row, walk along it in double precision, and let
/// the kept tokens race with the library's random bits.

#include <unmask/core/part/held_list.hpp>
#include <unmask/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace unmask::testing {

/// Kept tokens of a row, and the drawn token.
struct naive_truncation {
  std::vector<token_id> kept;  ///< in the row's order
  std::vector<double> shares;  ///< of the kept tokens, at temperature 1
  double mass = 0.0;           ///< their probability in the whole row
  double least = 0.0;          ///< that of the last of them
  token_id drawn = no_token;
  /// How close another outcome was: of a boundary or of the race.
  double gap = std::numeric_limits<double>::infinity();

  [[nodiscard]] double confidence(token_id token) const {
    const auto at = std::find(kept.begin(), kept.end(), token) - kept.begin();
    return shares[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] double entropy() const {
    double h = 0.0;
    for (const double p : shares) {
      h -= p > 0.0 ? p * std::log(p) : 0.0;
    }
    return h;
  }
  [[nodiscard]] double top3_mass() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < shares.size() && i < 3; ++i) {
      sum += shares[i];
    }
    return sum;
  }
  [[nodiscard]] double margin() const { return shares[0] - (shares.size() > 1 ? shares[1] : 0.0); }
};

/// The uniform number that a kept token races with.
[[nodiscard]] inline double race_uniform(random_key key, token_id token) {
  key.token = static_cast<token_id>(static_cast<std::uint32_t>(token) | 0x80000000U);
  return (static_cast<double>(random_bits(key)) + 0.5) * 0x1p-32;
}

[[nodiscard]] inline naive_truncation naive_truncate(const std::vector<double>& z,
                                                     const truncation& rules,
                                                     double temperature,
                                                     const random_key& key) {
  naive_truncation t;
  std::vector<token_id> order;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (z[v] > -std::numeric_limits<double>::infinity()) {
      order.push_back(static_cast<token_id>(v));
    }
  }
  const auto at = [&z](token_id v) { return z[static_cast<std::size_t>(v)]; };
  std::stable_sort(
      order.begin(), order.end(), [&](token_id a, token_id b) { return at(a) > at(b); });
  double total = 0.0;
  for (const token_id v : order) {
    total += std::exp(at(v) - at(order[0]));
  }
  double mass = 0.0;
  for (const token_id v : order) {
    const double weight = std::exp(at(v) - at(order[0]));
    if (!t.kept.empty()) {
      const double limit = static_cast<double>(rules.mass) * total;
      const double least = static_cast<double>(rules.ratio);
      if (rules.mass < 1.0F) {
        t.gap = std::min(t.gap, std::abs(mass - limit) / total);
      }
      if (rules.ratio > 0.0F) {
        t.gap = std::min(t.gap, at(v) == at(order[0]) ? t.gap : std::abs(weight / least - 1.0));
      }
      if (static_cast<index_t>(t.kept.size()) >= rules.tokens ||
          (rules.mass < 1.0F && mass > limit) || weight < least) {
        break;
      }
    }
    mass += weight;
    t.kept.push_back(v);
    t.shares.push_back(weight);
  }
  t.mass = mass / total;
  t.least = t.shares.empty() ? 0.0 : t.shares.back() / total;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < t.kept.size(); ++i) {
    t.shares[i] /= mass;
    const double raced = (at(t.kept[i]) - at(order[0])) / temperature -
                         std::log(-std::log(race_uniform(key, t.kept[i])));
    t.gap = std::min(t.gap, std::abs(raced - best));
    if (raced > best) {
      best = raced;
      t.drawn = t.kept[i];
    }
  }
  return t;
}

}  // namespace unmask::testing
