// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field_tables.hpp>
#include <unmask/core/math.hpp>
#include <unmask/step/slot_arrays.hpp>
#include <unmask/step/thread_group.hpp>

#include <cstddef>
#include <cstdint>

/// A constrained field where a step can call nothing of the host: the states that are possible left
/// and right of each position are computed from tables of its automaton, a bit for a state.
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
  /// Set ok + 1 was computed. Returns whether it is not what it was, or was not known.
  UNMASK_HD bool advance(bool differs) {
    const bool is_new = differs || ok + 1 > end;
    if (is_new) {
      end = math::max(end, ++ok);
    } else {
      ok = ok + 1 >= same_from ? end : ok + 1;
    }
    return is_new;
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
    leaving = next.take<std::uint32_t>(n.classes * (n.words() + 1));
    entering = next.take<std::uint32_t>(n.classes * (n.words() + 1));
    edge_from = next.take<std::uint32_t>(n.edges);
    edge_next = next.take<std::uint32_t>(n.edges);
    back_from = next.take<std::uint32_t>(n.edges);
    back_next = next.take<std::uint32_t>(n.edges);
    first_out = next.take<std::uint32_t>(n.states + 1);
    out_class = next.take<std::uint32_t>(n.edges);
    out_next = next.take<std::uint32_t>(n.edges);
    lowest_of = next.take<token_id>(n.classes);
    has_several = next.take<std::uint8_t>(n.classes);
    usable = next.take<std::uint8_t>(n.restrictions * n.classes);
    first_after = next.take<std::uint32_t>(n.restrictions * (n.states + 1));
    after = next.take<std::uint32_t>(n.after);
    first_before = next.take<std::uint32_t>(n.restrictions * (n.states + 1));
    before = next.take<std::uint32_t>(n.before);
    symbols = next.take<std::uint32_t>(n.positions);
    masked_symbols = next.take<std::uint32_t>(n.positions);
    left = next.take<std::uint32_t>((n.positions + 1) * n.words());
    right = next.take<std::uint32_t>((n.positions + 1) * n.words());
  }

  [[nodiscard]] UNMASK_HD index_t size() const { return static_cast<index_t>(n.positions); }
  [[nodiscard]] UNMASK_HD bool is_masked(index_t p) const { return symbols[p] >= n.classes; }

  /// The set before position p, and that after it; they are there after know().
  [[nodiscard]] UNMASK_HD const std::uint32_t* left_of(index_t p) const {
    return left + static_cast<std::size_t>(p) * n.words();
  }
  [[nodiscard]] UNMASK_HD const std::uint32_t* right_of(index_t p) const {
    return right + static_cast<std::size_t>(size() - 1 - p) * n.words();
  }
  /// Computes the sets on both sides of a position.
  template <class Group>
  UNMASK_HD void know(const Group& t, index_t p) {
    extend(t, p, size() - 1 - p);
  }
  /// Computes all sets.
  template <class Group>
  UNMASK_HD void know_all(const Group& t) {
    extend(t, size(), size());
  }

  /// The edges of class c are [first_of(c), last_of(c)).
  [[nodiscard]] UNMASK_HD std::uint32_t first_of(std::uint32_t c) const {
    return leaving[c * (n.words() + 1)];
  }
  [[nodiscard]] UNMASK_HD std::uint32_t last_of(std::uint32_t c) const {
    return leaving[c * (n.words() + 1) + n.words()];
  }
  /// Whether edge k leads from a state before a position to one after it, whose sets are known.
  [[nodiscard]] UNMASK_HD bool is_possible(std::uint32_t k, index_t p) const {
    return (bit_of(left_of(p), edge_from[k]) & bit_of(right_of(p), edge_next[k])) != 0;
  }

  /// Whether an edge of a class is possible. The loads of AtATime edges do not wait for each other.
  template <std::uint32_t AtATime>
  [[nodiscard]] UNMASK_HD bool is_possible_class(std::uint32_t c, index_t p) const {
    const std::uint32_t last = last_of(c);
    bool any = false;
    for (std::uint32_t k = first_of(c); k < last && !any; k += AtATime) {
#if defined(__CUDA_ARCH__)
#  pragma unroll
#endif
      for (std::uint32_t i = 0; i < AtATime; ++i) {
        any |= is_possible(k + i < last ? k + i : last - 1, p);
      }
    }
    return any;
  }

  /// See running_field::admits().
  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t p, token_id token) {
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < n.vocab;
    const std::uint32_t c = is_token ? class_of[token] : no_class;
    if (c == no_class) {
      return false;
    }
    know(t, p);
    bool any = false;
    rolled(first_of(c) + lane_of(t), last_of(c), lanes_of(t), [&](std::uint32_t k) {
      any = any || is_possible(k, p);
    });
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

  /// One lane: the token that is certain at a position, or no_token.
  [[nodiscard]] UNMASK_HD token_id certain(index_t p) {
    know(serial{}, p);
    return certain_by<1>(lone_lane{}, p);
  }
  /// certain() of a position whose sets are known, by a warp of a thread block, which may have
  /// another position than the other warps.
  template <class Block>
  [[nodiscard]] UNMASK_HD token_id certain_by_warp(const Block& b, index_t p) const {
    return certain_by<32>(b, p);
  }

  /// One lane: as running_field::lowest().
  [[nodiscard]] UNMASK_HD token_id lowest(index_t p) {
    know(serial{}, p);
    const std::uint8_t* const may = usable_at(p);
    token_id best = no_token;
    for (std::uint32_t c = 0; c < n.classes; ++c) {
      if (may[c] != 0 && lowest_of[c] != no_token && lowest_of[c] < best &&
          is_possible_class<1>(c, p)) {
        best = lowest_of[c];
      }
    }
    return best;
  }

  /// Whether the tokens are a string of the language: of a field that has ended.
  template <class Group>
  [[nodiscard]] UNMASK_HD bool is_met(const Group& t) {
    extend(t, size(), 0);
    const std::uint32_t* const end = left_of(size());
    bool any = false;
    bool is_whole = true;
    for (std::size_t w = lane_of(t); w < n.words(); w += lanes_of(t)) {
      any = any || (end[w] & right[w]) != 0;
    }
    for (index_t p = t.lane(); p < size(); p += t.lanes()) {
      is_whole = is_whole && !is_masked(p);
    }
    const std::uint64_t all = t.any((any ? 1U : 0U) | (is_whole ? 0U : 2U));
    return all == 1 && !is_broken;
  }

 private:
  [[nodiscard]] UNMASK_HD static std::uint32_t lane_of(const auto& t) {
    return static_cast<std::uint32_t>(t.lane());
  }
  // Calls body(k) for k = first, first + step, ... before last. Not unrolled on a device: the loops
  // are short, and the registers of a step are those of its largest part.
  UNMASK_HD static void
  rolled(std::uint32_t first, std::uint32_t last, std::uint32_t step, const auto& body) {
#if defined(__CUDA_ARCH__)
#  pragma unroll 1
#endif
    for (std::uint32_t k = first; k < last; k += step) {
      body(k);
    }
  }
  // A lane alone as a warp.
  struct lone_lane {
    [[nodiscard]] UNMASK_HD static constexpr index_t warp() { return 0; }
    [[nodiscard]] UNMASK_HD static constexpr index_t warps() { return 1; }
    [[nodiscard]] UNMASK_HD static constexpr index_t warp_lane() { return 0; }
    [[nodiscard]] UNMASK_HD static constexpr std::uint32_t ballot(bool x) { return x ? 1 : 0; }
    UNMASK_HD static constexpr std::uint32_t shuffle(std::uint32_t x, index_t) { return x; }
    UNMASK_HD static constexpr std::uint32_t shuffle_xor(std::uint32_t x, index_t) { return x; }
  };
  [[nodiscard]] UNMASK_HD static std::uint32_t bit_of(const std::uint32_t* set, std::uint32_t q) {
    return set[q / 32] >> q % 32 & 1U;
  }
  [[nodiscard]] UNMASK_HD static bool has(const std::uint32_t* set, std::uint32_t q) {
    return bit_of(set, q) != 0;
  }
  [[nodiscard]] UNMASK_HD static std::uint32_t lanes_of(const auto& t) {
    return static_cast<std::uint32_t>(t.lanes());
  }
  [[nodiscard]] UNMASK_HD const std::uint8_t* usable_at(index_t p) const {
    return usable + (masked_symbols[p] - n.classes) * n.classes;
  }
  UNMASK_HD void note_changed(index_t p) {
    changed_first = math::min(changed_first, p);
    changed_last = math::max(changed_last, p + 1);
  }

  // Looks at the edges that are alive, a lane an edge, until two tokens are found, which is usually
  // at once.
  template <std::uint32_t Lanes, class Warp>
  [[nodiscard]] UNMASK_HD token_id certain_by(const Warp& b, index_t p) const {
    const std::uint32_t* const next = right_of(p);
    const std::uint8_t* const may = usable_at(p);
    const auto lane = static_cast<std::uint32_t>(b.warp_lane());
    std::uint32_t found = 0;  // a token, and one; the same in all lanes
    for (std::uint32_t w = 0; w < n.words(); ++w) {
      for (std::uint32_t left_over = left_of(p)[w]; left_over != 0; left_over &= left_over - 1) {
        const std::uint32_t q = 32 * w + static_cast<std::uint32_t>(math::lowest_bit(left_over));
        const std::uint32_t last = first_out[q + 1];
        for (std::uint32_t k = first_out[q]; k < last; k += Lanes) {
          std::uint32_t token = 0;
          bool is_one_of_many = false;
          if (k + lane < last && has(next, out_next[k + lane])) {
            const std::uint32_t c = out_class[k + lane];
            token = may[c] != 0 ? static_cast<std::uint32_t>(lowest_of[c] + 1) : 0;
            is_one_of_many = token != 0 && has_several[c] != 0;
          }
          const std::uint32_t ones = b.ballot(token != 0);
          if (ones == 0) {
            continue;
          }
          const std::uint32_t one = b.shuffle(token, math::lowest_bit(ones));
          found = found == 0 ? one : found;
          if (b.ballot(is_one_of_many || (token != 0 && token != found)) != 0) {
            return no_token;
          }
        }
      }
    }
    return found == 0 ? no_token : static_cast<token_id>(found - 1);
  }

  // Whether a state has one of a set among the neighbours that a restriction leaves it.
  [[nodiscard]] UNMASK_HD bool meets(const std::uint32_t* set,
                                     const std::uint32_t* first,
                                     const std::uint32_t* neighbours,
                                     std::uint32_t symbol,
                                     std::uint32_t q) const {
    const std::uint32_t* const of = first + (symbol - n.classes) * (n.states + 1);
    const std::uint32_t* const row = neighbours + of[q];
    const std::uint32_t length = of[q + 1] - of[q];
    std::uint32_t any = 0;
    if (length == n.words()) {
#if defined(__CUDA_ARCH__)
#  pragma unroll 4
#endif
      for (std::uint32_t w = 0; w < length; ++w) {
        any |= row[w] & set[w];
      }
    } else {
      rolled(0, length, 1, [&](std::uint32_t k) { any |= has(set, row[k]) ? 1U : 0U; });
    }
    return any != 0;
  }

  // Computes word w of the set after set j, from the left or from the right, by a warp. Returns in
  // one of its lanes whether it is not what it was.
  template <std::uint32_t Lanes, class Warp>
  UNMASK_HD bool compute(const Warp& b, bool from_left, index_t j, std::uint32_t w) const {
    std::uint32_t* const set = (from_left ? left : right) + static_cast<std::size_t>(j) * n.words();
    const std::uint32_t symbol = symbols[from_left ? j : size() - 1 - j];
    const auto lane = static_cast<std::uint32_t>(b.warp_lane());
    std::uint32_t word = 0;
    if (symbol >= n.classes) {  // a lane a state
      rolled(0, 32, Lanes, [&](std::uint32_t i) {
        const std::uint32_t q = 32 * w + i + lane;
        const bool is_in = q < n.states && (from_left ? meets(set, first_before, before, symbol, q)
                                                      : meets(set, first_after, after, symbol, q));
        word |= b.ballot(is_in) << i;
      });
    } else {  // a lane an edge
      const std::uint32_t* const first =
          (from_left ? entering : leaving) + symbol * (n.words() + 1) + w;
      const std::uint32_t* const in_set = from_left ? back_from : edge_next;
      const std::uint32_t* const state = from_left ? back_next : edge_from;
      rolled(first[0] + lane, first[1], Lanes, [&](std::uint32_t k) {
        word |= has(set, in_set[k]) ? 1U << state[k] % 32 : 0U;
      });
      for (index_t m = Lanes / 2; m > 0; m /= 2) {
        word |= b.shuffle_xor(word, m);
      }
    }
    const bool differs = lane == 0 && set[n.words() + w] != word;
    if (differs) {
      set[n.words() + w] = word;
    }
    return differs;
  }

  template <class Group>
  UNMASK_HD void extend(const Group& t, index_t to_left, index_t to_right) {
    extend_by<32>(t, t, to_left, to_right);
  }
  UNMASK_HD void extend(const serial& t, index_t to_left, index_t to_right) {
    extend_by<1>(t, lone_lane{}, to_left, to_right);
  }
  // Computes the sets up to `to_left` from the left and up to `to_right` from the right, one of
  // each at a time, a warp a word. What is known is in registers until the end, the same in every
  // lane.
  template <std::uint32_t Lanes, class Group, class Warp>
  UNMASK_HD void extend_by(const Group& t, const Warp& b, index_t to_left, index_t to_right) {
    walk_chain l = of_left;
    walk_chain r = of_right;
    if (l.ok >= to_left && r.ok >= to_right) {
      return;
    }
    index_t first = size();
    index_t last = 0;
    while (l.ok < to_left || r.ok < to_right) {
      const auto words = static_cast<index_t>(n.words());
      const index_t of_the_left = l.ok < to_left ? words : 0;
      const index_t all = of_the_left + (r.ok < to_right ? words : 0);
      std::uint64_t differs = 0;
      for (index_t i = b.warp(); i < all; i += b.warps()) {
        const bool from_left = i < of_the_left;
        const auto w = static_cast<std::uint32_t>(from_left ? i : i - of_the_left);
        if (compute<Lanes>(b, from_left, from_left ? l.ok : r.ok, w)) {
          differs |= from_left ? 1U : 2U;
        }
      }
      differs = t.any(differs);
      const auto changed = [&](index_t p) {
        first = math::min(first, p);
        last = math::max(last, p + 1);
      };
      const bool right_moves = r.ok < to_right;
      if (of_the_left > 0 && l.advance((differs & 1U) != 0)) {
        changed(l.ok);
      }
      if (right_moves && r.advance((differs & 2U) != 0)) {
        changed(size() - 1 - r.ok);
      }
    }
    if (t.lane() == 0) {
      of_left = l;
      of_right = r;
      changed_first = math::min(changed_first, first);
      changed_last = math::max(changed_last, last);
    }
    t.sync();
  }
};

}  // namespace unmask::step
