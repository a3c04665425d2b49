// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field_tables.hpp>
#include <unmask/core/math.hpp>
#include <unmask/step/slot_arrays.hpp>
#include <unmask/step/thread_group.hpp>

#include <cstddef>
#include <cstdint>

/// A constrained field where a step can call nothing of the host: the states that are possible left
/// and right of each position are computed from tables of its automaton, a byte for a state.
/// running_field.hpp has the same rule over interned sets.
namespace UNMASK_NAMESPACE::step {

/// The sets of states between the tokens of a field, from one end: constraints::chain, whose marks
/// mean the same.
struct walk_chain {
  index_t ok = 0;
  index_t end = 0;
  index_t same_from = 0;

  UNMASK_HD void changed(index_t j) {
    if (j < end) {
      const bool waits = ok < end;
      same_from = waits ? math::max(same_from, math::max(ok, j) + 1) : j + 1;
    }
    ok = math::min(ok, j);
  }
};

/// A constrained field of a sequence: its tables, in one block of bytes, and how far its sets are
/// known.
///
/// Functions with a thread group are called by all of its lanes, and are barriers; a lane alone
/// calls them with serial. Positions count from the beginning of the field.
struct field_walk : detail::field_tables {
  bool is_broken = false;
  walk_chain of_left = {};
  walk_chain of_right = {};
  // Positions whose possible tokens may have changed since they were last looked at.
  index_t changed_first = 0;
  index_t changed_last = 0;

  /// Takes the arrays of a field of these sizes from a layout.
  void take(slot_layout& next, const detail::field_sizes& sizes) {
    n = sizes;
    changed_last = size();
    class_of = next.take<std::uint32_t>(n.vocab);
    first_edge = next.take<std::uint32_t>(n.classes + 1);
    edge_from = next.take<std::uint32_t>(n.edges);
    edge_next = next.take<std::uint32_t>(n.edges);
    back_from = next.take<std::uint32_t>(n.edges);
    back_next = next.take<std::uint32_t>(n.edges);
    lowest_of = next.take<token_id>(n.classes);
    has_several = next.take<std::uint8_t>(n.classes);
    usable = next.take<std::uint8_t>(n.restrictions * n.classes);
    first_after = next.take<std::uint32_t>(n.restrictions * (n.states + 1));
    after = next.take<std::uint32_t>(n.neighbours);
    first_before = next.take<std::uint32_t>(n.restrictions * (n.states + 1));
    before = next.take<std::uint32_t>(n.neighbours);
    symbols = next.take<std::uint32_t>(n.positions);
    masked_symbols = next.take<std::uint32_t>(n.positions);
    left = next.take<std::uint8_t>((n.positions + 1) * n.states);
    right = next.take<std::uint8_t>((n.positions + 1) * n.states);
  }

  [[nodiscard]] UNMASK_HD index_t size() const { return static_cast<index_t>(n.positions); }
  [[nodiscard]] UNMASK_HD bool is_masked(index_t p) const { return symbols[p] >= n.classes; }

  /// The set before position p, and that after it; they are there after know().
  [[nodiscard]] UNMASK_HD const std::uint8_t* left_of(index_t p) const {
    return left + static_cast<std::size_t>(p) * n.states;
  }
  [[nodiscard]] UNMASK_HD const std::uint8_t* right_of(index_t p) const {
    return right + static_cast<std::size_t>(size() - 1 - p) * n.states;
  }
  /// Computes the sets on both sides of a position.
  template <class Group>
  UNMASK_HD void know(const Group& t, index_t p) {
    know_left(t, p);
    know_right(t, p);
  }
  /// Computes all sets.
  template <class Group>
  UNMASK_HD void know_all(const Group& t) {
    know_left(t, size());
    know_right(t, -1);
  }
  template <class Group>
  UNMASK_HD void know_left(const Group& t, index_t p) {
    extend(
        t,
        of_left,
        left,
        p,
        [&](index_t j, const std::uint8_t* set, std::uint32_t q) {
          return follows(set, symbols[j], q);
        },
        [&](index_t j) { note_changed(j); });
  }
  template <class Group>
  UNMASK_HD void know_right(const Group& t, index_t p) {
    extend(
        t,
        of_right,
        right,
        size() - 1 - p,
        [&](index_t j, const std::uint8_t* set, std::uint32_t q) {
          return precedes(set, symbols[size() - 1 - j], q);
        },
        [&](index_t j) { note_changed(size() - 1 - j); });
  }

