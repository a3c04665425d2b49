// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The synthetic logits of the golden traces, rebuilt bit for bit from the formulas of
/// tests/data/goldens/README.md. Nothing here depends on the library under test or on JSON.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace unmask::goldens {

using token = std::int32_t;
using tokens = std::vector<token>;

/// The 64-bit finaliser every other function is built on; wraps modulo 2^64.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

/// 20 bits of noise, centred: the result lies in [-2^19, 2^19).
[[nodiscard]] constexpr std::int64_t
noise(std::uint64_t seed, std::uint64_t s, std::uint64_t i, std::uint64_t v) noexcept {
  const std::uint64_t bits = mix(seed ^ (s << 40U) ^ (i << 20U) ^ v) >> 44U;
  return static_cast<std::int64_t>(bits) - (std::int64_t{1} << 19U);
}

/// The draw of a parameter of row i; `tag` selects the parameter.
[[nodiscard]] constexpr std::uint64_t
aux(std::uint64_t seed, std::uint64_t tag, std::uint64_t i, std::uint64_t s = 0) noexcept {
  return mix((seed + tag * 0xD1342543DE82EF95U) ^ (s << 40U) ^ (i << 20U) ^ 0xFFFFFU);
}

/// The nearest bfloat16 (ties to even), held in a float. NaN is not expected here.
[[nodiscard]] constexpr float round_to_bf16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7F800000U) == 0x7F800000U) {
    return x;
  }
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>(rounded & 0xFFFF0000U);
}

/// The guard over a row: the sum over v of bits(v) * (2v + 1), modulo 2^64.
[[nodiscard]] constexpr std::uint64_t bits_sum(std::span<const float> row) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t v = 0; v < row.size(); ++v) {
    sum += std::uint64_t{std::bit_cast<std::uint32_t>(row[v])} * (2 * std::uint64_t{v} + 1);
  }
  return sum;
}

/// The `model` of a line: row i of the logits is a function of these fields, i and the number of
/// committed neighbours of i. The members carry the names of the schema.
struct fake_model {
  std::uint64_t seed = 0;
  int V = 0;
  int v_eff = 0;
  token mask_id = -1;
  token eos_id = -1;
  int eos_from = -1;
  int radius = 0;
  int logits_shift = 0;
  std::int64_t a_lo = 0;
  std::uint64_t a_rng = 1;
  std::int64_t slope = 0;
  std::uint64_t j_rng = 1;
  std::int64_t r_lo = 0;
  std::uint64_t r_rng = 1;
  bool bf16 = false;
  /// Pairs [a, i]: row i repeats row a wherever both see as many committed neighbours.
  std::vector<std::pair<int, int>> dup;
  /// Pairs [i, u]: row i predicts the mask token while it has fewer than u unmasked neighbours.
  std::vector<std::pair<int, int>> mask_pref;
  /// Tokens that the rule, not the model, sets to -inf; `row` leaves them alone.
  tokens suppress;

  /// The row that predicts position p (Dream shifts by one and keeps row 0 for position 0).
  [[nodiscard]] int row_of(int p) const noexcept { return std::max(p - logits_shift, 0); }

  /// c: committed neighbours of row i within `radius`, inside the sequence the model was given.
  [[nodiscard]] int neighbours(int i, std::span<const token> x) const noexcept {
    const int last = std::min(i + radius, static_cast<int>(x.size()) - 1);
    int count = 0;
    for (int j = std::max(i - radius, 0); j <= last; ++j) {
      if (j != i && x[static_cast<std::size_t>(j)] != mask_id) {
        ++count;
      }
    }
    return count;
  }

  /// Fills `out` (V floats) with the float32 row i at neighbour count c, before bf16 rounding.
  void raw_row(int i, int c, std::span<float> out) const {
    if (out.size() != static_cast<std::size_t>(V)) {
      throw std::invalid_argument("fake_model: the row to fill must hold V floats");
    }
    for (const auto& [original, copy] : dup) {
      if (copy == i) {
        i = original;
        break;
      }
    }
    const auto row = static_cast<std::uint64_t>(i);
    const auto count = static_cast<std::uint64_t>(c);
    const auto usable = static_cast<std::uint64_t>(v_eff);
    auto pref = static_cast<std::int64_t>(aux(seed, 1, row) % usable);
    // The rival is drawn relative to the hashed preference, before that is replaced below.
    const auto rival = static_cast<std::int64_t>(
        (static_cast<std::uint64_t>(pref) + 1 + aux(seed, 2, row) % (usable - 1)) % usable);
    if (eos_from >= 0 && i >= eos_from) {
      pref = eos_id;
    }
    for (const auto& [position, until] : mask_pref) {
      if (position == i && c < until) {
        pref = mask_id;
      }
    }
    const std::int64_t boost_pref = a_lo + static_cast<std::int64_t>(aux(seed, 3, row) % a_rng) +
                                    slope * c +
                                    static_cast<std::int64_t>(aux(seed, 5, row, count) % j_rng);
    const std::int64_t boost_rival = r_lo + static_cast<std::int64_t>(aux(seed, 4, row) % r_rng);

    const auto value = [&](std::int64_t v) {
      std::int64_t t = noise(seed, count, row, static_cast<std::uint64_t>(v));
      t += v == pref ? boost_pref * (1 << 14U) : 0;
      t += v == rival ? boost_rival * (1 << 14U) : 0;
      return static_cast<float>(t) * 0x1p-18F;
    };
    // The common case without the two comparisons; a V-long row is mostly noise.
    const std::uint64_t key = seed ^ (count << 40U) ^ (row << 20U);
    for (std::size_t v = 0; v < out.size(); ++v) {
      const auto bits = static_cast<std::int32_t>(mix(key ^ std::uint64_t{v}) >> 44U);
      out[v] = static_cast<float>(bits - (1 << 19U)) * 0x1p-18F;
    }
    for (const std::int64_t v : {pref, rival}) {
      if (v >= 0 && v < V) {
        out[static_cast<std::size_t>(v)] = value(v);
      }
    }
  }

