// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/core/math.hpp>
#include <unmask/step/slot_arrays.hpp>
#include <unmask/step/thread_group.hpp>

#include <cstddef>
#include <cstdint>

/// The constraints of a sequence as plain tables, for backends whose steps call nothing of the
/// host: the automaton of each field, and the states that are possible left and right of each
/// position, a byte for a state. running_field.hpp has the same rule over interned sets.
namespace UNMASK_NAMESPACE::step {

/// Sizes of the arrays of a field.
struct field_walk_sizes {
  std::size_t vocab = 0;
  std::size_t states = 0;
  std::size_t classes = 0;
  std::size_t edges = 0;
  std::size_t restrictions = 0;
  std::size_t neighbours = 0;  ///< of all states, under all restrictions
  std::size_t positions = 0;
};

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

/// A constrained field. Pointers into one block of bytes, as slot_arrays; the host writes the
/// tables, and sets 0 of both ends, before the sequence starts.
///
/// Functions with a thread group are called by all of its lanes, and are barriers; a lane alone
/// calls them with serial. Positions count from the beginning of the field.
struct field_walk {
  static constexpr std::uint32_t no_class = 0xffffffffU;

  slot_layout at{nullptr};
  field_walk_sizes n;

  /// By token: its class, or no_class.
  std::uint32_t* class_of = at.take<std::uint32_t>(n.vocab);
  /// The edges of class c are [first_edge[c], first_edge[c + 1]): by the state that they leave, and
  /// by the state that they enter.
  std::uint32_t* first_edge = at.take<std::uint32_t>(n.classes + 1);
  std::uint32_t* edge_from = at.take<std::uint32_t>(n.edges);
  std::uint32_t* edge_next = at.take<std::uint32_t>(n.edges);
  std::uint32_t* back_from = at.take<std::uint32_t>(n.edges);
  std::uint32_t* back_next = at.take<std::uint32_t>(n.edges);
  /// By class: its lowest token that may be proposed, no_token if there is none, and whether there
  /// are more.
  token_id* lowest_of = at.take<token_id>(n.classes);
  std::uint8_t* has_several = at.take<std::uint8_t>(n.classes);
  /// By restriction and class: whether the class may occur.
  std::uint8_t* usable = at.take<std::uint8_t>(n.restrictions * n.classes);
  /// By restriction and state: the states after it, and before it, by a class that may occur.
  std::uint32_t* first_after = at.take<std::uint32_t>(n.restrictions * (n.states + 1));
  std::uint32_t* after = at.take<std::uint32_t>(n.neighbours);
  std::uint32_t* first_before = at.take<std::uint32_t>(n.restrictions * (n.states + 1));
  std::uint32_t* before = at.take<std::uint32_t>(n.neighbours);

  /// By position: the class of its token, or classes + restriction if it is masked; and that sum.
  std::uint32_t* symbols = at.take<std::uint32_t>(n.positions);
  std::uint32_t* masked_symbols = at.take<std::uint32_t>(n.positions);
  /// [positions + 1][states]: set j from the left is that before position j, set j from the right
  /// that after position size - 1 - j.
  std::uint8_t* left = at.take<std::uint8_t>((n.positions + 1) * n.states);
  std::uint8_t* right = at.take<std::uint8_t>((n.positions + 1) * n.states);

  range where = {};   ///< positions of the sequence
  bool fills = true;  ///< as constrained_field::fill
  bool is_broken = false;
  walk_chain of_left = {};
  walk_chain of_right = {};
  // Positions whose possible tokens may have changed since they were last looked at.
  index_t changed_first = 0;
  index_t changed_last = static_cast<index_t>(n.positions);

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

/// The constraints of a sequence on a device: what constrained_answer is on the host. In memory of
/// the device, which the host writes when the sequence starts.
struct answer_walk {
  index_t count = 0;  ///< of fields; 0: the sequence has no constraints
  field_walk* fields = nullptr;
  /// Room for a token at each position of the answer.
  detail::placed_token* placed = nullptr;
  /// The lists of a step, with room for a token at each position; traced is null without a trace.
  commit_entry* entries = nullptr;
  candidate_entry* traced = nullptr;
  /// By scored position: the mask of its row, and scratch of a byte a class.
  std::uint32_t* masks = nullptr;
  std::uint8_t* possible = nullptr;
  std::size_t mask_words = 0;
  std::size_t most_classes = 0;

