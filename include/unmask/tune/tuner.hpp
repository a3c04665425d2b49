// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune/composition.hpp>
#include <unmask/tune/search.hpp>

#include <set>

namespace UNMASK_NAMESPACE::tune {

/// Search for the policy that costs least among those that are right often enough.
///
/// Rounds of fewer candidates on more problems: all rankings with all commit rules on
/// search::screened problems, whose knobs are bisected because accuracy falls along them; the best
/// of them on four times as many; compositions of the best with one more part, as long as one saves
/// cost; what is left on all. A candidate stays while its accuracy does not exclude the target; the
/// last choice requires that the lower end of the one-sided 80 % interval reaches it. Even problems
/// are for the search, odd ones for the check.
///
///     const tune::tuned found = tune::tuner({.problems = 2000, .target = 0.97}, results).run();
///
/// Errors: std::invalid_argument, naming argument, value and rule. Cost: some hundred policies on
/// search::screened problems, a few on all. Each result is computed once.
class tuner {
 public:
  /// `engine` has to outlive the tuner. Errors: std::invalid_argument.
  tuner(const search& how, results& engine)
      : how_(how)
      , engine_(engine)
      , space_(how.minimise == measure::layer_positions || how.minimise == measure::seconds) {
    check_argument(how.problems >= 8, "search::problems", how.problems, "at least 8");
    check_argument(
        how.target >= 0.0 && how.target <= 1.0, "search::target", how.target, "in [0, 1]");
    check_argument(how.screened >= 1, "search::screened", how.screened, "at least 1");
    check_argument(how.kept >= 1, "search::kept", how.kept, "at least 1");
    check_argument(how.depth >= 0, "search::depth", how.depth, "at least 0");
    for (index_t p = 0; p < how.problems; ++p) {
      (p % 2 == 0 ? searched_ : checked_).push_back(p);
    }
    shuffle(searched_);
  }

  /// Runs the search, until it is complete or search::stop returns true.
  [[nodiscard]] tuned run() {
    const auto all = static_cast<index_t>(searched_.size());
    std::vector<composition> candidates = space_.singles();
    index_t n = math::min(how_.screened, all);
    candidates = best_of(tune_all("rankings and rules", candidates, n), n, 4 * how_.kept);
    const std::vector<composition> first = candidates;
    n = math::min(4 * n, all);
    candidates = best_of(tune_all("the best of them", candidates, n), n, how_.kept);
    for (index_t added = 0; added < how_.depth && !stopped_; ++added) {
      std::vector<composition> longer =
          tune_all("one more part", space_.extended(candidates), n / 2);
      longer = best_of(std::move(longer), n / 2, 2 * how_.kept);
      tune_others(longer, n / 2);
      longer.insert(longer.end(), candidates.begin(), candidates.end());
      std::vector<composition> next = best_of(tune_all("the best again", longer, n), n, how_.kept);
      const bool is_same = texts_of(next) == texts_of(candidates);
      candidates = std::move(next);
      if (is_same) {
        break;
      }
    }
    // The last round decodes every problem of the search: what is left, and the best single rules
    // with every value of their knobs.
    std::vector<composition> last = candidates;
    last.insert(last.end(), first.begin(), first.end());
    static_cast<void>(tune_all("all problems", last, all));
    sweep(first, all);
    return conclude(all);
  }

 private:
  // The same order in every run.
  static void shuffle(std::vector<index_t>& order) {
    std::uint64_t state = 1;
    for (std::size_t i = order.size(); i > 1; --i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      std::swap(order[i - 1], order[static_cast<std::size_t>((state >> 33U) % i)]);
    }
  }

  [[nodiscard]] std::span<const index_t> first(index_t n) const {
    return std::span(searched_).first(static_cast<std::size_t>(n));
  }

  // The policy on the first n problems of the search; nothing if the engine refuses it.
  [[nodiscard]] std::optional<point> measured(const std::string& policy, index_t n) {
    return measured(policy, first(n));
  }
  [[nodiscard]] std::optional<point> measured(const std::string& policy,
                                              std::span<const index_t> problems) {
    std::optional<std::vector<decoded>> each = engine_.of(policy, problems);
    stopped_ = stopped_ || (how_.stop && how_.stop());
    return each ? std::optional(point_of(policy, std::move(*each))) : std::nullopt;
  }

