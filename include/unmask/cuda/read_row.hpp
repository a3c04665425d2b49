// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/stream_chunk.hpp>
#include <unmask/cuda/tuning.hpp>

namespace UNMASK_NAMESPACE::device {

/// Cross-block reduction workspace of one row: a record for each of its runs, a counter that is
/// zero before and after and, if columns are held, warp_list::held keys for each run.
template <statistics S>
struct row_reduction {
  record<S>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  std::uint64_t* held = nullptr;
};

/// Distance in words of the chunks of adjacent threads if a warp stores a chunk in shared memory.
inline constexpr index_t apart_words = 2 * lane_columns + 1;

/// Number of records of shared memory that read_row() needs: one for each chunk of a run and for
/// each run of a row, and room for a chunk if a token is drawn.
template <statistics S>
inline constexpr index_t node_count = [] {
  constexpr auto size = static_cast<index_t>(sizeof(record<S>));
  constexpr auto chunk = static_cast<index_t>(sizeof(float)) * warp_threads * apart_words;
  return provides_v<S, stat::sampled> ? math::max(max_run_chunks, (chunk + size - 1) / size)
                                      : max_run_chunks;
}();

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

// Counts a finished block, of `runs` for one row, by its first warp. Returns true in the last one,
// which sees what the others wrote, and resets the counter to zero.
[[nodiscard]] UNMASK_HD bool counts_last(const auto& b, std::uint32_t* arrived, index_t runs) {
  std::uint32_t ticket = 0;
  if (b.warp_lane() == 0) {
    ticket = b.take_ticket(arrived);
  }
  ticket = b.shuffle(ticket, 0);
  if (ticket + 1 != static_cast<std::uint32_t>(runs)) {
    return false;
  }
  b.sync_warp();  // the other lanes see what lane 0 has seen
  if (b.warp_lane() == 0) {
    *arrived = 0;
  }
  return true;
}

// Placeholder for a warp_holder if no columns are held.
struct no_holder {};

// Merges the runs of a row into nodes[0], and their held columns into `list`, in the last block to
// finish, which gets true, and resets the counter to zero.
template <statistics S>
[[nodiscard]] UNMASK_HD bool reduce_parts(const auto& b,
                                          const row_reduction<S>& at,
                                          index_t run,
                                          index_t runs,
                                          record<S>* nodes,
                                          const warp_list* list,
                                          [[maybe_unused]] auto& holder) {
  constexpr index_t held = warp_list::held;
  if constexpr (provides_v<S, stat::kept>) {
    for (index_t i = b.warp_lane(); list != nullptr && i < held; i += warp_threads) {
      at.held[run * held + i] = list->keys[i];
    }
    b.sync_warp();  // before lane 0 shows it to the other blocks
  }
  if (b.warp_lane() == 0) {
    at.parts[run] = nodes[0];
  }
  if (!counts_last(b, at.arrived, runs)) {
    return false;
  }
  for (index_t i = b.warp_lane(); i < runs; i += warp_threads) {
    nodes[i] = at.parts[i];
  }
  merge_tree(b, nodes, runs);
  if constexpr (provides_v<S, stat::kept>) {
    for (index_t i = 0; list != nullptr && i < runs; ++i) {
      if (i != run) {
        holder.push_list(at.held + i * held);
      }
    }
  }
  return true;
}

// Draws a token from the winning chunk, with the chunk in shared memory: the chunks that are read
// occupy all registers, and a row draws only once. Threads are an odd number of words apart, in
// different banks.
template <statistics S, element T, class Edit>
UNMASK_HD void
draw_apart(const auto& b, const row_input<T>& row, const Edit& edit, float* apart, record<S>& r) {
  if (r.drawn == no_token) {
    return;
  }
  const index_t first = r.drawn - row.first_token;
  const index_t count = math::min(canonical::chunk_columns, row.columns - first);
  auto& z = *reinterpret_cast<chunk_logits*>(apart + b.warp_lane() * apart_words);
  if (count < canonical::chunk_columns) {
    rolled<2 * lane_columns>([&](index_t i) { z[i] = -math::infinity(); });
  }
  float best = -math::infinity();
  const auto keep = [&](const piece_logits<T>& piece, index_t from, index_t /*here*/) {
    unrolled<2 * piece_groups<T>>([&](index_t i) {
      z[from / warp_threads + i] = piece[i];
      best = larger(best, piece[i]);
    });
    return true;
  };
  for_each_piece<false>(b, row, edit, excluded_of(b, row, 0), first, count, keep);
  b.sync_warp();  // the logits of excluded tokens were written again
  best = largest_of_warp(b, best, [](float x, float y) { return larger(x, y); });
  const place drawn = pick_column(b, row.draw, z, r.drawn, best);
  r.drawn += drawn.column;
  r.drawn_logit = drawn.logit;
}

}  // namespace detail

