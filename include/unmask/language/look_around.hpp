// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/nfa.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// Moves of an nfa that depend on the text before them or after them, as an automaton without.
///
/// A text before a place is in a language where a deterministic automaton, which runs beside from
/// the start of the text, accepts there. A text after a place is in one where an automaton that
/// starts there accepts at the end: it is then an obligation. So a state is one of the nfa, with
/// one of each automaton that looks back, and a set of obligations.
///
/// Cost: such states that are reached, and then those of the nfa that they are.
class look_around {
 public:
  explicit look_around(budget& left)
      : left_(left) {}

  /// Looks at one character of a set, by whether they look back.
  std::map<std::pair<bool, std::vector<std::pair<std::uint32_t, std::uint32_t>>>, std::uint32_t>
      characters;

  /// A look at the texts from `start` to `final`; those that it looks at inside are added before.
  /// Back: `start` has moves to itself by every character; ahead: `final` has them.
  std::uint32_t add(bool is_behind, nfa body, std::uint32_t start, std::uint32_t final) {
    looks_.push_back({is_behind, std::move(body), start, final, 0});
    look& added = looks_.back();
    if (is_behind) {
      added.behind = static_cast<std::uint32_t>(behind_.size());
      behind_.push_back(explore(added.body, start, final, dead_state, starts()));
    }
    return static_cast<std::uint32_t>(looks_.size() - 1);
  }
  /// The condition of a move.
  [[nodiscard]] static place_in_text condition(std::uint32_t look, bool is_negated) {
    return static_cast<place_in_text>(first_look + 2 * look + (is_negated ? 1 : 0));
  }
  /// The texts from `start` to `final`, smallest; `any` as in determinise().
  [[nodiscard]] automaton
  resolve(const nfa& n, std::uint32_t start, std::uint32_t final, std::uint32_t any) {
    return explore(n, start, final, any, starts());
  }

 private:
  using numbers = std::vector<std::uint32_t>;
  static constexpr std::uint32_t first_look = 4;

  struct look {
    bool is_behind;
    nfa body;
    std::uint32_t start;
    std::uint32_t final;
    std::uint32_t behind;  // its number among those that look back
  };
  struct state {
    std::uint32_t at;   // of the nfa
    numbers behind;     // of each that looks back; empty where no look follows
    numbers to_fulfil;  // automata ahead and their states, in pairs
  };

  [[nodiscard]] numbers starts() const {
    numbers out;
    for (const automaton& a : behind_) {
      out.push_back(a.empty() ? dead_state : a.start);
    }
    return out;
  }
  // The state after `first` and symbols up to `last`, which is lowered to those with the same one.
  static std::uint32_t
  step(const automaton& a, std::uint32_t s, std::uint32_t first, std::uint32_t& last) {
    if (s == dead_state) {
      return dead_state;
    }
    const std::vector<run>& runs = a.runs[s];
    const auto at = std::lower_bound(
        runs.begin(), runs.end(), first, [](const run& r, std::uint32_t c) { return r.last < c; });
    if (at == runs.end()) {
      return dead_state;
    }
    last = std::min(last, at->first > first ? at->first - 1 : at->last);
    return at->first > first ? dead_state : at->next;
  }
  // Whether every text may follow.
  static bool is_open(const automaton& a, std::uint32_t s) {
    return a.accepting[s] != 0 && a.runs[s] == runs_of_any_code(s);
  }
  // The automaton of what must follow a place, by what is before it.
  std::uint32_t ahead(std::uint32_t number, bool is_negated, const numbers& behind) {
    numbers key{number, is_negated ? 1U : 0U};
    key.insert(key.end(), behind.begin(), behind.end());
    if (const auto known = known_.find(key); known != known_.end()) {
      return known->second;
    }
    const look& of = looks_[number];
    automaton made = explore(of.body, of.start, of.final, of.final, behind);
    if (is_negated) {
      nfa all(left_);
      const std::uint32_t s = all.add();
      all.any_code(s, s);
      made = product(smallest(all, s, s, left_), made, combination::first_only, left_);
    }
    ahead_.push_back(std::move(made));
    return known_[key] = static_cast<std::uint32_t>(ahead_.size() - 1);
  }

