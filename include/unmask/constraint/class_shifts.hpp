// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/token_automaton.hpp>

#include <map>

/// The states after and before a set by the tokens of one class: definitions of
/// token_automaton.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

// Edges of a class that lead as far, a word of 64 states at a time; those whose distance is rarer
// than this are not worth it.
inline constexpr std::size_t least_shifted_edges = 16;

inline void list_shifts(token_automaton& a) {
  a.first_shift.push_back(0);
  a.first_rest.push_back(0);
  std::map<std::int64_t, std::vector<std::uint32_t>> by_distance;  // edges
  for (std::uint32_t c = 0; c < a.classes; ++c) {
    by_distance.clear();
    for (std::uint32_t k = a.first_edge[c]; k < a.first_edge[c + 1]; ++k) {
      by_distance[std::int64_t{a.edge_next[k]} - a.edge_from[k]].push_back(k);
    }
    for (const auto& [distance, edges] : by_distance) {
      if (edges.size() < least_shifted_edges) {
        for (const std::uint32_t k : edges) {
          a.rest_from.push_back(a.edge_from[k]);
          a.rest_next.push_back(a.edge_next[k]);
        }
        continue;
      }
      const std::uint32_t from = a.edge_from[edges.front()] / 64;  // edges ascend
      const std::uint32_t last = a.edge_from[edges.back()] / 64;
      const std::size_t mask = a.shift_masks.size();
      a.shift_masks.resize(mask + last - from + 1);
      for (const std::uint32_t k : edges) {
        add_bit(a.shift_masks.data() + mask, a.edge_from[k] - 64 * from);
      }
      a.shifts.push_back({static_cast<std::int32_t>(distance),
                          from,
                          last - from + 1,
                          static_cast<std::uint32_t>(mask)});
    }
    a.first_shift.push_back(static_cast<std::uint32_t>(a.shifts.size()));
    a.first_rest.push_back(static_cast<std::uint32_t>(a.rest_from.size()));
  }
}

// A state in bit i of word w is bit i + low of word w + high after a shift.
struct word_distance {
  std::int64_t high;
  unsigned low;

  explicit word_distance(std::int32_t by)
      : high(by >= 0 ? by / 64 : -((63 - by) / 64))
      , low(static_cast<unsigned>(by - 64 * high)) {}
};

// Adds the states of a set that are in a mask, shifted. A word before and one after those of `out`
// must be there: all neighbours exist, so that it gets no bit.
inline void add_shifted(const set_image::shift& s,
                        const std::uint64_t* set,
                        const std::uint64_t* mask,
                        std::uint64_t* out) {
  const word_distance d(s.by);
  const std::uint64_t* const from = set + s.first_word;
  std::uint64_t* const to = out + (std::int64_t{s.first_word} + d.high);
  for (std::uint32_t k = 0; k < s.words; ++k) {
    to[k] |= (from[k] & mask[k]) << d.low;
  }
  if (d.low != 0) {
    for (std::uint32_t k = 0; k < s.words; ++k) {
      to[k + 1] |= (from[k] & mask[k]) >> (64 - d.low);
    }
  }
}

UNMASK_LIBRARY void
token_automaton::add_after(std::uint32_t c, const std::uint64_t* set, std::uint64_t* out) const {
  for (std::uint32_t i = first_shift[c]; i < first_shift[c + 1]; ++i) {
    const set_image::shift& s = shifts[i];
    add_shifted(s, set, shift_masks.data() + s.mask, out);
  }
  for (std::uint32_t k = first_rest[c]; k < first_rest[c + 1]; ++k) {
    if (has_bit(set, rest_from[k])) {
      add_bit(out, rest_next[k]);
    }
  }
}

UNMASK_LIBRARY void
token_automaton::add_before(std::uint32_t c, const std::uint64_t* set, std::uint64_t* out) const {
  const auto words = static_cast<std::int64_t>(state_words());
  const auto word = [&](std::int64_t w) { return w >= 0 && w < words ? set[w] : 0; };
  for (std::uint32_t i = first_shift[c]; i < first_shift[c + 1]; ++i) {
    const set_image::shift& s = shifts[i];
    const word_distance d(s.by);
    for (std::uint32_t k = 0; k < s.words; ++k) {
      const std::int64_t from = std::int64_t{s.first_word} + k + d.high;
      const std::uint64_t moved =
          d.low == 0 ? word(from) : word(from) >> d.low | word(from + 1) << (64 - d.low);
      out[s.first_word + k] |= moved & shift_masks[s.mask + k];
    }
  }
  for (std::uint32_t k = first_rest[c]; k < first_rest[c + 1]; ++k) {
    if (has_bit(set, rest_next[k])) {
      add_bit(out, rest_from[k]);
    }
  }
}

}  // namespace unmask::detail::constraints
