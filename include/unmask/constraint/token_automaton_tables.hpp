// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/class_shifts.hpp>
#include <unmask/constraint/token_automaton.hpp>

#include <numeric>
#include <utility>

/// Definitions of token_automaton.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

// Marks the states that are found from some by following edges, breadth first; returns the number
// of edges to each.
[[nodiscard]] inline std::vector<std::uint32_t> distances(std::uint32_t states,
                                                          const std::vector<class_edge>& edges,
                                                          std::uint32_t class_edge::* from,
                                                          std::uint32_t class_edge::* to,
                                                          const std::vector<std::uint32_t>& roots) {
  const std::vector<std::uint32_t> first =
      firsts_of(states, edges.size(), [&](std::size_t i) { return edges[i].*from; });
  std::vector<std::uint32_t> at(first.begin(), first.end() - 1);
  std::vector<std::uint32_t> neighbour(edges.size());
  for (const class_edge& e : edges) {
    neighbour[at[e.*from]++] = e.*to;
  }
  std::vector<std::uint32_t> distance(states, unreachable);
  std::vector<std::uint32_t> queue = roots;
  for (const std::uint32_t q : roots) {
    distance[q] = 0;
  }
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::uint32_t q = queue[i];
    for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
      if (distance[neighbour[k]] == unreachable) {
        distance[neighbour[k]] = distance[q] + 1;
        queue.push_back(neighbour[k]);
      }
    }
  }
  return distance;
}

// Adds the state in which an answer has ended.
inline void add_end(raw_automaton& raw, token_automaton& out, std::span<const token_id> ends) {
  if (ends.empty()) {
    return;
  }
  out.ended = raw.states++;
  out.end_class = raw.classes++;
  for (const token_id v : ends) {
    raw.class_of[static_cast<std::size_t>(v)] = out.end_class;
  }
  for (std::uint32_t q = 0; q < out.ended; ++q) {
    if (raw.accepting[q] != 0) {
      raw.edges.push_back({q, out.end_class, out.ended});
    }
  }
  raw.accepting.push_back(1);
  raw.edges.push_back({out.ended, out.end_class, out.ended});
}

// Removes states that cannot be reached, or cannot reach acceptance. Keeps the order of the others.
inline void keep_live_states(raw_automaton& raw, token_automaton& out) {
  std::vector<std::uint32_t> accepting;
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    if (raw.accepting[q] != 0) {
      accepting.push_back(q);
    }
  }
  const auto reached =
      distances(raw.states, raw.edges, &class_edge::from, &class_edge::next, {raw.start});
  const auto left =
      distances(raw.states, raw.edges, &class_edge::next, &class_edge::from, accepting);
  std::vector<std::uint32_t> name(raw.states, dead_state);
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    if (reached[q] != unreachable && left[q] != unreachable) {
      name[q] = out.states++;
      out.distance.push_back(left[q]);
    }
  }
  out.accepting.assign(out.state_words(), 0);
  for (const std::uint32_t q : accepting) {
    if (name[q] != dead_state) {
      add_bit(out.accepting.data(), name[q]);
    }
  }
  std::erase_if(raw.edges, [&](const class_edge& e) {
    return name[e.from] == dead_state || name[e.next] == dead_state;
  });
  for (class_edge& e : raw.edges) {
    e.from = name[e.from];
    e.next = name[e.next];
  }
  out.start = name[raw.start];
  out.ended = out.ended == dead_state ? dead_state : name[out.ended];
}

// Tokens by class, and the bitmaps of large classes.
inline void list_tokens(token_automaton& out) {
  const auto in_class = [&](std::size_t v) { return out.class_of[v]; };
  out.first_token.assign(out.classes + 1, 0);
  for (std::size_t v = 0; v < out.class_of.size(); ++v) {
    if (in_class(v) != no_class) {
      ++out.first_token[in_class(v) + 1];
    }
  }
  std::partial_sum(out.first_token.begin(), out.first_token.end(), out.first_token.begin());
  out.tokens.resize(out.first_token.back());
  std::vector<std::uint32_t> at(out.first_token.begin(), out.first_token.end() - 1);
  for (std::size_t v = 0; v < out.class_of.size(); ++v) {
    if (in_class(v) != no_class) {
      out.tokens[at[in_class(v)]++] = static_cast<token_id>(v);
    }
  }
  out.bitmap_of.assign(out.classes, no_class);
  std::uint32_t bitmaps = 0;
  for (std::uint32_t c = 0; c < out.classes; ++c) {
    if (out.size_of(c) > listed_class) {
      out.bitmap_of[c] = bitmaps++;
      out.bitmaps.resize(bitmaps * out.token_words(), 0);
      std::uint32_t* const bitmap = out.bitmaps.data() + out.bitmap_of[c] * out.token_words();
      for (std::uint32_t k = out.first_token[c]; k < out.first_token[c + 1]; ++k) {
        add_token(bitmap, out.tokens[k]);
      }
    }
  }
}

// The edges by class, sorted.
inline void list_edges(std::vector<class_edge>& edges, token_automaton& out) {
  std::sort(edges.begin(), edges.end(), [](const class_edge& a, const class_edge& b) {
    return std::pair(a.by, a.from) < std::pair(b.by, b.from);
  });
  out.first_edge = firsts_of(out.classes, edges.size(), [&](std::size_t i) { return edges[i].by; });
  for (const class_edge& e : edges) {
    out.edge_from.push_back(e.from);
    out.edge_next.push_back(e.next);
  }
}