  [[nodiscard]] automaton explore(const nfa& n,
                                  std::uint32_t start,
                                  std::uint32_t final,
                                  std::uint32_t any,
                                  const numbers& behind) {
    const nfa::moves of = n.by_state();
    const std::vector<std::uint8_t> leads_to_look = before_looks(n.size(), of);
    nfa out(left_);
    const std::uint32_t out_final = out.add();
    std::uint32_t out_any = dead_state;
    lists_of_numbers names;
    numbers states;  // of `out`, by their names
    std::deque<std::pair<state, std::uint32_t>> todo;
    numbers key;
    const auto name_of = [&](state s) {
      if (leads_to_look[s.at] == 0) {
        s.behind.clear();
      }
      key.assign({s.at, static_cast<std::uint32_t>(s.behind.size())});
      key.insert(key.end(), s.behind.begin(), s.behind.end());
      key.insert(key.end(), s.to_fulfil.begin(), s.to_fulfil.end());
      left_.spend(8 * key.size());
      const auto [name, is_new] = names.add(key);
      if (is_new) {
        states.push_back(out.add());
        left_.check_positions(members_ += key.size() + 3);  // each has some 150 bytes more
        if (s.at == any && s.to_fulfil.empty()) {
          out_any = states[name];
        }
        todo.emplace_back(std::move(s), states[name]);
      }
      return states[name];
    };
    const std::uint32_t out_start = name_of({start, behind, {}});
    for (; !todo.empty(); todo.pop_front()) {
      const state& s = todo.front().first;
      const std::uint32_t here = todo.front().second;
      if (s.at == final && is_fulfilled(s.to_fulfil)) {
        out.link(here, out_final);
      }
      for (const auto& [from, m] : of.free[s.at]) {
        const auto condition = static_cast<std::uint32_t>(m.where);
        state then{m.to, s.behind, s.to_fulfil};
        if (condition < first_look) {
          out.link(here, name_of(std::move(then)), m.where);
        } else if (holds((condition - first_look) / 2, condition % 2 != 0, then)) {
          out.link(here, name_of(std::move(then)));
        }
      }
      for (const auto& [from, r] : of.runs[s.at]) {
        for (std::uint32_t first = r.first; first <= r.last;) {
          std::uint32_t last = r.last;
          state then{r.next, {}, {}};
          left_.spend(8 * (s.behind.size() + s.to_fulfil.size()) + 8);
          for (std::size_t i = 0; i < s.behind.size(); ++i) {
            then.behind.push_back(step(behind_[i], s.behind[i], first, last));
          }
          bool is_dead = false;
          for (std::size_t i = 0; i < s.to_fulfil.size(); i += 2) {
            const std::uint32_t next =
                step(ahead_[s.to_fulfil[i]], s.to_fulfil[i + 1], first, last);
            is_dead = is_dead || next == dead_state;
            if (!is_dead) {
              oblige(then.to_fulfil, s.to_fulfil[i], next);
            }
          }
          if (!is_dead) {
            out.arc(here, first, last, name_of(std::move(then)));
          }
          first = last + 1;
        }
      }
    }
    return smallest(out, out_start, out_final, left_, out_any == dead_state ? dead_state : out_any);
  }
  [[nodiscard]] bool is_fulfilled(const numbers& to_fulfil) const {
    for (std::size_t i = 0; i < to_fulfil.size(); i += 2) {
      if (ahead_[to_fulfil[i]].accepting[to_fulfil[i + 1]] == 0) {
        return false;
      }
    }
    return true;
  }
  // Adds an obligation, unless it is there or always fulfilled.
  void oblige(numbers& to_fulfil, std::uint32_t number, std::uint32_t at) const {
    if (is_open(ahead_[number], at)) {
      return;
    }
    std::size_t i = 0;
    const std::pair wanted(number, at);
    while (i < to_fulfil.size() && std::pair(to_fulfil[i], to_fulfil[i + 1]) < wanted) {
      i += 2;
    }
    if (i == to_fulfil.size() || std::pair(to_fulfil[i], to_fulfil[i + 1]) != wanted) {
      to_fulfil.insert(to_fulfil.begin() + static_cast<std::ptrdiff_t>(i), {number, at});
    }
  }
  // Whether a look can hold in a state, to which it adds what must follow.
  bool holds(std::uint32_t number, bool is_negated, state& s) {
    const look& of = looks_[number];
    if (of.is_behind) {
      const std::uint32_t at = s.behind[of.behind];
      return (at != dead_state && behind_[of.behind].accepting[at] != 0) != is_negated;
    }
    const std::uint32_t a = ahead(number, is_negated, s.behind);
    if (ahead_[a].empty()) {
      return false;
    }
    oblige(s.to_fulfil, a, ahead_[a].start);
    return true;
  }
  // States from which a look is reached.
  [[nodiscard]] std::vector<std::uint8_t> before_looks(std::size_t states,
                                                       const nfa::moves& of) const {
    std::vector<numbers> into(states);
    std::vector<std::uint8_t> is_before(states, 0);
    numbers todo;
    for (std::uint32_t s = 0; s < states; ++s) {
      left_.spend(of.runs[s].size() + of.free[s].size() + 1);
      for (const auto& [from, r] : of.runs[s]) {
        into[r.next].push_back(s);
      }
      for (const auto& [from, m] : of.free[s]) {
        into[m.to].push_back(s);
        if (static_cast<std::uint32_t>(m.where) >= first_look && is_before[s] == 0) {
          is_before[s] = 1;
          todo.push_back(s);
        }
      }
    }
    while (!todo.empty()) {
      const std::uint32_t s = todo.back();
      todo.pop_back();
      for (const std::uint32_t p : into[s]) {
        left_.spend();
        if (is_before[p] == 0) {
          is_before[p] = 1;
          todo.push_back(p);
        }
      }
    }
    return is_before;
  }

  budget& left_;
  std::deque<look> looks_;
  std::deque<automaton> behind_;
  std::deque<automaton> ahead_;
  std::map<numbers, std::uint32_t> known_;
  std::size_t members_ = 0;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
