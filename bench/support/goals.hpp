// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The goals of the benchmark suite with what was measured, as a table and as JSON.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

struct goal {
  const char* id;
  std::string what;
  double measured;
  double bound;
  bool at_least;  ///< or at most
  [[nodiscard]] bool met() const { return at_least ? measured >= bound : measured <= bound; }
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

  void print() const {
    std::printf("%-34s %12s %12s %12s\n", "read", "ps a logit", "/ floor", "/ bound");
    for (const reading_case& c : cases_) {
      std::printf(
          "%-34s %12.1f %12.2f %12.2f\n", c.name.c_str(), c.picoseconds, c.of_floor, c.of_bound);
    }
    std::printf("\n");
    for (const auto& n : notes_) {
      std::printf("%-62s %10.3f\n", n.name.c_str(), n.value);
    }
    std::printf("\n%-4s %-66s %9s %11s\n", "", "goal", "measured", "bound");
    for (const goal& g : goals_) {
      std::printf("%-4s %-66s %9.3f %s %8.3f  %s\n",
                  g.id,
                  g.what.c_str(),
                  g.measured,
                  g.at_least ? ">=" : "<=",
                  g.bound,
                  g.met() ? "met" : "NOT MET");
    }
    std::printf("\nscore: %.3f times the bound (geometric mean, lower is better)\n", score());
  }

  void print_json() const {
    std::printf("{\n  \"score\": %.4f,\n  \"reads\": [", score());
    const char* comma = "";
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
                  g.met() ? "true" : "false");
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
};

}  // namespace bench
