// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/tune/paired.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Results of policies on problems, and operating points made of them.
namespace UNMASK_NAMESPACE::tune {

namespace detail {

// Stable sort. Of std::stable_sort with libstdc++ 12, clang 19 says that its buffer is deprecated.
template <class Iterator, class Before>
void insertion_sort(Iterator first, Iterator last, Before before) {
  for (Iterator i = first; i != last; ++i) {
    std::rotate(std::upper_bound(first, i, *i, before), i, i + 1);
  }
}

}  // namespace detail

/// Result of one problem.
struct decoded {
  bool right = false;            ///< Whether the answer is accepted.
  double forwards = 0.0;         ///< Forward passes.
  double segments = 0.0;         ///< Forward passes, every branch counted.
  double layer_positions = 0.0;  ///< Positions that each layer computed, summed.
  double seconds = 0.0;          ///< Time in the engine.

  /// True if every member is equal.
  friend bool operator==(const decoded&, const decoded&) = default;
};

/// Costs that a search may minimise: members of `decoded`.
enum class measure { forwards, segments, layer_positions, seconds };

/// The cost of one result.
[[nodiscard]] inline double cost_of(const decoded& d, measure m) {
  return m == measure::forwards          ? d.forwards
         : m == measure::segments        ? d.segments
         : m == measure::layer_positions ? d.layer_positions
                                         : d.seconds;
}

/// Checks a result. Errors: std::invalid_argument naming the cost that is not a number from 0 on.
inline void validate(const decoded& d) {
  const auto check = [](const char* name, double cost) {
    check_argument(cost >= 0.0 && cost < HUGE_VAL, name, cost, "finite and at least 0");
  };
  check("decoded::forwards", d.forwards);
  check("decoded::segments", d.segments);
  check("decoded::layer_positions", d.layer_positions);
  check("decoded::seconds", d.seconds);
}

/// Decodes problems by their indexes with the policy of a text. Throws std::invalid_argument for a
/// policy that it cannot decode, which the search then leaves out.
using decoder =
    std::function<std::vector<decoded>(const std::string& policy, std::span<const index_t>)>;

/// A policy with its results on a set of problems.
struct point {
  std::string policy;              ///< Its text.
  index_t problems = 0;            ///< Problems that it decoded.
  index_t right = 0;               ///< Problems that it answered right.
  decoded mean = {};               ///< Means of the costs.
  bool is_single = false;          ///< A ranking and one commit rule.
  bool is_efficient = false;       ///< No other point is as right at no more cost.
  interval share = {};             ///< 95 % interval of the share of right answers.
  std::vector<decoded> each = {};  ///< Result of each problem, in the order of the set.
};

/// The point of a policy with these results, of at least one problem.
[[nodiscard]] inline point point_of(std::string policy, std::vector<decoded> each) {
  point p;
  p.policy = std::move(policy);
  p.problems = static_cast<index_t>(each.size());
  const double n = p.problems;
  for (const decoded& d : each) {
    p.right += d.right ? 1 : 0;
    p.mean.forwards += d.forwards / n;
    p.mean.segments += d.segments / n;
    p.mean.layer_positions += d.layer_positions / n;
    p.mean.seconds += d.seconds / n;
  }
  p.share = wilson(p.right, p.problems);
  p.each = std::move(each);
  return p;
}

/// Compares two points of the same problems.
[[nodiscard]] inline comparison compare(const point& a, const point& b, measure m) {
  std::vector<double> saved;
  index_t only_first = 0;
  index_t only_second = 0;
  const std::size_t count = std::min(a.each.size(), b.each.size());
  for (std::size_t i = 0; i < count; ++i) {
    saved.push_back(cost_of(b.each[i], m) - cost_of(a.each[i], m));
    only_first += a.each[i].right && !b.each[i].right ? 1 : 0;
    only_second += b.each[i].right && !a.each[i].right ? 1 : 0;
  }
  comparison c = mean_of(saved);
  c.problems = static_cast<index_t>(count);
  c.only_first = only_first;
  c.only_second = only_second;
  c.p = mcnemar(only_first, only_second);
  return c;
}

/// True if `a` is as right as `b` at no more cost, and better in one of them or the same in both.
[[nodiscard]] inline bool dominates(const point& a, const point& b, measure m) {
  return a.right >= b.right && cost_of(a.mean, m) <= cost_of(b.mean, m);
}

/// True if two policies answered the same problems right at the same costs: they are likely to have
/// decoded alike.
[[nodiscard]] inline bool same_results(const point& a, const point& b, measure m) {
  return std::equal(a.each.begin(),
                    a.each.end(),
                    b.each.begin(),
                    b.each.end(),
                    [m](const auto& x, const auto& y) {
                      return x.right == y.right && cost_of(x, m) == cost_of(y, m);
                    });
}

/// Marks the points that no other point beats; of several with the same results, the first.
inline void mark_efficient(std::vector<point>& points, measure m) {
  for (point& p : points) {
    p.is_efficient = std::none_of(points.begin(), points.end(), [&](const point& other) {
      return (dominates(other, p, m) && !dominates(p, other, m)) ||
             (&other < &p && same_results(other, p, m));
    });
  }
}

/// Points in the order in which to test on other problems whether they reach a target: those that
/// are efficient among all or among single rules, from the most right one to the cheapest. Tests
/// that end at the k-th failure, each at a k-th of a level, accept a policy that misses the target
/// no more often than that level, however many there are.
///
/// Source: Laufer-Goldshtein et al., Efficiently Controlling Multiple Risks with Pareto Testing,
/// 2023; Angelopoulos et al., Learn then Test, 2021.
[[nodiscard]] inline std::vector<const point*> testing_order(std::span<const point> points,
                                                             measure m) {
  std::vector<point> singles;
  for (const point& p : points) {
    if (p.is_single) {
      singles.push_back(p);
    }
  }
  mark_efficient(singles, m);
  std::vector<const point*> order;
  for (const point& p : points) {
    const auto single = std::find_if(singles.begin(), singles.end(), [&p](const point& s) {
      return s.is_efficient && s.policy == p.policy;
    });
    if (p.is_efficient || single != singles.end()) {
      order.push_back(&p);
    }
  }
  detail::insertion_sort(order.begin(), order.end(), [m](const point* a, const point* b) {
    return a->right > b->right ||
           (a->right == b->right && cost_of(a->mean, m) > cost_of(b->mean, m));
  });
  return order;
}

/// Area under accuracy over parallelism of operating points: right answers in percent over tokens a
/// forward pass, weighted by exp(-3 (1 - y / best)); points more than 5 percent below the slowest
/// one's are left out. `tokens` is the number of tokens that a problem's answer has.
///
/// Source: Qian et al., d3LLM, 2026, as released.
[[nodiscard]] inline double accuracy_under_parallelism(std::span<const point> points,
                                                       double tokens) {
  std::vector<std::pair<double, double>> at;
  double best = 0.0;
  for (const point& p : points) {
    at.emplace_back(tokens / p.mean.forwards, 100.0 * p.right / p.problems);
    best = std::max(best, at.back().second);
  }
  std::sort(at.begin(), at.end());
  double area = 0.0;
  double before_x = 0.0;
  double before_y = 0.0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto [x, y] = at[i];
    if (y < at.front().second - 5.0 || best == 0.0) {
      continue;
    }
    const double weighted = y * std::min(1.0, std::exp(-3.0 * (1.0 - y / best)));
    area += i == 0 ? x * y : (x - before_x) * (weighted + before_y) / 2.0;
    before_x = x;
    before_y = weighted;
  }
  return area;
}

