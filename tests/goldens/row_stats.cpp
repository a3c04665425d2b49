// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/row_stats.hpp"

#include <unmask/host/read_row.hpp>
#include <unmask/policy/logits/temperature.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iomanip>

namespace unmask::goldens {

namespace {

constexpr statistics everything = stat::margin | stat::entropy | stat::second_moment;
using row_record = record<everything>;

/// A record holds six numbers and no padding.
std::array<std::uint32_t, 6> bits_of(const row_record& r) {
  return std::bit_cast<std::array<std::uint32_t, 6>>(r);
}

/// The definition of a row's record: its chunks, column by column, merged in the canonical tree.
row_record defined_record(const std::vector<float>& z) {
  canonical::chunk_tree<everything> tree;
  for (std::size_t first = 0; first < z.size(); first += canonical::chunk_columns) {
    const std::size_t count =
        std::min(z.size() - first, static_cast<std::size_t>(canonical::chunk_columns));
    tree.push(canonical::fold_chunk<everything>(
        z.data() + first, static_cast<index_t>(count), static_cast<token_id>(first)));
  }
  return tree.finish();
}

template <class T, class Edit>
std::string kernel_difference(const std::vector<T>& x,
                              const Edit& edit,
                              const row_record& expected,
                              const char* type) {
  for (const host::instruction_set level : {host::instruction_set::portable,
                                            host::instruction_set::avx2,
                                            host::instruction_set::avx512,
                                            host::instruction_set::neon}) {
    if (!host::available(level)) {
      continue;
    }
    row_input<T> in;
    in.logits = x.data();
    in.columns = static_cast<index_t>(x.size());
    const row_record got = host::read_row<everything>(in, edit, level);
    if (bits_of(got) != bits_of(expected)) {
      return text("the ",
                  type,
                  " kernel of instruction set ",
                  static_cast<int>(level),
                  " differs from the definition");
    }
  }
  return {};
}

/// Bounds of the rounding errors of a record, to first order, from the row in double precision.
///
/// With u = 2^-24 the unit of a float: an exponential is within `e` (core/math.hpp); its argument d
/// = z - max within a |d| + b, of which u |d| come from subtracting (in one chunk and at each
/// merge) and u |d| from the constant log2(e); a temperature adds those of float(T), 1 / T and the
/// product. A sum of positive terms has a relative error of u times the length of its longest chain
/// of additions.
struct error_bounds {
  static constexpr double u = 0x1p-24;
  static constexpr double e = 2e-7;

  double a = 2 * u;
  double b = 0;
  double top = 0;        ///< |max| of the scaled logits
  double scaling = 0;    ///< relative error of a scaled logit
  double levels = 0;     ///< of the tree over the chunks
  double s = 0;          ///< sum of e^d
  double s1 = 0;         ///< of e^d |d|
  double s2 = 0;         ///< of e^d d^2
  double q = 0;          ///< of e^2d
  double q1 = 0;         ///< of e^2d |d|
  double vanishing = 0;  ///< terms that are too small for a float count as e^-86

  error_bounds(const std::vector<float>& x, double temperature) {
    const double best = static_cast<double>(*std::max_element(x.begin(), x.end())) / temperature;
    top = std::abs(best);
    if (temperature != 1) {
      scaling = 3 * u;
      a += 3 * u;
      b = 2 * u * top;
    }
    for (const float z : x) {
      const double d = best - static_cast<double>(z) / temperature;
      if (std::isfinite(d)) {
        const double w = std::exp(-d);
        s += w;
        s1 += w * d;
        s2 += w * d * d;
        q += w * w;
        q1 += w * w * d;
      }
    }
    const double chunks = std::ceil(static_cast<double>(x.size()) / canonical::chunk_columns);
    levels = std::ceil(std::log2(chunks));
    vanishing = 1e-35 * static_cast<double>(x.size());
  }

  /// Additions of a term: 32 in its lane, 6 of the lanes, 3 roundings at each merge, and one more.
  [[nodiscard]] double chain() const { return u * (39 + 3 * levels); }
  /// A term is an exponential in its chunk and is scaled by one at each merge.
  [[nodiscard]] double exponentials() const { return e * (levels + 1); }

