// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_rows.hpp>
#include <unmask/ranks/gather.hpp>

/// Read of one rank's columns into a message, and merge of all ranks' messages.
///
/// A message has a row for each line of the session and position of its window, at line * window +
/// i, whether the step reads it or not: only the device knows which rows are read, and a captured
/// step finds its messages at constant addresses.
namespace UNMASK_NAMESPACE::device {

/// A run of chunks of one of a shard's nodes: a thread block's share of a row.
struct shard_run {
  range node;
  index_t which = 0;  ///< index among the shard's nodes
  index_t index = 0;  ///< index among the node's runs
};

/// Device view of a rank's shard, in addition to its session's.
template <class Policy>
struct shard_device_view {
  static constexpr statistics contents = Policy::required;

  /// Header of this rank's message of the step.
  ranks::message_header header;
  index_t run_chunks = 1;
  index_t nodes = 0;
  index_t runs = 0;
  /// [runs]
  const shard_run* run_list = nullptr;
  /// For each row of a message: `runs` records, and for each node a counter, which is zero between
  /// launches. Cross-block reduction workspace of a node.
  record<contents>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  std::byte* message = nullptr;
  /// Host memory that the device writes: the error found in the messages.
  ranks::complaint* found = nullptr;

  [[nodiscard]] UNMASK_HD record<contents>& node_at(index_t row, index_t node) const {
    return *reinterpret_cast<record<contents>*>(message +
                                                ranks::node_offset<contents>(header, row, node));
  }
  [[nodiscard]] UNMASK_HD float* tracked_at(index_t row) const {
    return reinterpret_cast<float*>(message + ranks::logit_offset<contents>(header, row, 0));
  }
};

/// Shared memory of a block that reads part of a shard: also for data that does not fit into
/// registers, because the chunks occupy all of them.
template <element T, class Policy>
struct shard_space {
  read_space<T, Policy::required, (step::stages<Policy>::edits > 0), Policy> read;
  shard_run run;
};

namespace detail {

// This rank's columns of a row, cut to one node: the share of one block. False if the position
// needs no decision.
template <element T, class Policy>
[[nodiscard]] UNMASK_HD bool shard_row_of(const step::slot_memory<Policy>& m,
                                          const shard_device_view<Policy>& shard,
                                          const row_batch& batch,
                                          const segment_rows& from,
                                          index_t i,
                                          index_t row,
                                          const range& node,
                                          row_input<T>& in) {
  if (!row_of<Policy::required>(m, batch, from, i, in)) {
    return false;
  }
  in.first_token = shard.header.columns.first;
  if constexpr (step::slot_memory<Policy>::tracks) {
    in.excluded_logits = shard.tracked_at(row);
  }
  in = ranks::part_of(in, node);
  return true;
}

// Writes -inf for the tracked tokens of other ranks, and the name behind them.
template <class Policy>
UNMASK_HD void exclude_foreign(const auto& b,
                               const step::slot_memory<Policy>& m,
                               const shard_device_view<Policy>& shard,
                               index_t branch,
                               index_t i,
                               index_t row,
                               const std::uint32_t* allowed) {
  const tracked_logits list = m.kept_apart(branch, i);
  float* const logits = shard.tracked_at(row);
  for (index_t w = b.lane(); w < shard.header.tracked; w += b.lanes()) {
    if (w >= list.count || !shard.header.columns.contains(list.tokens[w])) {
      logits[w] = -math::infinity();
      if (w == list.count) {
        step::name_listed(m, i, shard.header.columns, allowed, logits);
      }
    }
  }
}

// The error of message `which` or, from `count` on, of row `which` - count, if it is read.
template <class Policy>
[[nodiscard]] UNMASK_HD ranks::complaint
complaint_about(const session_device_view<Policy>& device_view,
                const shard_device_view<Policy>& shard,
                const std::byte* messages,
                index_t count,
                index_t which) {
  constexpr statistics S = Policy::required;
  const ranks::message_header& mine = shard.header;
  if (which < count) {
    const std::size_t at = static_cast<std::size_t>(which) * ranks::message_bytes<S>(mine);
    const range rows = ranks::header_of(messages + at).rows;
    const index_t window = device_view.slots[0].window;
    ranks::complaint c = ranks::check_message<S>(mine, messages, which);
    if (c.found == ranks::fault::none && (rows.first % window != 0 || rows.last % window != 0)) {
      c.found = ranks::fault::other_step;
    }
    return c;
  }
  const index_t window = device_view.slots[0].window;
  const index_t line = (which - count) / window;
  const index_t i = (which - count) % window;
  const step::slot_memory<Policy>& m = device_view.slots[line / (1 + device_view.branches)];
  const plan& now = m.status->next;
  const index_t branch = line % (1 + device_view.branches);
  if (!now.active() || branch > now.branches || i >= now.score.size() || !m.reads(branch, i)) {
    return {};
  }
  return ranks::check_row<S>(mine, messages, count, which - count);
}

}  // namespace detail

/// The work of one thread block: run `run` of the shard's runs, of the row of position score.first
/// + i for segment `n` of the batch, as read_position(). The last block of a node to finish writes
/// its record to the message; the very first block writes the header.
///
/// A batch may be empty, and a shard without columns has no runs: one block is launched in any
/// case.
template <element T, class Exponential, class Policy>
UNMASK_HD void read_shard(const auto& b,
                          const session_device_view<Policy>& device_view,
                          const shard_device_view<Policy>& shard,
                          const row_batch& batch,
                          index_t n,
                          index_t i,
                          index_t run,
                          shard_space<T, Policy>& space) {
  if (n == 0 && i == 0 && run == 0) {
    copy_objects(b, &shard.header, reinterpret_cast<ranks::message_header*>(shard.message), 1);
  }
  if (n >= batch.count) {
    return;
  }
  const segment_rows from = batch.segments[n];
  const step::slot_memory<Policy> m = device_view.slots[from.slot];
  const plan& now = m.status->next;
  if (!now.active() || from.branch > now.branches || !detail::has_rows(m, from)) {
    return;
  }
  const auto line = static_cast<index_t>(device_view.line(from.slot, from.branch));
  if (i == 0 && run == 0 && b.lane() == 0) {
    device_view.supplied[line] = 1;
  }
  const index_t row = line * m.window + i;
  if (b.lane() == 0) {
    const index_t begin = shard.header.columns.first;
    const shard_run mine = run < shard.runs ? shard.run_list[run] : shard_run{{begin, begin}, 0, 0};
    row_input<T> in;
    space.read.verdict = detail::shard_row_of(m, shard, batch, from, i, row, mine.node, in);
    space.read.row = in;
    space.read.transform = step::transform_of(m);
    space.run = mine;
    space.read.at = {shard.parts + (std::ptrdiff_t{row} * shard.runs + run - mine.index),
                     shard.arrived + (std::ptrdiff_t{row} * shard.nodes + mine.which)};
    space.read.out = &shard.node_at(row, mine.which);
  }
  b.sync();
  if (!space.read.verdict) {
    return;
  }
  if (run == 0) {
    detail::exclude_foreign(b, m, shard, from.branch, i, row, space.read.row.allowed);
  }
  if (run < shard.runs) {
    const bool through = read_row<Policy::required, Exponential>(b,
                                                                 space.read.row,
                                                                 space.read.own_transform(),
                                                                 space.run.index,
                                                                 shard.run_chunks,
                                                                 space.read.at,
                                                                 space.read.nodes,
                                                                 *space.read.out);
    if (through && b.warp_lane() == 0) {
      step::name_token(
          m, now.score.first + i, space.run.node, space.read.row.allowed, *space.read.out);
    }
  }
}

/// Merges the rows of one line, of `lines`, from `count` messages. `read` are the lines that were
/// given to this rank's read_shard(). `wrong` is shared memory.
///
/// If there is any error in the messages, no block has any effect, so that nothing is decided, and
/// the error is written to host memory.
template <class Policy>
UNMASK_HD void merge_line(const auto& b,
                          const session_device_view<Policy>& device_view,
                          const shard_device_view<Policy>& shard,
                          const std::byte* messages,
                          index_t count,
                          range read,
                          index_t lines,
                          index_t line,
                          std::uint32_t& wrong) {
  if (b.lane() == 0) {
    wrong = 0;
  }
  b.sync();
  const index_t checks = count + lines * device_view.slots[0].window;
  for (index_t k = b.lane(); k < checks; k += b.lanes()) {
    if (detail::complaint_about(device_view, shard, messages, count, k).found !=
        ranks::fault::none) {
      b.add(&wrong, 1U);
    }
  }
  b.sync();
  if (wrong != 0) {
    if (b.lane() == 0) {
      device_view.supplied[line] = 0;
      for (index_t k = 0; line == 0 && k < checks; ++k) {
        const ranks::complaint c = detail::complaint_about(device_view, shard, messages, count, k);
        if (c.found != ranks::fault::none) {
          *shard.found = c;
          break;
        }
      }
    }
    return;
  }
  const step::slot_memory<Policy> m = device_view.slots[line / (1 + device_view.branches)];
  const index_t branch = line % (1 + device_view.branches);
  const plan& now = m.status->next;
  if (!now.active() || branch > now.branches) {
    return;
  }
  if (!read.contains(line) && b.lane() == 0) {
    device_view.supplied[line] = 1;
  }
  for (index_t i = b.lane(); i < m.read_range().size(); i += b.lanes()) {
    if (m.reads(branch, i)) {
      const tracked_logits w = m.kept_apart(branch, i);
      constexpr index_t named = step::stages<Policy>::restricts > 0 ? 1 : 0;
      m.row(branch, i) = ranks::record_of<Policy::required>(
          shard.header, messages, count, line * m.window + i, w.logits, w.count + named);
    }
  }
}

}  // namespace unmask::device
