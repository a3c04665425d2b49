// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/walk.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/step/layer_memory.hpp>
#include <unmask/step/sort.hpp>

#include <type_traits>

namespace UNMASK_NAMESPACE::step {

/// What the host reads of a slot after a step: copied as one piece.
struct slot_status {
  plan next;
  /// Rows of logits wanted by the next step; contiguous, the first and the last are of open
  /// positions.
  range rows;
  sequence_report report;
};

/// Everything about a slot's sequence that is neither the policy's nor a row's.
struct slot_state {
  model_info model;
  layout geometry;
  token_id* tokens = nullptr;
  sequence_view view;
  /// The branch whose rows this step goes on with.
  index_t winner = 0;
  /// State of the schedule of a policy that names none.
  sequential_blocks::sequence_state fallback_schedule;
  /// Blocks [0, blocks_seen) have been scored at least once.
  index_t blocks_seen = 0;
  /// Of block b, at b % max_active_blocks: the step it was first scored in, its open positions
  /// then, and those before the step to come.
  index_t block_step[max_active_blocks] = {};
  index_t block_opened[max_active_blocks] = {};
  index_t block_open[max_active_blocks] = {};
  /// A pass has run every position before this one.
  index_t reached = 0;
  /// Tokens reopened that their step did not outnumber by its commits.
  std::int64_t reopened = 0;
  /// Tokens that are never proposed, ascending; [0, suppressed_count) of slot_memory::suppressed.
  index_t suppressed_count = 0;
};

/// What a scored position is between ranking and commit.
enum class role : std::uint8_t {
  bystander,  ///< not open, or not looked at
  candidate,
  delayed,  ///< a candidate that counts as hopeless
  refused,  ///< a candidate that the admission is not asked about
  barred,   ///< open, but not to be committed in this step
  invalid,  ///< open, but its row cannot be decided on
  admitted,
  replaced,  ///< settled; a part wants its proposed token there
  reopened   ///< settled; a part wants it masked again
};

/// True when a part of the policy revisits settled positions with the values that it has.
template <class Policy>
[[nodiscard]] UNMASK_HD bool revisits_now(const Policy& p) {
  return detail::any_part_now<Policy, &part_traits::rewrites>(
      p, [](const auto& part) -> decltype(part.revisits_now()) { return part.revisits_now(); });
}

/// One slot's memory, in the backend's space: pointers into one block of bytes.
template <class Policy>
struct slot_memory {
  using policy_type = Policy;
  static constexpr statistics contents = Policy::required;
  static constexpr bool watches = Policy::watches > 0;
  static constexpr index_t watch_capacity = watches ? Policy::watches + max_suppressed + 1 : 0;

  slot_status* status = nullptr;
  slot_state* state = nullptr;
  Policy* policy = nullptr;
  sequence_states<Policy>* sequence = nullptr;
  tallies_of<Policy>* tallies = nullptr;
  /// [window], by position - score.first: what was noted of each candidate. Only if a part surveys.
  tallies_of<Policy>* surveyed = nullptr;
  /// [window], cell = position % window.
  position_states<Policy>* cells = nullptr;
  /// [window][vocab] edited logits of the step before and what is known of them, by cell. Only if
  /// the policy compares rows.
  float* previous = nullptr;
  previous_row* previous_rows = nullptr;
  /// [1 + branches][window], by branch and by position - score.first. Keys, roles and watched
  /// tokens have one row, by position - score.first.
  record<contents>* records = nullptr;
  std::uint64_t* keys = nullptr;
  role* roles = nullptr;
  /// [window][watch_capacity]: the tokens each row's read leaves out, and [1 + branches] times as
  /// many logits from it, and behind these a token (step::name_listed). Only if the policy watches
  /// any; otherwise every row leaves `suppressed` out.
  token_id* watched = nullptr;
  float* branch_logits = nullptr;
  index_t* watched_count = nullptr;
  /// [window], by rank.
  float* cost_before = nullptr;
  float* largest_before = nullptr;
  /// [window], by position - score.first: the rank, -1 for no candidate. Only if the policy needs
  /// runs.
  index_t* ranks = nullptr;
  /// [window], by position - score.first: whether it is an anchor. Only if a part anchors.
  bool* anchors = nullptr;
  /// [1 + branches][window] worths, whether there is one, and whether it is among the lowest of its
  /// branch; [1 + branches] scores. Only if the policy looks ahead.
  float* worths = nullptr;
  bool* is_open = nullptr;
  bool* is_low = nullptr;
  float* branch_scores = nullptr;
  /// [window + 1]: what the last step committed.
  commit_entry* entries = nullptr;
  /// [window]: what the last step decided about; null without limits::trace.
  candidate_entry* traced = nullptr;
  /// [window][Policy::inquiries]: answers of the step by position - score.first, no_token where
  /// there is none; and those of the last step without gaps. Only if the policy asks.
  token_probability* asked = nullptr;
  token_probability* answers = nullptr;
  /// [max_suppressed]
  token_id* suppressed = nullptr;
  /// [length]
  mark* marks = nullptr;
  layer_memory layers;
  index_t window = 0;
  index_t slot = 0;
  index_t vocab = 0;

