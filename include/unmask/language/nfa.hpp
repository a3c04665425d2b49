// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/budget.hpp>
#include <unmask/language/operations.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// Where a move without a symbol may be made. Greater numbers are those of look_around, which makes
/// them obligations.
enum class place_in_text : std::uint32_t {
  anywhere = 0,
  at_start = 1,  ///< In front of the first symbol only.
  at_end = 2,    ///< Behind the last symbol only.
};

/// A nondeterministic automaton: moves by runs of symbols, and moves without a symbol.
class nfa {
 public:
  struct free_move {
    std::uint32_t to;
    place_in_text where;
  };

  explicit nfa(budget& left)
      : left_(&left) {}

  [[nodiscard]] std::size_t size() const { return runs_.size(); }
  [[nodiscard]] const std::vector<run>& runs(std::uint32_t s) const { return runs_[s]; }
  [[nodiscard]] const std::vector<free_move>& free_moves(std::uint32_t s) const { return free_[s]; }

  /// A new state.
  std::uint32_t add() {
    runs_.emplace_back();
    free_.emplace_back();
    left_->check_positions(++count_);
    return static_cast<std::uint32_t>(runs_.size() - 1);
  }
  /// A move without a symbol.
  void link(std::uint32_t from, std::uint32_t to, place_in_text where = place_in_text::anywhere) {
    free_[from].push_back({to, where});
  }
  /// A move by the symbols first .. last.
  void arc(std::uint32_t from, std::uint32_t first, std::uint32_t last, std::uint32_t to) {
    runs_[from].push_back({first, last, to});
    left_->check_positions(++count_);
  }
  /// A move by every code point.
  void any_code(std::uint32_t from, std::uint32_t to) {
    for (const run& r : runs_of_any_code(to)) {
      arc(from, r.first, r.last, to);
    }
  }
  /// A copy of an automaton between two states.
  void put(const automaton& a, std::uint32_t from, std::uint32_t to) {
    const auto base = static_cast<std::uint32_t>(runs_.size());
    for (std::uint32_t s = 0; s < a.states(); ++s) {
      std::vector<run>& runs = runs_[add()];
      left_->spend(a.runs[s].size());
      left_->check_positions(count_ += a.runs[s].size());
      runs.reserve(a.runs[s].size());
      for (const run& r : a.runs[s]) {
        runs.push_back({r.first, r.last, r.next + base});
      }
      if (a.accepting[s] != 0) {
        link(base + s, to);
      }
    }
    if (!a.empty()) {
      link(from, base + a.start);
    }
  }
  /// The bytes of a text, one after the other; returns the state after them.
  std::uint32_t text(std::uint32_t from, std::string_view bytes) {
    for (const char c : bytes) {
      const std::uint32_t to = add();
      const auto byte = static_cast<unsigned char>(c);
      arc(from, byte, byte, to);
      from = to;
    }
    return from;
  }

 private:
  std::vector<std::vector<run>> runs_;
  std::vector<std::vector<free_move>> free_;
  std::size_t count_ = 0;  // of states and runs
  budget* left_;
};

/// Makes an automaton deterministic: states are sets of those that have moves by symbols, and of
/// `final` where a string may end. `any`, if it is a state, accepts every text that follows, and
/// takes the place of every set that it is in.
///
/// Cost: the sum over the resulting states of the moves of their sets, and their sorting.
class determiniser {
 public:
  determiniser(const nfa& n, std::uint32_t final, budget& left, std::uint32_t any)
      : n_(n)
      , left_(left)
      , final_(final)
      , any_(any)
      , closures_(n.size(), {dead_state, dead_state})
      , stamp_(n.size(), 0)
      , alone_(n.size(), dead_state)
      , after_one_(n.size(), dead_state)
      , ends_(n.size(), 0) {
    bool has_end = false;
    for (std::uint32_t s = 0; s < n.size(); ++s) {
      for (const nfa::free_move& m : n.free_moves(s)) {
        has_end = has_end || m.where == place_in_text::at_end;
      }
    }
    ends_[final] = 1;
    for (std::uint32_t s = 0; has_end && s < n.size(); ++s) {
      walk(s, at_end, [&](std::uint32_t q) { ends_[s] |= q == final_ ? 1 : 0; });
    }
  }