  // True unless the accuracy on these problems excludes the target.
  [[nodiscard]] bool may_reach(const point& p) const { return p.share.high >= how_.target; }
  // True if unseen problems are likely to reach the target, too.
  [[nodiscard]] bool reaches(const point& p) const {
    return wilson(p.right, p.problems, 0.84).low >= how_.target;
  }
  [[nodiscard]] bool passes(const point& p) const {
    return p.problems == static_cast<index_t>(searched_.size()) ? reaches(p) : may_reach(p);
  }
  // Those that pass first, by cost; then by accuracy.
  [[nodiscard]] bool is_better(const point& a, const point& b) const {
    const bool first = passes(a);
    if (first != passes(b)) {
      return first;
    }
    const double cost_a = cost_of(a.mean, how_.minimise);
    const double cost_b = cost_of(b.mean, how_.minimise);
    return first ? cost_a < cost_b || (cost_a == cost_b && a.right > b.right)
                 : a.right > b.right || (a.right == b.right && cost_a < cost_b);
  }

  // The same order with shorter texts first among equals.
  [[nodiscard]] bool comes_first(const point& a, const point& b) const {
    return is_better(a, b) || (!is_better(b, a) && a.policy.size() < b.policy.size());
  }
  [[nodiscard]] bool is_among(const std::vector<const point*>& points, const point& p) const {
    return std::any_of(points.begin(), points.end(), [&](const point* other) {
      return same_results(*other, p, how_.minimise);
    });
  }

  // Sets the knob of the first rule so that the policy costs least among those that pass, and
  // returns false if the engine refuses the policy.
  bool tune(composition& c, index_t n) {
    std::vector<double> ladder = ladder_of(c.rules.front());
    if (ladder.empty()) {
      const auto only = measured(c.text(), n);
      note(c, only);
      return only.has_value();
    }
    const auto at = [&](double value) {
      c.rules.front().value = value;
      const std::optional<point> p = measured(c.text(), n);
      note(c, p);
      return p;
    };
    const auto low_end = at(ladder.front());
    const auto high_end = at(ladder.back());
    if (!low_end || !high_end) {
      return false;
    }
    if (cost_of(low_end->mean, how_.minimise) < cost_of(high_end->mean, how_.minimise)) {
      std::reverse(ladder.begin(), ladder.end());  // the slow end comes first
    }
    std::size_t slow = 0;
    std::size_t fast = ladder.size();
    while (fast - slow > 1 && !stopped_) {
      const std::size_t middle = (slow + fast) / 2;
      const auto p = at(ladder[middle]);
      (p && passes(*p) ? slow : fast) = middle;
    }
    double chosen = ladder[slow];
    if (fast < ladder.size() && c.rules.front().knob()->kind != knob_kind::whole) {
      double beyond = ladder[fast];
      for (int k = 0; k < 2 && !stopped_; ++k) {
        const double middle = rounded((chosen + beyond) / 2.0);
        const auto p = at(middle);
        (p && passes(*p) ? chosen : beyond) = middle;
      }
    }
    c.rules.front().value = chosen;
    return true;
  }

  [[nodiscard]] static double rounded(double value) { return std::round(value * 1000.0) / 1000.0; }

  // Tunes each candidate; without those that the engine refuses.
  [[nodiscard]] std::vector<composition>
  tune_all(std::string_view stage, const std::vector<composition>& candidates, index_t n) {
    std::vector<composition> left;
    std::set<std::string> seen;
    index_t done = 0;
    for (composition c : candidates) {
      if (stopped_) {
        break;
      }
      if (tune(c, n) && seen.insert(c.text()).second) {
        left.push_back(c);
      }
      if (how_.progress) {
        how_.progress(stage, ++done, static_cast<index_t>(candidates.size()));
      }
    }
    return left;
  }

  // Decodes the first single rules with every value of their knobs.
  void sweep(const std::vector<composition>& from, index_t n) {
    index_t left = how_.kept;
    for (composition c : from) {
      if (!c.is_single() || left-- <= 0) {
        continue;
      }
      for (const double value : ladder_of(c.rules.front())) {
        if (stopped_) {
          return;
        }
        c.rules.front().value = value;
        note(c, measured(c.text(), n));
      }
      if (how_.progress) {
        how_.progress("every value of the best rules", how_.kept - left, how_.kept);
      }
    }
  }

