// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune/evaluation.hpp>

/// Choice and check of what a search found.
namespace UNMASK_NAMESPACE::tune {

namespace detail {

// A policy that decoded problems of the search on others.
[[nodiscard]] inline point
on_unseen(evaluation& e, const point& seen, std::span<const index_t> problems) {
  std::optional<point> p = e.on(seen.policy, problems);
  if (!p) {
    throw std::invalid_argument("the decoder of a search must decode all problems with a policy "
                                "that it decodes some with, refused '" +
                                seen.policy + "'");
  }
  p->is_single = seen.is_single;
  return std::move(*p);
}

// The policies that decoded most problems of the search, at best all. If every one failed on fewer,
// the last candidates decode the others.
inline void
collect(evaluation& e, const std::vector<composition>& last, std::vector<point>& points) {
  const auto most = [&e] {
    index_t count = 0;
    for (const auto& [text, p] : e.points()) {
      count = math::max(count, p.problems);
    }
    return count;
  };
  for (const composition& c : last) {
    if (!e.is_stopped() && most() < static_cast<index_t>(e.searched().size())) {
      e.on_all(c);
    }
  }
  for (const index_t count = most(); const auto& [text, p] : e.points()) {
    if (p.problems == count) {
      points.push_back(p);
    }
  }
  check_argument(!points.empty(),
                 "the decoder",
                 "none",
                 "able to decode one policy; of the last it says: ",
                 e.refusal());
  mark_efficient(points, e.how().minimise);
  insertion_sort(points.begin(), points.end(), [&e](const point& a, const point& b) {
    return e.comes_first(a, b);
  });
}

// Tests policies on the problems of the choice, until evaluation::failures of them fail. The best
// is the cheapest that did not, a single rule unless a composition certainly costs less; if all
// failed, the most right of them.
inline void choose(evaluation& e, tuned& found) {
  std::vector<const point*> order = testing_order(found.points, e.how().minimise);
  if (e.is_stopped()) {  // one test is short
    order = {&found.points.front()};
  }
  std::vector<std::pair<const point*, point>> shown;
  std::vector<std::pair<const point*, point>> failed;
  for (std::size_t i = 0; i < order.size() && failed.size() < evaluation::failures; ++i) {
    point chosen = on_unseen(e, *order[i], e.choice());
    (e.is_shown(chosen.right, chosen.problems) ? shown : failed)
        .emplace_back(order[i], std::move(chosen));
    e.progress("choice", i + 1, order.size());
    if (e.is_stopped()) {
      break;
    }
  }
  if (shown.empty()) {
    const auto is_less_right = [](const auto& a, const auto& b) {
      return a.first->right + a.second.right < b.first->right + b.second.right;
    };
    shown.push_back(*std::max_element(failed.rbegin(), failed.rend(), is_less_right));
  }
  insertion_sort(shown.begin(), shown.end(), [&e](const auto& a, const auto& b) {
    return cost_of(a.second.mean, e.how().minimise) < cost_of(b.second.mean, e.how().minimise);
  });
  auto best =
      std::find_if(shown.begin(), shown.end(), [](const auto& p) { return p.second.is_single; });
  if (best == shown.end() ||
      compare(shown.front().second, best->second, e.how().minimise).costs_less()) {
    best = shown.begin();
  }
  found.best = *best->first;
  found.chosen = std::move(best->second);
  found.reaches = e.is_shown(found.chosen.right, found.chosen.problems);
}

// The single rules on the problems of the check, compared with the best policy there, from the
// cheapest on. A single rule that costs twice the choice cannot dominate it, and is not decoded
// once a rival is as right.
inline void check(evaluation& e, tuned& found) {
  const measure m = e.how().minimise;
  found.checked = on_unseen(e, found.best, e.checked());
  std::vector<const point*> different = {&found.best};
  for (const point& p : found.points) {
    if (p.is_single && !e.is_among(different, p)) {
      different.push_back(&p);
    }
  }
  insertion_sort(different.begin() + 1, different.end(), [m](const point* a, const point* b) {
    return cost_of(a->mean, m) < cost_of(b->mean, m);
  });
  for (std::size_t i = 1; i < different.size(); ++i) {
    const bool rival_is = found.rival.right >= found.checked.right && !found.singles.empty();
    if (rival_is && cost_of(different[i]->mean, m) > 2.0 * cost_of(found.best.mean, m)) {
      break;
    }
    found.singles.push_back(on_unseen(e, *different[i], e.checked()));
    const point& p = found.singles.back();
    if (dominates(p, found.checked, m)) {
      found.dominating.push_back(p);
    }
    const bool is_as_right = p.right >= found.checked.right;
    const bool is_cheaper = cost_of(p.mean, m) < cost_of(found.rival.mean, m);
    if (i == 1 || (is_as_right && (!rival_is || is_cheaper)) ||
        (!is_as_right && !rival_is && p.right > found.rival.right)) {
      found.rival = p;
    }
    e.progress("single rules on unseen problems", i, different.size() - 1);
  }
  found.against_rival = compare(found.checked, found.rival, m);
}

}  // namespace detail

/// Chooses among the policies that decoded the problems of the search, by tests on others, and
/// checks the choice on a third set. `last` are the candidates of the last round.
///
/// Errors: std::invalid_argument if the engine decodes no policy, or not all problems.
[[nodiscard]] inline tuned conclude(evaluation& e, const std::vector<composition>& last) {
  tuned found;
  detail::collect(e, last, found.points);
  detail::choose(e, found);
  found.stopped = e.is_stopped();
  detail::check(e, found);
  return found;
}

}  // namespace unmask::tune