/// One thread block's share of a row: run `run` of the row's chunks, with `run_chunks` (a power of
/// two) chunks in a run. The block that completes a row writes its record to `out`, with the bits
/// of canonical::fold_chunk and canonical::chunk_tree for any division. `out` is a record
/// of at least the statistics S.
///
/// Returns true in the first warp of that block: all results of the read are written and visible to
/// its first lane.
///
/// `nodes` is shared memory for node_count<S> records, `lists` for a list of each warp if columns
/// are held; *row.held then gets the list of the row. A row of one run needs no reduction across
/// blocks. At most max_run_chunks runs; no run is empty.
template <statistics S, class Exponential, element T, class Edit>
UNMASK_HD bool read_row(const auto& b,
                        const row_input<T>& row,
                        const Edit& edit,
                        index_t run,
                        index_t run_chunks,
                        const row_reduction<S>& at,
                        record<S>* nodes,
                        auto& out,
                        warp_list* lists = nullptr) {
  const index_t chunks = canonical::chunks_of(row.columns);
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  const index_t first = run * run_chunks;
  const index_t count = math::min(run_chunks, chunks - first);
  if (run == 0 && row.excluded_logits != nullptr) {
    for (index_t n = b.lane(); n < row.excluded_count; n += b.lanes()) {
      const index_t column = row.excluded[n] - row.first_token;
      if (column < 0 || column >= row.columns) {
        row.excluded_logits[n] = -math::infinity();
      }
    }
  }
  auto holder = [&] {
    if constexpr (provides_v<S, stat::kept>) {
      return warp_holder(b, lists[b.warp()]);
    } else {
      return detail::no_holder{};
    }
  }();
  float best_before = -math::infinity();
  [[maybe_unused]] const token_id excluded = detail::excluded_of(b, row, 0);
  for (index_t i = b.warp(); i < count; i += b.warps()) {
    const record<S> chunk = [&] {
      if constexpr (streams<S>) {
        return stream_chunk<S, Exponential>(b, row, edit, excluded, first + i, best_before);
      } else {
        return read_chunk<S, Exponential>(b, row, edit, first + i, best_before, holder);
      }
    }();
    if (b.warp_lane() == 0) {
      nodes[i] = chunk;
    }
  }
  if constexpr (provides_v<S, stat::kept>) {
    if (row.held != nullptr) {
      holder.sort();
    }
  }
  b.sync();
  if (b.warp() != 0) {
    return false;
  }
  if constexpr (provides_v<S, stat::kept>) {
    if (row.held != nullptr) {
      for (index_t w = 1; w < b.warps(); ++w) {
        holder.push_list(lists[w].keys);
      }
      holder.sort();
    }
  }
  detail::merge_tree(b, nodes, count);
  const warp_list* const list = row.held != nullptr ? lists : nullptr;
  if (runs > 1 && !detail::reduce_parts(b, at, run, runs, nodes, list, holder)) {
    return false;
  }
  record<S> whole = nodes[0];
  b.sync_warp();  // before the nodes go
  if constexpr (provides_v<S, stat::kept>) {
    if (row.held != nullptr) {
      if (runs > 1) {
        holder.sort();
      }
      if (b.warp_lane() == 0) {
        take_held(lists[0], *row.held);
      }
    }
  }
  if constexpr (provides_v<S, stat::sampled>) {
    if (canonical::draws<S>(row)) {
      detail::draw_apart(b, row, edit, reinterpret_cast<float*>(nodes), whole);
    }
  }
  if constexpr (provides_v<S, stat::drift>) {
    whole.previous_square = row.before.seen ? row.before.square : 0.0F;
  }
  if (b.warp_lane() == 0) {
    copy_statistics<S>(whole, out);
    using out_type = std::remove_reference_t<decltype(out)>;
    if constexpr (provides_v<out_type::contents, stat::sampled> && !provides_v<S, stat::sampled>) {
      static_cast<field::sampled&>(out) = {};  // none is drawn
    }
  }
  return true;
}

}  // namespace unmask::device
