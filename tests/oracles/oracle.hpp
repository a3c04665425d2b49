// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Expected statistics of a row: by the canonical definition (bits), and in extended precision
/// (within a tolerance that is derived, not tuned). And rows that are hard on a kernel.

#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing {

inline constexpr statistics every_sum =
    stat::margin | stat::entropy | stat::second_moment | stat::top3_mass;

/// The bits of x, with one NaN like another: which payload survives a sum is the processor's
/// choice.
[[nodiscard]] inline std::uint32_t bits_of(float x) {
  return std::isnan(x) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(x);
}

/// Whether two records hold the same: every number of every statistic.
template <statistics S>
[[nodiscard]] ::testing::AssertionResult same_bits(const record<S>& a, const record<S>& b) {
  std::string wrong;
  const auto compare = [&wrong](const std::string& name, float x, float y) {
    if (bits_of(x) != bits_of(y)) {
      wrong += name + " " + std::to_string(x) + " is not " + std::to_string(y) + "; ";
    }
  };
  compare("best", a.best, b.best);
  if (a.token != b.token) {
    wrong += "token " + std::to_string(a.token) + " is not " + std::to_string(b.token) + "; ";
  }
  for_each_field<S>([&](auto tag) {
    using F = typename decltype(tag)::type;
    constexpr std::size_t words = sizeof(F) / sizeof(float);  // a token is compared as one, too
    const auto mine = std::bit_cast<std::array<float, words>>(static_cast<const F&>(a));
    const auto other = std::bit_cast<std::array<float, words>>(static_cast<const F&>(b));
    for (std::size_t k = 0; k < words; ++k) {
      compare("number " + std::to_string(k) + " of statistics " + std::to_string(F::names.bits),
              mine[k],
              other[k]);
    }
  });
  return wrong.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << wrong;
}

/// The row as the kernel must see it: guided, edited, masked and excluded, one column at a time.
template <element T, class Edit = identity>
[[nodiscard]] std::vector<float> edited_row(const row_input<T>& in, const Edit& edit = {}) {
  std::vector<float> z;
  for (index_t j = 0; j < in.columns; ++j) {
    const token_id v = in.first_token + j;
    float x = math::to_float(in.logits[j]);
    if (in.unconditional != nullptr) {
      const float u = math::to_float(in.unconditional[j]);
      x = math::fma(in.cfg_scale + 1.0F, x - u, u);
    }
    x = edit(x, v);
    const bool kept =
        in.allowed == nullptr || ((in.allowed[v / 32] >> static_cast<unsigned>(v % 32)) & 1U) != 0;
    z.push_back(kept ? x : -math::infinity());
  }
  return z;
}

/// The tokens of `in.excluded` become -inf in z; what stood there is returned, -inf for a token
/// outside the row.
template <element T>
std::vector<float> blank(const row_input<T>& in, std::vector<float>& z) {
  std::vector<float> reported;
  for (index_t i = 0; i < in.excluded_count; ++i) {
    const index_t j = in.excluded[i] - in.first_token;
    reported.push_back(-math::infinity());
    if (0 <= j && j < in.columns) {
      std::swap(reported.back(), z[static_cast<std::size_t>(j)]);
    }
  }
  return reported;
}

/// The record that stats/canonical.hpp defines for a row of edited logits.
template <statistics S>
[[nodiscard]] record<S> canonical_record(const std::vector<float>& z,
                                         token_id first_token = 0,
                                         const draw_request& draw = {}) {
  canonical::chunk_tree<S> tree;
  const auto columns = static_cast<index_t>(z.size());
  for (index_t first = 0; first < columns; first += canonical::chunk_columns) {
    const index_t count = std::min(canonical::chunk_columns, columns - first);
    tree.push(canonical::fold_chunk<S>(z.data() + first, count, first_token + first, draw));
  }
  return tree.finish();
}

/// The statistics of a row without NaN and +inf, in extended precision.
struct exact_row {
  float best = -std::numeric_limits<float>::infinity();
  float second = -std::numeric_limits<float>::infinity();
  float third = -std::numeric_limits<float>::infinity();
  token_id token = no_token;
  long double sum = 0;       ///< of e^d, d = z - best
  long double weighted = 0;  ///< of e^d d
  long double square = 0;    ///< of e^2d
  long double first = 0;     ///< of e^d |d|, what an error in d is multiplied with
  long double other = 0;     ///< of e^d d^2

