// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field_tables.hpp>
#include <unmask/core/math.hpp>
#include <unmask/step/slot_arrays.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The sets of states of a constrained field where a step can call nothing of the host: computed
/// from tables of its automaton, a bit for a state.
namespace UNMASK_NAMESPACE::step {

/// The sets of a constrained field of a sequence, and its tables, in one block of bytes.
///
/// Functions with a thread group are called by all of its lanes, and are barriers; a lane alone
/// calls them with serial. Positions count from the beginning of the field.
struct field_words : detail::field_tables {
  /// A block that writes masks only reads: every step ends with all sets.
  static constexpr bool keeps_all = true;

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
  [[nodiscard]] UNMASK_HD std::uint32_t classes() const {
    return static_cast<std::uint32_t>(n.classes);
  }
  [[nodiscard]] UNMASK_HD std::uint32_t class_at(token_id token) const {
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < n.vocab;
    return is_token ? class_of[token] : no_class;
  }
  [[nodiscard]] UNMASK_HD std::uint32_t symbol(index_t p) const { return symbols[p]; }
  [[nodiscard]] UNMASK_HD std::uint32_t masked_symbol(index_t p) const { return masked_symbols[p]; }
  UNMASK_HD void set_symbol(index_t p, std::uint32_t symbol) const { symbols[p] = symbol; }
  [[nodiscard]] UNMASK_HD bool is_usable(index_t p, std::uint32_t c) const {
    return usable_at(p)[c] != 0;
  }
  [[nodiscard]] UNMASK_HD token_id lowest_in(std::uint32_t c) const { return lowest_of[c]; }

  /// The set before position p, and that after it.
  [[nodiscard]] UNMASK_HD const std::uint32_t* left_of(index_t p) const {
    return left + static_cast<std::size_t>(p) * n.words();
  }
  [[nodiscard]] UNMASK_HD const std::uint32_t* right_of(index_t p) const {
    return right + static_cast<std::size_t>(size() - 1 - p) * n.words();
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

  /// Overload for a class. The loads of AtATime edges do not wait for each other.
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
  template <class Group>
  [[nodiscard]] UNMASK_HD bool leads(const Group& t, std::uint32_t c, index_t p) const {
    bool any = false;
    rolled(first_of(c) + lane_of(t), last_of(c), lanes_of(t), [&](std::uint32_t k) {
      any = any || is_possible(k, p);
    });
    return t.any(any ? 1 : 0) != 0;
  }
  [[nodiscard]] UNMASK_HD bool ends_meet(const auto& t) const {
    const std::uint32_t* const end = left_of(size());
    bool any = false;
    for (std::size_t w = lane_of(t); w < n.words(); w += lanes_of(t)) {
      any = any || (end[w] & right[w]) != 0;
    }
    return any;
  }

  /// The only usable token of a position whose sets are known, or no_token. Looks at the edges that
  /// are alive, a lane an edge, until two tokens are found, which is usually at once.
  template <class Warp>
  [[nodiscard]] UNMASK_HD token_id certain_at(const Warp& b, index_t p) const {
    constexpr std::uint32_t lanes = warp_size<Warp>;
    const std::uint32_t* const next = right_of(p);
    const std::uint8_t* const may = usable_at(p);
    const auto lane = static_cast<std::uint32_t>(b.warp_lane());
    std::uint32_t found = 0;  // a token, and one; the same in all lanes
    for (std::uint32_t w = 0; w < n.words(); ++w) {
      for (std::uint32_t left_over = left_of(p)[w]; left_over != 0; left_over &= left_over - 1) {
        const std::uint32_t q = 32 * w + static_cast<std::uint32_t>(math::lowest_bit(left_over));
        const std::uint32_t last = first_out[q + 1];
        for (std::uint32_t k = first_out[q]; k < last; k += lanes) {
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

  /// Computes the sets up to `to_left` from the left and up to `to_right` from the right, one of
  /// each at a time, a warp a word. What is known is in registers until the end, the same in every
  /// lane.
  template <class Block>
  UNMASK_HD void extend(const Block& b, index_t to_left, index_t to_right) {
    detail::set_chain l = of_left;
    detail::set_chain r = of_right;
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
        if (compute(b, from_left, from_left ? l.ok : r.ok, w)) {
          differs |= from_left ? 1U : 2U;
        }
      }
      differs = b.any(differs);
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
    if (b.lane() == 0) {
      of_left = l;
      of_right = r;
      changed_first = math::min(changed_first, first);
      changed_last = math::max(changed_last, last);
    }
    b.sync();
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
  // Lanes of a warp: serial is one of a lane.
  template <class Warp>
  static constexpr std::uint32_t warp_size = std::is_same_v<Warp, serial> ? 1 : 32;
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
  template <class Warp>
  UNMASK_HD bool compute(const Warp& b, bool from_left, index_t j, std::uint32_t w) const {
    constexpr std::uint32_t lanes = warp_size<Warp>;
    std::uint32_t* const set = (from_left ? left : right) + static_cast<std::size_t>(j) * n.words();
    const std::uint32_t symbol = symbols[from_left ? j : size() - 1 - j];
    const auto lane = static_cast<std::uint32_t>(b.warp_lane());
    std::uint32_t word = 0;
    if (symbol >= n.classes) {  // a lane a state
      rolled(0, 32, lanes, [&](std::uint32_t i) {
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
      rolled(first[0] + lane, first[1], lanes, [&](std::uint32_t k) {
        word |= has(set, in_set[k]) ? 1U << state[k] % 32 : 0U;
      });
      for (index_t m = lanes / 2; m > 0; m /= 2) {
        word |= b.shuffle_xor(word, m);
      }
    }
    const bool differs = lane == 0 && set[n.words() + w] != word;
    if (differs) {
      set[n.words() + w] = word;
    }
    return differs;
  }
};

/// A constrained field of a sequence on a device.
using field_walk = detail::field_over<field_words>;

}  // namespace unmask::step
