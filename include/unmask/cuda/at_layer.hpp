// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/choose.hpp>
#include <unmask/cuda/copy_row.hpp>
#include <unmask/cuda/drift_row.hpp>
#include <unmask/cuda/read_rows.hpp>
#include <unmask/step/layer_choice.hpp>

/// A hook of a layer on the device: computes the drift of the rows, selects, and stores rows. The
/// host knows an upper bound of the number of rows, not the number.
namespace UNMASK_NAMESPACE::device {

/// Arguments that an engine passes to a hook for one segment.
template <element T>
struct layer_arguments {
  rows_view<T, memory::device> now;
  state_view<T, memory::device> stored;
  index_t slot = 0;
  index_t layer = 0;
  /// Rows for which the engine's kernels have room behind the hook.
  index_t most = 0;
};

/// Hooks of several segments at one layer, each of a different slot. Passed as a kernel argument;
/// each segment has the blocks of the segment with most rows.
template <element T>
struct layer_batch {
  static constexpr index_t capacity = 16;

  index_t count = 0;
  layer_arguments<T> segments[capacity];
};

/// Shared memory of a block. Any block may be the last one, which selects.
template <class Policy>
struct choice_space {
  digit_counts counts;
  float drifts[step::layers::mean_lanes];
  step::layers::reduction_of_rows<Policy> step_reductions[step::layers::step_reduction_chunks];
  bool verdict;
};

namespace detail {

// step::layers::fold() by one warp: its threads are the partial sums.
template <class Policy>
UNMASK_HD void fold_drift(const auto& b,
                          const step::slot_memory<Policy>& m,
                          index_t first,
                          float (&drifts)[step::layers::mean_lanes]) {
  static_assert(step::layers::mean_lanes == warp_threads);
  layer_info& info = m.layers.state->info;
  const index_t lane = b.warp_lane();
  float sum = 0.0F;
  float largest = -math::infinity();
  index_t counted = 0;
  for (index_t begin = 0; begin < info.active; begin += warp_threads) {
    layer_row row;
    bool counts = false;
    if (begin + lane < info.active) {
      row = step::layers::measured_row(m, begin + lane, first);
      counts = step::layers::counts(m, row);
    }
    // Each counting row goes to the thread of its sum, at most one to each thread.
    const std::uint32_t counting = b.ballot(counts);
    const std::uint32_t before = counting & ((1U << static_cast<unsigned>(lane)) - 1U);
    if (counts) {
      drifts[(counted + count_bits(before)) % warp_threads] = row.drift;
      largest = row.drift > largest ? row.drift : largest;  // a NaN is not
    }
    b.sync_warp();
    const index_t more = count_bits(counting);
    if ((lane - counted % warp_threads + warp_threads) % warp_threads < more) {
      sum += drifts[lane];
    }
    b.sync_warp();  // before the next 32 rows are written there
    counted += more;
  }
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    sum += b.shuffle_xor(sum, distance);
    const float other = b.shuffle_xor(largest, distance);
    largest = other > largest ? other : largest;
  }
  if (lane == 0) {
    info.largest = largest > -math::infinity() ? largest + 0.0F : 0.0F;
    info.mean = counted > 0 ? math::divide(sum, static_cast<float>(counted)) : 0.0F;
    m.layers.means[info.layer] = info.mean;
  }
}

/// Measures a block's share of the rows of a hook, one warp for each row, and stores them if the
/// rule stores all.
template <bool Stores, element T, class Policy>
UNMASK_HD void measure_rows(const auto& b,
                            const step::slot_memory<Policy>& m,
                            const layer_arguments<T>& a,
                            index_t active,
                            index_t block,
                            index_t blocks) {
  const step::layer_memory& l = m.layers;
  const bool measures = step::layers::measures(m);
  for (index_t i = block * b.warps() + b.warp(); i < active && (measures || Stores);
       i += blocks * b.warps()) {
    const index_t position = l.active[i];
    T* const before = a.stored.positions.contains(position) ? a.stored.row(position) : nullptr;
    if (measures) {
      const drift_sums sums = drift_row<step::layers::measured_terms<Policy>, Stores>(
          b, a.now.row(i), before, a.now.columns);
      if (b.warp_lane() == 0) {
        l.drift[i] = step::layers::measure(*m.policy, sums);
      }
    } else {
      static_cast<void>(
          drift_row<drift_terms::none, Stores>(b, a.now.row(i), before, a.now.columns));
    }
  }
}

}  // namespace detail