// Neighbouring states and the classes between them.
inline void list_pairs(std::vector<class_edge>& edges, token_automaton& out) {
  std::sort(edges.begin(), edges.end(), [](const class_edge& a, const class_edge& b) {
    return std::pair(a.from, a.next) < std::pair(b.from, b.next);
  });
  const std::size_t words = out.class_words();
  std::vector<std::uint64_t> found;  // labels with repeats, by pair
  std::vector<std::uint32_t> from;
  for (std::size_t i = 0; i < edges.size();) {
    const class_edge& e = edges[i];
    from.push_back(e.from);
    out.pair_next.push_back(e.next);
    found.resize(found.size() + words, 0);
    for (;
         i < edges.size() && edges[i].from == from.back() && edges[i].next == out.pair_next.back();
         ++i) {
      add_bit(found.data() + found.size() - words, edges[i].by);
    }
  }
  const std::size_t pairs = from.size();
  const auto less = [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(found.data() + a * words,
                                        found.data() + (a + 1) * words,
                                        found.data() + b * words,
                                        found.data() + (b + 1) * words);
  };
  std::vector<std::size_t> order(pairs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), less);
  out.pair_label.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    if (i == 0 || less(order[i - 1], order[i])) {
      const std::uint64_t* const label = found.data() + order[i] * words;
      out.labels.insert(out.labels.end(), label, label + words);
    }
    out.pair_label[order[i]] = static_cast<std::uint32_t>(out.labels.size() / words - 1);
  }
  out.first_pair = firsts_of(out.states, pairs, [&](std::size_t i) { return from[i]; });
  out.first_back = firsts_of(out.states, pairs, [&](std::size_t i) { return out.pair_next[i]; });
  std::vector<std::uint32_t> at(out.first_back.begin(), out.first_back.end() - 1);
  out.back_from.resize(pairs);
  out.back_label.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint32_t k = at[out.pair_next[i]]++;
    out.back_from[k] = from[i];
    out.back_label[k] = out.pair_label[i];
  }
}

// The image of neighbours: those of state q are to[first[q]] and so on. A distance that is rarer
// than this is not worth a shift.
inline constexpr std::size_t least_shifted = 16;

inline set_image image_of(const std::vector<std::uint32_t>& first,
                          const std::vector<std::uint32_t>& to) {
  const std::size_t states = first.size() - 1;
  std::vector<std::size_t> count(2 * states);  // by distance + states
  for (std::size_t q = 0; q < states; ++q) {
    for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
      ++count[to[k] + states - q];
    }
  }
  set_image out;
  std::vector<std::uint64_t> mask(words_of(states));
  for (std::size_t d = 0; d < count.size(); ++d) {
    if (count[d] < least_shifted) {
      continue;
    }
    std::fill(mask.begin(), mask.end(), 0);
    for (std::size_t q = 0; q < states; ++q) {
      for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
        if (to[k] + states - q == d) {
          add_bit(mask.data(), q);
        }
      }
    }
    std::size_t from = 0;
    std::size_t last = mask.size();
    while (mask[from] == 0) {
      ++from;
    }
    while (mask[last - 1] == 0) {
      --last;
    }
    out.shifts.push_back({static_cast<std::int32_t>(static_cast<std::int64_t>(d) -
                                                    static_cast<std::int64_t>(states)),
                          static_cast<std::uint32_t>(from),
                          static_cast<std::uint32_t>(last - from),
                          static_cast<std::uint32_t>(out.masks.size())});
    out.masks.insert(out.masks.end(),
                     mask.begin() + static_cast<std::ptrdiff_t>(from),
                     mask.begin() + static_cast<std::ptrdiff_t>(last));
  }
  out.first.push_back(0);
  out.has_others.resize(words_of(states));
  for (std::size_t q = 0; q < states; ++q) {
    for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
      if (count[to[k] + states - q] < least_shifted) {
        out.others.push_back(to[k]);
      }
    }
    out.first.push_back(static_cast<std::uint32_t>(out.others.size()));
    if (out.first[q + 1] > out.first[q]) {
      add_bit(out.has_others.data(), q);
    }
  }
  return out;
}

UNMASK_LIBRARY void
set_image::add(const std::uint64_t* set, std::uint64_t* out, std::size_t words) const {
  for (const shift& s : shifts) {
    add_shifted(s, set, masks.data() + s.mask, out);
  }
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t left = set[w] & has_others[w]; left != 0; left &= left - 1) {
      const std::size_t q = 64 * w + static_cast<std::size_t>(__builtin_ctzll(left));
      for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
        add_bit(out, others[k]);
      }
    }
  }
}

UNMASK_LIBRARY token_automaton finish(raw_automaton raw,
                                      const model_info& model,
                                      std::span<const token_id> ends) {
  token_automaton out;
  out.model = model;
  add_end(raw, out, ends);
  out.classes = std::max(raw.classes, std::uint32_t{1});
  keep_live_states(raw, out);
  if (out.states == 0 || out.start == dead_state) {
    out.states = 0;
    return out;
  }
  out.class_of = std::move(raw.class_of);
  list_tokens(out);
  list_edges(raw.edges, out);
  list_shifts(out);
  list_pairs(raw.edges, out);
  out.after_all = image_of(out.first_pair, out.pair_next);
  out.before_all = image_of(out.first_back, out.back_from);
  return out;
}

}  // namespace unmask::detail::constraints
