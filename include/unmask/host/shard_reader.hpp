// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/fixed_array.hpp>
#include <unmask/host/row_reader.hpp>
#include <unmask/host/slot_transform.hpp>
#include <unmask/ranks/message.hpp>
#include <unmask/step/read_inputs.hpp>

namespace UNMASK_NAMESPACE::host {

/// Reads the nodes of a shard for many rows. Each node is a row of its own for read_rows(), so that
/// few rows use every thread.
template <class Policy>
class shard_reader {
  static constexpr statistics contents = Policy::required;

 public:
  /// Has room for `nodes` nodes, those of all rows together.
  shard_reader(std::size_t nodes, executor_ref threads, instruction_set level)
      : rows_(nodes, threads, level)
      , owners_(nodes) {}

  /// Enqueues the row of scored position i in a branch; `logits` is that of column columns.first.
  template <element T>
  void enqueue(const step::slot_memory<Policy>& m,
               index_t branch,
               index_t i,
               const T* logits,
               const row_modifiers<T>& modifier,
               range columns) {
    row_input<T> row;
    row.logits = logits;
    row.allowed = modifier.allowed;
    row.unconditional = modifier.unconditional;
    row.cfg_scale = modifier.cfg_scale;
    row.draw = step::draw_of(m, i);
    m.exclude_tokens(row, branch, i);
    m.load_previous_row(row, i);
    row.columns = columns.size();
    row.first_token = columns.first;
    clear_excluded_logits(row);
    step::name_listed(m, i, columns, row.allowed, row.excluded_logits);
    while (!columns.empty()) {
      const range node = ranks::first_node(columns, m.state->model.vocab);
      owners_[rows_.size()] = {&m, m.status->next.score.first + i, node, row.allowed};
      row_input<T>& part = rows_.template enqueue<T>(slot_transform(m));
      part = ranks::part_of(row, node);
      columns.first = node.last;
    }
  }

  /// Reads all enqueued rows. Returns the records, the nodes of the first row, then of the next.
  /// Valid until the next read.
  [[nodiscard]] const record<contents>* run() {
    rows_.run();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const owner& o = owners_[r];
      step::name_token(*o.slot, o.position, o.columns, o.allowed, rows_[r]);
    }
    rows_.clear();
    return rows_.records();
  }

 private:
  // The position for which a node's row is read, and the inputs of step::name_token().
  struct owner {
    const step::slot_memory<Policy>* slot = nullptr;
    index_t position = 0;
    range columns;
    const std::uint32_t* allowed = nullptr;
  };

  row_reader<contents> rows_;
  fixed_array<owner> owners_;
};

}  // namespace unmask::host
