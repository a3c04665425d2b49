// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/byte_automaton.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

/// The automaton of a constraint over the tokens of a model. Tokens with the same transitions from
/// every state form a class; the automaton is over classes.
namespace UNMASK_NAMESPACE::detail::constraints {

inline constexpr std::uint32_t no_class = 0xffffffffU;
inline constexpr std::uint32_t unreachable = 0xffffffffU;

/// Mixes the bits of a number: the finaliser of splitmix64.
[[nodiscard]] constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}

/// Words of 64 bits for the given number of bits.
[[nodiscard]] constexpr std::size_t words_of(std::size_t bits) {
  return (bits + 63) / 64;
}
[[nodiscard]] inline bool has_bit(const std::uint64_t* set, std::size_t i) {
  return (set[i / 64] >> i % 64 & 1U) != 0;
}
inline void add_bit(std::uint64_t* set, std::size_t i) {
  set[i / 64] |= std::uint64_t{1} << i % 64;
}
inline void add_token(std::uint32_t* mask, token_id token) {
  mask[token / 32] |= std::uint32_t{1} << token % 32;
}
/// Calls use(i) for each bit that is set, ascending.
void for_each_bit(const std::uint64_t* set, std::size_t words, const auto& use) {
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t left = set[w]; left != 0; left &= left - 1) {
      use(64 * w + static_cast<std::size_t>(__builtin_ctzll(left)));
    }
  }
}

