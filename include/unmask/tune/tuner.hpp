// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune/conclude.hpp>

#include <set>

namespace UNMASK_NAMESPACE::tune {

/// Search for the policy that costs least among those that are right often enough.
///
/// Half of the even problems are for the rounds of the search, the others for the choice, odd ones
/// for the check. Rounds of fewer candidates on more problems: all rankings with all commit rules
/// on a sixteenth of the problems of the search, at least 32, with knobs that are bisected because
/// accuracy falls along them; the best of them on four times as many; compositions of the best with
/// one more part, as long as one saves cost; what is left on all. Candidates are compared by their
/// cost where the share of right answers is the one that the choice needs, and end at the first 8,
/// 16, 32 ... problems that exclude the target. Many were compared, so the best of them were lucky:
/// the choice is by tests on problems that no round has used, see testing_order().
///
///     const tune::tuned found = tune::tuner({.problems = 2000, .target = 0.97}, results).run();
///
/// Errors: std::invalid_argument, naming argument, value and rule. Cost: some hundred policies on
/// a sixteenth of the problems of the search, some dozen on all of all sets. Each result is
/// computed once.
class tuner {
 public:
  /// `engine` has to outlive the tuner. Errors: std::invalid_argument.
  tuner(const search& how, results& engine)
      : how_(checked(how))
      , decoded_(how_, engine)
      , space_(how.minimise == measure::layer_positions || how.minimise == measure::seconds) {}

  /// Runs the search, until it is complete or search::stop returns true.
  [[nodiscard]] tuned run() {
    const auto all = static_cast<index_t>(decoded_.searched().size());
    std::vector<composition> candidates = space_.singles();
    index_t n = math::min(math::max(32, all / 16), all);
    each_of("rankings and rules", candidates, [&](composition& c) { return bisect(c, n); });
    candidates = best_of(candidates, n, 4 * how_.kept);
    const std::vector<composition> first = candidates;
    n = math::min(4 * n, all);
    each_of("the best of them", candidates, [&](composition& c) { return refine(c, n); });
    candidates = best_of(candidates, n, how_.kept);
    for (index_t added = 0; added < how_.depth && !decoded_.is_stopped(); ++added) {
      const std::string round = added == 0 ? "" : ", round " + std::to_string(added + 1);
      std::vector<composition> longer = extended("one more part" + round, candidates, n / 2);
      tune_others(longer, n / 2);
      each_of("the best again" + round, longer, [&](composition& c) { return refine(c, n); });
      longer.insert(longer.end(), candidates.begin(), candidates.end());
      std::vector<composition> next = best_of(longer, n, how_.kept);
      const bool is_same = texts_of(next) == texts_of(candidates);
      candidates = std::move(next);
      if (is_same) {
        break;
      }
    }
    // The last round decodes every problem of the search: the best half, and the best single rules
    // with every value of their knobs.
    candidates = best_of(candidates, n, (how_.kept + 1) / 2);
    candidates.insert(candidates.end(), first.begin(), first.end());
    each_of("all problems", candidates, [&](composition& c) { return refine(c, all); });
    std::vector<composition> swept = candidates;
    each_of("every value of their knobs", swept, [&](composition& c) { return sweep(c, all); });
    return conclude(decoded_, candidates);
  }

 private:
  [[nodiscard]] static const search& checked(const search& how) {
    check_argument(how.problems >= 8, "search::problems", how.problems, "at least 8");
    check_argument(
        how.target >= 0.0 && how.target <= 1.0, "search::target", how.target, "in [0, 1]");
    check_argument(how.kept >= 1, "search::kept", how.kept, "at least 1");
    check_argument(how.depth >= 0, "search::depth", how.depth, "at least 0");
    check_argument(how.confidence_level > 0.0 && how.confidence_level < 1.0,
                   "search::confidence_level",
                   how.confidence_level,
                   "in (0, 1)");
    return how;
  }