/// Results of policies on problems, decoded on first use.
class results {
 public:
  /// Function that gets each result of the engine.
  using visitor = std::function<void(const std::string& policy, index_t problem, const decoded&)>;

  /// `learned` is called for every result of the engine, for example to write it to a file.
  explicit results(decoder engine, visitor learned = {})
      : engine_(std::move(engine))
      , learned_(std::move(learned)) {}

  /// Adds a result of an earlier run. Errors: as validate().
  void know(const std::string& policy, index_t problem, const decoded& d) {
    validate(d);
    known_[policy][problem] = d;
  }

  /// Results in the order of `problems`; nothing for a policy that the engine refuses. Errors: as
  /// validate(), for a result of the engine.
  [[nodiscard]] std::optional<std::vector<decoded>> of(const std::string& policy,
                                                       std::span<const index_t> problems) {
    std::map<index_t, decoded>& known = known_[policy];
    std::vector<index_t> asked;
    for (const index_t p : problems) {
      if (known.count(p) == 0) {
        asked.push_back(p);
      }
    }
    if (!asked.empty()) {
      std::vector<decoded> answers;
      try {
        answers = engine_(policy, asked);
      } catch (const std::invalid_argument& e) {
        refusal_ = e.what();
        return std::nullopt;
      }
      if (answers.size() != asked.size()) {
        throw std::logic_error("the decoder of a search returned " +
                               std::to_string(answers.size()) + " results for " +
                               std::to_string(asked.size()) + " problems");
      }
      std::for_each(answers.begin(), answers.end(), &validate);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        known[asked[i]] = answers[i];
        if (learned_) {
          learned_(policy, asked[i], answers[i]);
        }
      }
    }
    std::vector<decoded> all;
    for (const index_t p : problems) {
      all.push_back(known[p]);
    }
    return all;
  }

  /// The reason of the last refusal; empty if there was none.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  decoder engine_;
  visitor learned_;
  std::string refusal_;
  std::map<std::string, std::map<index_t, decoded>> known_;
};

}  // namespace unmask::tune
