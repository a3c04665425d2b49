// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>

namespace UNMASK_NAMESPACE {

/// Bytes that a session with these capacities, vocab and layers included, allocates for its slots.
/// Errors: std::invalid_argument for invalid capacities.
template <class Policy>
[[nodiscard]] constexpr std::size_t state_bytes(const session_capacity& capacity) {
  const session_capacity c = validated(capacity);
  check_argument(c.vocab >= 0 && c.vocab <= max_vocab,
                 "session_capacity::vocab",
                 c.vocab,
                 "at least 0 and at most ",
                 max_vocab);
  check_argument(c.layers >= 0, "session_capacity::layers", c.layers, "at least 0");
  check_argument(c.window <= max_rows / math::max(Policy::probes, index_t{1}),
                 "session_capacity::window",
                 c.window,
                 "at most ",
                 max_rows / math::max(Policy::probes, index_t{1}),
                 " for a policy that reports probabilities of ",
                 Policy::probes,
                 " tokens a position");
  // At most 2^62, because a row of the previous step is the largest data of a position.
  const std::size_t slot = step::slot_bytes<Policy>(c);
  const std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX) / slot;
  check_argument(static_cast<std::size_t>(c.sequences) <= most,
                 "session_capacity::sequences",
                 c.sequences,
                 "at most ",
                 most,
                 " of ",
                 slot,
                 " bytes each");
  return static_cast<std::size_t>(c.sequences) * slot;
}

}  // namespace unmask