  [[nodiscard]] automaton run_from(std::uint32_t start) {
    std::vector<std::uint32_t> set;
    bool is_accepting = false;
    walk(start, at_start, [&](std::uint32_t q) {
      if (!n_.runs(q).empty()) {
        set.push_back(q);
      }
    });
    walk(start, at_start | at_end, [&](std::uint32_t q) { is_accepting |= q == final_; });
    if (is_accepting) {
      set.push_back(final_);
    }
    name_of(set);
    for (std::uint32_t s = 0; s < out_.states(); ++s) {
      const auto begin = sets_.begin() + static_cast<std::ptrdiff_t>(s == 0 ? 0 : set_ends_[s - 1]);
      set.assign(begin, sets_.begin() + static_cast<std::ptrdiff_t>(set_ends_[s]));
      out_.runs[s] = runs_of(set);
      left_.check_positions(members_ += out_.runs[s].size());
    }
    return std::move(out_);
  }

 private:
  using numbers = std::vector<std::uint32_t>;
  static constexpr unsigned at_start = static_cast<unsigned>(place_in_text::at_start);
  static constexpr unsigned at_end = static_cast<unsigned>(place_in_text::at_end);

  // Calls use(state) for those that moves without a symbol reach at such a place.
  void walk(std::uint32_t from, unsigned place, const auto& use) {
    ++now_;
    todo_.assign(1, from);
    stamp_[from] = now_;
    while (!todo_.empty()) {
      const std::uint32_t q = todo_.back();
      todo_.pop_back();
      left_.spend(n_.free_moves(q).size() + 1);
      use(q);
      for (const nfa::free_move& m : n_.free_moves(q)) {
        if ((static_cast<unsigned>(m.where) & ~place) == 0 && stamp_[m.to] != now_) {
          stamp_[m.to] = now_;
          todo_.push_back(m.to);
        }
      }
    }
  }
  [[nodiscard]] std::span<const std::uint32_t> closure(std::uint32_t s) {
    auto& [begin, end] = closures_[s];
    if (begin == dead_state) {
      begin = static_cast<std::uint32_t>(closed_.size());
      bool is_end = false;
      walk(s, 0, [&](std::uint32_t q) {
        if (!n_.runs(q).empty()) {
          closed_.push_back(q);
        }
        is_end = is_end || ends_[q] != 0;
      });
      if (is_end) {
        closed_.push_back(final_);
      }
      end = static_cast<std::uint32_t>(closed_.size());
      left_.check_positions(members_ += end - begin);
    }
    return std::span(closed_).subspan(begin, end - begin);
  }
  std::uint32_t name_of(numbers& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    if (any_ != dead_state && std::binary_search(set.begin(), set.end(), any_)) {
      set = {std::min(any_, final_), std::max(any_, final_)};
    }
    std::uint32_t& name =
        set.size() == 1 ? alone_[set[0]] : names_.try_emplace(set, dead_state).first->second;
    if (name == dead_state) {
      name = static_cast<std::uint32_t>(out_.states());
      add_state(out_, std::binary_search(set.begin(), set.end(), final_));
      left_.check_states(out_.states());
      left_.check_positions(members_ += set.size());
      sets_.insert(sets_.end(), set.begin(), set.end());
      set_ends_.push_back(sets_.size());
    }
    return name;
  }
  // The state after all of `targets`, sorted.
  std::uint32_t state_after(const numbers& targets) {
    const auto found = by_targets_.find(targets);
    if (found != by_targets_.end()) {
      return found->second;
    }
    set_.clear();
    for (const std::uint32_t t : targets) {
      const std::span<const std::uint32_t> closed = closure(t);
      set_.insert(set_.end(), closed.begin(), closed.end());
    }
    left_.spend(4 * set_.size());
    const std::uint32_t name = name_of(set_);
    left_.check_positions(members_ += targets.size());
    by_targets_.emplace(targets, name);
    return name;
  }
  // The state after one target alone, as most are: no set is looked up again.
  std::uint32_t state_after(std::uint32_t target) {
    if (after_one_[target] == dead_state) {
      const std::span<const std::uint32_t> closed = closure(target);
      set_.assign(closed.begin(), closed.end());
      left_.spend(4 * set_.size());
      after_one_[target] = name_of(set_);
    }
    return after_one_[target];
  }
  // Whether runs ascend and are disjoint.
  static bool is_ordered(const std::vector<run>& runs) {
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].first <= runs[i - 1].last) {
        return false;
      }
    }
    return true;
  }
  // Sweeps over the sorted bounds of the runs of a set, unless one member alone has runs in order.
  std::vector<run> runs_of(const numbers& set) {
    const std::uint32_t* only = nullptr;
    std::size_t movers = 0;
    for (const std::uint32_t& q : set) {
      only = n_.runs(q).empty() ? only : &q;
      movers = n_.runs(q).empty() ? movers : movers + 1;
    }
    if (movers == 1 && is_ordered(n_.runs(*only))) {
      const std::uint32_t from = *only;
      std::vector<run> runs;
      runs.reserve(n_.runs(from).size());
      left_.spend(8 * n_.runs(from).size() + 8);
      for (const run& r : n_.runs(from)) {
        runs.push_back({r.first, r.last, state_after(r.next)});
      }
      join(runs);
      return runs;
    }
    moves_.clear();
    bounds_.clear();
    for (const std::uint32_t q : set) {
      moves_.insert(moves_.end(), n_.runs(q).begin(), n_.runs(q).end());
    }
    left_.spend(8 * moves_.size() + 8);
    std::sort(
        moves_.begin(), moves_.end(), [](const run& a, const run& b) { return a.first < b.first; });
    for (const run& r : moves_) {
      bounds_.push_back(r.first);
      bounds_.push_back(r.last + 1);
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    std::vector<run> live;
    std::vector<run> runs;
    numbers targets;
    numbers last_targets;
    std::uint32_t name = dead_state;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < bounds_.size(); ++i) {
      std::erase_if(live, [&](const run& r) { return r.last < bounds_[i]; });
      for (; at < moves_.size() && moves_[at].first == bounds_[i]; ++at) {
        live.push_back(moves_[at]);
      }
      if (live.empty()) {
        continue;
      }
      left_.spend(live.size());
      targets.clear();
      for (const run& r : live) {
        targets.push_back(r.next);
      }
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      if (targets != last_targets) {
        last_targets = targets;
        name = targets.size() == 1 ? state_after(targets[0]) : state_after(targets);
      }
      runs.push_back({bounds_[i], bounds_[i + 1] - 1, name});
    }
    join(runs);
    return runs;
  }

  const nfa& n_;
  budget& left_;
  std::uint32_t final_;
  std::uint32_t any_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> closures_;  // parts of `closed_`
  numbers closed_;
  numbers set_;  // the set that is being made
  std::vector<std::uint32_t> stamp_;
  numbers alone_;                   // the name of the set of one state
  numbers after_one_;               // the name of the set after one target
  std::vector<std::uint8_t> ends_;  // whether the end is reached behind the last symbol
  std::uint32_t now_ = 0;
  numbers todo_;
  std::unordered_map<numbers, std::uint32_t, hash_of_numbers> names_;
  std::unordered_map<numbers, std::uint32_t, hash_of_numbers> by_targets_;
  numbers sets_;                       // one after the other
  std::vector<std::size_t> set_ends_;  // [states]
  std::vector<run> moves_;
  numbers bounds_;
  std::size_t members_ = 0;
  automaton out_;
};

