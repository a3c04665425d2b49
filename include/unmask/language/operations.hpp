// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/budget.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

/// Automata by runs: the smallest one of a language, unions, intersections, differences.
namespace UNMASK_NAMESPACE::detail::languages {

/// Moves by every code point to a state.
[[nodiscard]] inline std::vector<run> runs_of_any_code(std::uint32_t to) {
  return {{0, 0xd7ffU, to}, {0xe000U, 0x10ffffU, to}};
}

/// Adds a state without runs.
inline std::uint32_t add_state(automaton& a, bool is_accepting = false) {
  a.runs.emplace_back();
  a.accepting.push_back(is_accepting ? 1 : 0);
  return static_cast<std::uint32_t>(a.accepting.size() - 1);
}

/// Joins neighbouring runs that lead to one state.
inline void join(std::vector<run>& runs) {
  std::size_t count = 0;
  for (const run& r : runs) {
    if (count > 0 && runs[count - 1].next == r.next && runs[count - 1].last + 1 == r.first) {
      runs[count - 1].last = r.last;
    } else {
      runs[count++] = r;
    }
  }
  runs.resize(count);
}

/// Well distributed bits of a number.
[[nodiscard]] inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Lists of numbers in one array, each known by its index.
class lists_of_numbers {
 public:
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::span(numbers_).subspan(begin, ends_[index] - begin);
  }
  /// Adds a list that add() does not find.
  void append(std::span<const std::uint32_t> list) {
    numbers_.insert(numbers_.end(), list.begin(), list.end());
    ends_.push_back(numbers_.size());
  }
  /// The index of a list, and whether it is new.
  std::pair<std::uint32_t, bool> add(std::span<const std::uint32_t> list) {
    if (2 * (count_ + 1) > table_.size()) {
      grow();
    }
    const std::uint32_t h = hash(list);
    std::size_t at = place(h);
    for (; table_[at].index != dead_state; at = place(at + 1)) {
      if (table_[at].hash == h && std::ranges::equal((*this)[table_[at].index], list)) {
        return {table_[at].index, false};
      }
    }
    const auto index = static_cast<std::uint32_t>(size());
    table_[at] = {h, index};
    ++count_;
    append(list);
    return {index, true};
  }

 private:
  struct entry {
    std::uint32_t hash = 0;
    std::uint32_t index = dead_state;
  };

  static std::uint32_t hash(std::span<const std::uint32_t> list) {
    std::uint64_t h = list.size();
    for (const std::uint32_t x : list) {
      h = mix(h ^ x);
    }
    return static_cast<std::uint32_t>(h);
  }
  [[nodiscard]] std::size_t place(std::size_t at) const { return at & (table_.size() - 1); }
  void grow() {
    const std::vector<entry> old =
        std::exchange(table_, std::vector<entry>(table_.empty() ? 64 : 2 * table_.size()));
    for (const entry& e : old) {
      std::size_t at = place(e.hash);
      while (e.index != dead_state && table_[at].index != dead_state) {
        at = place(at + 1);
      }
      table_[at] = e.index != dead_state ? e : table_[at];
    }
  }

  std::vector<std::uint32_t> numbers_;
  std::vector<std::size_t> ends_;
  std::vector<entry> table_;  // open addressing; a power of two
  std::size_t count_ = 0;     // of entries
};