  /// The cell of a position. Without anything kept by cell, it is not worth a division.
  [[nodiscard]] UNMASK_HD index_t cell_of(index_t position) const {
    if constexpr (std::is_empty_v<position_states<Policy>> && !Policy::compares) {
      return 0;
    } else {
      return position < window ? position : position % window;
    }
  }

  /// The positions whose rows this step may read: the scored range and, where a part reads ahead,
  /// what the pass runs behind it. Their index i counts from score.first, too.
  [[nodiscard]] UNMASK_HD range read_range() const {
    range r = status->next.score;
    if constexpr (Policy::reads_ahead) {
      if (detail::reads_ahead(*policy)) {
        r.last = math::max(r.last, status->next.feed.last);
      }
    }
    return r;
  }

  /// True when the row of scored position i has to be read: it is open, or settled and revisited.
  [[nodiscard]] UNMASK_HD bool reads(index_t i) const {
    if constexpr (Policy::layered) {
      if (layers.row_of[i] < 0) {
        return false;  // its row left the pass
      }
    }
    const mark what = marks[status->next.score.first + i];
    if constexpr (Policy::revisits) {
      return what == mark::open || (what == mark::settled && revisits_now(*policy));
    } else {
      return what == mark::open;
    }
  }

  /// The same for one branch, in which the placed token is not open.
  [[nodiscard]] UNMASK_HD bool reads(index_t branch, index_t i) const {
    const plan& now = status->next;
    const index_t position = now.score.first + i;
    if constexpr (Policy::branches) {
      if (position >= now.branch_last[branch]) {
        return false;
      }
    }
    return reads(i) && (branch == 0 || now.branch[branch - 1].position != position);
  }

  /// True when scored position i is open in a branch.
  [[nodiscard]] UNMASK_HD bool decides(index_t branch, index_t i) const {
    return marks[status->next.score.first + i] == mark::open && reads(branch, i);
  }

  /// The record of scored position i in a branch.
  [[nodiscard]] UNMASK_HD record<contents>& row(index_t branch, index_t i) const {
    return records[branch * window + i];
  }

  /// The record of scored position i in the branch that the step goes on with.
  [[nodiscard]] UNMASK_HD record<contents>& row(index_t i) const {
    if constexpr (Policy::branches) {
      return row(state->winner, i);
    } else {
      return records[i];
    }
  }

  /// Where the tokens that the read of scored position i leaves out begin.
  [[nodiscard]] UNMASK_HD token_id* watched_of(index_t i) const {
    return watched + std::ptrdiff_t{i} * watch_capacity;
  }

  /// What was kept apart of the row of scored position i in a branch.
  [[nodiscard]] UNMASK_HD watched_logits kept_apart(index_t branch, index_t i) const {
    watched_logits w;
    if constexpr (watches) {
      w = {watched_of(i),
           branch_logits + std::ptrdiff_t{branch * window + i} * watch_capacity,
           watched_count[i],
           suppressed,
           state->suppressed_count};
    } else {
      static_cast<void>(branch);
      static_cast<void>(i);
    }
    return w;
  }

  /// Where the read of scored position i finds and leaves the row of the step before.
  UNMASK_HD void recall(row_options& in, index_t i) const {
    if constexpr (Policy::compares) {
      const index_t cell = cell_of(status->next.score.first + i);
      in.previous = previous + static_cast<std::ptrdiff_t>(cell) * vocab;
      in.before = previous_rows[cell];
    } else {
      static_cast<void>(in);
      static_cast<void>(i);
    }
  }

  /// Starts the state of a cell anew.
  UNMASK_HD void reset(index_t cell) const {
    cells[cell] = position_states<Policy>{};
    if constexpr (Policy::compares) {
      previous_rows[cell] = previous_row{};
    }
  }

