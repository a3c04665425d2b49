// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>

namespace UNMASK_NAMESPACE {

namespace step {

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
  }
  return needs;
}

}  // namespace step

namespace detail {

// Checks capacities that validated() leaves, of a policy that probes so many tokens.
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

// Bytes of so many slots. A slot has at most 2^62, because a row of the previous step is the
// largest data of a position.
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
/// The same for sequences of one policy.
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