  /// Whether a class leads from a state before a position to one after it, whose sets are known.
  [[nodiscard]] UNMASK_HD bool is_possible(std::uint32_t c, index_t p) const {
    const std::uint8_t* const from = left_of(p);
    const std::uint8_t* const next = right_of(p);
    for (std::uint32_t k = first_edge[c]; k < first_edge[c + 1]; ++k) {
      if (from[edge_from[k]] != 0 && next[edge_next[k]] != 0) {
        return true;
      }
    }
    return false;
  }

  /// As running_field::admits().
  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t p, token_id token) {
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < n.vocab;
    const std::uint32_t c = is_token ? class_of[token] : no_class;
    if (c == no_class) {
      return false;
    }
    know(t, p);
    const std::uint8_t* const from = left_of(p);
    const std::uint8_t* const next = right_of(p);
    bool any = false;
    for (std::uint32_t k = first_edge[c] + lane_of(t); k < first_edge[c + 1]; k += lanes_of(t)) {
      any = any || (from[edge_from[k]] != 0 && next[edge_next[k]] != 0);
    }
    return t.any(any ? 1 : 0) != 0;
  }

  /// One lane: as running_field::write(). A barrier before the sets are asked for.
  UNMASK_HD void write(index_t p, token_id token) {
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < n.vocab;
    const std::uint32_t symbol = token == no_token ? masked_symbols[p]
                                 : is_token        ? class_of[token]
                                                   : no_class;
    if (symbols[p] == symbol) {
      return;
    }
    if (symbol == no_class) {
      is_broken = true;
      return;
    }
    if (token == no_token) {
      note_changed(p);
    }
    symbols[p] = symbol;
    of_left.changed(p);
    of_right.changed(size() - 1 - p);
  }

  /// The token that is certain at a position, or no_token.
  template <class Group>
  [[nodiscard]] UNMASK_HD token_id certain(const Group& t, index_t p) {
    know(t, p);
    const std::uint8_t* const may = usable_at(p);
    index_t found = 0;
    std::uint64_t token = 0;  // and one
    while_in_rounds(t, static_cast<index_t>(n.classes), [&](index_t i, bool is_there) {
      const auto c = static_cast<std::uint32_t>(i);
      const bool is_one = is_there && may[c] != 0 && lowest_of[c] != no_token && is_possible(c, p);
      const index_t tokens = !is_one ? 0 : has_several[c] != 0 ? 2 : 1;
      found += t.template exclusive_sum<index_t>(tokens).all;
      token |= t.any(is_one ? static_cast<std::uint64_t>(lowest_of[c]) + 1 : 0);
      return found < 2;
    });
    return found == 1 ? static_cast<token_id>(token - 1) : no_token;
  }
  /// One lane: as running_field::lowest().
  [[nodiscard]] UNMASK_HD token_id lowest(index_t p) {
    know(serial{}, p);
    const std::uint8_t* const may = usable_at(p);
    token_id best = no_token;
    for (std::uint32_t c = 0; c < n.classes; ++c) {
      if (may[c] != 0 && lowest_of[c] != no_token && lowest_of[c] < best && is_possible(c, p)) {
        best = lowest_of[c];
      }
    }
    return best;
  }

  /// Whether the tokens are a string of the language: of a field that has ended.
  template <class Group>
  [[nodiscard]] UNMASK_HD bool is_met(const Group& t) {
    know_left(t, size());
    const std::uint8_t* const end = left_of(size());
    bool any = false;
    bool is_whole = true;
    for (std::size_t q = lane_of(t); q < n.states; q += lanes_of(t)) {
      any = any || (end[q] != 0 && right[q] != 0);
    }
    for (index_t p = t.lane(); p < size(); p += t.lanes()) {
      is_whole = is_whole && !is_masked(p);
    }
    const std::uint64_t all = t.any((any ? 1U : 0U) | (is_whole ? 0U : 2U));
    return all == 1 && !is_broken;
  }

