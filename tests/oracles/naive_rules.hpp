// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Every shipped ranking and commit rule once more, from the formulas, for the naive decoder:
/// naive(by_confidence{}) is its score, naive(tokens_per_step{3} && factor{}) its rule.

#include <unmask/core/random.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/ranking.hpp>

#include "oracles/naive_decoder.hpp"

namespace unmask::testing {

[[nodiscard]] inline naive_score naive(by_confidence) {
  return [](const naive_row& r, const naive_step&) { return r.confidence; };
}
[[nodiscard]] inline naive_score naive(by_margin) {
  return [](const naive_row& r, const naive_step&) { return r.margin; };
}
[[nodiscard]] inline naive_score naive(by_entropy) {
  return [](const naive_row& r, const naive_step&) { return -r.entropy; };
}
[[nodiscard]] inline naive_score naive(left_to_right) {
  return [](const naive_row& r, const naive_step&) { return -static_cast<double>(r.position); };
}
// The generator itself is tested against published numbers in core/random.test.cpp.
[[nodiscard]] inline naive_score naive(at_random) {
  return [](const naive_row& r, const naive_step& s) {
    return static_cast<double>(random_uniform({.seed = s.seed,
                                               .sequence = s.sequence,
                                               .step = s.step,
                                               .position = r.position,
                                               .token = -1}));
  };
}

/// A rule about one candidate's confidence.
[[nodiscard]] inline naive_rule confidence_rule(double threshold, bool strict) {
  return [=](std::span<const naive_row> ranked, const naive_step&) {
    std::vector<opinion> all;
    for (const naive_row& r : ranked) {
      const bool commits = strict ? r.confidence > threshold : r.confidence >= threshold;
      all.push_back({commits, gap_between(r.confidence, threshold)});
    }
    return all;
  };
}
[[nodiscard]] inline naive_rule naive(threshold a) {
  return confidence_rule(a.value, !a.inclusive);
}

/// The first `count` candidates.
[[nodiscard]] inline std::vector<opinion> first_ranks(std::size_t of, double count, double gap) {
  std::vector<opinion> all(of, opinion{false, gap});
  for (std::size_t i = 0; i < of; ++i) {
    all[i].commits = static_cast<double>(i) < count;
  }
  return all;
}
[[nodiscard]] inline naive_rule naive(tokens_per_step a) {
  return [a](std::span<const naive_row> ranked, const naive_step&) {
    return first_ranks(ranked.size(), a.count, far_away);
  };
}

/// Tokens of step s when m positions are spread over `steps` steps, the remainder first.
[[nodiscard]] inline index_t naive_quota(index_t m, index_t steps, index_t s) {
  return s >= steps ? 0 : m / steps + (s < m % steps ? 1 : 0);
}
[[nodiscard]] inline naive_rule naive(steps_per_block a) {
  return [a](std::span<const naive_row> ranked, const naive_step& at) {
    const index_t quota = naive_quota(at.block_masked_at_first, a.steps, at.block_step);
    return first_ranks(ranked.size(), quota, far_away);
  };
}

/// The fraction of masked positions that step j of `steps` commits.
[[nodiscard]] inline double naive_fraction(index_t steps, double epsilon, index_t j) {
  const auto time = [&](index_t i) { return 1.0 + i * (epsilon - 1.0) / steps; };
  return j >= steps - 1 ? 1.0 : 1.0 - time(j + 1) / time(j);
}
[[nodiscard]] inline naive_rule naive(timesteps a) {
  return [a](std::span<const naive_row> ranked, const naive_step& at) {
    const auto open = static_cast<double>(ranked.size());
    const double wanted = open * naive_fraction(a.steps, a.epsilon, at.step);
    const double gap = at.step >= a.steps - 1 ? far_away : std::fabs(wanted - std::round(wanted));
    return first_ranks(ranked.size(), std::floor(wanted), gap);
  };
}

/// Ranks 1 .. n*, the largest n such that every rank up to n passes; the first needs no test.
[[nodiscard]] inline naive_rule naive(factor a) {
  return [a](std::span<const naive_row> ranked, const naive_step&) {
    const std::size_t size = ranked.size();
    std::size_t count = size > 0 ? 1 : 0;
    double gap = far_away;
    const auto bound = [&](std::size_t n) {
      return 1.0 - static_cast<double>(a.value) / static_cast<double>(n + 1);
    };
    for (std::size_t n = 2; n <= size; ++n) {
      gap = std::min(gap, gap_between(ranked[n - 1].confidence, bound(n)));
    }
    while (count < size && ranked[count].confidence >= bound(count + 1)) {
      ++count;
    }
    if (a.accept_last && count + 1 == size) {
      count = size;
    }
    return first_ranks(size, static_cast<double>(count), gap);
  };
}

/// Ranks 1 .. k*, the largest k whose entropies sum to at most `bound` without the largest.
[[nodiscard]] inline naive_rule naive(entropy_bound a) {
  return [a](std::span<const naive_row> ranked, const naive_step&) {
    std::size_t count = 0;
    double gap = far_away;
    double sum = 0.0;
    double largest = 0.0;
    for (std::size_t k = 1; k <= ranked.size(); ++k) {
      sum += ranked[k - 1].entropy;
      largest = std::max(largest, ranked[k - 1].entropy);
      if (k > 1) {
        // The float sum carries the rounding of the whole sum, not of the difference.
        gap = std::min(gap, std::fabs(sum - largest - a.bound) / std::max(1.0, sum));
      }
      count = sum - largest <= a.bound || k == 1 ? k : count;
    }
    return first_ranks(ranked.size(), static_cast<double>(count), gap);
  };
}

template <class A, class B>
[[nodiscard]] naive_rule naive(all_of<A, B> both);
template <class A, class B>
[[nodiscard]] naive_rule naive(any_of<A, B> either);

/// Joins two rules; the verdict `decisive` of either decides.
[[nodiscard]] inline naive_rule joined_rule(naive_rule first, naive_rule second, bool decisive) {
  return [=](std::span<const naive_row> ranked, const naive_step& at) {
    std::vector<opinion> all = first(ranked, at);
    const std::vector<opinion> other = second(ranked, at);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const opinion a = all[i];
      const opinion b = other[i];
      if (a.commits == decisive && b.commits == decisive) {
        all[i].gap = std::max(a.gap, b.gap);
      } else if (a.commits == decisive || b.commits == decisive) {
        all[i] = a.commits == decisive ? a : b;
      } else {
        all[i].gap = std::min(a.gap, b.gap);
      }
    }
    return all;
  };
}
template <class A, class B>
[[nodiscard]] naive_rule naive(all_of<A, B> both) {
  return joined_rule(naive(both.first), naive(both.second), false);
}
template <class A, class B>
[[nodiscard]] naive_rule naive(any_of<A, B> either) {
  return joined_rule(naive(either.first), naive(either.second), true);
}

}  // namespace unmask::testing
