// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/row_reader.hpp>
#include <unmask/step/truncate.hpp>

namespace UNMASK_NAMESPACE::host {

/// Destination of a row's record, slot_memory::records[index], and inputs of step::name_token() and
/// step::name_listed().
struct row_target {
  index_t slot = 0;
  index_t index = 0;
  index_t position = 0;
  const std::uint32_t* allowed = nullptr;
  float* excluded_logits = nullptr;
  const std::uint32_t* given = nullptr;  ///< the host's own bitmask, which contains `allowed`
};

/// The rows of a step that are read with the statistics S, and where their records go.
template <statistics S, class Policy>
struct rows_of_kind {
  static constexpr bool truncates = Policy::truncates && provides_v<S, stat::kept>;

  /// Has room for `most` rows.
  rows_of_kind(std::size_t most, executor_ref threads, instruction_set level)
      : rows(most, threads, level)
      , targets(most)
      , again(truncates ? most : 0) {}

  /// The row of scored position i of a slot, by slot_memory::place_of(); size() if there is none.
  [[nodiscard]] std::size_t find(index_t slot, index_t index) const {
    std::size_t r = 0;
    while (r < rows.size() && (targets[r].slot != slot || targets[r].index != index)) {
      ++r;
    }
    return r;
  }

  row_reader<S, Policy::required> rows;
  fixed_array<row_target> targets;
  /// Whether row r was read again by a truncating policy.
  fixed_array<std::uint8_t> again;
};

/// The rows of a step, by the kernel that reads them: policies composed in C++ have one, a policy
/// by name has the kernel of the statistics that its parts read.
template <class Policy, class Kinds = step::row_kinds_of<Policy>>
class row_readers;

template <class Policy, statistics... S>
class row_readers<Policy, statistics_list<S...>> {
 public:
  row_readers(executor_ref threads, instruction_set level)
      : threads_(threads)
      , level_(level)
      , kinds_{{rows_of_kind<S, Policy>(0, threads, level)}...} {}

  /// Makes room for `most` rows of a kind. Allocates if there is not.
  void reserve(index_t kind, std::size_t most) {
    visit(kind, [&]<class Kind>(Kind& k) {
      if (k.targets.size() < most) {
        k = Kind(most, threads_, level_);
      }
    });
  }

  /// Calls use(rows_of_kind&) with the rows of a kind, or of every kind in turn.
  void visit(index_t kind, const auto& use) {
    each(std::make_index_sequence<sizeof...(S)>{}, [&](index_t k, auto& rows) {
      if (k == kind) {
        use(rows);
      }
    });
  }
  void for_each(const auto& use) {
    each(std::make_index_sequence<sizeof...(S)>{}, [&](index_t, auto& rows) { use(rows); });
  }

 private:
  template <std::size_t... I>
  void each(std::index_sequence<I...>, const auto& use) {
    (use(static_cast<index_t>(I), unmask::detail::get_indexed<I, rows_of_kind<S, Policy>>(kinds_)),
     ...);
  }

  executor_ref threads_;
  instruction_set level_;
  unmask::detail::pack<rows_of_kind<S, Policy>...> kinds_;
};

}  // namespace unmask::host