  // Tries values of the knobs of added parts, one after the other.
  void tune_others(std::vector<composition>& candidates, index_t n) {
    for (composition& c : candidates) {
      const auto try_values = [&](setting& s) {
        setting best = s;
        std::optional<point> so_far = measured(c.text(), n);
        for (const double value : ladder_of(s)) {
          if (stopped_ || !so_far) {
            break;
          }
          s.value = value;
          const auto p = measured(c.text(), n);
          note(c, p);
          if (p && is_better(*p, *so_far)) {
            best = s;
            so_far = p;
          }
        }
        s = best;
      };
      for (std::size_t i = 1; i < c.rules.size(); ++i) {
        try_values(c.rules[i]);
      }
      for (setting& s : c.others) {
        try_values(s);
      }
    }
  }

  // The best `count` candidates on n problems, at most half of them with the same rule in front,
  // because a part may help the second best more; of those with the same results the shortest.
  [[nodiscard]] std::vector<composition>
  best_of(std::vector<composition> candidates, index_t n, index_t count) {
    std::vector<std::pair<point, composition>> ranked;
    for (composition& c : candidates) {
      if (auto p = measured(c.text(), n)) {
        ranked.emplace_back(std::move(*p), std::move(c));
      }
    }
    std::stable_sort(ranked.begin(), ranked.end(), [this](const auto& a, const auto& b) {
      return comes_first(a.first, b.first);
    });
    std::vector<const point*> taken_points;
    std::vector<composition> best;
    std::map<const known_part*, index_t> taken;
    for (auto& [p, c] : ranked) {
      if (static_cast<index_t>(best.size()) < count && !is_among(taken_points, p) &&
          taken[c.rules.front().part]++ < (count + 1) / 2) {
        best.push_back(c);
        taken_points.push_back(&p);
      }
    }
    return best;
  }

  [[nodiscard]] static std::vector<std::string> texts_of(const std::vector<composition>& list) {
    std::vector<std::string> all;
    all.reserve(list.size());
    for (const composition& c : list) {
      all.push_back(c.text());
    }
    return all;
  }

  // Keeps the results of a policy, the one on most problems.
  void note(const composition& c, const std::optional<point>& p) {
    if (p && p->problems >= points_[p->policy].problems) {
      point& kept = points_[p->policy] = *p;
      kept.is_single = c.is_single();
    }
  }

  // A policy that decoded the problems of the search on those of the check.
  [[nodiscard]] point on_unseen(const std::string& policy) {
    std::optional<point> p = measured(policy, checked_);
    if (!p) {
      throw std::invalid_argument("the decoder of a search must decode all problems with a policy "
                                  "that it decodes some with, refused '" +
                                  policy + "'");
    }
    return std::move(*p);
  }

  [[nodiscard]] tuned conclude(index_t all) {
    tuned found;
    found.stopped = stopped_;
    index_t most = 0;
    for (const auto& [text, p] : points_) {
      most = math::max(most, p.problems);
    }
    for (const auto& [text, p] : points_) {
      if (p.problems == most) {
        found.points.push_back(p);
      }
    }
    check_argument(!found.points.empty(),
                   "the decoder",
                   "none",
                   "able to decode one policy; of the last it says: ",
                   engine_.refusal());
    mark_efficient(found.points, how_.minimise);
    std::stable_sort(found.points.begin(),
                     found.points.end(),
                     [this](const point& a, const point& b) { return comes_first(a, b); });
    found.best = found.points.front();
    found.reaches = most == all && reaches(found.best);
    stopped_ = false;  // the check is short, and what was found is worth it
    found.checked = on_unseen(found.best.policy);
    std::vector<const point*> different = {&found.best};
    for (const point& p : found.points) {
      if (p.is_single && !is_among(different, p)) {
        different.push_back(&p);
        found.singles.push_back(on_unseen(p.policy));
        found.singles.back().is_single = true;
        if (dominates(found.singles.back(), found.checked, how_.minimise)) {
          found.dominating.push_back(found.singles.back());
        }
      }
    }
    for (const point& p : found.singles) {
      const bool is_as_right = p.right >= found.checked.right;
      const bool rival_is = found.rival.right >= found.checked.right;
      const bool is_cheaper =
          cost_of(p.mean, how_.minimise) < cost_of(found.rival.mean, how_.minimise);
      if (found.rival.policy.empty() || (is_as_right && (!rival_is || is_cheaper)) ||
          (!is_as_right && !rival_is && p.right > found.rival.right)) {
        found.rival = p;
      }
    }
    found.against_rival = compare(found.checked, found.rival, how_.minimise);
    return found;
  }

  search how_;
  results& engine_;
  search_space space_;
  std::vector<index_t> searched_;
  std::vector<index_t> checked_;
  std::map<std::string, point> points_;
  bool stopped_ = false;
};

}  // namespace unmask::tune
