// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/fixed_array.hpp>
#include <unmask/core/thread_group.hpp>
#include <unmask/host/read_rows.hpp>
#include <unmask/host/second_read.hpp>
#include <unmask/stats/truncate.hpp>

#include <new>

namespace UNMASK_NAMESPACE::host {

/// Enqueues rows and reads them together: the reads of a backend, for every policy with statistics
/// S. Their truncation completes records of `Whole`, which has at least those statistics.
template <statistics S, statistics Whole = S>
class row_reader {
  static_assert(has_kernel<S>,
                "this policy requires a set of statistics that unmask::compiled has no kernel for: "
                "define UNMASK_KERNELS as 1 in this file, so that it is compiled here");

  static constexpr bool holds = provides_v<S, stat::kept>;

 public:
  /// Has room for `rows` rows. Allocates here only.
  row_reader(std::size_t rows, executor_ref threads, instruction_set level)
      : threads_(threads)
      , level_(level)
      , records_(rows)
      , scratch_(scratch_records(threads.concurrency()))
      , held_(holds ? rows : 0)
      , held_scratch_(holds ? scratch_.size() : 0)
      , edits_(rows)
      , rows_(rows) {}

  /// Returns an additional row to be filled in. All rows that are read together have one element
  /// type.
  template <element T>
  [[nodiscard]] row_input<T>& enqueue(row_transform edit) {
    read_ = &row_reader::read_noted<T>;  // so that only types an engine supplies are compiled
    allow_ = &row_reader::allow_in_noted<T>;
    hold_ = &row_reader::hold_noted<T>;
    if constexpr (holds) {
      read_again_ = &row_reader::read_noted_again<T>;
    }
    edits_[size_] = edit;
    return *::new (static_cast<void*>(rows_[size_++].bytes)) row_input<T>();
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Reads the rows enqueued since the last run(): operator[] returns the record of each.
  void run() {
    if (size_ > read_count_) {
      (this->*read_)(read_count_, size_);
      read_count_ = size_;
    }
  }
  /// Number of rows that run() has read.
  [[nodiscard]] std::size_t read_count() const { return read_count_; }
  /// Reads row r once more, under another bitmask.
  void run(std::size_t r, const std::uint32_t* allowed) {
    (this->*allow_)(r, allowed);
    (this->*read_)(r, r + 1);
  }
  [[nodiscard]] record<S>& operator[](std::size_t r) { return records_[r]; }
  [[nodiscard]] const record<S>* records() const { return records_.data(); }

  /// Held columns of row r: row_options::held may be its address.
  [[nodiscard]] held_tokens& held(std::size_t r) { return held_[r]; }
  /// Truncates row r by its held columns: canonical::cut_held. From any thread.
  template <index_t Capacity>
  [[nodiscard]] bool cut_held(std::size_t r,
                              record<Whole>& whole,
                              const tracked_logits& tracked,
                              const truncation& rules,
                              const draw_request& draw) {
    bool proved = false;
    call_on_instruction_set(level_, [&] {
      canonical::head_cut<Capacity> space;
      proved = canonical::cut_held(serial{}, whole, held_[r], tracked, rules, draw, space);
    });
    return proved;
  }
  /// Truncates row r by a second read: host::read_again. From any thread.
  void read_again(std::size_t r,
                  record<Whole>& whole,
                  const tracked_logits& tracked,
                  const truncation& rules) {
    (this->*read_again_)(r, whole, tracked, rules);
  }

  /// Holds the first columns of row r: host::hold_row. From any thread.
  void hold(std::size_t r, held_tokens& into) { (this->*hold_)(r, into); }

  /// Removes all rows; their logits are no longer needed.
  void clear() { size_ = read_count_ = 0; }

 private:
  // Memory of a row_input<T>, the same for every T.
  struct place {
    alignas(row_input<float>) std::byte bytes[sizeof(row_input<float>)];
  };

  template <class T>  // not `element T`: clang 14 does not survive that here
  [[nodiscard]] row_input<T>* rows() {
    static_assert(sizeof(row_input<T>) == sizeof(place));
    return std::launder(reinterpret_cast<row_input<T>*>(rows_.data()));
  }

  template <class T>
  void allow_in_noted(std::size_t r, const std::uint32_t* allowed) {
    rows<T>()[r].allowed = allowed;
  }
  template <class T>
  void hold_noted(std::size_t r, held_tokens& into) {
    hold_row(into, rows<T>()[r], edits_[r], level_);
  }
  template <class T>
  void read_noted(std::size_t first, std::size_t last) {
    read_rows<S, T>({rows<T>() + first, last - first},
                    edits_.data() + first,
                    records_.data() + first,
                    threads_,
                    level_,
                    {scratch_.data(), scratch_.size()},
                    {held_scratch_.data(), held_scratch_.size()});
  }
  template <class T>
  void read_noted_again(std::size_t r,
                        record<Whole>& whole,
                        const tracked_logits& tracked,
                        const truncation& rules) {
    host::read_again(whole, rows<T>()[r], edits_[r], tracked, rules, held_[r], level_);
  }

  executor_ref threads_;
  instruction_set level_;
  fixed_array<record<S>> records_;
  fixed_array<record<S>> scratch_;
  fixed_array<held_tokens> held_;
  fixed_array<held_tokens> held_scratch_;
  // The rows that are enqueued, [0, size_).
  fixed_array<row_transform> edits_;
  fixed_array<place> rows_;
  std::size_t size_ = 0;
  std::size_t read_count_ = 0;
  void (row_reader::*read_)(std::size_t, std::size_t) = nullptr;
  void (row_reader::*allow_)(std::size_t, const std::uint32_t*) = nullptr;
  void (row_reader::*hold_)(std::size_t, held_tokens&) = nullptr;
  void (row_reader::*read_again_)(std::size_t,
                                  record<Whole>&,
                                  const tracked_logits&,
                                  const truncation&) = nullptr;
};

}  // namespace unmask::host
