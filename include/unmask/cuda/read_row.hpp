// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_chunk.hpp>
#include <unmask/cuda/tuning.hpp>

namespace UNMASK_NAMESPACE::device {

/// Where the thread blocks that share one row meet: one record for each of its runs, and a counter
/// that is zero before and after.
template <statistics S>
struct row_meeting {
  record<S>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
};

namespace detail {

// nodes[0] = the canonical tree over nodes[0] ... nodes[count - 1], by one warp.
template <statistics S>
UNMASK_HD void merge_tree(const auto& b, record<S>* nodes, index_t count) {
  b.sync_warp();
  for (index_t step = 1; step < count; step *= 2) {
    for (index_t i = 2 * step * b.warp_lane(); i + step < count; i += 2 * step * warp_threads) {
      row_accumulator<S> sum{nodes[i]};
      sum.merge(row_accumulator<S>{nodes[i + step]});
      nodes[i] = sum.finish();
    }
    b.sync_warp();
  }
}

// Merges the runs of a row into nodes[0] in the block that comes last, which gets true, and makes
// the counter zero again.
template <statistics S>
[[nodiscard]] UNMASK_HD bool
meet(const auto& b, const row_meeting<S>& at, index_t run, index_t runs, record<S>* nodes) {
  std::uint32_t ticket = 0;
  if (b.warp_lane() == 0) {
    at.parts[run] = nodes[0];
    b.fence();
    ticket = b.take_ticket(at.arrived);
  }
  ticket = b.shuffle(ticket, 0);
  if (ticket + 1 != static_cast<std::uint32_t>(runs)) {
    return false;
  }
  b.fence();
  b.sync_warp();  // the other lanes see what lane 0 has seen
  for (index_t i = b.warp_lane(); i < runs; i += warp_threads) {
    nodes[i] = at.parts[i];
  }
  if (b.warp_lane() == 0) {
    *at.arrived = 0;
  }
  merge_tree(b, nodes, runs);
  return true;
}

// finish_row() as a function that is called, for rows whose end takes a chunk's registers once
// more: else the loop over the chunks pays for it.
template <statistics S, element T, class Edit>
__attribute__((noinline)) UNMASK_HD void
finish_apart(const auto& b, const row_input<T>& row, const Edit& edit, record<S>& r) {
  finish_row(b, row, edit, r);
}

}  // namespace detail

/// One thread block's share of a row: run `run` of the row's chunks, `run_chunks` (a power of two)
/// to a run. The block that finishes a row writes its record to `out`, with the bits of
/// canonical::fold_chunk and canonical::chunk_tree whatever the cut.
///
/// True in the first warp of that block: everything that the read of the row writes is written, and
/// this warp sees it.
///
/// `nodes` is shared memory for max_run_chunks records. A row of one run needs no meeting. At most
/// max_run_chunks runs; no run is empty.
template <statistics S, class Exponential, element T, class Edit>
UNMASK_HD bool read_row(const auto& b,
                        const row_input<T>& row,
                        const Edit& edit,
                        index_t run,
                        index_t run_chunks,
                        const row_meeting<S>& at,
                        record<S>* nodes,
                        record<S>& out) {
  const index_t chunks = canonical::chunks_of(row.columns);
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  const index_t first = run * run_chunks;
  const index_t count = math::min(run_chunks, chunks - first);
  if (run == 0 && row.blanked_logits != nullptr) {
    for (index_t n = b.lane(); n < row.blanked_count; n += b.lanes()) {
      const index_t column = row.blanked[n] - row.first_token;
      if (column < 0 || column >= row.columns) {
        row.blanked_logits[n] = -math::infinity();
      }
    }
  }
  float best_before = -math::infinity();
  for (index_t i = b.warp(); i < count; i += b.warps()) {
    const record<S> chunk = read_chunk<S, Exponential>(b, row, edit, first + i, best_before);
    if (b.warp_lane() == 0) {
      nodes[i] = chunk;
    }
  }
  b.sync();
  if (b.warp() != 0) {
    return false;
  }
  detail::merge_tree(b, nodes, count);
  if (runs > 1 && !detail::meet(b, at, run, runs, nodes)) {
    return false;
  }
  record<S> whole = nodes[0];
  if constexpr (provides_v<S, stat::sampled>) {
    detail::finish_apart(b, row, edit, whole);
  } else {
    finish_row(b, row, edit, whole);
  }
  if (b.warp_lane() == 0) {
    out = whole;
  }
  return true;
}

}  // namespace unmask::device
