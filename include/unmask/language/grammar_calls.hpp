// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/budget.hpp>
#include <unmask/language/grammar_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

/// Which calls of the rules of a grammar need no stack, and which cost a level of recursion.
namespace UNMASK_NAMESPACE::detail::languages {

/// The strongly connected components of a graph, numbered so that edges lead to lower numbers.
///
/// Source: R. Tarjan, "Depth-first search and linear graph algorithms", 1972. Cost: O(edges).
[[nodiscard]] inline std::vector<std::uint32_t>
components(const std::vector<std::vector<std::uint32_t>>& edges, budget& left) {
  const std::size_t size = edges.size();
  std::vector<std::uint32_t> component(size, dead_state);
  std::vector<std::uint32_t> index(size, dead_state);
  std::vector<std::uint32_t> low(size, 0);
  std::vector<std::uint32_t> next(size, 0);
  std::vector<std::uint32_t> path;
  std::vector<std::uint32_t> open;
  std::uint32_t count = 0;
  std::uint32_t found = 0;
  for (std::uint32_t root = 0; root < size; ++root) {
    if (index[root] != dead_state) {
      continue;
    }
    path.push_back(root);
    while (!path.empty()) {
      const std::uint32_t v = path.back();
      left.spend();
      if (index[v] == dead_state) {
        index[v] = low[v] = count++;
        open.push_back(v);
      }
      if (next[v] < edges[v].size()) {
        const std::uint32_t w = edges[v][next[v]];
        if (index[w] == dead_state) {
          path.push_back(w);
          continue;
        }
        low[v] = component[w] == dead_state ? std::min(low[v], low[w]) : low[v];
        ++next[v];
        continue;
      }
      path.pop_back();
      if (low[v] == index[v]) {
        while (component[v] == dead_state) {
          component[open.back()] = found;
          open.pop_back();
        }
        ++found;
      }
    }
  }
  return component;
}

/// How the rules of a grammar lead to one another.
///
/// Rules that lead to each other are a cycle. In it a call at the end of a rule, or at its
/// beginning, needs no stack: rules with only one of both kinds among them are a group, which is
/// one automaton. Every other call is a copy of an automaton, and every path of such calls that
/// comes back passes a head. Entering a head costs a level, so heads are as few as can be found at
/// low cost.
class grammar_calls {
 public:
  grammar_calls(const std::vector<grammar_rule>& rules, budget& left)
      : left_(left)
      , rules_(rules) {
    for (std::uint32_t r = 0; r < rules.size(); ++r) {
      visit(rules[r].body, true, true, [&](std::uint32_t to, bool is_first, bool is_last) {
        calls_.push_back({r, to, is_first, is_last});
      });
    }
    cycle_ = components(graph([](const call&) { return true; }), left_);
    find_groups();
    find_heads();
  }

  /// Whether a call of one rule in another continues in the same automaton.
  [[nodiscard]] bool
  is_link(std::uint32_t from, std::uint32_t to, bool is_first, bool is_last) const {
    return group_[from] == group_[to] && (is_left(from) ? is_first : is_last);
  }
  /// Whether the group of a rule has its calls at the beginning.
  [[nodiscard]] bool is_left(std::uint32_t rule) const { return is_left_[group_[rule]] != 0; }
  /// Whether a call that is not a link comes back.
  [[nodiscard]] bool is_in_cycle(std::uint32_t from, std::uint32_t to) const {
    return cycle_[from] == cycle_[to];
  }
  [[nodiscard]] bool is_head(std::uint32_t rule) const { return is_head_[group_[rule]] != 0; }
  /// Whether the cycle of a rule has a head.
  [[nodiscard]] bool is_bounded(std::uint32_t rule) const { return is_bounded_[cycle_[rule]] != 0; }
  [[nodiscard]] const std::vector<std::uint32_t>& members(std::uint32_t rule) const {
    return members_[group_[rule]];
  }
  /// Calls use(rule, is_first, is_last) for the calls of a part of a rule.
  void visit(const grammar_node& node, bool is_first, bool is_last, const auto& use) const {
    left_.spend();
    switch (node.is) {
    case kind::characters:
      break;
    case kind::call:
      use(node.rule, is_first, is_last);
      break;
    case kind::sequence:
      for (std::size_t i = 0; i < node.parts.size(); ++i) {
        visit(node.parts[i], is_first && i == 0, is_last && i + 1 == node.parts.size(), use);
      }
      break;
    case kind::choice:
      for (const grammar_node& part : node.parts) {
        visit(part, is_first, is_last, use);
      }
      break;
    case kind::repetition:
      if (node.most > 0) {
        visit(node.parts[0], is_first && is_once(node), is_last && is_once(node), use);
      }
    }
  }
  /// Whether a repetition has its part at most once.
  static bool is_once(const grammar_node& node) { return node.most == 1; }

