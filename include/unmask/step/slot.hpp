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

/// Status of a slot after a step, which the host reads: copied in one piece.
struct slot_status {
  plan next;
  /// Rows of logits that the next step needs; contiguous, the first and the last are of masked
  /// positions.
  range rows;
  sequence_report report;
};

/// State of a slot's sequence, except that of the policy and of rows.
struct slot_state {
  model_info model;
  sequence_shape geometry;
  token_id* tokens = nullptr;
  sequence_view view;
  /// The branch whose rows this step uses.
  index_t winner = 0;
  /// State of the default schedule, if the policy names none.
  semi_autoregressive::sequence_state fallback_schedule;
  /// Blocks [0, blocks_seen) have been scored at least once.
  index_t blocks_seen = 0;
  /// For block b, at b % max_active_blocks: the step in which it was first scored, its masked
  /// positions then, and those before the next step.
  index_t block_step[max_active_blocks] = {};
  index_t block_masked_at_first[max_active_blocks] = {};
  index_t block_masked[max_active_blocks] = {};
  /// A pass has computed every position before this one.
  index_t reached = 0;
  /// Remasked tokens that were not outnumbered by the commits of their step.
  std::int64_t remasked = 0;
  /// Tokens that are never proposed, ascending; [0, suppressed_count) of slot_memory::suppressed.
  index_t suppressed_count = 0;
};

/// Role of a scored position between ranking and commit.
enum class role : std::uint8_t {
  bystander,  ///< not masked, or not considered
  candidate,
  ranked_last,  ///< a candidate that is ranked last
  rejected,     ///< a candidate that is rejected without calling the commit rule
  excluded,     ///< masked, but excluded from this step's commits
  invalid,      ///< masked, but its row is invalid
  accepted,     ///< a candidate that the commit rule, or the progress guarantee, commits
  replaced,     ///< committed; a part replaces it by its proposed token
  remasked      ///< committed; a part remasks it
};

/// Why a scored position has its role, for candidate_entry. Only with session_capacity::trace.
struct role_reason {
  index_t part = -1;    ///< As candidate_entry::part.
  bool forced = false;  ///< Whether it was accepted after that part had rejected it.
};

/// True if a part of the policy edits committed tokens with its current values.
template <class Policy>
[[nodiscard]] UNMASK_HD bool edits_tokens_now(const Policy& p) {
  return detail::any_part_now<Policy, &part_traits::rewrites>(
      p, [](const auto& part) -> decltype(part.edits_tokens_now()) {
        return part.edits_tokens_now();
      });
}

/// Assigns memory to arrays, one behind the other; the same on host and device. With a null base it
/// only computes the size.
template <std::size_t Alignment>
class array_layout {
 public:
  explicit UNMASK_HD constexpr array_layout(std::byte* base)
      : base_(base) {}

  template <class T>
  [[nodiscard]] UNMASK_HD constexpr T* take(auto count) {
    static_assert(alignof(T) <= alignment);
    T* const result =
        base_ == nullptr || count == 0 ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(count);
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return result;
  }
  [[nodiscard]] UNMASK_HD constexpr std::size_t used() const { return used_; }

  static constexpr std::size_t alignment = Alignment;

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

using slot_layout = array_layout<64>;

/// Memory of one slot, in the backend's space: pointers into one block of bytes, each with the
/// number of elements that it takes of the block; null if that is 0.
template <class Policy>
struct slot_memory {
  using policy_type = Policy;
  static constexpr statistics contents = Policy::required;
  static constexpr bool tracks = Policy::tracks > 0;
  static constexpr index_t tracked_capacity = tracks ? Policy::tracks + max_suppressed + 1 : 0;

  /// The block of bytes; after the last array its size is known.
  slot_layout at{nullptr};
  session_capacity capacity = {};
  index_t slot = 0;
  index_t window = capacity.window;
  index_t vocab = capacity.vocab;
  std::ptrdiff_t places = window;
  std::ptrdiff_t rows = Policy::branches ? places * (1 + capacity.branches) : places;

