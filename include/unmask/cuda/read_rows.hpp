// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/decide_slot.hpp>
#include <unmask/cuda/device_view.hpp>
#include <unmask/cuda/keep_row.hpp>
#include <unmask/step/layers.hpp>
#include <unmask/step/read_inputs.hpp>

#include <type_traits>

namespace UNMASK_NAMESPACE::device {

/// The logits of one segment, of any element type: `logits` is the row of position rows.first. For
/// a layered policy `rows` counts the existing rows.
struct segment_rows {
  const void* logits = nullptr;
  const void* unconditional = nullptr;
  const std::uint32_t* allowed = nullptr;
  range rows;
  index_t slot = 0;
  index_t branch = 0;  ///< segment_of_slot()
};

/// The logits of several segments with the same strides and guidance. Passed as a kernel argument:
/// nothing to copy or to wait for, and a captured graph keeps its own.
struct row_batch {
  static constexpr index_t capacity = 64;

  index_t count = 0;
  float cfg_scale = 0.0F;
  std::ptrdiff_t stride = 0;
  std::ptrdiff_t unconditional_stride = 0;
  std::ptrdiff_t allowed_stride = 0;
  segment_rows segments[capacity];

  /// True when a segment of a tensor like that of `other` can be added.
  [[nodiscard]] bool takes_more_like(const row_batch& other) const {
    return count < capacity && stride == other.stride && allowed_stride == other.allowed_stride &&
           unconditional_stride == other.unconditional_stride && cfg_scale == other.cfg_scale;
  }
};

/// Additional shared memory of a block that reads for a truncating policy.
template <class Policy>
struct keep_room {
  warp_list lists[read_threads / warp_threads];
  held_tokens held;
  canonical::head_cut<step::cut_room<Policy>> cut;
  second_space<Policy::required> second;
};
struct no_keep_room {
  static constexpr warp_list* lists = nullptr;
};

/// True if the kernel that reads the statistics S also truncates rows of the policy.
template <statistics S, class Policy>
inline constexpr bool keeps_columns = Policy::truncates && provides_v<S, stat::kept>;

/// The logits transforms of a policy.
template <class Policy>
using transform_type = decltype(step::transform_of(std::declval<step::slot_memory<Policy>&>()));

/// Shared memory of a block that reads the statistics S: the chunks occupy all registers.
/// `Transforms`: whether parts may transform logits.
template <element T, statistics S, bool Transforms, class Policy>
struct read_space {
  static constexpr statistics contents = S;

  record<S> nodes[node_count<S>];
  row_input<T> row;
  row_reduction<S> at;
  record<Policy::required>* out;
  std::conditional_t<Transforms, transform_type<Policy>, identity> transform;
  std::conditional_t<keeps_columns<S, Policy>, keep_room<Policy>, no_keep_room> keep;
  /// Written by lane 0, read by all.
  bool verdict;