  /// Fills `out` with row i of the logits for the tokens x, in `logit_dtype` (held as floats).
  void row(int i, std::span<const token> x, std::span<float> out) const {
    raw_row(i, neighbours(i, x), out);
    if (bf16) {
      std::transform(out.begin(), out.end(), out.begin(), round_to_bf16);
    }
  }

  /// R(p): the guard of the float32 row that predicts position p.
  [[nodiscard]] std::uint64_t row_guard(int p, std::span<const token> x) const {
    std::vector<float> out(static_cast<std::size_t>(V));
    const int i = row_of(p);
    raw_row(i, neighbours(i, x), out);
    return bits_sum(out);
  }

  /// `logits_sum` of a step: the sum of (2p + 1) * R(p) over the considered positions.
  [[nodiscard]] std::uint64_t logits_sum(std::span<const int> considered,
                                         std::span<const token> x) const {
    std::uint64_t sum = 0;
    for (const int p : considered) {
      sum += (2 * static_cast<std::uint64_t>(p) + 1) * row_guard(p, x);
    }
    return sum;
  }
};

/// Layer strides of `feature`: the version is added to stride * layer.
inline constexpr std::uint64_t es_stride = 256;
inline constexpr std::uint64_t dynamic_stride = 512;

/// F(layer, version, i, d): feature d of position i. Version 0 is the cached one; every other
/// version differs from it by noise whose size depends on the position.
[[nodiscard]] constexpr float feature(std::uint64_t seed,
                                      std::uint64_t stride,
                                      std::uint64_t layer,
                                      std::uint64_t version,
                                      std::uint64_t i,
                                      std::uint64_t d) noexcept {
  std::int64_t t = noise(seed, stride * layer, i, d);
  if (version != 0) {
    const std::uint64_t s = stride * layer + version;
    // C++20 defines >> of a negative number as the arithmetic shift.
    t += noise(seed, s, i, d) >> (aux(seed, 21, i, s) % 8);
  }
  return static_cast<float>(t) * 0x1p-18F;
}

/// Content of a line of stats.jsonl about its row.
struct stats_row_spec {
  enum class masking { none, eighth, keep_one };

  std::uint64_t seed = 0;
  int V = 0;
  int q = 0;
  int exp2 = 0;
  std::int64_t offset = 0;
  bool all_equal = false;
  bool bf16 = false;
  masking neginf = masking::none;
  int kept = -1;  ///< the entry that stays finite with masking::keep_one
  std::vector<std::pair<int, std::int64_t>> boosts;
  std::vector<std::pair<int, int>> tie_at;  ///< at most one pair [a, b]: x(b) repeats x(a)
};

/// The row of a line of stats.jsonl.
[[nodiscard]] inline std::vector<float> stats_row(const stats_row_spec& spec) {
  std::vector<std::int64_t> t(static_cast<std::size_t>(spec.V));
  for (std::size_t v = 0; v < t.size(); ++v) {
    t[v] = spec.all_equal ? 0 : noise(spec.seed, 0, 0, v);
  }
  for (const auto& [v, boost] : spec.boosts) {
    t.at(static_cast<std::size_t>(v)) += boost * (1 << 14U);
  }
  std::vector<float> x(t.size());
  for (std::size_t v = 0; v < t.size(); ++v) {
    const auto shifted = static_cast<float>((t[v] >> spec.q) + spec.offset);
    x[v] = std::ldexp(shifted, spec.q - 18 + spec.exp2);
  }
  constexpr float minus_inf = -std::numeric_limits<float>::infinity();
  for (std::size_t v = 0; v < x.size(); ++v) {
    const bool eighth = spec.neginf == stats_row_spec::masking::eighth &&
                        aux(spec.seed, 61, static_cast<std::uint64_t>(v)) % 8 == 0;
    const bool other = spec.neginf == stats_row_spec::masking::keep_one &&
                       v != static_cast<std::size_t>(spec.kept);
    if (eighth || other) {
      x[v] = minus_inf;
    }
  }
  for (const auto& [from, to] : spec.tie_at) {
    x.at(static_cast<std::size_t>(to)) = x.at(static_cast<std::size_t>(from));
  }
  if (spec.bf16) {
    std::transform(x.begin(), x.end(), x.begin(), round_to_bf16);
  }
  return x;
}

}  // namespace unmask::goldens
