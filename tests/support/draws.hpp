// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// How often each token is drawn, beside how often it should be.

#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/fake_logits.hpp"

namespace unmask::testing {

[[nodiscard]] inline std::vector<double> softmax(const std::vector<double>& z, double temperature) {
  const double best = *std::max_element(z.begin(), z.end());
  double sum = 0.0;
  std::vector<double> p;
  for (const double x : z) {
    p.push_back(std::exp((x - best) / temperature));
    sum += p.back();
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

/// The counts of the token that is proposed first after `given`, by seed 0, 1, ... draws - 1.
template <class Policy>
[[nodiscard]] std::vector<double> draw_frequencies(const Policy& p,
                                                   const model_info& model,
                                                   const std::vector<float>& row,
                                                   std::vector<token_id> given,
                                                   int draws) {
  const auto prompt = static_cast<index_t>(given.size());
  given.push_back(0);
  session<Policy> s(model, {.sequences = 1, .length = prompt + 1, .window = 1});
  std::vector<double> counts(row.size(), 0.0);
  for (int i = 0; i < draws; ++i) {
    s.start(0,
            p,
            tokens_view<memory::host>(given),
            {.prompt_length = prompt, .length = prompt + 1, .seed = static_cast<std::uint64_t>(i)});
    static_cast<void>(s.next());
    s.supply(host_logits<float>(row.data(), 1, model.vocab));
    ++counts[static_cast<std::size_t>(s.committed()[0].token)];
  }
  return counts;
}

/// Pearson's test at 1 in 10,000, by Wilson and Hilferty's approximation of chi-square. A token of
/// probability zero is never drawn.
inline void
expect_draws(const std::vector<double>& counts, const std::vector<double>& expected, int draws) {
  double chi_square = 0.0;
  int freedom = -1;
  for (std::size_t v = 0; v < counts.size(); ++v) {
    const double mean = expected[v] * draws;
    if (expected[v] == 0.0) {
      ASSERT_EQ(counts[v], 0.0) << "token " << v;
      continue;
    }
    ASSERT_GE(mean, 5.0) << "the test needs more draws for token " << v;
    chi_square += (counts[v] - mean) * (counts[v] - mean) / mean;
    ++freedom;
  }
  const double k = std::max(freedom, 1);
  const double root = 1.0 - 2.0 / (9.0 * k) + 3.72 * std::sqrt(2.0 / (9.0 * k));
  EXPECT_LT(chi_square, k * root * root * root) << freedom << " degrees of freedom";
}

}  // namespace unmask::testing
