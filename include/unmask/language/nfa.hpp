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
#include <tuple>
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
  /// Moves away from each state, in the order in which it was added.
  struct moves {
    struct by_run {
      std::uint32_t from;
      run by;
    };
    struct by_nothing {
      std::uint32_t from;
      free_move by;
    };

    grouped<by_run> runs;
    grouped<by_nothing> free;
  };

  explicit nfa(budget& left)
      : left_(&left) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  /// States of the largest automaton that was put in.
  [[nodiscard]] std::size_t largest() const { return largest_; }
  /// The moves by states. Cost: O(states + moves).
  [[nodiscard]] moves by_state() const {
    left_->spend(2 * (size_ + runs_.size() + free_.size()));
    return {{size_, runs_, [](const moves::by_run& m) { return m.from; }},
            {size_, free_, [](const moves::by_nothing& m) { return m.from; }}};
  }

  /// A new state.
  std::uint32_t add() {
    left_->check_positions(++size_ + runs_.size());
    return size_ - 1;
  }
  /// A move without a symbol.
  void link(std::uint32_t from, std::uint32_t to, place_in_text where = place_in_text::anywhere) {
    free_.push_back({from, {to, where}});
  }
  /// A move by the symbols first .. last.
  void arc(std::uint32_t from, std::uint32_t first, std::uint32_t last, std::uint32_t to) {
    runs_.push_back({from, {first, last, to}});
    left_->check_positions(size_ + runs_.size());
  }
  /// A move by every code point.
  void any_code(std::uint32_t from, std::uint32_t to) {
    for (const run& r : runs_of_any_code(to)) {
      arc(from, r.first, r.last, to);
    }
  }
  /// A copy of an automaton between two states.
  void put(const automaton& a, std::uint32_t from, std::uint32_t to) {
    const std::uint32_t base = size_;
    largest_ = std::max(largest_, a.states());
    for (std::uint32_t s = 0; s < a.states(); ++s) {
      const std::uint32_t here = add();
      for (const run& r : a.runs[s]) {
        arc(here, r.first, r.last, r.next + base);
      }
      if (a.accepting[s] != 0) {
        link(here, to);
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
  std::vector<moves::by_run> runs_;
  std::vector<moves::by_nothing> free_;
  std::uint32_t size_ = 0;
  std::size_t largest_ = 0;
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
      : n_(n.by_state())
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
      for (const auto& [from, m] : n_.free[s]) {
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
      if (!n_.runs[q].empty()) {
        set.push_back(q);
      }
    });
    walk(start, at_start | at_end, [&](std::uint32_t q) { is_accepting |= q == final_; });
    if (is_accepting) {
      set.push_back(final_);
    }
    name_of(set);
    for (std::uint32_t s = 0; s < out_.states(); ++s) {
      set.assign(sets_[s].begin(), sets_[s].end());
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
      left_.spend(n_.free[q].size() + 1);
      use(q);
      for (const auto& [past, m] : n_.free[q]) {
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
        if (!n_.runs[q].empty()) {
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
    std::uint32_t name = dead_state;
    bool is_new = true;
    if (set.size() != 1) {
      std::tie(name, is_new) = sets_.add(set);
    } else if (alone_[set[0]] == dead_state) {
      name = alone_[set[0]] = static_cast<std::uint32_t>(sets_.size());
      sets_.append(set);
    } else {
      return alone_[set[0]];
    }
    if (is_new) {
      add_state(out_, std::binary_search(set.begin(), set.end(), final_));
      left_.check_states(out_.states());
      left_.check_positions(members_ += set.size());
    }
    return name;
  }
  // The state after all of `targets`, sorted.
  std::uint32_t state_after(const numbers& targets) {
    const auto [index, is_new] = targets_.add(targets);
    if (!is_new) {
      return after_targets_[index];
    }
    set_.clear();
    for (const std::uint32_t t : targets) {
      const std::span<const std::uint32_t> closed = closure(t);
      set_.insert(set_.end(), closed.begin(), closed.end());
    }
    left_.spend(4 * set_.size());
    left_.check_positions(members_ += targets.size());
    after_targets_.push_back(name_of(set_));
    return after_targets_.back();
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
  static bool is_ordered(std::span<const nfa::moves::by_run> runs) {
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].by.first <= runs[i - 1].by.last) {
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
      only = n_.runs[q].empty() ? only : &q;
      movers = n_.runs[q].empty() ? movers : movers + 1;
    }
    if (movers == 1 && is_ordered(n_.runs[*only])) {
      const std::span<const nfa::moves::by_run> from = n_.runs[*only];
      std::vector<run> runs;
      runs.reserve(from.size());
      left_.spend(8 * from.size() + 8);
      for (const auto& [s, r] : from) {
        runs.push_back({r.first, r.last, state_after(r.next)});
      }
      join(runs);
      return runs;
    }
    moves_.clear();
    bounds_.clear();
    for (const std::uint32_t q : set) {
      for (const auto& [s, r] : n_.runs[q]) {
        moves_.push_back(r);
      }
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

  nfa::moves n_;
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
  lists_of_numbers sets_;     // [states]
  lists_of_numbers targets_;  // of moves
  numbers after_targets_;     // the names of the sets after them
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