  slot_status* status = nullptr;  ///< not in the block: those of all slots are contiguous
  slot_state* state = at.take<slot_state>(1);
  Policy* policy = at.take<Policy>(1);
  sequence_states<Policy>* sequence = at.take<sequence_states<Policy>>(1);
  step_reductions_of<Policy>* step_reductions = at.take<step_reductions_of<Policy>>(1);
  /// By position - score.first: the reduction of each candidate. Only with a step reduction.
  step_reductions_of<Policy>* candidate_reductions =
      at.take<step_reductions_of<Policy>>(Policy::reduces ? window : 0);
  /// By cell = position % window.
  position_states<Policy>* cells = at.take<position_states<Policy>>(window);
  /// [window][vocab], by cell: edited logits of the previous step, and their sums. Only if the
  /// policy compares rows.
  float* previous = at.take<float>(Policy::compares ? places * vocab : 0);
  previous_row* previous_rows = at.take<previous_row>(Policy::compares ? window : 0);
  /// [1 + branches][window], by branch and by position - score.first. Keys, roles and tracked
  /// tokens have one row, by position - score.first.
  record<contents>* records = at.take<record<contents>>(rows);
  std::uint64_t* keys = at.take<std::uint64_t>(sort_size(window));
  role* roles = at.take<role>(window);
  /// [window][tracked_capacity]: tokens that the read of each row excludes, and [1 + branches]
  /// times as many logits from it, followed by a token (step::name_listed). Only if the policy
  /// tracks any; otherwise every row excludes `suppressed`.
  token_id* tracked = at.take<token_id>(places * tracked_capacity);
  float* branch_logits = at.take<float>(rows * tracked_capacity);
  index_t* tracked_count = at.take<index_t>(tracks ? window : 0);
  /// By rank.
  float* cost_before = at.take<float>(window);
  float* largest_before = at.take<float>(window);
  /// By position - score.first: the rank, -1 for no candidate. Only if the policy needs spans.
  index_t* ranks = at.take<index_t>(Policy::needs_spans ? window : 0);
  /// By position - score.first: whether it is an anchor. Only if a part anchors.
  bool* anchors = at.take<bool>(Policy::anchors ? window : 0);
  /// [1 + branches][window]: lookahead scores, whether there is one, and whether it is among the
  /// lowest of its branch; [1 + branches] scores. Only with lookahead.
  float* lookahead_scores = at.take<float>(Policy::branches ? rows : 0);
  bool* is_masked = at.take<bool>(Policy::branches ? rows : 0);
  bool* is_low = at.take<bool>(Policy::branches ? rows : 0);
  float* branch_scores = at.take<float>(Policy::branches ? 1 + capacity.branches : 0);
  /// Tokens that the last step committed.
  commit_entry* entries = at.take<commit_entry>(window + 1);
  /// Candidates of the last step, and by position - score.first the reasons of the roles. Only with
  /// session_capacity::trace.
  candidate_entry* traced = at.take<candidate_entry>(capacity.trace ? window : 0);
  role_reason* reasons = at.take<role_reason>(capacity.trace ? window : 0);
  /// [window][Policy::probes]: probe results of the step by position - score.first, no_token if
  /// there is none; and those of the last step without gaps. Only with a probe.
  token_probability* probed = at.take<token_probability>(places * Policy::probes);
  token_probability* probe_results = at.take<token_probability>(places * Policy::probes);
  token_id* suppressed = at.take<token_id>(max_suppressed);
  mark* marks = at.take<mark>(capacity.length);
  layer_memory layers = layer_memory::taken<Policy>(at, capacity);

  /// The cell of a position. Without state by cell no division is made.
  [[nodiscard]] UNMASK_HD index_t cell_of(index_t position) const {
    if constexpr (std::is_empty_v<position_states<Policy>> && !Policy::compares) {
      return 0;
    } else {
      return position < window ? position : position % window;
    }
  }

  /// Positions whose rows this step may read: the scored range and, if a part reads ahead, the
  /// positions behind it that the pass computes. Their index i counts from score.first, too.
  [[nodiscard]] UNMASK_HD range read_range() const {
    range r = status->next.score;
    if constexpr (Policy::reads_ahead) {
      if (detail::reads_ahead(*policy)) {
        r.last = math::max(r.last, status->next.query.last);
      }
    }
    return r;
  }

