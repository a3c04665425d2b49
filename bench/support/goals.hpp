// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Costs of a step and goals of the benchmark suite with what was measured, as tables and as JSON.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

enum class verdict { met, within_noise, not_met };

/// Compares a measured ratio with a bound. A miss that is not larger than the noise of the run, a
/// share of the bound, is none.
[[nodiscard]] constexpr verdict judge(double measured, double bound, bool at_least, double noise) {
  const double miss = at_least ? bound - measured : measured - bound;
  return miss <= 0.0             ? verdict::met
         : miss <= noise * bound ? verdict::within_noise
                                 : verdict::not_met;
}
static_assert(judge(1.0, 1.0, true, 0.0) == verdict::met);
static_assert(judge(0.97, 1.0, true, 0.02) == verdict::not_met);
static_assert(judge(0.97, 1.0, true, 0.04) == verdict::within_noise);
static_assert(judge(2.1, 2.0, false, 0.06) == verdict::within_noise);
static_assert(judge(2.1, 2.0, false, 0.04) == verdict::not_met);
static_assert(judge(1.9, 2.0, false, 0.0) == verdict::met);

/// A ratio of two times of this run, and its bound. A bound of another machine is no goal.
struct goal {
  const char* id;
  std::string what;
  double measured;
  double bound;
  bool at_least;  ///< or at most
};

/// Time of a step, or of something that it is compared with, in milliseconds.
struct step_cost {
  std::string what;
  double f32;
  double bf16;  ///< 0 if it was not measured
};

/// One kernel at one size: its time relative to max(read floor, exponential ceiling).
struct reading_case {
  std::string name;
  double picoseconds;  ///< a logit
  double of_floor;     ///< time / the plain read's
  double of_bound;     ///< time / max(plain read, L1-resident time / threads)
};

class scoreboard {
 public:
  void add(const reading_case& c) { cases_.push_back(c); }
  void add(const goal& g) { goals_.push_back(g); }
  void add(const step_cost& c) { costs_.push_back(c); }
  /// Ratio of two times of the same work in this run: 1 without noise.
  void add_noise(double ratio) { noise_ = std::max({noise_, ratio - 1.0, 1.0 / ratio - 1.0}); }
  void note(const std::string& name, double value) { notes_.push_back({name, value}); }

  /// Time of the kernels relative to their bounds: the geometric mean over all cases, lower is
  /// better.
  [[nodiscard]] double score() const {
    double sum = 0.0;
    for (const reading_case& c : cases_) {
      sum += std::log(c.of_bound);
    }
    return std::exp(sum / static_cast<double>(cases_.size()));
  }

  /// The step costs, then the goals.
  void print(const std::string& machine, const std::string& shape) const {
    std::printf("%s\n\n%-58s %10s %10s\n", machine.c_str(), shape.c_str(), "float32", "bfloat16");
    for (const step_cost& c : costs_) {
      std::printf("%-58s %7.2f ms", c.what.c_str(), c.f32);
      c.bf16 > 0.0 ? std::printf(" %7.2f ms\n", c.bf16) : std::printf("\n");
    }
    std::printf("\n%-4s %-57s %9s %11s\n",
                "",
                "goals, relative to other work in this run",
                "measured",
                "bound");
    for (const goal& g : goals_) {
      constexpr const char* words[] = {"met", "met, within the noise", "not met here"};
      std::printf("%-4s %-57s %9.3f %s %8.3f  %s\n",
                  g.id,
                  g.what.c_str(),
                  g.measured,
                  g.at_least ? ">=" : "<=",
                  g.bound,
                  words[static_cast<int>(judge(g.measured, g.bound, g.at_least, noise_))]);
    }
    std::printf("\nReads take %.3f times their bound (geometric mean). The same work twice "
                "differed by %.1f %%.\n",
                score(),
                100.0 * noise_);
  }

  /// The single reads and what the goals are computed from.
  void print_details() const {
    std::printf("\n%-34s %12s %12s %12s\n", "read", "ps a logit", "/ floor", "/ bound");
    for (const reading_case& c : cases_) {
      std::printf(
          "%-34s %12.1f %12.2f %12.2f\n", c.name.c_str(), c.picoseconds, c.of_floor, c.of_bound);
    }
    std::printf("\n");
    for (const auto& n : notes_) {
      std::printf("%-62s %10.3f\n", n.name.c_str(), n.value);
    }
  }

  void print_json(const std::string& machine) const {
    std::printf("{\n  \"machine\": \"%s\",\n  \"score\": %.4f,\n  \"noise\": %.4f,\n  \"steps\": [",
                machine.c_str(),
                score(),
                noise_);
    const char* comma = "";
    for (const step_cost& c : costs_) {
      std::printf("%s\n    {\"what\": \"%s\", \"f32_ms\": %.4f, \"bf16_ms\": %.4f}",
                  comma,
                  c.what.c_str(),
                  c.f32,
                  c.bf16);
      comma = ",";
    }
    std::printf("\n  ],\n  \"reads\": [");
    comma = "";
    for (const reading_case& c : cases_) {
      std::printf("%s\n    {\"name\": \"%s\", \"picoseconds\": %.2f, \"of_floor\": %.4f, "
                  "\"of_bound\": %.4f}",
                  comma,
                  c.name.c_str(),
                  c.picoseconds,
                  c.of_floor,
                  c.of_bound);
      comma = ",";
    }
    std::printf("\n  ],\n  \"notes\": {");
    comma = "";
    for (const auto& n : notes_) {
      std::printf("%s\n    \"%s\": %.4f", comma, n.name.c_str(), n.value);
      comma = ",";
    }
    std::printf("\n  },\n  \"goals\": [");
    comma = "";
    for (const goal& g : goals_) {
      std::printf("%s\n    {\"id\": \"%s\", \"what\": \"%s\", \"measured\": %.4f, \"%s\": %.4f, "
                  "\"met\": %s}",
                  comma,
                  g.id,
                  g.what.c_str(),
                  g.measured,
                  g.at_least ? "at_least" : "at_most",
                  g.bound,
                  judge(g.measured, g.bound, g.at_least, noise_) != verdict::not_met ? "true"
                                                                                     : "false");
      comma = ",";
    }
    std::printf("\n  ]\n}\n");
  }

 private:
  struct named {
    std::string name;
    double value;
  };
  std::vector<reading_case> cases_;
  std::vector<goal> goals_;
  std::vector<named> notes_;
  std::vector<step_cost> costs_;
  double noise_ = 0.0;
};

}  // namespace bench
