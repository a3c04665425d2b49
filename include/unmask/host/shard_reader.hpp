// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/read_rows.hpp>
#include <unmask/stats/message.hpp>
#include <unmask/step/position.hpp>

#include <tuple>
#include <vector>

namespace UNMASK_NAMESPACE::host {

/// Reads the nodes of a shard of many rows: each is a row of its own to read_rows(), so that few
/// rows use every thread here, too.
template <class Policy>
class shard_reader {
  static constexpr statistics contents = Policy::required;

 public:
  /// Room for so many nodes, those of all rows together.
  shard_reader(std::size_t nodes, executor_ref threads, tier level)
      : threads_(threads)
      , level_(level)
      , records_(nodes)
      , scratch_(scratch_records(threads.concurrency())) {
    std::get<pending<float>>(pending_).reserve(nodes);
    std::get<pending<bfloat16>>(pending_).reserve(nodes);
    std::get<pending<float16>>(pending_).reserve(nodes);
    owners_.reserve(nodes);
  }

  /// Notes the row of scored position i in a branch; `logits` is that of column columns.first.
  template <element T>
  void note(const step::slot_memory<Policy>& m,
            index_t branch,
            index_t i,
            const T* logits,
            const row_riders<T>& rider,
            range columns) {
    row_input<T> row;
    row.logits = logits;
    row.allowed = rider.allowed;
    row.unconditional = rider.unconditional;
    row.cfg_scale = rider.cfg_scale;
    row.draw = step::draw_of(m, i);
    m.blank(row, branch, i);
    m.recall(row, i);
    row.columns = columns.size();
    row.first_token = columns.first;
    clear_blanked_logits(row);
    step::name_listed(m, i, columns, row.allowed, row.blanked_logits);
    while (!columns.empty()) {
      const range node = ranks::first_node(columns, m.state->model.vocab);
      std::get<pending<T>>(pending_).push_back(ranks::part_of(row, node));
      owners_.push_back({&m, m.status->next.score.first + i});
      columns.first = node.last;
    }
  }

  /// Reads all that was noted: the records, node by node of row by row. Valid until the next read.
  template <element T>
  [[nodiscard]] const record<contents>* read() {
    pending<T>& rows = std::get<pending<T>>(pending_);
    const auto edit_of = [this](index_t r) {
      return step::edit_of(*owners_[static_cast<std::size_t>(r)].slot);
    };
    read_rows<contents, T>(rows, edit_of, records_.data(), threads_, level_, scratch_);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const range columns = {rows[r].first_token, rows[r].first_token + rows[r].columns};
      step::name_token(
          *owners_[r].slot, owners_[r].position, columns, rows[r].allowed, records_[r]);
    }
    rows.clear();
    owners_.clear();
    return records_.data();
  }

 private:
  template <class T>  // as in the workspace
  using pending = std::vector<row_input<T>>;

  // Where the row that a node is of is decided.
  struct owner {
    const step::slot_memory<Policy>* slot;
    index_t position;
  };

  executor_ref threads_;
  tier level_;
  std::vector<record<contents>> records_;
  std::vector<record<contents>> scratch_;
  std::tuple<pending<float>, pending<bfloat16>, pending<float16>> pending_;
  std::vector<owner> owners_;
};

}  // namespace unmask::host
