// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/byte_automaton.hpp>
#include <unmask/constraint/token_automaton.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

/// The smallest automaton of a language. Compilers of expressions often leave three times the
/// states, and all that a constraint does takes time by their number.
namespace UNMASK_NAMESPACE::detail::constraints {

/// Numbers in disjoint sets, which are split: the marked numbers of a set leave the others.
class partition {
 public:
  /// The sets are runs of `elements`, each number once: set s ends before ends[s].
  partition(std::vector<std::uint32_t> elements, std::vector<std::uint32_t> ends)
      : elements_(std::move(elements))
      , place_(elements_.size())
      , set_of_(elements_.size())
      , past_(std::move(ends))
      , marked_(past_.size(), 0) {
    std::uint32_t first = 0;
    for (std::uint32_t s = 0; s < past_.size(); ++s) {
      first_.push_back(first);
      for (; first < past_[s]; ++first) {
        place_[elements_[first]] = first;
        set_of_[elements_[first]] = s;
      }
    }
  }

  [[nodiscard]] std::size_t sets() const { return first_.size(); }
  [[nodiscard]] std::uint32_t set_of(std::uint32_t element) const { return set_of_[element]; }
  /// Calls use(element) for the elements of a set. It may mark none of them.
  void for_each(std::size_t set, const auto& use) const {
    for (std::uint32_t i = first_[set]; i < past_[set]; ++i) {
      use(elements_[i]);
    }
  }
  /// Marks a number that is not marked.
  void mark(std::uint32_t element) {
    const std::uint32_t s = set_of_[element];
    const std::uint32_t to = first_[s] + marked_[s];
    const std::uint32_t other = elements_[to];
    elements_[place_[element]] = other;
    place_[other] = place_[element];
    elements_[to] = element;
    place_[element] = to;
    if (marked_[s]++ == 0) {
      touched_.push_back(s);
    }
  }
  /// Splits the sets that have marked numbers and others; the smaller part becomes a new set.
  void split() {
    for (const std::uint32_t s : touched_) {
      const std::uint32_t middle = first_[s] + std::exchange(marked_[s], 0);
      if (middle == past_[s]) {
        continue;
      }
      const auto made = static_cast<std::uint32_t>(first_.size());
      const bool is_first_smaller = middle - first_[s] <= past_[s] - middle;
      first_.push_back(is_first_smaller ? first_[s] : middle);
      past_.push_back(is_first_smaller ? middle : past_[s]);
      marked_.push_back(0);
      (is_first_smaller ? first_ : past_)[s] = middle;
      for_each(made, [&](std::uint32_t e) { set_of_[e] = made; });
    }
    touched_.clear();
  }

 private:
  std::vector<std::uint32_t> elements_;
  std::vector<std::uint32_t> place_;
  std::vector<std::uint32_t> set_of_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> past_;
  std::vector<std::uint32_t> marked_;
  std::vector<std::uint32_t> touched_;
};

/// The smallest automaton of the language of one whose states can all be reached and all lead to
/// acceptance. States keep the order of the first one that each replaces.
///
/// Source: A. Valmari, "Fast brief practical DFA minimization", 2012, for partial transitions: sets
/// of states split sets of transitions, and those split sets of states, until none does.
/// Cost: O(transitions * log(states)).
[[nodiscard]] inline byte_table minimal(const byte_table& a) {
  const auto states = static_cast<std::uint32_t>(a.accepting.size());
  // Transitions by byte.
  std::vector<std::uint32_t> from;
  std::vector<std::uint32_t> next;
  std::vector<std::uint32_t> ends;
  for (std::size_t b = 0; b < 256; ++b) {
    for (std::uint32_t q = 0; q < states; ++q) {
      if (a.next[256 * std::size_t{q} + b] != dead_state) {
        from.push_back(q);
        next.push_back(a.next[256 * std::size_t{q} + b]);
      }
    }
    if (from.size() > (ends.empty() ? 0U : ends.back())) {
      ends.push_back(static_cast<std::uint32_t>(from.size()));
    }
  }
  // Transitions into each state.
  const std::vector<std::uint32_t> first_into =
      firsts_of(states, next.size(), [&](std::size_t t) { return next[t]; });
  std::vector<std::uint32_t> into(next.size());
  std::vector<std::uint32_t> at(first_into.begin(), first_into.end() - 1);
  for (std::uint32_t t = 0; t < next.size(); ++t) {
    into[at[next[t]]++] = t;
  }

  const auto all = [](std::size_t count) {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0U);
    return numbers;
  };
  partition blocks(all(states), {states});
  partition moves(all(next.size()), std::move(ends));
  for (std::uint32_t q = 0; q < states; ++q) {
    if (a.accepting[q] != 0) {
      blocks.mark(q);
    }
  }
  blocks.split();
  std::size_t split_by = 1;  // blocks before this one have split the moves; the first need not
  for (std::size_t m = 0; m < moves.sets(); ++m) {
    moves.for_each(m, [&](std::uint32_t t) { blocks.mark(from[t]); });
    blocks.split();
    for (; split_by < blocks.sets(); ++split_by) {
      blocks.for_each(split_by, [&](std::uint32_t q) {
        for (std::uint32_t k = first_into[q]; k < first_into[q + 1]; ++k) {
          moves.mark(into[k]);
        }
      });
      moves.split();
    }
  }

  std::vector<std::uint32_t> name(blocks.sets(), dead_state);
  byte_table out;
  std::vector<std::uint32_t> first_of;  // by new state
  for (std::uint32_t q = 0; q < states; ++q) {
    if (name[blocks.set_of(q)] == dead_state) {
      name[blocks.set_of(q)] = static_cast<std::uint32_t>(first_of.size());
      first_of.push_back(q);
    }
  }
  out.start = name[blocks.set_of(a.start)];
  for (const std::uint32_t q : first_of) {
    out.accepting.push_back(a.accepting[q]);
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t to = a.next[256 * std::size_t{q} + b];
      out.next.push_back(to == dead_state ? dead_state : name[blocks.set_of(to)]);
    }
  }
  return out;
}

}  // namespace unmask::detail::constraints