/// Entries by a number of each, in one array.
template <class Entry>
class grouped {
 public:
  grouped(std::size_t groups, const std::vector<Entry>& entries, const auto& group_of)
      : ends_(groups + 1, 0)
      , entries_(entries.size()) {
    for (const Entry& e : entries) {
      ++ends_[group_of(e) + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    std::vector<std::size_t> at(ends_.begin(), ends_.end() - 1);
    for (const Entry& e : entries) {
      entries_[at[group_of(e)]++] = e;
    }
  }
  [[nodiscard]] std::span<const Entry> operator[](std::size_t group) const {
    return std::span(entries_).subspan(ends_[group], ends_[group + 1] - ends_[group]);
  }
  [[nodiscard]] std::span<Entry> operator[](std::size_t group) {
    return std::span(entries_).subspan(ends_[group], ends_[group + 1] - ends_[group]);
  }

 private:
  std::vector<std::size_t> ends_;
  std::vector<Entry> entries_;
};

/// The states that are reached and lead to acceptance, in breadth-first order: of two automata that
/// differ in names only the results are equal.
[[nodiscard]] inline automaton trim(automaton a, budget& left) {
  if (a.empty()) {
    return {};
  }
  const std::size_t states = a.states();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> moves;  // to, from
  for (std::uint32_t s = 0; s < states; ++s) {
    left.spend(a.runs[s].size() + 1);
    for (const run& r : a.runs[s]) {
      moves.emplace_back(r.next, s);
    }
  }
  const grouped into(states, moves, [](const auto& m) { return m.first; });
  std::vector<std::uint8_t> is_live(a.accepting);
  std::vector<std::uint32_t> todo;
  for (std::uint32_t s = 0; s < states; ++s) {
    if (is_live[s] != 0) {
      todo.push_back(s);
    }
  }
  while (!todo.empty()) {
    const std::uint32_t s = todo.back();
    todo.pop_back();
    left.spend();
    for (const auto& [to, p] : into[s]) {
      if (is_live[p] == 0) {
        is_live[p] = 1;
        todo.push_back(p);
      }
    }
  }
  if (is_live[a.start] == 0) {
    return {};
  }
  std::vector<std::uint32_t> name(states, dead_state);
  std::vector<std::uint32_t> order{a.start};
  name[a.start] = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const run& r : a.runs[order[i]]) {
      if (is_live[r.next] != 0 && name[r.next] == dead_state) {
        name[r.next] = static_cast<std::uint32_t>(order.size());
        order.push_back(r.next);
      }
    }
  }
  automaton out;
  for (const std::uint32_t s : order) {
    left.spend(a.runs[s].size() + 1);
    std::vector<run>& runs = a.runs[s];
    std::erase_if(runs, [&](const run& r) { return is_live[r.next] == 0; });
    for (run& r : runs) {
      r.next = name[r.next];
    }
    join(runs);
    add_state(out, a.accepting[s] != 0);
    out.runs.back() = std::move(runs);
  }
  return out;
}

/// Classes of symbols: the symbols of one class lead from each state to the same state.
class symbol_classes {
 public:
  explicit symbol_classes(const automaton& a, budget& left) {
    for (const std::vector<run>& runs : a.runs) {
      left.spend(runs.size() + 1);
      for (const run& r : runs) {
        bounds_.push_back(r.first);
        bounds_.push_back(r.last + 1);
      }
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    // The column of a symbol as a sum of hashes, 128 bits, which changes at bounds only.
    struct column {
      std::uint64_t first = 0;
      std::uint64_t second = 0;
    };
    std::vector<column> change(bounds_.size());
    for (std::uint32_t s = 0; s < a.states(); ++s) {
      for (const run& r : a.runs[s]) {
        left.spend(8);
        const std::uint64_t h = mix(std::uint64_t{s} << 32U | r.next);
        const std::uint64_t g = mix(h ^ 0x1234567U);
        column& begin = change[at(r.first)];
        begin.first += h;
        begin.second += g;
        column& end = change[at(r.last + 1)];
        end.first -= h;
        end.second -= g;
      }
    }
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> names;
    class_.assign(bounds_.size(), dead_state);
    column sum;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      sum.first += change[i].first;
      sum.second += change[i].second;
      if (sum.first != 0 || sum.second != 0) {
        const auto number = static_cast<std::uint32_t>(names.size());
        class_[i] = names.try_emplace({sum.first, sum.second}, number).first->second;
      }
    }
    count_ = names.size();
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  /// Calls use(class) for the classes of a run; one may come several times.
  void for_each(const run& r, const auto& use) const {
    for (std::size_t i = at(r.first); i < bounds_.size() && bounds_[i] <= r.last; ++i) {
      use(class_[i]);
    }
  }

 private:
  [[nodiscard]] std::size_t at(std::uint32_t symbol) const {
    return static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), symbol) -
                                    bounds_.begin());
  }

  std::vector<std::uint32_t> bounds_;
  std::vector<std::uint32_t> class_;
  std::size_t count_ = 0;
};