 private:
  template <class Group>
  [[nodiscard]] UNMASK_HD static std::uint32_t lane_of(const Group& t) {
    return static_cast<std::uint32_t>(t.lane());
  }
  template <class Group>
  [[nodiscard]] UNMASK_HD static std::uint32_t lanes_of(const Group& t) {
    return static_cast<std::uint32_t>(t.lanes());
  }
  [[nodiscard]] UNMASK_HD const std::uint8_t* usable_at(index_t p) const {
    return usable + (masked_symbols[p] - n.classes) * n.classes;
  }
  UNMASK_HD void note_changed(index_t p) {
    changed_first = math::min(changed_first, p);
    changed_last = math::max(changed_last, p + 1);
  }

  // The first of the edges [first, last) whose key is at least q.
  [[nodiscard]] UNMASK_HD static std::uint32_t
  find(const std::uint32_t* keys, std::uint32_t first, std::uint32_t last, std::uint32_t q) {
    while (first < last) {
      const std::uint32_t middle = first + (last - first) / 2;
      if (keys[middle] < q) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }
  // Whether a state has one of a set among some neighbours.
  [[nodiscard]] UNMASK_HD bool meets(const std::uint8_t* set,
                                     const std::uint32_t* first,
                                     const std::uint32_t* neighbours,
                                     std::uint32_t symbol,
                                     std::uint32_t q) const {
    const std::uint32_t* const of = first + (symbol - n.classes) * (n.states + 1);
    for (std::uint32_t k = of[q]; k < of[q + 1]; ++k) {
      if (set[neighbours[k]] != 0) {
        return true;
      }
    }
    return false;
  }
  // Whether state q follows one of a set by a symbol, and whether it precedes one.
  [[nodiscard]] UNMASK_HD bool
  follows(const std::uint8_t* set, std::uint32_t symbol, std::uint32_t q) const {
    if (symbol >= n.classes) {
      return meets(set, first_before, before, symbol, q);
    }
    const std::uint32_t last = first_edge[symbol + 1];
    for (std::uint32_t k = find(back_next, first_edge[symbol], last, q);
         k < last && back_next[k] == q;
         ++k) {
      if (set[back_from[k]] != 0) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] UNMASK_HD bool
  precedes(const std::uint8_t* set, std::uint32_t symbol, std::uint32_t q) const {
    if (symbol >= n.classes) {
      return meets(set, first_after, after, symbol, q);
    }
    const std::uint32_t last = first_edge[symbol + 1];
    const std::uint32_t k = find(edge_from, first_edge[symbol], last, q);
    return k < last && edge_from[k] == q && set[edge_next[k]] != 0;
  }

  // Computes the sets of an end up to j: a state is in the next set if `is_in(k, set k, state)`.
  template <class Group, class IsIn, class Differs>
  UNMASK_HD void extend(const Group& t,
                        walk_chain& c,
                        std::uint8_t* sets,
                        index_t j,
                        const IsIn& is_in,
                        const Differs& differs) {
    while (c.ok < j) {
      const index_t k = c.ok;
      const std::uint8_t* const from = sets + static_cast<std::size_t>(k) * n.states;
      std::uint8_t* const to = sets + static_cast<std::size_t>(k + 1) * n.states;
      bool is_same = k + 1 <= c.end;
      for (std::uint32_t q = lane_of(t); q < n.states; q += lanes_of(t)) {
        const std::uint8_t bit = is_in(k, from, q) ? 1 : 0;
        is_same = is_same && to[q] == bit;
        to[q] = bit;
      }
      is_same = t.any(is_same ? 0 : 1) == 0;
      if (t.lane() == 0) {
        if (is_same) {
          c.ok = k + 1 >= c.same_from ? c.end : k + 1;
        } else {
          differs(k + 1);
          c.ok = k + 1;
          c.end = math::max(c.end, k + 1);
        }
      }
      t.sync();
    }
  }
};

}  // namespace unmask::step