  /// The tokens that the read of scored position i leaves out, and where it puts their logits.
  UNMASK_HD void blank(row_options& in, index_t branch, index_t i) const {
    if constexpr (watches) {
      const watched_logits w = kept_apart(branch, i);
      in.blanked = w.tokens;
      in.blanked_count = w.count;
      in.blanked_logits = w.logits;
    } else {
      static_cast<void>(branch);
      static_cast<void>(i);
      in.blanked = suppressed;
      in.blanked_count = state->suppressed_count;
    }
  }
};

/// Lays the arrays of one slot out in memory; the same on host and device. With a null base it only
/// measures.
class slot_layout {
 public:
  explicit UNMASK_HD constexpr slot_layout(std::byte* base)
      : base_(base) {}

  template <class T>
  [[nodiscard]] UNMASK_HD constexpr T* take(std::ptrdiff_t count) {
    static_assert(alignof(T) <= alignment);
    T* const result = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(count);
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return result;
  }
  [[nodiscard]] UNMASK_HD constexpr std::size_t used() const { return used_; }

  static constexpr std::size_t alignment = 64;

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

/// The memory of one slot at `base`; `bytes` receives its size.
template <class Policy>
[[nodiscard]] UNMASK_HD constexpr slot_memory<Policy>
slot_memory_at(std::byte* base, index_t slot, const limits& capacity, std::size_t& bytes) {
  slot_layout at{base};
  slot_memory<Policy> m;
  const index_t window = capacity.window;
  const std::ptrdiff_t places = window;
  const std::ptrdiff_t rows = Policy::branches ? places * (1 + capacity.branches) : places;
  m.window = window;
  m.slot = slot;
  m.vocab = capacity.vocab;
  m.state = at.take<slot_state>(1);
  m.policy = at.take<Policy>(1);
  m.sequence = at.take<sequence_states<Policy>>(1);
  m.tallies = at.take<tallies_of<Policy>>(1);
  if constexpr (Policy::surveys) {
    m.surveyed = at.take<tallies_of<Policy>>(window);
  }
  m.cells = at.take<position_states<Policy>>(window);
  if constexpr (Policy::compares) {
    m.previous = at.take<float>(places * capacity.vocab);
    m.previous_rows = at.take<previous_row>(window);
  }
  m.records = at.take<record<Policy::required>>(rows);
  m.keys = at.take<std::uint64_t>(sort_size(window));
  m.roles = at.take<role>(window);
  if constexpr (slot_memory<Policy>::watches) {
    m.watched = at.take<token_id>(places * m.watch_capacity);
    m.branch_logits = at.take<float>(rows * m.watch_capacity);
    m.watched_count = at.take<index_t>(window);
  }
  m.cost_before = at.take<float>(window);
  m.largest_before = at.take<float>(window);
  if constexpr (Policy::needs_runs) {
    m.ranks = at.take<index_t>(window);
  }
  if constexpr (Policy::anchors) {
    m.anchors = at.take<bool>(window);
  }
  if constexpr (Policy::branches) {
    m.worths = at.take<float>(rows);
    m.is_open = at.take<bool>(rows);
    m.is_low = at.take<bool>(rows);
    m.branch_scores = at.take<float>(1 + capacity.branches);
  }
  m.entries = at.take<commit_entry>(window + 1);
  m.traced = capacity.trace ? at.take<candidate_entry>(window) : nullptr;
  if constexpr (Policy::inquiries > 0) {
    m.asked = at.take<token_probability>(places * Policy::inquiries);
    m.answers = at.take<token_probability>(places * Policy::inquiries);
  }
  m.suppressed = at.take<token_id>(max_suppressed);
  m.marks = at.take<mark>(capacity.length);
  m.layers.template take<Policy>(at, capacity);
  bytes = at.used();
  return m;
}

/// Most rows that a step of a session with these capacities is decided from.
template <class Policy>
[[nodiscard]] constexpr std::size_t most_rows(const limits& capacity) {
  return static_cast<std::size_t>(capacity.sequences) * static_cast<std::size_t>(capacity.window) *
         (1 + static_cast<std::size_t>(Policy::branches ? capacity.branches : 0));
}

/// Bytes of memory that a session with these capacities, validated, takes for each slot.
template <class Policy>
[[nodiscard, gnu::noinline]] constexpr std::size_t slot_bytes(const limits& capacity) {
  std::size_t bytes = 0;
  static_cast<void>(slot_memory_at<Policy>(nullptr, 0, capacity, bytes));
  return bytes;
}

}  // namespace unmask::step
