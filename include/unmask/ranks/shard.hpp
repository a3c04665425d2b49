// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/tracked_list.hpp>
#include <unmask/stats/canonical.hpp>

/// Part of a row's columns as nodes of the canonical tree, for a vocabulary that is cut among
/// several ranks.
///
/// A shard is a range of columns of the whole vocabulary, without padding after the last token. It
/// is divided into the largest nodes of the row's tree (canonical.hpp) that lie completely in it,
/// from left to right, and a piece of a chunk at each end inside one. Nodes of neighbouring shards
/// are merged exactly where the tree merges them. So the result has the same bits for any number of
/// shards, any cuts and any order of merging, as long as the cuts are at multiples of
/// canonical::chunk_columns.
///
/// A cut inside a chunk divides sums that are otherwise computed together: they then differ by
/// rounding; best, token and runner-up do not. Each piece takes part in a draw separately, so that
/// the drawn token has the same distribution but may be another one. If each chunk is cut at most
/// once, the order of merging still has no effect.
namespace UNMASK_NAMESPACE::ranks {

/// Most nodes of any shard: a piece at each end, and one node of each size on both sides of the
/// largest.
inline constexpr index_t max_nodes = 2 + 2 * canonical::tree_levels;

/// The first node of a shard that is not empty, in a vocabulary of `vocab` tokens.
[[nodiscard]] UNMASK_HD constexpr range first_node(range columns, index_t vocab) {
  const std::int64_t chunk = canonical::chunk_columns;
  const std::int64_t first = columns.first;
  const std::int64_t last = columns.last;
  const bool open_ended = last == vocab;  // nothing follows: what reaches the end is whole
  const std::int64_t chunk_end = (first / chunk + 1) * chunk;
  std::int64_t end = chunk_end;
  if (first % chunk == 0 && (chunk_end <= last || open_ended)) {
    for (std::int64_t run = 2 * chunk;
         first % run == 0 && first + run / 2 < last && (first + run <= last || open_ended);
         run *= 2) {
      end = first + run;
    }
  }
  return {columns.first, static_cast<index_t>(end < last ? end : last)};
}

/// Number of nodes of a shard, at most max_nodes.
[[nodiscard]] UNMASK_HD constexpr index_t nodes_of(range columns, index_t vocab) {
  index_t count = 0;
  while (!columns.empty()) {
    columns.first = first_node(columns, vocab).last;
    ++count;
  }
  return count;
}

/// Columns `node` of a row as a row of their own, with the excluded tokens among them.
template <element T>
[[nodiscard]] UNMASK_HD row_input<T> part_of(const row_input<T>& row, range node) {
  const index_t skipped = node.first - row.first_token;
  const index_t excluded = tokens_below(row.excluded, row.excluded_count, node.first);
  row_input<T> part = row;
  part.columns = node.size();
  part.first_token = node.first;
  part.logits += skipped;
  part.unconditional = row.unconditional == nullptr ? nullptr : row.unconditional + skipped;
  part.previous = row.previous == nullptr ? nullptr : row.previous + skipped;
  part.excluded_count = tokens_below(row.excluded, row.excluded_count, node.last) - excluded;
  part.excluded = row.excluded == nullptr ? nullptr : row.excluded + excluded;
  part.excluded_logits = row.excluded_logits == nullptr ? nullptr : row.excluded_logits + excluded;
  return part;
}

/// True if the tree merges node `x` with node `y`, which begins where `x` ends.
[[nodiscard]] UNMASK_HD constexpr bool are_siblings(range x, range y, index_t vocab) {
  const std::int64_t chunk = canonical::chunk_columns;
  if (x.last % chunk != 0) {
    return true;  // pieces of one chunk
  }
  if (x.first % chunk != 0) {
    return false;  // the end of a chunk whose beginning is missing
  }
  const std::int64_t run = x.size();
  const std::int64_t end = x.last + run;
  return x.first / run % 2 == 0 && (y.last == end || (y.last == vocab && y.last < end));
}

/// Merges the nodes of neighbouring shards, pushed from left to right, into a row: an exactly
/// associative monoid with the empty stack as identity. Once it covers the vocabulary, the result
/// is the row's record. Cost: O(1) amortised a node.
template <statistics S>
class node_stack {
 public:
  explicit UNMASK_HD node_stack(index_t vocab)
      : vocab_(vocab) {}

  /// Adds a node, which must begin where the last one ended.
  UNMASK_HD void push(range columns, const record<S>& sums) {
    UNMASK_EXPECTS(size_ == 0 || columns_[size_ - 1].last == columns.first);
    columns_[size_] = columns;
    nodes_[size_] = sums;
    ++size_;
    while (size_ > 1 && are_siblings(columns_[size_ - 2], columns_[size_ - 1], vocab_)) {
      row_accumulator<S> sum{nodes_[size_ - 2]};
      sum.merge(row_accumulator<S>{nodes_[size_ - 1]});
      nodes_[size_ - 2] = sum.finish();
      columns_[size_ - 2].last = columns_[size_ - 1].last;
      --size_;
    }
  }

  [[nodiscard]] UNMASK_HD index_t size() const { return size_; }
  [[nodiscard]] UNMASK_HD const record<S>& operator[](index_t i) const { return nodes_[i]; }
  /// The columns pushed so far.
  [[nodiscard]] UNMASK_HD range columns() const {
    return size_ == 0 ? range{} : range{columns_[0].first, columns_[size_ - 1].last};
  }
  /// True when operator[](0) is the record of the whole row.
  [[nodiscard]] UNMASK_HD bool complete() const {
    return size_ == 1 && columns_[0] == range{0, vocab_};
  }

 private:
  index_t vocab_;
  index_t size_ = 0;
  range columns_[max_nodes + 1];
  record<S> nodes_[max_nodes + 1];
};

}  // namespace unmask::ranks