/// `least` to `most` times what add_one(state) adds behind a state; returns the state after them.
/// No bound above: `most` is the greatest number.
std::uint32_t
repeat(nfa& n, std::uint32_t from, std::uint32_t least, std::uint32_t most, const auto& add_one) {
  for (std::uint32_t i = 0; i < least; ++i) {
    from = add_one(from);
  }
  if (most == dead_state) {
    const std::uint32_t loop = n.add();
    n.link(from, loop);
    n.link(add_one(loop), loop);
    return loop;
  }
  const std::uint32_t end = n.add();
  n.link(from, end);
  for (std::uint32_t i = least; i < most; ++i) {
    const std::uint32_t begin = n.add();
    n.link(from, begin);
    from = add_one(begin);
    n.link(from, end);
  }
  return end;
}

/// Takes the empty string from a part that repeats `least` to `most` times; `least` is then 0 if
/// the part had it, and so is `most` if the part had nothing else. The same language, with fewer
/// ways to read it. The automaton is a smallest one.
inline void drop_empty(automaton& part, std::uint32_t& least, std::uint32_t& most) {
  if (!part.empty() && part.accepting[part.start] != 0) {
    least = 0;
    if (part.runs[part.start].empty()) {
      most = 0;
    }
    const std::uint32_t start = add_state(part);
    part.runs[start] = part.runs[part.start];
    part.start = start;
  }
}

/// The strings from `start` to `final`, deterministic; not smallest.
[[nodiscard]] inline automaton determinise(const nfa& n,
                                           std::uint32_t start,
                                           std::uint32_t final,
                                           budget& left,
                                           std::uint32_t any = dead_state) {
  return determiniser(n, final, left, any).run_from(start);
}

/// Like determinise(), smallest.
[[nodiscard]] inline automaton smallest(const nfa& n,
                                        std::uint32_t start,
                                        std::uint32_t final,
                                        budget& left,
                                        std::uint32_t any = dead_state) {
  return minimise(determinise(n, start, final, left, any), left);
}

}  // namespace UNMASK_NAMESPACE::detail::languages