  // Sets the knob of the first rule so that the policy costs least among those that pass: by
  // bisection, unless the slow end fails. Returns false if the engine refuses the policy.
  bool bisect(composition& c, index_t n) {
    setting& knob = c.rules.front();
    std::vector<double> ladder = ladder_of(knob);
    if (ladder.empty()) {
      return decoded_.on_first(n, c).has_value();
    }
    const auto at = [&](double value) {
      knob.value = value;
      return decoded_.on_first(n, c);
    };
    auto slow_end = at(ladder.front());
    auto fast_end = at(ladder.back());
    if (!slow_end || !fast_end) {
      return false;
    }
    if (compare(*slow_end, *fast_end, how_.minimise).saved > 0.0) {
      std::swap(slow_end, fast_end);
      std::reverse(ladder.begin(), ladder.end());
      slow_end_is_last_.insert(knob.part);
    }
    std::size_t slow = 0;
    std::size_t fast = decoded_.passes(*slow_end) ? ladder.size() : 1;
    while (fast - slow > 1 && !decoded_.is_stopped()) {
      const std::size_t middle = (slow + fast) / 2;
      const auto p = at(ladder[middle]);
      (p && decoded_.passes(*p) ? slow : fast) = middle;
    }
    knob.value = ladder[slow];
    if (decoded_.passes(*slow_end) && fast < ladder.size()) {
      between(c, n, ladder[slow], ladder[fast]);
    }
    return true;
  }

  // Sets the knob between a value that passes and one that does not.
  void between(composition& c, index_t n, double chosen, double beyond) {
    setting& knob = c.rules.front();
    if (knob.knob()->kind != knob_kind::whole) {
      for (int k = 0; k < 2 && !decoded_.is_stopped(); ++k) {
        knob.value = rounded((chosen + beyond) / 2.0);
        const auto p = decoded_.on_first(n, c);
        (p && decoded_.passes(*p) ? chosen : beyond) = knob.value;
      }
    }
    knob.value = chosen;
  }

  [[nodiscard]] static double rounded(double value) { return std::round(value * 1000.0) / 1000.0; }

  // Values of the first rule's knob, the slow end first.
  [[nodiscard]] std::vector<double> from_slow(const setting& knob) const {
    std::vector<double> ladder = ladder_of(knob);
    if (slow_end_is_last_.count(knob.part) != 0) {
      std::reverse(ladder.begin(), ladder.end());
    }
    return ladder;
  }

  // The first of such values that is not slower than this one.
  [[nodiscard]] static std::vector<double>::const_iterator
  not_slower(const std::vector<double>& ladder, double value) {
    const bool falls = !ladder.empty() && ladder.back() < ladder.front();
    return std::partition_point(
        ladder.begin(), ladder.end(), [&](double v) { return falls ? v > value : v < value; });
  }

  // False if the policy costs no less than `parent` on a few problems, neither with its knob as it
  // is nor at the fast end: then it need not be decoded on more.
  [[nodiscard]] bool may_save(composition c, const point& parent) {
    setting& knob = c.rules.front();
    const std::vector<double> ladder = from_slow(knob);
    for (const double value : {knob.value, ladder.empty() ? knob.value : ladder.back()}) {
      knob.value = value;
      const auto p = decoded_.on_first(math::min(8, parent.problems), c);
      if (p && compare(*p, parent, how_.minimise).saved > 0.0) {
        return true;
      }
    }
    return false;
  }

  // Sets the knob of the first rule as bisect() does, in steps from the value that it has. With a
  // `parent`, gives up and returns false for a policy that decodes as the parent does, and for one
  // that fails and does not cost less.
  bool refine(composition& c, index_t n, const point* parent = nullptr) {
    setting& knob = c.rules.front();
    const auto at = [&](double value) {
      knob.value = value;
      return decoded_.on_first(n, c);
    };
    const auto is_beaten = [&](const point& p) {
      return parent != nullptr && !decoded_.passes(p) &&
             compare(p, *parent, how_.minimise).saved <= 0.0;
    };
    const double start = knob.value;
    if (parent != nullptr && !may_save(c, *parent)) {
      return false;
    }
    std::optional<point> p = at(start);
    if (!p || is_beaten(*p) || (parent != nullptr && same_results(*p, *parent, how_.minimise))) {
      return false;
    }
    const std::vector<double> ladder = from_slow(knob);
    const auto here = not_slower(ladder, start);
    double chosen = start;
    if (decoded_.passes(*p)) {
      for (auto faster = here; faster != ladder.end() && !decoded_.is_stopped(); ++faster) {
        p = *faster == start ? std::move(p) : at(*faster);
        if (!p || !decoded_.passes(*p)) {
          between(c, n, chosen, *faster);
          return true;
        }
        chosen = *faster;
      }
      knob.value = chosen;
      return true;
    }
    for (auto slower = here; slower != ladder.begin() && !decoded_.is_stopped();) {
      const double beyond = knob.value;
      p = at(*--slower);
      if (p && decoded_.passes(*p)) {
        between(c, n, *slower, beyond);
        return true;
      }
      if (!p || is_beaten(*p)) {
        return false;
      }
    }
    return parent == nullptr;
  }