  /// True if the row of scored position i has to be read: it is masked, or committed and edited.
  [[nodiscard]] UNMASK_HD bool reads(index_t i) const {
    if constexpr (Policy::layered) {
      if (layers.row_of[i] < 0) {
        return false;  // its row left the pass
      }
    }
    const mark what = marks[status->next.score.first + i];
    if constexpr (Policy::edits_tokens) {
      return what == mark::masked || (what == mark::committed && edits_tokens_now(*policy));
    } else {
      return what == mark::masked;
    }
  }

  /// The same for one branch, in which the position of the placed token is not masked.
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

  /// True if scored position i is masked in a branch.
  [[nodiscard]] UNMASK_HD bool decides(index_t branch, index_t i) const {
    return marks[status->next.score.first + i] == mark::masked && reads(branch, i);
  }

  /// The record of scored position i in a branch.
  [[nodiscard]] UNMASK_HD record<contents>& row(index_t branch, index_t i) const {
    return records[branch * window + i];
  }

  /// The record of scored position i in the branch with which the step continues.
  [[nodiscard]] UNMASK_HD record<contents>& row(index_t i) const {
    if constexpr (Policy::branches) {
      return row(state->winner, i);
    } else {
      return records[i];
    }
  }

  /// The first of the tokens that the read of scored position i excludes.
  [[nodiscard]] UNMASK_HD token_id* tracked_of(index_t i) const {
    return tracked + std::ptrdiff_t{i} * tracked_capacity;
  }

  /// Tracked logits of the row of scored position i in a branch.
  [[nodiscard]] UNMASK_HD tracked_logits kept_apart(index_t branch, index_t i) const {
    tracked_logits w;
    if constexpr (tracks) {
      w = {tracked_of(i),
           branch_logits + std::ptrdiff_t{branch * window + i} * tracked_capacity,
           tracked_count[i],
           suppressed,
           state->suppressed_count};
    } else {
      static_cast<void>(branch);
      static_cast<void>(i);
    }
    return w;
  }

  /// Sets the row of the previous step, which the read of scored position i reads and overwrites.
  UNMASK_HD void load_previous_row(row_options& in, index_t i) const {
    if constexpr (Policy::compares) {
      const index_t cell = cell_of(status->next.score.first + i);
      in.previous = previous + static_cast<std::ptrdiff_t>(cell) * vocab;
      in.before = previous_rows[cell];
    } else {
      static_cast<void>(in);
      static_cast<void>(i);
    }
  }

  /// Stores why scored position i has its role; nothing without trace.
  UNMASK_HD void note(index_t i, role_reason why) const {
    if (reasons != nullptr) {
      reasons[i] = why;
    }
  }

  /// Stores that position i is to be committed although the commit rule, or a part, rejected it.
  UNMASK_HD void note_forced(index_t i) const {
    if (reasons != nullptr) {
      reasons[i].forced = true;
    }
  }

  /// Resets the state of a cell.
  UNMASK_HD void reset(index_t cell) const {
    cells[cell] = position_states<Policy>{};
    if constexpr (Policy::compares) {
      previous_rows[cell] = previous_row{};
    }
  }

  /// Sets the tokens that the read of scored position i excludes, and the place of their logits.
  UNMASK_HD void exclude_tokens(row_options& in, index_t branch, index_t i) const {
    if constexpr (tracks) {
      const tracked_logits w = kept_apart(branch, i);
      in.excluded = w.tokens;
      in.excluded_count = w.count;
      in.excluded_logits = w.logits;
    } else {
      static_cast<void>(branch);
      static_cast<void>(i);
      in.excluded = suppressed;
      in.excluded_count = state->suppressed_count;
    }
  }
};

/// Most rows from which a step of a session with these capacities is decided.
template <class Policy>
[[nodiscard]] constexpr std::size_t most_rows(const session_capacity& capacity) {
  return static_cast<std::size_t>(capacity.sequences) * static_cast<std::size_t>(capacity.window) *
         (1 + static_cast<std::size_t>(Policy::branches ? capacity.branches : 0));
}

/// Bytes of memory for each slot of a session with these validated capacities.
template <class Policy>
[[nodiscard, gnu::noinline]] constexpr std::size_t slot_bytes(const session_capacity& capacity) {
  return slot_memory<Policy>{slot_layout{nullptr}, capacity}.at.used();
}

}  // namespace unmask::step