  explicit exact_row(const std::vector<float>& z) {
    for (std::size_t j = 0; j < z.size(); ++j) {
      if (z[j] > best) {
        token = static_cast<token_id>(j);
      }
      float passed_on = z[j];
      for (float* const rank : {&best, &second, &third}) {
        passed_on = passed_on > *rank ? std::exchange(*rank, passed_on) : passed_on;
      }
    }
    for (const float x : z) {
      if (x > -std::numeric_limits<float>::infinity()) {
        const long double d = static_cast<long double>(x) - static_cast<long double>(best);
        const long double e = std::exp(d);
        sum += e;
        weighted += e * d;
        square += e * e;
        first -= e * d;
        other += e * d * d;
      }
    }
  }

  /// Probability of the three most probable tokens.
  [[nodiscard]] long double top3_mass() const {
    long double weight = 0;
    for (const float z : {best, second, third}) {
      weight += std::exp(static_cast<long double>(z) - static_cast<long double>(best));
    }
    return weight / sum;
  }
};

/// Relative rounding error that the sums of a row may gather. In units of 2^-24: 4 for the
/// exponential (2e-7) and its product; 31 + 6 for the additions of a lane and of the lanes; and for
/// each level of the tree, and of `more` merges beside it, another exponential and four roundings.
[[nodiscard]] inline double sum_tolerance(std::size_t columns, index_t more = 0) {
  double levels = more;
  for (std::size_t chunks = 1; chunks * canonical::chunk_columns < columns; chunks *= 2) {
    ++levels;
  }
  return (4.0 + 37.0 + 8.0 * levels) * 0x1p-24;
}

/// Checks a record against the exact row. z - best is rounded, too, to 2^-24 |d| per level at most;
/// an error in d moves e^d by as much times e^d, e^d d by (1 + |d|) e^d. The weighted sum of a
/// chunk is taken relative to its scale, at most `reach` bits below its best: what is rounded is
/// e^d (d + that distance). `more` merges were made beside those of the tree.
template <statistics S>
void expect_close(const record<S>& r, const std::vector<float>& z, index_t more = 0) {
  const exact_row x(z);
  EXPECT_EQ(r.best, x.best);
  EXPECT_EQ(r.token, x.token);
  if constexpr (provides_v<S, stat::margin>) {
    EXPECT_EQ(r.second, x.second);
  }
  // Absent columns and those far below weigh e^-86 instead of nothing: less than 2^-100 in all.
  const long double tolerance = sum_tolerance(z.size(), more);
  const long double distance = canonical::reach * std::log(2.0L);
  if constexpr (provides_v<S, stat::confidence>) {
    const long double rest = x.sum - 1;
    EXPECT_NEAR(r.rest, static_cast<double>(rest), double(tolerance * (x.sum + x.first)));
  }
  if constexpr (provides_v<S, stat::entropy>) {
    EXPECT_NEAR(r.weighted,
                static_cast<double>(x.weighted),
                double(tolerance * (2 * x.first + x.other + distance * x.sum)) + 0x1p-100);
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    EXPECT_NEAR(r.square, static_cast<double>(x.square), double(2 * tolerance * (x.sum + x.first)));
  }
  if constexpr (provides_v<S, stat::top3_mass>) {
    EXPECT_EQ(r.next[0], x.second);
    EXPECT_EQ(r.next[1], x.third);
    // The three weights err as columns of the sum do.
    EXPECT_NEAR(r.top3_mass(),
                static_cast<double>(x.top3_mass()),
                double(3 * tolerance * (x.sum + x.first) / x.sum));
  }
}

/// The kinds of rows that `hard_row` makes.
enum class scene {
  ordinary,       ///< spread of 2.5 around 0, one peak
  offset,         ///< the same, 1,000 higher
  negative,       ///< the same, 300 lower
  sparse,         ///< three peaks, everything else -inf
  steep,          ///< differences of hundreds
  late,           ///< the first 64 columns of each chunk 20 lower
  blocked,        ///< the first 64 columns of each chunk -inf
  huge,           ///< as large as the element type allows
  ties,           ///< four values only
  zeros,          ///< +0 and -0 only, and a few numbers below
  absent,         ///< all -inf
  nan_first,      ///< a NaN in the first column
  nan_last,       ///< a NaN in the last column
  nan_chunk,      ///< a chunk of NaN and -inf
  nan_payload,    ///< negative NaN with all payload bits set, in a few columns
  infinite,       ///< +inf once
  infinite_ties,  ///< +inf twice
  rising,         ///< each column at least as large as those before it
  falling,        ///< the reverse
  islands         ///< rising in one group of 64 columns in three, -inf elsewhere
};

inline constexpr scene every_scene[] = {
    scene::ordinary, scene::offset,        scene::negative, scene::sparse,    scene::steep,
    scene::late,     scene::blocked,       scene::huge,     scene::ties,      scene::zeros,
    scene::absent,   scene::nan_first,     scene::nan_last, scene::nan_chunk, scene::nan_payload,
    scene::infinite, scene::infinite_ties, scene::rising,   scene::falling,   scene::islands};
