// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/host/held_pool.hpp>
#include <unmask/host/row_transform.hpp>
#include <unmask/host/simd.hpp>
#include <unmask/stats/canonical.hpp>
#include <unmask/stats/compare.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace UNMASK_NAMESPACE::host::detail {

// Bit i: token `first` + i may be proposed. Bits from `count` <= 64 on are zero; words that contain
// only such bits are not read.
[[nodiscard]] inline std::uint64_t
allowed_bits(const std::uint32_t* allowed, token_id first, index_t count) {
  const std::uint64_t all = ~std::uint64_t{0} >> static_cast<unsigned>(64 - count);
  if (allowed == nullptr) {
    return all;
  }
  const std::uint32_t* word = allowed + first / 32;
  const int shift = first % 32;
  std::uint64_t bits = word[0] >> static_cast<unsigned>(shift);
  for (int have = 32 - shift; have < count; have += 32) {
    bits |= std::uint64_t{*++word} << static_cast<unsigned>(have);
  }
  return bits & all;
}

// Index of the first excluded token that is not below `token`.
[[nodiscard]] inline index_t first_excluded(const row_options& row, token_id token) {
  index_t i = 0;
  while (i < row.excluded_count && row.excluded[i] < token) {
    ++i;
  }
  return i;
}

// The container of held columns, if S requires one.
template <statistics S>
using held_of = std::conditional_t<provides_v<S, stat::kept>, held_pool, no_pool>;

template <class Simd>
struct stage_kernel;
template <class Simd>
struct columns_kernel;
template <class Simd>
struct sums_kernel;
template <class Simd>
struct row_kernel;

#define UNMASK_KERNEL <unmask/host/stage_kernel.inl>
#include <unmask/host/each_instruction_set.inl>

#define UNMASK_KERNEL <unmask/host/row_kernel.inl>
#define UNMASK_KERNEL_IS_PLAIN_ELSEWHERE
#include <unmask/host/each_instruction_set.inl>

// The portable instruction set reads as defined by canonical::fold_chunk: a fused multiply-add is a
// call of the C library there, which dominates the time.
template <>
struct row_kernel<portable_vectors> {
  template <statistics S, element T>
  static record<S> read_run(const row_input<T>& row, range chunks, row_transform edit) {
    alignas(64) float z[canonical::chunk_columns];
    canonical::chunk_tree<S> tree;
    held_of<S> held(row.held);
    index_t next_excluded =
        first_excluded(row, row.first_token + chunks.first * canonical::chunk_columns);
    for (index_t chunk = chunks.first; chunk < chunks.last; ++chunk) {
      const index_t first = chunk * canonical::chunk_columns;
      const index_t count = math::min(canonical::chunk_columns, row.columns - first);
      const token_id token = row.first_token + first;
      stage_kernel<portable_vectors>::stage(row, edit, first, count, next_excluded, z);
      record<S> r = canonical::fold_columns<S>(z, count, token);
      if (r.token != no_token) {
        if (canonical::draws<S>(row)) {
          canonical::draw_column(r, row.draw, z, count, token, -math::infinity());
        }
        if constexpr (canonical::compares<S>) {  // others have no previous row
          canonical::compare_chunk(r, z, row.previous + first, count, row.before);
        }
        for (index_t j = 0; j < count; ++j) {
          if (z[j] > held.bar()) {
            held.push(z[j], token + j);
            held.make_room();
          }
        }
      } else if constexpr (canonical::compares<S>) {
        std::copy_n(z, count, row.previous + first);
      }
      tree.push(r);
    }
    held.finish();
    record<S> result = tree.finish();
    if constexpr (provides_v<S, stat::drift>) {
      result.previous_square = row.before.seen ? row.before.square : 0.0F;
    }
    return result;
  }
};

}  // namespace unmask::host::detail

namespace UNMASK_NAMESPACE::host {

/// Reads the chunks [chunks.first, chunks.last) of a row once. Returns the node of the canonical
/// tree over them, if `chunks` is an aligned power-of-two run or such a run cut by the end of the
/// row.
///
/// Nodes of runs of one length, pushed in order into a canonical::chunk_tree, give the bits of
/// read_row. Chunks count from the row's first column, so a shard of the vocabulary gives nodes of
/// the whole row's tree if its first token is a multiple of canonical::chunk_columns.
///
/// Order of the options: z = u + (cfg_scale + 1) (c - u); `edit(z, token)`; tokens that are not
/// allowed become -inf, and `edit` may not be called for them; the logits of excluded tokens are
/// written to `excluded_logits` (only those within the run) and become -inf. With stat::kept the
/// columns then join those in `held`. NaN never becomes the best and makes the sums NaN
/// (canonical::fold_chunk); NaN of a token that is not allowed, or excluded, is ignored.
///
/// `edit` (row_transform) must be copyable and pure, and should call math::fma where a product is
/// added, or instruction sets may differ in a bit. `level` must be available. Cost: O(columns), one
/// pass over memory, 9 KB of stack, no allocation.
template <statistics S, element T>
[[nodiscard]] record<S>
read_run(const row_input<T>& row, range chunks, row_transform edit, instruction_set level) {
  UNMASK_EXPECTS(0 <= chunks.first && chunks.last <= canonical::chunks_of(row.columns));
  return with_vectors(level, [&]<class Simd>(Simd) {
    return detail::row_kernel<Simd>::template read_run<S>(row, chunks, edit);
  });
}

/// Returns the record of one row, and writes the edited logits of its excluded tokens and its held
/// columns. See read_run.
template <statistics S, element T>
[[nodiscard]] record<S>
read_row(const row_input<T>& row, row_transform edit, instruction_set level) {
  clear_excluded_logits(row);
  if (provides_v<S, stat::kept> && row.held != nullptr) {
    row.held->clear();
  }
  return read_run<S>(row, {0, canonical::chunks_of(row.columns)}, edit, level);
}

}  // namespace unmask::host