/// The smallest automaton of a language, its states in breadth-first order.
///
/// Source: J. Hopcroft, "An n log n algorithm for minimizing states in a finite automaton", 1971,
/// on partial automata. Cost: O(states * classes that a state uses * log(states)).
[[nodiscard]] inline automaton minimise(automaton given, budget& left) {
  automaton a = trim(std::move(given), left);
  const auto states = static_cast<std::uint32_t>(a.states());
  if (states < 2) {
    return a;
  }
  struct move {
    std::uint32_t by;    // class of symbols
    std::uint32_t from;  // state
    std::uint32_t to;
  };
  std::vector<move> moves;
  {
    const symbol_classes classes(a, left);
    std::vector<std::uint32_t> seen(classes.count(), dead_state);
    for (std::uint32_t s = 0; s < states; ++s) {
      for (const run& r : a.runs[s]) {
        classes.for_each(r, [&](std::uint32_t c) {
          left.spend();
          if (seen[c] != s) {
            seen[c] = s;
            moves.push_back({c, s, r.next});
          }
        });
      }
      left.check_positions(moves.size() / 2);  // of 12 bytes, twice
    }
  }
  const auto by_class = [](const move& p, const move& q) { return p.by < q.by; };
  grouped into(states, moves, [](const move& m) { return m.to; });
  for (std::uint32_t s = 0; s < states; ++s) {
    std::ranges::sort(into[s], by_class);
  }
  // Blocks of states are runs of `elements`; the marked ones are first.
  std::vector<std::uint32_t> elements(states);
  std::vector<std::uint32_t> place(states);
  std::vector<std::uint32_t> block_of(states, 0);
  for (std::uint32_t s = 0; s < states; ++s) {
    elements[s] = place[s] = s;
  }
  std::vector<std::uint32_t> first{0};
  std::vector<std::uint32_t> past{states};
  std::vector<std::uint32_t> marked{0};
  std::vector<std::uint32_t> touched;
  std::vector<std::uint32_t> work{0};
  const auto mark = [&](std::uint32_t s) {
    const std::uint32_t block = block_of[s];
    const std::uint32_t at = place[s];
    const std::uint32_t to = first[block] + marked[block];
    if (at < to) {
      return;
    }
    std::swap(elements[at], elements[to]);
    place[elements[at]] = at;
    place[s] = to;
    if (marked[block]++ == 0) {
      touched.push_back(block);
    }
  };
  const auto split = [&] {
    for (const std::uint32_t block : touched) {
      const std::uint32_t middle = first[block] + std::exchange(marked[block], 0U);
      if (middle == past[block]) {
        continue;
      }
      const auto made = static_cast<std::uint32_t>(first.size());
      const bool is_first_smaller = middle - first[block] <= past[block] - middle;
      first.push_back(is_first_smaller ? first[block] : middle);
      past.push_back(is_first_smaller ? middle : past[block]);
      marked.push_back(0);
      (is_first_smaller ? first : past)[block] = middle;
      left.spend(past[made] - first[made]);
      for (std::uint32_t i = first[made]; i < past[made]; ++i) {
        block_of[elements[i]] = made;
      }
      work.push_back(made);  // the smaller part; a block that is in the work stays there
    }
    touched.clear();
  };
  for (std::uint32_t s = 0; s < states; ++s) {
    if (a.accepting[s] != 0) {
      mark(s);
    }
  }
  split();
  std::vector<move> in;
  while (!work.empty()) {
    const std::uint32_t block = work.back();
    work.pop_back();
    std::span<const move> of = into[elements[first[block]]];
    if (past[block] - first[block] > 1) {
      in.clear();
      for (std::uint32_t i = first[block]; i < past[block]; ++i) {
        const std::span<const move> more = into[elements[i]];
        in.insert(in.end(), more.begin(), more.end());
      }
      std::sort(in.begin(), in.end(), by_class);
      of = in;
    }
    left.spend(4 * of.size() + 4);
    for (std::size_t i = 0; i < of.size();) {
      const std::uint32_t by = of[i].by;
      for (; i < of.size() && of[i].by == by; ++i) {
        mark(of[i].from);
      }
      split();
    }
  }
  automaton out;
  for (const std::uint32_t i : first) {
    const std::uint32_t s = elements[i];
    for (run& r : a.runs[s]) {
      r.next = block_of[r.next];
    }
    join(a.runs[s]);
    add_state(out, a.accepting[s] != 0);
    out.runs.back() = std::move(a.runs[s]);
  }
  out.start = block_of[a.start];
  return trim(std::move(out), left);
}

/// How product() combines two languages.
enum class combination : std::uint8_t {
  both,        ///< Strings of both.
  either,      ///< Strings of one or both.
  first_only,  ///< Strings of the first that are not of the second.
};

