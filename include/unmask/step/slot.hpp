// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/step/slot_arrays.hpp>

#include <type_traits>

namespace UNMASK_NAMESPACE::step {

namespace row_kinds {

template <class Policy>
struct of {
  using type = statistics_list<Policy::required>;
};
template <class Policy>
  requires(Policy::varies)
struct of<Policy> {
  using type = typename Policy::row_kinds;
};

}  // namespace row_kinds

/// Sets of statistics for each of which a kernel that reads rows is compiled.
template <class Policy>
using row_kinds_of = typename row_kinds::of<Policy>::type;

/// Index of the set that the policy needs with its current values.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t row_kind_of([[maybe_unused]] const Policy& p) {
  if constexpr (Policy::varies) {
    return p.row_kind();
  } else {
    return 0;
  }
}

/// Memory of one slot.
template <class Policy>
struct slot_memory : slot_arrays {
  using policy_type = Policy;
  static constexpr statistics contents = Policy::required;
  static constexpr bool tracks = Policy::tracks > 0;
  static constexpr index_t tracked_capacity = tracks ? Policy::tracks + max_suppressed + 1 : 0;

  Policy* policy = at.take<Policy>(1);
  sequence_states<Policy>* sequence = at.take<sequence_states<Policy>>(1);
  step_reductions_of<Policy>* step_reductions = at.take<step_reductions_of<Policy>>(1);
  /// By position - score.first: the reduction of each candidate. Only with a step reduction.
  step_reductions_of<Policy>* candidate_reductions =
      at.take<step_reductions_of<Policy>>(Policy::reduces ? window : 0);
  /// By cell = position % window.
  position_states<Policy>* cells = at.take<position_states<Policy>>(window);
  /// [1 + branches][window], by branch and by position - score.first.
  record<contents>* records = at.take<record<contents>>(rows);

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
      if (layered_now(*this) && layers.row_of[i] < 0) {
        return false;  // its row left the pass
      }
    }
    if constexpr (Policy::reconsiders) {
      if (status->next.hides) {
        return hidden[i].checked;
      }
    }
    const mark what = marks[status->next.score.first + i];
    if constexpr (Policy::edits_tokens) {
      return what == mark::masked || (what == mark::committed && edits_tokens_now(*this));
    } else {
      return what == mark::masked;
    }
  }

  /// The same for one branch, in which the positions of the placed tokens are not masked.
  [[nodiscard]] UNMASK_HD bool reads(index_t branch, index_t i) const {
    const plan& now = status->next;
    const index_t position = now.score.first + i;
    if constexpr (Policy::branches) {
      if (now.branches > 0 && position >= now.branch_last[branch]) {
        return false;
      }
    }
    return reads(i) && !now.places(branch, position);
  }

  /// The same for one segment of the slot (segment_of_slot): a branch, or with a shadow the masked
  /// positions in segment 0 and the committed ones in segment 1.
  [[nodiscard]] UNMASK_HD bool reads_in(index_t segment, index_t i) const {
    if constexpr (Policy::shadows) {
      const plan& now = status->next;
      if (!now.shadow.empty()) {
        return reads(i) && (marks[now.score.first + i] == mark::committed) == (segment == 1);
      }
    }
    return reads(segment, i);
  }

  /// True if scored position i is masked in a branch.
  [[nodiscard]] UNMASK_HD bool decides(index_t branch, index_t i) const {
    return marks[status->next.score.first + i] == mark::masked && reads(branch, i);
  }

  /// The place of scored position i among the rows of all branches, as it is read in a segment: a
  /// shadow has the places that its sequence does not read.
  [[nodiscard]] UNMASK_HD index_t place_of(index_t segment, index_t i) const {
    if constexpr (Policy::shadows) {
      return (status->next.shadow.empty() ? segment * window : 0) + i;
    } else {
      return segment * window + i;
    }
  }
  /// The record of scored position i in a segment.
  [[nodiscard]] UNMASK_HD record<contents>& row(index_t segment, index_t i) const {
    return records[place_of(segment, i)];
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
           branch_logits + std::ptrdiff_t{place_of(branch, i)} * tracked_capacity,
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
      if (compares_now(*this)) {
        const index_t cell = cell_of(status->next.score.first + i);
        in.previous = previous + static_cast<std::ptrdiff_t>(cell) * vocab;
        in.before = previous_rows[cell];
      }
    } else {
      static_cast<void>(in);
      static_cast<void>(i);
    }
  }

  /// Resets the state of a cell.
  UNMASK_HD void reset(index_t cell) const {
    cells[cell] = position_states<Policy>{};
    if constexpr (Policy::compares) {
      if (previous_rows != nullptr) {
        previous_rows[cell] = previous_row{};
      }
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

/// The arrays that sequences of every policy of a type need, with the capacities of a session.
template <class Policy>
[[nodiscard]] UNMASK_HD constexpr slot_needs needs_of(const session_capacity& capacity) {
  return {.branches = Policy::branches ? capacity.branches : 0,
          .drafts = Policy::drafts,
          .beams = Policy::beams,
          .compares = Policy::compares,
          .anchors = Policy::anchors,
          .layered = Policy::layered,
          .moves = Policy::rewrites_blocks,
          .reconsiders = Policy::reconsiders,
          .tracked_capacity = slot_memory<Policy>::tracked_capacity,
          .probes = Policy::probes};
}

/// Rows from which a step of a slot with these needs is decided, at most.
[[nodiscard]] constexpr std::size_t most_rows(const slot_needs& needs,
                                              const session_capacity& capacity) {
  return static_cast<std::size_t>(capacity.window) * (1 + static_cast<std::size_t>(needs.branches));
}

/// The memory of a slot in the block that begins at `base`; null: only its size. The caller sets
/// `status`.
template <class Policy>
[[nodiscard, gnu::noinline]] UNMASK_HD constexpr slot_memory<Policy> slot_at(
    std::byte* base, const slot_needs& needs, const session_capacity& capacity, index_t slot = 0) {
  return {arrays_at(base, needs, capacity, slot)};
}
/// The same for every policy of a type.
template <class Policy>
[[nodiscard]] UNMASK_HD constexpr slot_memory<Policy>
slot_at(std::byte* base, const session_capacity& capacity, index_t slot = 0) {
  return slot_at<Policy>(base, needs_of<Policy>(capacity), capacity, slot);
}

/// Bytes of memory for a slot with these needs in a session with these validated capacities.
template <class Policy>
[[nodiscard]] constexpr std::size_t slot_bytes(const slot_needs& needs,
                                               const session_capacity& capacity) {
  return slot_at<Policy>(nullptr, needs, capacity).at.used();
}
/// The same for every policy of a type.
template <class Policy>
[[nodiscard]] constexpr std::size_t slot_bytes(const session_capacity& capacity) {
  return slot_bytes<Policy>(needs_of<Policy>(capacity), capacity);
}

}  // namespace unmask::step
