// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The synthetic logits of the second batch of golden traces, whose rows depend on the tokens near
/// a position, rebuilt bit for bit from the formulas of tests/data/goldens/README.md.

#include <unmask/core/plan.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "goldens/hash_logits.hpp"
#include "goldens/json_node.hpp"
#include "goldens/shared_fields.hpp"

namespace unmask::goldens {

/// The `model` of a line. The members carry the names of the schema.
struct context_model {
  std::uint64_t seed = 0;
  int V = 0;
  int v_eff = 0;
  token mask_id = -1;
  token eos_id = -1;
  int eos_from = -1;
  int radius = 0;
  std::uint64_t ctx_mod = 1;
  std::uint64_t flip = 0;
  std::int64_t stick = 0;
  std::int64_t a_lo = 0;
  std::uint64_t a_rng = 1;
  std::int64_t slope = 0;
  std::uint64_t j_rng = 1;
  std::int64_t r_lo = 0;
  std::uint64_t r_rng = 1;
  std::vector<std::array<int, 3>> dup;                ///< [a, q, delta]
  std::vector<std::pair<token, std::uint64_t>> lean;  ///< [token, weight]

  /// Fills `out` (V floats) with the row that predicts position q of the tokens x. It sees all of
  /// them, as a causal row those left of q, as a shadow all but that of q.
  void row(int q,
           std::span<const token> x,
           std::span<float> out,
           attention_kind sees = attention_kind::bidirectional) const {
    std::int64_t c = 0;
    std::int64_t e = 0;
    const int last = sees == attention_kind::causal
                         ? q - 1
                         : std::min(q + radius, static_cast<int>(x.size()) - 1);
    for (int j = std::max(q - radius, 0); j <= last; ++j) {
      const token there = x[static_cast<std::size_t>(j)];
      if (j != q && there != mask_id) {
        ++c;
        e += (std::int64_t{there} + 1) * (2 * (j - q) + 2 * radius + 1);
      }
    }
    const std::uint64_t s =
        64 * static_cast<std::uint64_t>(c) + static_cast<std::uint64_t>(e) % ctx_mod;
    const bool sees_own = stick > 0 && sees == attention_kind::bidirectional;
    const std::int64_t own =
        sees_own && x[static_cast<std::size_t>(q)] != mask_id ? x[static_cast<std::size_t>(q)] : -1;
    row_in_state(q, s, c, own, out);
  }

  /// The row of position q in the state s with c neighbours and the token `own` of its position, -1
  /// for none.
  void row_in_state(
      int q, std::uint64_t s, std::int64_t c, std::int64_t own, std::span<float> out) const {
    auto i = static_cast<std::uint64_t>(q);
    std::int64_t delta = 0;
    for (const auto& [from, to, d] : dup) {
      if (to == q) {
        i = static_cast<std::uint64_t>(from);
        delta = d;
        break;
      }
    }
    const auto usable = static_cast<std::uint64_t>(v_eff);
    std::uint64_t preferred = aux(seed, 1, i) % usable;
    std::uint64_t rival = (preferred + 1 + aux(seed, 2, i) % (usable - 1)) % usable;
    if (aux(seed, 6, i, s) % 256 < flip) {
      std::swap(preferred, rival);
    }
    auto pref = static_cast<std::int64_t>(preferred);
    if (eos_from >= 0 && i >= static_cast<std::uint64_t>(eos_from)) {
      pref = eos_id;
    }
    std::uint64_t sum = 0;
    for (const auto& [leant, weight] : lean) {
      sum += weight;
      if (aux(seed, 7, i, s) % 256 < sum) {
        pref = leant;
        break;
      }
    }
    const std::int64_t bp = a_lo + static_cast<std::int64_t>(aux(seed, 3, i) % a_rng) + slope * c +
                            static_cast<std::int64_t>(aux(seed, 5, i, s) % j_rng);
    const std::int64_t br = r_lo + static_cast<std::int64_t>(aux(seed, 4, i) % r_rng);
    for (std::int64_t v = 0; v < V; ++v) {
      std::int64_t t = noise(seed, s, i, static_cast<std::uint64_t>(v));
      t += v == pref ? bp * (1 << 14U) + delta : 0;
      t += v == static_cast<std::int64_t>(rival) ? br * (1 << 14U) : 0;
      t += v == own ? stick * (1 << 14U) : 0;
      out[static_cast<std::size_t>(v)] = static_cast<float>(t) * 0x1p-18F;
    }
  }

  /// The `sum` of a forward pass: of (2p + 1) R(p) over the positions p in [first, last) that
  /// `counts` says.
  [[nodiscard]] std::uint64_t sum(std::span<const token> x,
                                  int first,
                                  int last,
                                  attention_kind sees,
                                  const auto& counts) const {
    std::vector<float> logits(static_cast<std::size_t>(V));
    std::uint64_t all = 0;
    for (int p = first; p < last; ++p) {
      if (counts(p)) {
        row(p, x, logits, sees);
        all += (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(logits);
      }
    }
    return all;
  }
  /// The same over the masked positions of x.
  [[nodiscard]] std::uint64_t sum(std::span<const token> x) const {
    return sum(x, 0, static_cast<int>(x.size()), attention_kind::bidirectional, [&](int p) {
      return x[static_cast<std::size_t>(p)] == mask_id;
    });
  }
};

[[nodiscard]] inline context_model read_context_model(const node& n) {
  context_model m;
  read_shared_fields(n, m);
  m.ctx_mod = n.get<std::uint64_t>("ctx_mod");
  m.flip = n.get<std::uint64_t>("flip");
  m.stick = n.get<std::int64_t>("stick");
  m.dup = n.list("dup", [](const node& d) {
    return std::array<int, 3>{d.at(0).get<int>(), d.at(1).get<int>(), d.at(2).get<int>()};
  });
  m.lean = n.list("lean", [](const node& l) {
    return std::pair{l.at(0).get<token>(), l.at(1).get<std::uint64_t>()};
  });
  if (m.V < 1 || m.v_eff < 2 || m.ctx_mod == 0 || m.a_rng == 0 || m.j_rng == 0 || m.r_rng == 0) {
    n.fail("V, v_eff, ctx_mod, a_rng, j_rng and r_rng must be positive, v_eff at least 2");
  }
  return m;
}

}  // namespace unmask::goldens