/// step::begin_layer and step::choose_rows by a thread block, with the same selection. The drift is
/// already computed.
template <class Policy>
UNMASK_HD void choose_rows(const auto& b,
                           const step::slot_memory<Policy>& m,
                           index_t layer,
                           choice_space<Policy>& space) {
  const step::layer_memory& l = m.layers;
  const layer_info& info = l.state->info;
  const index_t first = step::layers::first_masked(m);
  if (b.lane() == 0) {
    step::begin_layer(m, layer);
  }
  b.sync();
  if (step::layers::measures(m)) {
    if (b.warp() == 0) {
      detail::fold_drift(b, m, first, space.drifts);
    }
    b.sync();
  }
  index_t size = info.active;
  if (info.refresh) {
    for (index_t i = b.lane(); i < size; i += b.lanes()) {
      l.chosen_rows[i] = i;  // which the same thread completes
    }
  } else {
    const auto step_reduction = step::layers::look_at_rows(b, m, first, space.step_reductions);
    step::layers::rank_rows(b, m, first, step_reduction);
    size =
        choose(b,
               l.keys,
               info.active,
               step::layers::quota_of(m, step_reduction),
               l.chosen_rows,
               space.counts,
               [&](index_t i) { return step::layers::is_mandatory(m, i, first, step_reduction); });
    b.sync();
  }
  step::layers::complete_choice(b, m, size);
}

namespace detail {

// Counts the finished blocks of a hook. Returns true in all threads of the last one, which then
// sees all writes of the others, and resets the counter to zero. Called after a barrier of the
// block; `verdict` is shared memory that no thread reads any more.
[[nodiscard]] UNMASK_HD inline bool
comes_last(const auto& b, std::uint32_t* finished, index_t blocks, bool& verdict) {
  if (b.lane() == 0) {
    const bool last = b.take_ticket(finished) + 1 == static_cast<std::uint32_t>(blocks);
    if (last) {
      *finished = 0;
    }
    verdict = last;
  }
  b.sync();
  return verdict;
}

}  // namespace detail

/// Work of one of the `blocks` blocks of a hook: measures its share of the rows, one warp for each,
/// and stores them if the rule stores all; the last block to finish selects.
///
/// A pass that does not fit, because it has more rows than the engine passes or has room for, is
/// rejected: its step is not decided and starts again. Passes that the host planned always fit; the
/// replay of a captured pass may not.
template <element T, class Policy>
UNMASK_HD void layer_block(const auto& b,
                           const session_device_view<Policy>& device_view,
                           const layer_arguments<T>& a,
                           index_t block,
                           index_t blocks,
                           choice_space<Policy>& space) {
  const step::slot_memory<Policy>& m = device_view.slots[a.slot];
  const step::layer_memory& l = m.layers;
  const plan& now = m.status->next;
  const index_t active = l.state->active;
  // All blocks get the same result: the data are changed only after all blocks have finished.
  const bool fits =
      l.state->next == a.layer && active <= a.now.rows && (!now.refresh || active <= a.most);
  if (!now.active() || !fits) {
    if (block == 0 && b.lane() == 0 && now.active()) {
      l.state->next = step::layers::refused(m);
    }
    return;
  }
  constexpr bool all_store = step::layers::all_store_all<Policy>;
  if constexpr (!all_store && step::layers::some_store_all<Policy>) {
    if (step::layers::stores_all(*m.policy)) {
      detail::measure_rows<true>(b, m, a, active, block, blocks);
    } else {
      detail::measure_rows<false>(b, m, a, active, block, blocks);
    }
  } else {
    detail::measure_rows<all_store>(b, m, a, active, block, blocks);
  }
  b.sync();
  if (detail::comes_last(b, device_view.finished + a.slot, blocks, space.verdict)) {
    choose_rows(b, m, a.layer, space);
    if (b.lane() == 0 && l.state->chosen > a.most) {
      l.state->next = step::layers::refused(m);
    }
  }
}

/// Stores the k-th row that the hook selected: the work of one block, for rules that store selected
/// rows only.
template <element T, class Policy>
UNMASK_HD void store_chosen(const auto& b,
                            const session_device_view<Policy>& device_view,
                            const layer_arguments<T>& a,
                            index_t k) {
  const step::slot_memory<Policy>& m = device_view.slots[a.slot];
  const step::layer_memory& l = m.layers;
  if (m.status->next.active() && l.state->next != step::layers::refused(m) &&
      !step::layers::stores_all(*m.policy)) {
    const device_list rows{l.chosen_rows, &l.state->chosen, a.most};
    const device_list positions{l.chosen, &l.state->chosen, a.most};
    copy_row(b, row_copies<T>{a.now, rows, positions, a.stored}, k);
  }
}

}  // namespace unmask::device
