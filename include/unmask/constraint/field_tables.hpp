// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/running_field.hpp>

#include <algorithm>
#include <numeric>

/// A field as tables: definitions of running_field.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

UNMASK_LIBRARY std::vector<std::uint32_t> interned_sets::distinct_restrictions() const {
  std::vector<std::uint32_t> out(restrictions_);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Calls use(neighbours) for each state: those to which a class of a restriction leads.
void interned_sets::for_each_row(std::uint32_t restriction,
                                 const std::vector<std::uint32_t>& first,
                                 const std::vector<std::uint32_t>& to,
                                 const std::vector<std::uint32_t>& label,
                                 const auto& use) const {
  const token_automaton& a = pool_->automaton();
  const std::size_t words = a.class_words();
  const std::uint64_t* const may = pool_->restriction(restriction);
  std::vector<std::uint32_t> neighbours;
  for (std::uint32_t q = 0; q < a.states; ++q) {
    neighbours.clear();
    for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
      const std::uint64_t* const by = a.labels.data() + words * label[k];
      std::uint64_t any = 0;
      for (std::size_t w = 0; w < words; ++w) {
        any |= by[w] & may[w];
      }
      if (any != 0) {
        neighbours.push_back(to[k]);
      }
    }
    use(neighbours);
  }
}

// Where the edges of each class begin whose states are in a word of a set.
inline void write_words(const token_automaton& a,
                        std::size_t words,
                        const std::uint32_t* states,
                        std::uint32_t* firsts) {
  for (std::uint32_t c = 0; c < a.classes; ++c) {
    std::uint32_t k = a.first_edge[c];
    for (std::size_t w = 0; w <= words; ++w) {
      while (k < a.first_edge[c + 1] && states[k] / 32 < w) {
        ++k;
      }
      *firsts++ = k;
    }
  }
}

// Words that a row of `neighbours` takes: one a neighbour as a list, or `words` as a bit set once
// the list would be at least a quarter as long.
[[nodiscard]] inline std::size_t row_size(std::size_t neighbours, std::size_t words) {
  return 4 * neighbours < words ? neighbours : words;
}

UNMASK_LIBRARY field_sizes interned_sets::sizes() const {
  const token_automaton& a = pool_->automaton();
  field_sizes n;
  n.vocab = a.class_of.size();
  n.states = a.states;
  n.classes = a.classes;
  n.edges = a.edge_from.size();
  n.positions = static_cast<std::size_t>(size_);
  for (const std::uint32_t r : distinct_restrictions()) {
    ++n.restrictions;
    for_each_row(r, a.first_pair, a.pair_next, a.pair_label, [&](const auto& row) {
      n.after += row_size(row.size(), n.words());
    });
    for_each_row(r, a.first_back, a.back_from, a.back_label, [&](const auto& row) {
      n.before += row_size(row.size(), n.words());
    });
  }
  return n;
}

// The edges of each class by the state that they enter.
inline void write_back_edges(const token_automaton& a, field_tables& to) {
  std::vector<std::uint32_t> order(a.edge_from.size());
  std::iota(order.begin(), order.end(), 0U);
  for (std::uint32_t c = 0; c < a.classes; ++c) {
    std::sort(order.begin() + a.first_edge[c],
              order.begin() + a.first_edge[c + 1],
              [&](std::uint32_t x, std::uint32_t y) { return a.edge_next[x] < a.edge_next[y]; });
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    to.back_from[k] = a.edge_from[order[k]];
    to.back_next[k] = a.edge_next[order[k]];
  }
}

// The edges that leave each state, by their class.
inline void write_out_edges(const token_automaton& a, field_tables& to) {
  for (const std::uint32_t q : a.edge_from) {
    ++to.first_out[q + 1];
  }
  std::partial_sum(to.first_out, to.first_out + a.states + 1, to.first_out);
  std::vector<std::uint32_t> next(to.first_out, to.first_out + a.states);
  for (std::uint32_t c = 0; c < a.classes; ++c) {
    for (std::uint32_t k = a.first_edge[c]; k < a.first_edge[c + 1]; ++k) {
      const std::uint32_t at = next[a.edge_from[k]]++;
      to.out_class[at] = c;
      to.out_next[at] = a.edge_next[k];
    }
  }
}

