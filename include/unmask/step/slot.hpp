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

/// Sets of statistics. For each of them a kernel that reads rows is compiled.
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

/// The states of a part at a position, each in a separate array; for a family the states of its
/// values.
template <class Part>
struct states_at {
  using type = detail::distinct_states_of<position_state_of<Part>>;
};
template <is_family Family>
struct states_at<Family> {
  using type = typename Family::position_list;
};

/// The array of a state of part I, by cell; null if no part of the slot's policy keeps it.
template <std::size_t I, class State>
struct state_array {
  using state = State;
  static constexpr std::size_t part = I;
  State* of = nullptr;
};

/// The parts among a part, or a family, that have a step reduction.
template <class Part>
struct reducing_in {
  using type =
      std::conditional_t<traits_of<Part>.reduces, detail::type_list<Part>, detail::type_list<>>;
};
template <is_family Family>
struct reducing_in<Family> {
  template <class... Part>
  static auto of(detail::type_list<Part...>) ->
      typename detail::joined<typename reducing_in<Part>::type...>::type;
  using type = decltype(of(typename Family::list{}));
};

/// The reductions of a part that is or is in part I, by position - score.first; null without it.
template <std::size_t I, class Part>
struct reduction_array {
  using state = step_reduction_of<Part>;
  using reducing = Part;
  static constexpr std::size_t part = I;
  state* of = nullptr;
};

template <class... Array>
struct arrays_of_states : Array... {
  static constexpr index_t count = sizeof...(Array);
  static_assert(count <= 64);

  /// The arrays with a bit in `which`.
  [[nodiscard]] UNMASK_HD static constexpr arrays_of_states
  taken([[maybe_unused]] slot_layout& at, [[maybe_unused]] std::uint64_t which, index_t window) {
    arrays_of_states all;
    ((all.Array::of = at.take<typename Array::state>((which & 1U) != 0 ? window : 0), which >>= 1U),
     ...);
    static_cast<void>(window);
    return all;
  }
  /// Calls use(array) for each array that there is.
  template <class Use>
  UNMASK_HD void each([[maybe_unused]] const Use& use) const {
    ((Array::of != nullptr ? use(Array::of) : void()), ...);
  }
};

template <template <std::size_t, class> class Array, std::size_t I, class List>
struct state_arrays_of;
template <template <std::size_t, class> class Array, std::size_t I, class... State>
struct state_arrays_of<Array, I, detail::type_list<State...>> {
  using type = detail::type_list<Array<I, State>...>;
};
template <class List>
struct arrays_of_list;
template <class... Array>
struct arrays_of_list<detail::type_list<Array...>> {
  using type = arrays_of_states<Array...>;
};
template <class Policy, class Indices>
struct state_arrays_in;
template <class Policy, std::size_t... I>
struct state_arrays_in<Policy, std::index_sequence<I...>> {
  template <std::size_t K>
  using part = typename Policy::template part_type<K>;
  using type = typename arrays_of_list<typename detail::joined<
      typename state_arrays_of<state_array, I, typename states_at<part<I>>::type>::type...>::type>::
      type;
  using reductions = typename arrays_of_list<typename detail::joined<
      typename state_arrays_of<reduction_array, I, typename reducing_in<part<I>>::type>::type...>::
                                                 type>::type;
};
/// The arrays of the states that the parts of a policy keep at positions.
template <class Policy>
using state_arrays =
    typename state_arrays_in<Policy, std::make_index_sequence<Policy::part_total>>::type;

/// The arrays of the step reductions of candidates.
template <class Policy>
using reduction_arrays =
    typename state_arrays_in<Policy, std::make_index_sequence<Policy::part_total>>::reductions;

/// Bytes of all states, for a position.
template <class Policy>
inline constexpr std::size_t state_bytes_at = []<class... Array>(arrays_of_states<Array...>) {
  return (sizeof(typename Array::state) + ... + std::size_t{0});
}(state_arrays<Policy>{});

/// Places for the tokens that the read of a row excludes, if parts track this number.
[[nodiscard]] UNMASK_HD constexpr index_t tracked_capacity(index_t tracks) {
  return tracks > 0 ? tracks + max_suppressed + 1 : 0;
}

/// Memory of one slot.
template <class Policy>
struct slot_memory : slot_arrays {
  using policy_type = Policy;
  static constexpr statistics contents = Policy::required;
  static constexpr bool tracks = Policy::tracks > 0;