/// Positions of runs of equal keys in a sorted list: out[k] is the first element with key k.
[[nodiscard]] inline std::vector<std::uint32_t>
firsts_of(std::size_t keys, std::size_t count, const auto& key_of) {
  std::vector<std::uint32_t> first(keys + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    ++first[key_of(i) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

/// A transition between states by the tokens of a class.
struct class_edge {
  std::uint32_t from = 0;
  std::uint32_t by = 0;
  std::uint32_t next = 0;
};

/// Classes of more tokens have a bitmap; in others the bits are set one by one.
inline constexpr std::size_t listed_class = 1024;

/// The states after (or before) all states of a set, a word of 64 states at a time: states with
/// the same distance to a neighbour, which are many where a string is counted, move together.
struct set_image {
  struct shift {
    std::int32_t by = 0;           ///< neighbour minus state
    std::uint32_t first_word = 0;  ///< of the states that have such a neighbour
    std::uint32_t words = 0;
    std::uint32_t mask = 0;  ///< index in `masks` of those states, from first_word on
  };
  std::vector<shift> shifts;
  std::vector<std::uint64_t> masks;
  /// The other neighbours of state q: others[first[q]] and so on.
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> others;
  std::vector<std::uint64_t> has_others;  ///< the set of states that have some

  /// Adds the neighbours of a set to `out`, both of `words` words; `out` has one more on each side.
  void add(const std::uint64_t* set, std::uint64_t* out, std::size_t words) const;
};

/// An immutable automaton over token classes. Every state is reachable and can reach acceptance.
struct token_automaton {
  model_info model;
  std::uint32_t states = 0;
  std::uint32_t start = 0;
  std::uint32_t classes = 0;
  std::uint32_t end_class = no_class;  ///< of the tokens that end an answer
  std::uint32_t ended = dead_state;    ///< the state after them

  std::vector<std::uint32_t> class_of;  ///< by token: its class, or no_class
  /// The tokens of class c, ascending: tokens[first_token[c]] and so on.
  std::vector<std::uint32_t> first_token;
  std::vector<token_id> tokens;

  /// Edges by class, then by state: the edges of class c are [first_edge[c], first_edge[c + 1]).
  std::vector<std::uint32_t> first_edge;
  std::vector<std::uint32_t> edge_from;
  std::vector<std::uint32_t> edge_next;

  /// These edges in the form of set_image, edges of class c with equal distances together:
  /// shifts[first_shift[c]] and so on, and the rest, rest_from[first_rest[c]] and so on.
  std::vector<std::uint32_t> first_shift;
  std::vector<set_image::shift> shifts;
  std::vector<std::uint64_t> shift_masks;
  std::vector<std::uint32_t> first_rest;
  std::vector<std::uint32_t> rest_from;
  std::vector<std::uint32_t> rest_next;

  /// Adds the states after the states of a set, and before them, by class c, as set_image::add().
  void add_after(std::uint32_t c, const std::uint64_t* set, std::uint64_t* out) const;
  void add_before(std::uint32_t c, const std::uint64_t* set, std::uint64_t* out) const;

  /// Pairs of neighbouring states, by the first: the pairs of state q are [first_pair[q],
  /// first_pair[q + 1]). The label of a pair is the set of classes that lead from one to the other.
  std::vector<std::uint32_t> first_pair;
  std::vector<std::uint32_t> pair_next;
  std::vector<std::uint32_t> pair_label;
  /// These pairs by the second state, without repeats.
  std::vector<std::uint32_t> first_back;
  std::vector<std::uint32_t> back_from;
  std::vector<std::uint32_t> back_label;
  set_image after_all;   ///< the states after a set, by any class
  set_image before_all;  ///< the states before it
  /// Sets of classes, class_words words each.
  std::vector<std::uint64_t> labels;

  std::vector<std::uint64_t> accepting;  ///< set of states
  /// By state: fewest tokens to acceptance.
  std::vector<std::uint32_t> distance;
  /// By class: index of its bitmap in `bitmaps`, of token_words words, or no_class.
  std::vector<std::uint32_t> bitmap_of;
  std::vector<std::uint32_t> bitmaps;

  [[nodiscard]] std::size_t state_words() const { return words_of(states); }
  [[nodiscard]] std::size_t class_words() const { return words_of(classes); }
  /// Words of 32 bits of a mask of tokens.
  [[nodiscard]] std::size_t token_words() const {
    return (static_cast<std::size_t>(model.vocab) + 31) / 32;
  }
  [[nodiscard]] std::size_t label_count() const { return labels.size() / class_words(); }
  [[nodiscard]] std::uint32_t size_of(std::uint32_t c) const {
    return first_token[c + 1] - first_token[c];
  }
  /// Class of a token, or no_class.
  [[nodiscard]] std::uint32_t class_at(token_id token) const {
    return token >= 0 && token < model.vocab ? class_of[static_cast<std::size_t>(token)] : no_class;
  }

  /// The state after `from` by class c, or dead_state.
  [[nodiscard]] std::uint32_t after(std::uint32_t from, std::uint32_t c) const {
    const auto first = edge_from.begin() + first_edge[c];
    const auto last = edge_from.begin() + first_edge[c + 1];
    const auto at = std::lower_bound(first, last, from);
    return at != last && *at == from ? edge_next[static_cast<std::size_t>(at - edge_from.begin())]
                                     : dead_state;
  }

  /// Bytes of the tables.
  [[nodiscard]] std::size_t bytes() const {
    const std::size_t numbers =
        class_of.size() + first_token.size() + tokens.size() + first_edge.size() +
        edge_from.size() + edge_next.size() + first_pair.size() + pair_next.size() +
        pair_label.size() + first_back.size() + back_from.size() + back_label.size() +
        distance.size() + bitmap_of.size() + first_shift.size() + 4 * shifts.size() +
        first_rest.size() + rest_from.size() + rest_next.size() + after_all.others.size() +
        before_all.others.size();
    return 4 * (numbers + bitmaps.size()) +
           8 * (labels.size() + accepting.size() + shift_masks.size());
  }
};

/// Input of finish(): edges of states that may be unreachable, over classes that are complete
/// except for the end of an answer.
struct raw_automaton {
  std::uint32_t states = 0;
  std::uint32_t start = 0;
  std::vector<std::uint8_t> accepting;
  std::vector<class_edge> edges;
  std::vector<std::uint32_t> class_of;  ///< by token
  std::uint32_t classes = 0;
};

/// Adds the end of an answer, removes states that no string passes, and builds the tables. The
/// automaton has no states if its language is empty.
[[nodiscard]] UNMASK_LIBRARY token_automaton finish(raw_automaton raw,
                                                    const model_info& model,
                                                    std::span<const token_id> ends);

}  // namespace unmask::detail::constraints

#if UNMASK_DEFINES
#  include <unmask/constraint/class_shifts.hpp>
#  include <unmask/constraint/token_automaton_tables.hpp>
#endif