  // Tunes each candidate by a function that returns false for one to leave out.
  template <class Tune>
  void each_of(std::string_view stage, std::vector<composition>& candidates, Tune&& tune) {
    each_of(stage, candidates, tune, 0, candidates.size());
  }
  // Does so for candidates that are some of a stage: `done` of `all` were before them.
  template <class Tune>
  void each_of(std::string_view stage,
               std::vector<composition>& candidates,
               Tune&& tune,
               std::size_t done,
               std::size_t all) {
    std::vector<composition> left;
    std::set<std::string> seen;
    for (composition& c : candidates) {
      if (decoded_.is_stopped()) {
        break;
      }
      if (tune(c) && seen.insert(c.text()).second) {
        left.push_back(c);
      }
      decoded_.progress(stage, ++done, all);
    }
    candidates = std::move(left);
  }

  // The best compositions with one more part than these have.
  [[nodiscard]] std::vector<composition>
  extended(std::string_view stage, const std::vector<composition>& from, index_t n) {
    std::vector<std::pair<point, std::vector<composition>>> families;
    std::size_t count = 0;
    for (const composition& c : from) {
      if (std::optional<point> parent = decoded_.on_first(n, c)) {
        families.emplace_back(std::move(*parent), space_.extended({c}));
        count += families.back().second.size();
      }
    }
    std::vector<composition> all;
    std::size_t done = 0;
    for (auto& [parent, longer] : families) {
      const std::size_t size = longer.size();
      each_of(stage, longer, [&](composition& l) { return refine(l, n, &parent); }, done, count);
      done += size;
      all.insert(all.end(), longer.begin(), longer.end());
    }
    return best_of(all, n, 2 * how_.kept);
  }

  // Decodes a single rule at every value of its knob, a composition at the next slower one: more
  // may fail in the choice than here.
  bool sweep(composition& c, index_t n) {
    setting& knob = c.rules.front();
    std::vector<double> ladder = from_slow(knob);
    if (!c.is_single()) {
      ladder.erase(not_slower(ladder, knob.value), ladder.end());
      ladder.erase(ladder.begin(), ladder.end() - (ladder.empty() ? 0 : 1));
    }
    for (const double value : ladder) {
      if (!decoded_.is_stopped()) {
        knob.value = value;
        decoded_.on_first(n, c);
      }
    }
    return true;
  }

  // Tries values of the knobs of added parts, one after the other.
  void tune_others(std::vector<composition>& candidates, index_t n) {
    for (composition& c : candidates) {
      const auto try_values = [&](setting& s) {
        setting best = s;
        std::optional<point> so_far = decoded_.on_first(n, c);
        for (const double value : ladder_of(s)) {
          if (decoded_.is_stopped() || !so_far) {
            break;
          }
          s.value = value;
          const auto p = decoded_.on_first(n, c);
          if (p && decoded_.is_better(*p, *so_far)) {
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
  best_of(const std::vector<composition>& candidates, index_t n, index_t count) {
    std::vector<std::pair<point, composition>> ranked;
    for (const composition& c : candidates) {
      if (auto p = decoded_.on_first(n, c)) {
        ranked.emplace_back(std::move(*p), c);
      }
    }
    detail::insertion_sort(ranked.begin(), ranked.end(), [this](const auto& a, const auto& b) {
      return decoded_.comes_first(a.first, b.first);
    });
    std::vector<const point*> taken_points;
    std::vector<composition> best;
    std::map<const known_part*, index_t> taken;
    for (auto& [p, c] : ranked) {
      if (static_cast<index_t>(best.size()) < count && !decoded_.is_among(taken_points, p) &&
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

  search how_;
  evaluation decoded_;
  search_space space_;
  std::set<const known_part*> slow_end_is_last_;  // rules that are slow at their largest values
};

}  // namespace unmask::tune