  detail::placed_token chosen{0, no_token, false};  ///< by place()
  index_t placed_count = 0;

  [[nodiscard]] UNMASK_HD field_walk* field_at(index_t position) const {
    for (index_t k = 0; k < count; ++k) {
      if (fields[k].where.contains(position)) {
        return fields + k;
      }
    }
    return nullptr;
  }
  [[nodiscard]] UNMASK_HD std::uint32_t* mask_of(index_t i) const {
    return masks + static_cast<std::size_t>(i) * mask_words;
  }

  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t position, token_id token) const {
    field_walk* const f = field_at(position);
    return f == nullptr || f->admits(t, position - f->where.first, token);
  }
  UNMASK_HD void write(index_t position, token_id token) const {
    if (field_walk* const f = field_at(position)) {
      f->write(position - f->where.first, token);
    }
  }
  UNMASK_HD void mask(index_t position) const {
    if (chosen.token == no_token || chosen.position != position) {
      write(position, no_token);
    }
  }
  template <class Group>
  [[nodiscard]] UNMASK_HD bool is_certain(const Group& t, index_t position) const {
    field_walk* const f = field_at(position);
    return f != nullptr && f->fills && f->certain(t, position - f->where.first) != no_token;
  }
  [[nodiscard]] UNMASK_HD static constexpr bool reads_again(index_t /*position*/) { return false; }
  [[nodiscard]] UNMASK_HD static constexpr bool reads_again() { return false; }

  /// One lane: chooses the lowest possible token for a position; place_tokens() lists it.
  [[nodiscard]] UNMASK_HD bool place(index_t position) {
    field_walk* const f = field_at(position);
    const token_id token = f == nullptr ? no_token : f->lowest(position - f->where.first);
    if (token == no_token) {
      return false;
    }
    write(position, token);
    chosen = {position, token, false};
    return true;
  }
  /// The tokens to write now, by position: those of place(), and those that are certain. All sets
  /// are known then.
  template <class Group>
  [[nodiscard]] UNMASK_HD detail::placed_tokens place_tokens(const Group& t) {
    t.sync();
    if (t.lane() == 0) {
      placed_count = 0;
    }
    for (index_t k = 0; k < count; ++k) {
      field_walk& f = fields[k];
      f.know_all(t);
      if (f.fills) {
        fill(t, f);
      }
    }
    if (t.lane() == 0) {
      put_chosen(0x7fffffff);
    }
    t.sync();
    return {placed, placed_count};
  }

  /// Ends the fields with the tokens as they are. Returns whether all are strings of their
  /// language.
  template <class Group>
  [[nodiscard]] UNMASK_HD bool finish(const Group& t, const token_id* tokens, const mark* marks) {
    bool all = true;
    for (index_t k = 0; k < count; ++k) {
      field_walk& f = fields[k];
      for (index_t p = f.where.first; t.lane() == 0 && p < f.where.last; ++p) {
        f.write(p - f.where.first, marks[p] == mark::masked ? no_token : tokens[p]);
      }
      t.sync();
      const bool is_met = f.is_met(t);
      all = all && is_met;
    }
    return all;
  }

 private:
  // Lane 0: lists the chosen token if it is before a position.
  UNMASK_HD void put_chosen(index_t before) {
    if (chosen.token != no_token && chosen.position < before) {
      placed[placed_count++] = chosen;
      chosen.token = no_token;
    }
  }
  template <class Group>
  UNMASK_HD void fill(const Group& t, field_walk& f) {
    index_t p = f.changed_first;
    t.sync();
    while (p < math::min(f.changed_last, f.size())) {
      const token_id token = f.is_masked(p) ? f.certain(t, p) : no_token;
      t.sync();
      if (t.lane() == 0 && token != no_token) {
        put_chosen(f.where.first + p);
        placed[placed_count++] = {f.where.first + p, token, true};
        f.write(p, token);
      }
      t.sync();
      ++p;
    }
    f.know_all(t);
    t.sync();  // every lane has seen the end
    if (t.lane() == 0) {
      f.changed_first = f.size();
      f.changed_last = 0;
    }
    t.sync();
  }
};

}  // namespace unmask::step
