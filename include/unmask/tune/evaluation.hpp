// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune/composition.hpp>
#include <unmask/tune/search.hpp>

namespace UNMASK_NAMESPACE::tune {

/// Policies decoded on the problems of a search, and their order.
///
/// Problems with an odd index are for the check; every second of the others is for the choice.
class evaluation {
 public:
  /// `engine` has to outlive this.
  evaluation(const search& how, results& engine)
      : how_(how)
      , engine_(engine)
      , needed_(how.target) {
    for (index_t p = 0; p < how.problems; ++p) {
      (p % 2 == 1 ? checked_ : p % 4 == 0 ? searched_ : choice_).push_back(p);
    }
    spread(searched_);
    const auto count = static_cast<index_t>(choice_.size());
    for (auto right = static_cast<index_t>(how.target * count); right <= count; ++right) {
      if (is_shown(right, count)) {
        needed_ = static_cast<double>(right) / count;
        break;
      }
    }
  }

  /// Parameters of the search.
  [[nodiscard]] const search& how() const { return how_; }
  /// Problems of the rounds of the search.
  [[nodiscard]] std::span<const index_t> searched() const { return searched_; }
  /// Problems of the choice.
  [[nodiscard]] std::span<const index_t> choice() const { return choice_; }
  /// Problems of the check.
  [[nodiscard]] std::span<const index_t> checked() const { return checked_; }
  /// True once search::stop has returned true.
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  /// Results of each policy on the most problems of the search that it decoded.
  [[nodiscard]] const std::map<std::string, point>& points() const { return points_; }
  /// The engine's reason for its last refusal.
  [[nodiscard]] const std::string& refusal() const { return engine_.refusal(); }

  /// Calls search::progress, if there is one.
  void progress(std::string_view stage, std::size_t done, std::size_t of) const {
    if (how_.progress) {
      how_.progress(stage, static_cast<index_t>(done), static_cast<index_t>(of));
    }
  }

  /// The policy on these problems; nothing if the engine refuses it.
  [[nodiscard]] std::optional<point> on(const std::string& policy,
                                        std::span<const index_t> problems) {
    std::optional<std::vector<decoded>> each = engine_.of(policy, problems);
    is_stopped_ = is_stopped_ || (how_.stop && how_.stop());
    return each ? std::optional(point_of(policy, std::move(*each))) : std::nullopt;
  }

  /// The policy on all problems of the search.
  std::optional<point> on_all(const composition& c) { return noted(c, on(c.text(), searched_)); }

  /// The policy on the first n problems of the search, or on the first 8, 16, 32 ... if those show
  /// that it fails. At each look one in 200 policies that just pass fails by chance.
  std::optional<point> on_first(index_t n, const composition& c) {
    for (index_t part = math::min(8, n);; part = math::min(2 * part, n)) {
      std::optional<point> p = on(c.text(), searched().first(static_cast<std::size_t>(part)));
      if (!p || part == n || is_stopped_ || wilson(p->right, part, 2.58).high < needed_) {
        return noted(c, std::move(p));
      }
    }
  }

  /// Tests of the choice that may fail before it ends. The policies that miss the target are met in
  /// the order of the tests, and so at most the first few of them are tested, each at this part of
  /// the level.
  static constexpr std::size_t failures = 3;

  /// True if these results show that other problems reach the target: exact binomial test.
  [[nodiscard]] bool is_shown(index_t right, index_t count) const {
    return how_.target <= 0.0 || binomial_tail(right, count, how_.target) <=
                                     (1.0 - how_.confidence_level) / static_cast<double>(failures);
  }

  /// True if the share of right answers is at least the one that the choice needs, rounded down to
  /// whole problems: a policy that has that share passes at least every second time.
  [[nodiscard]] bool passes(const point& p) const {
    return p.right >= std::floor(needed_ * p.problems + 1e-6);
  }

  /// The order of policies that pass by cost, then of the others by accuracy.
  [[nodiscard]] bool is_better(const point& a, const point& b) const {
    const bool first = passes(a);
    if (first != passes(b)) {
      return first;
    }
    const double cost_a = cost_of(a.mean, how_.minimise);
    const double cost_b = cost_of(b.mean, how_.minimise);
    const double right_a = static_cast<double>(a.right) / a.problems;
    const double right_b = static_cast<double>(b.right) / b.problems;
    return first ? cost_a < cost_b || (cost_a == cost_b && right_a > right_b)
                 : right_a > right_b || (right_a == right_b && cost_a < cost_b);
  }

  /// is_better(), with shorter texts first among equals.
  [[nodiscard]] bool comes_first(const point& a, const point& b) const {
    return is_better(a, b) || (!is_better(b, a) && a.policy.size() < b.policy.size());
  }

  /// True if one of these points has the same results as `p`.
  [[nodiscard]] bool is_among(std::span<const point* const> points, const point& p) const {
    return std::any_of(points.begin(), points.end(), [&](const point* other) {
      return same_results(*other, p, how_.minimise);
    });
  }

 private:
  // An order in which any first few problems come evenly from the whole list: if that is sorted by
  // task, each task has its share of them.
  static void spread(std::vector<index_t>& problems) {
    std::vector<std::pair<double, index_t>> order;
    order.reserve(problems.size());
    for (const index_t p : problems) {
      order.emplace_back(std::fmod(0.6180339887498949 * static_cast<double>(order.size()), 1.0), p);
    }
    std::sort(order.begin(), order.end());
    std::transform(
        order.begin(), order.end(), problems.begin(), [](const auto& o) { return o.second; });
  }

  std::optional<point> noted(const composition& c, std::optional<point> p) {
    if (p) {
      p->is_single = c.is_single();
      point& kept = points_[p->policy];
      if (p->problems >= kept.problems) {
        kept = *p;
      }
    }
    return p;
  }

  search how_;
  results& engine_;
  double needed_;  // share of right answers that shows the target in the choice, or it if none does
  std::vector<index_t> searched_;
  std::vector<index_t> choice_;
  std::vector<index_t> checked_;
  std::map<std::string, point> points_;
  bool is_stopped_ = false;
};

}  // namespace unmask::tune