inline constexpr scene finite_scenes[] = {scene::ordinary,
                                          scene::offset,
                                          scene::negative,
                                          scene::sparse,
                                          scene::steep,
                                          scene::late,
                                          scene::blocked,
                                          scene::huge,
                                          scene::ties,
                                          scene::zeros,
                                          scene::rising,
                                          scene::falling,
                                          scene::islands};

/// A NaN with the sign and every payload bit: its low bits must not be taken for an exponent.
template <element T>
[[nodiscard]] T loud_nan() {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(0xffffffffU);
  } else {
    return {static_cast<std::uint16_t>(0xffffU)};
  }
}

/// A row of `columns` of a scene.
template <element T>
[[nodiscard]] std::vector<T> hard_row(scene kind, index_t columns, std::uint64_t seed) {
  dice d(mixed(seed, static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(columns)));
  const auto count = static_cast<std::size_t>(columns);
  std::vector<T> row;
  const double centre = kind == scene::offset ? 1000.0 : (kind == scene::negative ? -300.0 : 0.0);
  for (index_t j = 0; j < columns; ++j) {
    double z = centre + 2.5 * (d.real(-1, 1) + d.real(-1, 1) + d.real(-1, 1));
    switch (kind) {
    case scene::sparse:
    case scene::absent:
      z = -infinity;
      break;
    case scene::steep:
      z *= 60.0;
      break;
    case scene::late:
      z -= j % canonical::chunk_columns < canonical::lanes ? 20.0 : 0.0;
      break;
    case scene::blocked:
      z = j % canonical::chunk_columns < canonical::lanes ? -infinity : z;
      break;
    case scene::huge:
      z *= std::is_same_v<T, float16> ? 8e3 : 1e30;
      break;
    case scene::ties:
      z = 2.0 * d.within(-2, 1);
      break;
    case scene::zeros:
      z = d.chance(0.3) ? -1.5 : (d.chance(0.5) ? 0.0 : -0.0);
      break;
    case scene::rising:
      z = -20.0 + 30.0 * j / columns;
      break;
    case scene::falling:
      z = 10.0 - 30.0 * j / columns;
      break;
    case scene::islands:
      z = j / canonical::lanes % 3 == 1 || j == 0 ? -20.0 + 30.0 * j / columns : -infinity;
      break;
    default:
      break;
    }
    row.push_back(encoded<T>(z));
  }
  const auto anywhere = [&]() -> T& {
    return row[static_cast<std::size_t>(d.within(0, columns - 1))];
  };
  switch (kind) {
  case scene::ordinary:
  case scene::offset:
  case scene::negative:
  case scene::late:
  case scene::blocked:
    anywhere() = encoded<T>(centre + 18.0);
    break;
  case scene::sparse:
    for (const double z : {3.0, 2.5, -80.0}) {
      anywhere() = encoded<T>(z);
    }
    break;
  case scene::nan_first:
    row.front() = encoded<T>(not_a_number);
    break;
  case scene::nan_last:
    row.back() = encoded<T>(not_a_number);
    break;
  case scene::nan_chunk: {
    const std::size_t first = count <= 2048 ? 0 : 2048;
    for (std::size_t j = first; j < std::min(count, first + 2048); ++j) {
      row[j] = encoded<T>(j % 7 == 3 ? not_a_number : -infinity);
    }
    break;
  }
  case scene::nan_payload:
    for (int i = 0; i < 3; ++i) {
      anywhere() = loud_nan<T>();
    }
    break;
  case scene::infinite_ties:
    anywhere() = encoded<T>(infinity);
    [[fallthrough]];
  case scene::infinite:
    anywhere() = encoded<T>(infinity);
    break;
  default:
    break;
  }
  return row;
}

/// The same row in another memory: `shift` elements after an aligned address, so that an aligned
/// load of a vector traps, followed by NaN, so that a read behind the row shows.
template <element T>
class placed_row {
 public:
  placed_row(const std::vector<T>& row, std::size_t shift)
      : memory_(row.size() + shift + 128, encoded<T>(not_a_number))
      , columns_(static_cast<index_t>(row.size())) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = (64 - address % 64) % 64 / sizeof(T) + shift;
    std::copy(row.begin(), row.end(), memory_.begin() + static_cast<std::ptrdiff_t>(first_));
  }

  [[nodiscard]] row_input<T> input() const {
    row_input<T> in;
    in.logits = memory_.data() + first_;
    in.columns = columns_;
    return in;
  }

 private:
  std::vector<T> memory_;
  std::size_t first_ = 0;
  index_t columns_ = 0;
};

}  // namespace unmask::testing