  /// Relative error of the sum of e^d, whose largest term is exactly 1.
  [[nodiscard]] double total() const {
    return chain() + (exponentials() * (s - 1) + a * s1 + b * s) / s;
  }
  [[nodiscard]] double weighted() const {
    return (chain() + exponentials() + b) * s1 + a * s2 + a * s1 + b * s;
  }
  [[nodiscard]] double ratio(double r) const {
    return r > 0 ? r * (e + a * -std::log(r) + b + u) : 0;
  }
  [[nodiscard]] double p_max() const { return (total() + 2 * u) / s; }
  [[nodiscard]] double p_second(double p) const { return ratio(p * s) / s + p * (total() + 2 * u); }
  [[nodiscard]] double margin(double value, double p) const {
    return (ratio(p * s) + u) / s + value * (total() + 2 * u);
  }
  /// The logarithm is within 1.5 ulp, and so is the quotient that it is corrected by.
  [[nodiscard]] double log_total() const { return total() + 6 * u * std::log(s); }
  [[nodiscard]] double log_partition(double value) const {
    return log_total() + scaling * top + u * std::abs(value);
  }
  [[nodiscard]] double entropy(double value) const {
    return log_total() + (weighted() + s1 * (total() + 2 * u)) / s + u * value;
  }
  [[nodiscard]] double second_moment(double value) const {
    const double square = chain() * q + 2 * (exponentials() * q + a * q1 + b * q);
    return square / (s * s) + value * (2 * total() + 4 * u);
  }
};

/// Compares numbers with their bounds and records the worst quotient.
class comparison {
 public:
  explicit comparison(double vanishing)
      : vanishing_(vanishing) {}

  void near(const char* what, double expected, float got, double bound) {
    // The bounds are of first order; what they leave out is far below a hundredth of them.
    const double allowed = 1.01 * bound + vanishing_;
    const double error = std::abs(static_cast<double>(got) - expected);
    worst_ = std::max(worst_, error / allowed);
    if (!(error <= allowed) && failure_.empty()) {
      failure_ = text(std::setprecision(9),
                      what,
                      ": expected ",
                      expected,
                      ", got ",
                      got,
                      ", off by ",
                      error,
                      ", allowed ",
                      allowed);
    }
  }

  void same(const char* what, double expected, double got) {
    if (expected != got && failure_.empty()) {
      failure_ = text(std::setprecision(9), what, ": expected ", expected, ", got ", got);
    }
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] double worst() const { return worst_; }

 private:
  double vanishing_;
  double worst_ = 0;
  std::string failure_;
};

comparison compare(const row_record& r, const std::vector<float>& x, const stats_result& expected) {
  const temperature scale{static_cast<float>(expected.temperature)};
  const auto scaled = [&](double logit) {
    const auto z = static_cast<float>(logit);
    return static_cast<double>(expected.temperature == 1 ? z : scale.transform_at({})(z, 0));
  };
  const error_bounds bounds(x, expected.temperature);
  comparison c(bounds.vanishing);
  c.same("argmax", expected.argmax, r.token);
  c.same("max_logit", scaled(expected.max_logit), static_cast<double>(r.best));
  c.same("second_logit", scaled(expected.second_logit), static_cast<double>(r.second));
  c.near("p_max", expected.p_max, r.confidence(), bounds.p_max());
  c.near("p_second", expected.p_second, r.second_probability(), bounds.p_second(expected.p_second));
  c.near("margin", expected.margin, r.margin(), bounds.margin(expected.margin, expected.p_second));
  c.near("entropy", expected.entropy, r.entropy(), bounds.entropy(expected.entropy));
  c.near("sum_p2", expected.sum_p2, r.second_moment(), bounds.second_moment(expected.sum_p2));
  c.near(
      "logsumexp", expected.logsumexp, r.log_partition(), bounds.log_partition(expected.logsumexp));
  c.near("ln p_max", std::log(expected.p_max), r.log_probability(), bounds.log_total());
  return c;
}

template <class Edit>
std::string
kernels(const std::vector<float>& x, bool bf16, const Edit& edit, const row_record& expected) {
  if (bf16) {
    std::vector<bfloat16> narrow(x.size());
    std::transform(x.begin(), x.end(), narrow.begin(), [](float z) {
      return bfloat16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(z) >> 16U)};
    });
    std::string what = kernel_difference(narrow, edit, expected, "bf16");
    if (!what.empty()) {
      return what;
    }
  }
  return kernel_difference(x, edit, expected, "f32");
}

}  // namespace

verdict check_row_stats(const stats_line& line) {
  const std::vector<float> x = stats_row(line.row);
  if (bits_sum(x) != line.bits_sum) {
    return verdict::fail("bits_sum: the row is not the recorded one");
  }
  double worst = 0;
  for (const stats_result& expected : line.results) {
    const auto failure = [&](const std::string& what) {
      return verdict::fail(text("temperature ", expected.temperature, ", ", what));
    };
    const temperature scale{static_cast<float>(expected.temperature)};
    const auto edit = scale.transform_at({});
    const bool plain = expected.temperature == 1;
    std::vector<float> z = x;
    if (!plain) {
      std::transform(z.begin(), z.end(), z.begin(), [&](float value) { return edit(value, 0); });
    }
    const row_record r = defined_record(z);
    const std::string differs =
        plain ? kernels(x, line.row.bf16, identity{}, r) : kernels(x, line.row.bf16, edit, r);
    if (!differs.empty()) {
      return failure(differs);
    }
    const comparison c = compare(r, x, expected);
    if (!c.failure().empty()) {
      return failure(c.failure());
    }
    worst = std::max(worst, c.worst());
  }
  return verdict::pass(text(std::setprecision(2), "largest error ", worst, " of its bound"));
}

}  // namespace unmask::goldens