/// Two languages as one, smallest. Cost: pairs of states that are reached, and their runs.
[[nodiscard]] inline automaton
product(const automaton& a, const automaton& b, combination how, budget& left) {
  const bool needs_first = how != combination::either;
  const bool needs_both = how == combination::both;
  if (a.empty()) {
    return needs_first ? automaton{} : b;
  }
  if (b.empty()) {
    return needs_both ? automaton{} : a;
  }
  lists_of_numbers pairs;
  automaton out;
  const auto state_of = [&](std::uint32_t p, std::uint32_t q) {
    const auto [name, is_new] = pairs.add(std::array{p, q});
    if (is_new) {
      const bool in_a = p != dead_state && a.accepting[p] != 0;
      const bool in_b = q != dead_state && b.accepting[q] != 0;
      add_state(out, needs_both ? in_a && in_b : needs_first ? in_a && !in_b : in_a || in_b);
      left.check_states(out.states());
    }
    return name;
  };
  state_of(a.start, b.start);
  const std::vector<run> nothing;
  std::size_t count = 0;
  for (std::uint32_t s = 0; s < out.states(); ++s) {
    const std::uint32_t p = pairs[s][0];
    const std::uint32_t q = pairs[s][1];
    const std::vector<run>& of_a = p == dead_state ? nothing : a.runs[p];
    const std::vector<run>& of_b = q == dead_state ? nothing : b.runs[q];
    left.spend(4 * (of_a.size() + of_b.size()));
    std::vector<run> runs;
    std::size_t i = 0;
    std::size_t j = 0;
    std::uint32_t at = 0;
    while (i < of_a.size() || j < of_b.size()) {
      const std::uint32_t first_a = i < of_a.size() ? std::max(of_a[i].first, at) : dead_state;
      const std::uint32_t first_b = j < of_b.size() ? std::max(of_b[j].first, at) : dead_state;
      const std::uint32_t first = std::min(first_a, first_b);
      std::uint32_t last = dead_state - 1;
      const auto target = [&](const std::vector<run>& of, std::size_t k, std::uint32_t begins) {
        if (begins == first) {
          last = std::min(last, of[k].last);
          return of[k].next;
        }
        last = begins == dead_state ? last : std::min(last, begins - 1);
        return dead_state;
      };
      const std::uint32_t next_p = target(of_a, i, first_a);
      const std::uint32_t next_q = target(of_b, j, first_b);
      const bool is_kept =
          (next_p != dead_state || !needs_first) && (next_q != dead_state || !needs_both);
      if (is_kept) {
        runs.push_back({first, last, state_of(next_p, next_q)});
      }
      at = last + 1;
      i += i < of_a.size() && of_a[i].last < at ? 1U : 0U;
      j += j < of_b.size() && of_b[j].last < at ? 1U : 0U;
    }
    join(runs);
    left.check_positions(count += runs.size());
    out.runs[s] = std::move(runs);
  }
  return minimise(std::move(out), left);
}

/// The smallest automaton of states that functions make: step(state, symbol) changes a state and
/// returns whether the symbol is allowed there, accepts(state) whether a string may end.
/// `State` has an order.
template <class State, class Step, class Accepts>
[[nodiscard]] automaton explore(const State& start,
                                const std::vector<std::uint32_t>& symbols,
                                const Step& step,
                                const Accepts& accepts,
                                budget& left) {
  std::map<State, std::uint32_t> names;
  std::vector<State> states;
  automaton out;
  const auto name_of = [&](const State& state) {
    const auto [at, is_new] = names.try_emplace(state, static_cast<std::uint32_t>(out.states()));
    if (is_new) {
      states.push_back(state);
      add_state(out, accepts(state));
      left.check_states(out.states());
    }
    return at->second;
  };
  name_of(start);
  for (std::uint32_t s = 0; s < out.states(); ++s) {
    std::vector<run> runs;
    for (const std::uint32_t symbol : symbols) {
      left.spend(16);
      State state = states[s];
      if (step(state, symbol)) {
        runs.push_back({symbol, symbol, name_of(state)});
      }
    }
    join(runs);
    out.runs[s] = std::move(runs);
  }
  return minimise(std::move(out), left);
}

}  // namespace UNMASK_NAMESPACE::detail::languages
