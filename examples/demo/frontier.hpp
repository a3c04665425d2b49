// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <vector>

#include "demo/decode.hpp"
#include "demo/options.hpp"
#include "demo/summary.hpp"

namespace demo {

/// Cost and accuracy of a policy at one value of its main knob.
struct frontier_point {
  std::string series;  ///< the policy, whatever the value
  std::string label;
  std::string knob;  ///< empty: the policy has none
  double value = 0.0;
  std::vector<exact_match> tasks;
  double exact = 0.0;     ///< share of answers that are right
  double forwards = 0.0;  ///< a prompt
  double segments = 0.0;  ///< the same, lookahead branches counted, too
  double tokens_per_forward = 0.0;
  bool efficient = false;  ///< nothing else is as right with fewer forwards, or more with as many
};

/// Marks the points that no other point beats.
void mark_efficient(std::span<frontier_point> points);

/// The points as a table with one header line: shares in [0, 1], forwards a prompt.
std::string frontier_csv(std::span<const frontier_point> points);

/// The points as a picture: all policies at once, then each beside the plain threshold.
std::string frontier_svg(std::span<const frontier_point> points, const std::string& caption);

/// Measures every policy over its main knob and writes options::frontier with .csv and .svg; says
/// on standard output what it found. After a Ctrl-C it writes what was measured so far and returns
/// false. Throws std::runtime_error if a file can not be written.
bool write_frontier(std::span<const chosen_policy> policies,
                    engine& model,
                    std::span<const problem> problems,
                    const options& o);

}  // namespace demo