 private:
  using kind = grammar_node::kind;
  struct call {
    std::uint32_t from;
    std::uint32_t to;
    bool is_first;
    bool is_last;
  };

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> graph(const auto& has) const {
    std::vector<std::vector<std::uint32_t>> edges(rules_.size());
    for (const call& c : calls_) {
      if (has(c)) {
        edges[c.from].push_back(c.to);
      }
    }
    return edges;
  }
  void find_groups() {
    const auto is_edge = [this](const call& c) {
      return cycle_[c.from] == cycle_[c.to] && (c.is_first || c.is_last);
    };
    group_ = components(graph(is_edge), left_);
    // Where calls at the beginning and at the end meet, the more frequent ones are kept.
    std::vector<std::int64_t> firsts(rules_.size(), 0);
    for (const call& c : calls_) {
      if (is_edge(c) && group_[c.from] == group_[c.to]) {
        firsts[group_[c.from]] += (c.is_first ? 1 : 0) - (c.is_last ? 1 : 0);
      }
    }
    std::vector<std::uint8_t> is_left(rules_.size());
    for (std::uint32_t r = 0; r < rules_.size(); ++r) {
      is_left[r] = firsts[group_[r]] >= 0 ? 1 : 0;
    }
    group_ = components(graph([&](const call& c) {
                          return is_edge(c) && group_[c.from] == group_[c.to] &&
                                 (is_left[c.from] != 0 ? c.is_first : c.is_last);
                        }),
                        left_);
    members_.resize(rules_.size());
    is_left_.assign(rules_.size(), 0);
    for (std::uint32_t r = 0; r < rules_.size(); ++r) {
      members_[group_[r]].push_back(r);
      is_left_[group_[r]] = is_left[r];
    }
  }
  // Heads among the groups, by the calls that are copies; those that are met first are preferred.
  void find_heads() {
    const std::size_t size = rules_.size();
    is_head_.assign(size, 0);
    is_bounded_.assign(size, 0);
    std::vector<std::vector<std::uint32_t>> copies(size);
    std::vector<std::uint32_t> uses(size, 0);
    for (const call& c : calls_) {
      if (cycle_[c.from] == cycle_[c.to] && !is_link(c.from, c.to, c.is_first, c.is_last)) {
        copies[group_[c.from]].push_back(group_[c.to]);
        ++uses[group_[c.to]];
      }
    }
    std::vector<std::uint32_t> order;  // groups as they are met from the root
    std::vector<std::uint8_t> is_met(size, 0);
    const std::vector<std::vector<std::uint32_t>> edges = graph([](const call&) { return true; });
    std::vector<std::uint32_t> todo{0};
    is_met[0] = 1;
    std::vector<std::uint8_t> has_group(size, 0);
    for (std::size_t i = 0; i < todo.size(); ++i) {
      if (std::exchange(has_group[group_[todo[i]]], std::uint8_t{1}) == 0) {
        order.push_back(group_[todo[i]]);
      }
      for (const std::uint32_t to : edges[todo[i]]) {
        if (std::exchange(is_met[to], std::uint8_t{1}) == 0) {
          todo.push_back(to);
        }
      }
    }
    // Each round has one head more in every knot, a component of the copies that has a cycle.
    for (;;) {
      const std::vector<std::vector<std::uint32_t>> knots = knots_of(copies, order);
      if (knots.empty()) {
        return;
      }
      for (const std::vector<std::uint32_t>& knot : knots) {
        is_bounded_[cycle_[members_[knot[0]][0]]] = 1;
        std::uint32_t head = knot[0];
        bool is_enough = false;
        for (std::size_t i = 0; i < knot.size() && knot.size() <= 64 && !is_enough; ++i) {
          is_head_[knot[i]] = 1;
          is_enough = knots_of(copies, knot).empty();
          is_head_[knot[i]] = 0;
          head = is_enough ? knot[i] : head;
        }
        if (!is_enough) {
          head = *std::max_element(knot.begin(), knot.end(), [&](std::uint32_t a, std::uint32_t b) {
            return uses[a] < uses[b];
          });
        }
        is_head_[head] = 1;
      }
    }
  }
  // The components with a cycle of some groups, without heads.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>>
  knots_of(const std::vector<std::vector<std::uint32_t>>& copies,
           const std::vector<std::uint32_t>& groups) const {
    std::map<std::uint32_t, std::uint32_t> number;
    for (const std::uint32_t g : groups) {
      if (is_head_[g] == 0) {
        number.emplace(g, static_cast<std::uint32_t>(number.size()));
      }
    }
    std::vector<std::vector<std::uint32_t>> edges(number.size());
    std::vector<std::uint8_t> is_loop(number.size(), 0);
    for (const auto& [g, n] : number) {
      left_.spend(copies[g].size() + 8);
      for (const std::uint32_t to : copies[g]) {
        if (const auto found = number.find(to); found != number.end()) {
          edges[n].push_back(found->second);
          is_loop[n] = found->second == n ? 1 : is_loop[n];
        }
      }
    }
    const std::vector<std::uint32_t> component = components(edges, left_);
    std::vector<std::vector<std::uint32_t>> all(number.size());
    for (const std::uint32_t g : groups) {
      if (const auto found = number.find(g); found != number.end()) {
        all[component[found->second]].push_back(g);
      }
    }
    std::erase_if(all, [&](const std::vector<std::uint32_t>& knot) {
      return knot.empty() || (knot.size() == 1 && is_loop[number.at(knot[0])] == 0);
    });
    return all;
  }

  budget& left_;
  const std::vector<grammar_rule>& rules_;
  std::vector<call> calls_;
  std::vector<std::uint32_t> cycle_;                 // of a rule
  std::vector<std::uint32_t> group_;                 // of a rule
  std::vector<std::vector<std::uint32_t>> members_;  // of a group
  std::vector<std::uint8_t> is_left_;                // of a group
  std::vector<std::uint8_t> is_head_;                // of a group
  std::vector<std::uint8_t> is_bounded_;             // of a cycle
};

}  // namespace UNMASK_NAMESPACE::detail::languages