  /// The transform, for the registers of a thread. One without members is never written.
  [[nodiscard]] UNMASK_HD auto own_transform() const {
    using type = decltype(transform);
    if constexpr (std::is_empty_v<type>) {
      return type{};
    } else {
      return transform;
    }
  }
};

namespace detail {

// The row from which position score.first + i of a segment's sequence is decided; false if the
// position needs no decision. Everything but the addresses is read from the plan on the device, as
// far as a read of the statistics S needs it.
template <statistics S, element T, class Policy>
[[nodiscard]] UNMASK_HD bool row_of(const step::slot_memory<Policy>& m,
                                    const row_batch& batch,
                                    const segment_rows& from,
                                    index_t i,
                                    row_input<T>& row,
                                    const step::answer_walk* answer = nullptr) {
  const range read = m.read_range();
  const index_t position = read.first + i;
  if (position >= read.last || !m.reads_in(from.branch, i)) {
    return false;
  }
  const index_t shift = m.status->next.logits_shift;
  std::ptrdiff_t r = math::max(position - shift, index_t{0}) - from.rows.first;
  if constexpr (Policy::layered) {
    r = step::layered_now(m) ? m.layers.row_of[i] : r;
  }
  row.logits = static_cast<const T*>(from.logits) + r * batch.stride;
  row.columns = m.state->model.vocab;
  if (answer != nullptr) {
    row.allowed = answer->mask_of(i);
  } else if (from.allowed != nullptr) {
    row.allowed = from.allowed + r * batch.allowed_stride;
  }
  if (from.unconditional != nullptr) {
    row.unconditional = static_cast<const T*>(from.unconditional) + r * batch.unconditional_stride;
  }
  row.cfg_scale = batch.cfg_scale;
  m.exclude_tokens(row, from.branch, i);
  if constexpr (provides_v<S, stat::sampled>) {
    row.draw = step::draw_of(m, i);
  }
  if constexpr (canonical::compares<S>) {
    m.load_previous_row(row, i);
  }
  return true;
}

// True if the segment has the rows that a step needs of it.
template <class Policy>
[[nodiscard]] UNMASK_HD bool has_rows(const step::slot_memory<Policy>& m,
                                      const segment_rows& from) {
  if constexpr (Policy::layered) {
    if (step::layered_now(m)) {
      return step::has_passed(m) && m.layers.state->rows <= from.rows.size();
    }
  }
  const bool is_shadow = from.branch > m.status->next.branches;
  const range wanted = is_shadow ? m.status->shadow_rows : m.status->rows_of(from.branch);
  return wanted.empty() || (wanted.first >= from.rows.first && wanted.last <= from.rows.last);
}

// Truncates the row of scored position i, which was just read. `through` is true in the first warp
// of the block that completed it.
template <class Exponential, element T, statistics S, bool Transforms, class Policy>
UNMASK_HD void cut_row(const auto& b,
                       const session_device_view<Policy>& device_view,
                       const segment_rows& from,
                       const row_reduction<S>& at,
                       index_t i,
                       bool through,
                       read_space<T, S, Transforms, Policy>& space) {
  step::slot_memory<Policy> m = device_view.slots[from.slot];
  if constexpr (Policy::varies) {
    m.soft = device_view.soft_of(from.slot);  // parts may leave nothing of what it holds
  }
  if (through) {
    const auto warp = warp_of(b);
    held_tokens& held = space.keep.held;
    const bool proved =
        step::keep_held(warp, m, from.branch, i, held, [&](auto& row, const auto&... how) {
          return canonical::cut_held(warp, row, held, how..., space.keep.cut);
        });
    if (b.warp_lane() == 0) {
      space.verdict = proved;
      space.row.excluded_logits = nullptr;  // they are edited now
      if (!proved) {
        b.add(reinterpret_cast<std::uint32_t*>(&m.status->report.second_reads), 1U);
      }
    }
  } else if (b.lane() == 0) {
    space.verdict = true;
  }
  b.sync();
  if (!space.verdict) {
    read_again<Exponential>(b,
                            m.row(from.branch, i),
                            space.row,
                            space.own_transform(),
                            m.kept_apart(from.branch, i),
                            step::truncation_of(*m.policy),
                            space.keep.held,
                            device_view.shape.run_chunks,
                            at.parts,
                            space.keep.second);
  }
}

// True if a read suffices for a sequence that needs `needed` (slot_state::read): a captured graph
// may be replayed after the slot got another policy. One that compares rows does for no other.
template <statistics S, bool Transforms>
[[nodiscard]] UNMASK_HD bool suffices(std::uint32_t needed) {
  constexpr std::uint32_t bits = row_read{S, Transforms}.bits();
  return needed == 0 || needed == bits || (!canonical::compares<S> && (needed & ~bits) == 0);
}

}  // namespace detail

/// The work of one thread block: run `run` of the row of position score.first + i for segment `n`
/// of the batch. No effect if the position needs no decision, or if the step needs rows that the
/// segment does not have, or another read.
template <class Exponential, element T, statistics S, bool Transforms, class Policy>
UNMASK_HD void read_position(const auto& b,
                             const session_device_view<Policy>& device_view,
                             const row_batch& batch,
                             index_t n,
                             index_t i,
                             index_t run,
                             read_space<T, S, Transforms, Policy>& space) {
  const segment_rows& from = batch.segments[n];
  if (b.lane() == 0) {
    const step::slot_memory<Policy> m = device_view.slots[from.slot];
    const plan& now = m.status->next;
    const index_t runs = device_view.shape.runs;
    const std::ptrdiff_t line = device_view.line(from.slot, from.branch);
    const std::ptrdiff_t cell = line * m.window + i;
    const bool can_step = now.active() && from.branch < now.segments() &&
                          detail::suffices<S, Transforms>(m.state->read) &&
                          detail::has_rows(m, from);
    if (can_step && i == 0 && run == 0) {
      device_view.supplied[line] = 1;
    }
    row_input<T> row;
    space.verdict =
        can_step && detail::row_of<S>(m, batch, from, i, row, device_view.answer_of(from.slot));
    // Records of a kind have their places in memory for those of all statistics.
    space.at.parts = reinterpret_cast<record<S>*>(device_view.parts) + cell * runs;
    space.at.arrived = device_view.arrived + cell;
    if constexpr (keeps_columns<S, Policy>) {
      const bool cuts = !step::truncation_of(*m.policy).keeps_all(m.vocab);
      row.held = cuts ? &space.keep.held : nullptr;
      space.at.held = device_view.held + cell * runs * warp_list::held;
    }
    if constexpr (Transforms) {
      space.transform = step::transform_of(m);
    }
    space.row = row;
    space.out = &m.row(from.branch, i);
  }
  b.sync();
  if (!space.verdict) {
    return;
  }
  const bool through = read_row<S, Exponential>(b,
                                                space.row,
                                                space.own_transform(),
                                                run,
                                                device_view.shape.run_chunks,
                                                space.at,
                                                space.nodes,
                                                *space.out,
                                                space.keep.lists);
  if (through && b.warp_lane() == 0) {
    const step::slot_memory<Policy> m = device_view.slots[from.slot];
    const range columns = {0, space.row.columns};
    const index_t position = m.status->next.score.first + i;
    step::name_token(m, position, columns, space.row.allowed, *space.out);
    step::name_listed(m, i, columns, space.row.allowed, space.row.excluded_logits);
  }
  if constexpr (keeps_columns<S, Policy>) {
    if (step::truncates_now(device_view.slots[from.slot])) {
      detail::cut_row<Exponential>(b, device_view, from, space.at, i, through, space);
    }
  }
}

}  // namespace unmask::device
