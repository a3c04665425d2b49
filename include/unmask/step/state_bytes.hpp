// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>

namespace UNMASK_NAMESPACE {

namespace step {

// Most tokens that this policy tracks at a position.
template <class Policy>
[[nodiscard]] index_t tracked_tokens(const Policy& p) {
  index_t sum = 0;
  detail::visit_parts<&part_traits::names_tokens>(p, [&sum](const auto& v) {
    sum += traits_of<typename std::remove_cvref_t<decltype(v)>::type>.tracks;
  });
  return detail::most_tracked(sum,
                              tracks_current_now(p),
                              reads_sequence_now(p),
                              drafts_now(p) || beams_now(p),
                              looks_ahead_now(p));
}

// Most tokens that it probes at a position.
template <class Policy>
[[nodiscard]] index_t probed_tokens(const Policy& p) {
  index_t sum = 0;
  detail::visit_parts<&part_traits::is_probe>(p, [&sum](const auto& v) {
    sum += traits_of<typename std::remove_cvref_t<decltype(v)>::type>.probes;
  });
  return sum;
}

// Bit k: whether `is_kept(array k)`.
template <class... Array>
[[nodiscard]] std::uint64_t bits_of(arrays_of_states<Array...>, const auto& is_kept) {
  std::uint64_t found = 0;
  [[maybe_unused]] index_t bit = 0;
  ((found |= is_kept(Array{}) ? std::uint64_t{1} << bit : 0, ++bit), ...);
  return found;
}

// The states that its parts keep at positions, by their array in state_arrays.
template <class Policy>
[[nodiscard]] std::uint64_t states_now(const Policy& p) {
  return bits_of(state_arrays<Policy>{}, [&p]<class Array>(Array) {
    const auto& part = p.template part_at<Array::part>();
    if constexpr (is_family<std::remove_cvref_t<decltype(part)>>) {
      return part.template keeps<typename Array::state>();
    } else {
      return true;
    }
  });
}

// The parts that reduce, by their array in reduction_arrays.
template <class Policy>
[[nodiscard]] std::uint64_t reductions_now(const Policy& p) {
  return bits_of(reduction_arrays<Policy>{}, [&p]<class Array>(Array) {
    const auto& part = p.template part_at<Array::part>();
    if constexpr (is_family<std::remove_cvref_t<decltype(part)>>) {
      return part.template holds<typename Array::reducing>();
    } else {
      return detail::is_active<&part_traits::reduces>(part, asked<active_parts::reduces_now>{});
    }
  });
}

/// The arrays that a sequence of this policy needs.
template <class Policy>
[[nodiscard]] slot_needs needs_of(const Policy& p, const session_capacity& capacity) {
  slot_needs needs = needs_of<Policy>(capacity);
  if constexpr (Policy::varies) {
    needs.branches = math::max(capacity.branches, detail::policy_branches(p));
    needs.drafts = drafts_now(p);
    needs.beams = beams_now(p);
    needs.compares = compares_now(p);
    needs.layered = layered_now(p);
    needs.reconsiders = reconsiders_now(p);
    needs.anchors = anchors_now(p);
    needs.moves = rewrites_blocks_now(p);
    needs.reductions = reductions_now(p);
    needs.tracked_capacity = tracked_capacity(tracked_tokens(p));
    needs.probes = probed_tokens(p);
    needs.states = states_now(p);
  }
  return needs;
}

}  // namespace step

namespace detail {

// Checks capacities that validated() leaves, of a policy that probes the given number of tokens.
[[gnu::noinline]] constexpr void check_capacity(const session_capacity& c, index_t probes) {
  check_argument(c.vocab >= 0 && c.vocab <= max_vocab,
                 "session_capacity::vocab",
                 c.vocab,
                 "at least 0 and at most ",
                 max_vocab);
  check_argument(c.layers >= 0, "session_capacity::layers", c.layers, "at least 0");
  const index_t most = max_rows / math::max(probes, index_t{1});
  check_argument(c.window <= most,
                 "session_capacity::window",
                 c.window,
                 "at most ",
                 most,
                 " for a policy that reports probabilities of ",
                 probes,
                 " tokens a position");
}

// Bytes of the given number of slots. A slot has at most 2^62, because a row of the previous step
// is the largest data of a position.
[[nodiscard, gnu::noinline]] constexpr std::size_t bytes_of(index_t slots, std::size_t slot) {
  const std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX) / slot;
  check_argument(static_cast<std::size_t>(slots) <= most,
                 "session_capacity::sequences",
                 slots,
                 "at most ",
                 most,
                 " of ",
                 slot,
                 " bytes each");
  return static_cast<std::size_t>(slots) * slot;
}

}  // namespace detail

/// Bytes that a session with these capacities, vocab and layers included, allocates for its slots.
/// Errors: std::invalid_argument for invalid capacities.
template <class Policy>
[[nodiscard]] constexpr std::size_t state_bytes(const session_capacity& capacity) {
  const session_capacity c = validated(capacity);
  detail::check_capacity(c, Policy::probes);
  return detail::bytes_of(c.sequences, step::slot_bytes<Policy>(c));
}
/// Overload for sequences of one policy.
template <class Policy>
[[nodiscard]] std::size_t state_bytes(const Policy& policy, const session_capacity& capacity) {
  const session_capacity c = validated(capacity);
  detail::check_capacity(c, Policy::probes);
  return detail::bytes_of(c.sequences, step::slot_bytes<Policy>(step::needs_of(policy, c), c));
}

namespace detail {

// Capacities of a session of one slot that decodes one sequence.
template <class Policy>
[[nodiscard]] session_capacity
capacity_for(const Policy& policy, index_t tokens, const sequence_shape& geometry) {
  validate(geometry, tokens, {.length = max_length});
  const index_t reach = policy_reach(policy, bounded(geometry));
  return {.sequences = 1,
          .length = geometry.length,
          .window = reach > 0 ? reach : 1,
          .branches = policy_branches(policy)};
}

// Checks the model of a policy that is layered or not.
inline void check_layers(bool layered, const model_info& model) {
  check_argument(!layered || model.layers >= 1,
                 "model_info::layers",
                 model.layers,
                 "at least 1 for a policy that skips positions at its layers");
}

// The validated capacities of a session, with what follows from the model.
template <class Policy>
[[nodiscard]] session_capacity
capacity_with(const model_info& model, session_capacity capacity, index_t columns) {
  validate(model);
  if constexpr (!Policy::varies) {
    check_layers(Policy::layered, model);
  }
  capacity.vocab = columns;
  capacity.layers = model.layers;
  capacity = validated(capacity);
  check_capacity(capacity, Policy::probes);
  return capacity;
}

}  // namespace detail

}  // namespace unmask