  Policy* policy = at.take<Policy>(1);
  sequence_states<Policy>* sequence = at.take<sequence_states<Policy>>(1);
  step_reductions_of<Policy>* step_reductions = at.take<step_reductions_of<Policy>>(1);
  /// By position - score.first: the reductions of each candidate.
  reduction_arrays<Policy> reductions =
      reduction_arrays<Policy>::taken(at, needs.reductions, window);
  /// By cell = position % window.
  state_arrays<Policy> states = state_arrays<Policy>::taken(at, needs.states, window);
  /// [1 + branches][window], by branch and by position - score.first.
  record<contents>* records = at.take<record<contents>>(rows);

  /// The cell of a position. Without state by cell no division is made.
  [[nodiscard]] UNMASK_HD index_t cell_of(index_t position) const {
    if constexpr (state_arrays<Policy>::count == 0 && !Policy::compares) {
      return 0;
    } else {
      return position < window ? position : position % window;
    }
  }

  /// The state of a part at a cell: of part I, or of a value of it.
  template <std::size_t I, class State>
  [[nodiscard]] UNMASK_HD State& state_at([[maybe_unused]] index_t cell) const {
    if constexpr (std::is_same_v<State, no_state>) {
      return none;
    } else {
      return static_cast<const state_array<I, State>&>(states).of[cell];
    }
  }

  /// The reduction of a visited part for the candidate at scored position i.
  template <class At>
  [[nodiscard]] UNMASK_HD auto& reduction_at(index_t i) const {
    using array = reduction_array<At::index, typename At::type>;
    return static_cast<const array&>(reductions).of[i];
  }

  /// Positions whose rows this step may read: the scored range and, if a part reads ahead, the
  /// positions behind it that the pass computes. Their index i also counts from score.first.
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
    if (is_pass<pass_kind::hiding>(*this)) {
      return hidden[i].checked;
    }
    const mark what = marks[status->next.score.first + i];
    if constexpr (Policy::rewrites) {
      return what == mark::masked || (what == mark::committed && rewrites_now(*this));
    } else {
      return what == mark::masked;
    }
  }

  /// Overload for one branch, in which the positions of the placed tokens are not masked.
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

  /// reads() for one segment of the slot (segment_of_slot): a branch, or with a shadow the masked
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

  /// Places for the tokens that the read of a row excludes. A slot on a device has the states of
  /// all parts (on_stream::workspace), so that kernels know the number.
  [[nodiscard]] UNMASK_HD index_t tracked_places() const {
#if defined(__CUDA_ARCH__)
    return tracked_capacity(Policy::tracks);
#else
    return needs.tracked_capacity;
#endif
  }
  /// The first of the tokens that the read of scored position i excludes.
  [[nodiscard]] UNMASK_HD token_id* tracked_of(index_t i) const {
    return tracked + std::ptrdiff_t{i} * tracked_places();
  }

  /// Tracked logits of the row of scored position i in a branch.
  [[nodiscard]] UNMASK_HD tracked_logits kept_apart(index_t branch, index_t i) const {
    tracked_logits w;
    if constexpr (tracks) {
      if (tracked_places() > 0) {
        w = {tracked_of(i),
             branch_logits + std::ptrdiff_t{place_of(branch, i)} * tracked_places(),
             tracked_count[i],
             suppressed,
             state->suppressed_count};
      }
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
    states.each([cell](auto* of) { of[cell] = {}; });
    if constexpr (Policy::compares) {
      if (previous_rows != nullptr) {
        previous_rows[cell] = previous_row{};
      }
    }
  }

  /// Sets the tokens that the read of scored position i excludes, and the place of their logits.
  UNMASK_HD void exclude_tokens(row_options& in, index_t branch, index_t i) const {
    if constexpr (tracks) {
      if (tracked_places() > 0) {
        const tracked_logits w = kept_apart(branch, i);
        in.excluded = w.tokens;
        in.excluded_count = w.count;
        in.excluded_logits = w.logits;
        return;
      }
    }
    static_cast<void>(branch);
    static_cast<void>(i);
    in.excluded = suppressed;
    in.excluded_count = state->suppressed_count;
  }

  mutable no_state none = {};  ///< of parts that keep no state
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
          .tracked_capacity = tracked_capacity(Policy::tracks),
          .probes = Policy::probes,
          .reductions = ~std::uint64_t{0},
          .states = ~std::uint64_t{0}};
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
/// Overload for every policy of a type.
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
/// Overload for every policy of a type.
template <class Policy>
[[nodiscard]] constexpr std::size_t slot_bytes(const session_capacity& capacity) {
  return slot_bytes<Policy>(needs_of<Policy>(capacity), capacity);
}

}  // namespace unmask::step