UNMASK_LIBRARY void interned_sets::write_tables(field_tables& to) const {
  const token_automaton& a = pool_->automaton();
  std::copy(a.class_of.begin(), a.class_of.end(), to.class_of);
  std::copy(a.edge_from.begin(), a.edge_from.end(), to.edge_from);
  std::copy(a.edge_next.begin(), a.edge_next.end(), to.edge_next);
  write_back_edges(a, to);
  const std::size_t words = to.n.words();
  write_words(a, words, to.edge_from, to.leaving);
  write_words(a, words, to.back_next, to.entering);
  write_out_edges(a, to);
  std::copy(lowest_of_.begin(), lowest_of_.end(), to.lowest_of);
  std::copy(has_several_.begin(), has_several_.end(), to.has_several);
  const std::vector<std::uint32_t> restrictions = distinct_restrictions();
  std::uint32_t after = 0;
  std::uint32_t before = 0;
  const auto write_rows = [&](std::uint32_t r,
                              const std::vector<std::uint32_t>& first,
                              const std::vector<std::uint32_t>& neighbour,
                              const std::vector<std::uint32_t>& label,
                              std::uint32_t* firsts,
                              std::uint32_t* rows,
                              std::uint32_t& count) {
    for_each_row(r, first, neighbour, label, [&](const std::vector<std::uint32_t>& row) {
      *firsts++ = count;
      if (row_size(row.size(), words) < words) {
        std::copy(row.begin(), row.end(), rows + count);
        count += static_cast<std::uint32_t>(row.size());
      } else {
        for (const std::uint32_t q : row) {
          rows[count + q / 32] |= 1U << q % 32;
        }
        count += static_cast<std::uint32_t>(words);
      }
    });
    *firsts = count;
  };
  for (std::size_t i = 0; i < restrictions.size(); ++i) {
    const std::uint32_t r = restrictions[i];
    for (std::uint32_t c = 0; c < a.classes; ++c) {
      to.usable[i * a.classes + c] = has_bit(pool_->restriction(r), c) ? 1 : 0;
    }
    const std::size_t from = i * (std::size_t{a.states} + 1);
    write_rows(r, a.first_pair, a.pair_next, a.pair_label, to.first_after + from, to.after, after);
    write_rows(
        r, a.first_back, a.back_from, a.back_label, to.first_before + from, to.before, before);
  }
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const auto r = std::lower_bound(restrictions.begin(), restrictions.end(), restrictions_[i]);
    to.masked_symbols[i] = a.classes + static_cast<std::uint32_t>(r - restrictions.begin());
    to.symbols[i] = symbols_[i] < a.classes ? symbols_[i] : to.masked_symbols[i];
  }
  to.left[first_state_ / 32] = 1U << first_state_ % 32;
  for_each_bit(pool_->states_in(sets_of_right_[0]), a.state_words(), [&](std::size_t q) {
    to.right[q / 32] |= 1U << q % 32;
  });
  to.where = where;
  to.fills = fills;
  to.reads_again = reads_again;
}

UNMASK_LIBRARY std::uint32_t interned_sets::state_of(const std::uint32_t* symbols) const {
  const token_automaton& a = pool_->automaton();
  symbols = symbols == nullptr ? symbols_.data() : symbols;
  std::uint32_t q = first_state_;
  for (index_t at = 0; at < size_ && symbols[at] < a.classes && q != dead_state; ++at) {
    q = a.after(q, symbols[at]);
  }
  return q;
}

UNMASK_LIBRARY bool interned_sets::is_string(const std::uint32_t* symbols) const {
  const token_automaton& a = pool_->automaton();
  const bool is_whole =
      std::all_of(symbols, symbols + size_, [&](std::uint32_t s) { return s < a.classes; });
  const std::uint32_t q = state_of(symbols);
  return is_whole && q != dead_state && has_bit(pool_->states_in(sets_of_right_[0]), q);
}

}  // namespace unmask::detail::constraints
