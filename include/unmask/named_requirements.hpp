// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/named_policy.hpp>
#include <unmask/step/state_bytes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace UNMASK_NAMESPACE {

/// Requirements of sequences of one shape under a policy by name.
struct policy_requirements {
  index_t window = 1;              ///< Least session_capacity::window.
  std::int64_t most_forwards = 0;  ///< Upper bound on the forward passes of a sequence.
  /// Bytes that a session of these capacities allocates for its slots, with at least that window.
  std::size_t state_bytes = 0;
};

/// Requirements of a policy by name, before a session is made. `capacity.window` may be 0.
///
/// Errors: as for the session, and for start() about the shape.
[[nodiscard]] UNMASK_LIBRARY policy_requirements requirements_of(const named_policy& policy,
                                                                 const model_info& model,
                                                                 const session_capacity& capacity,
                                                                 const sequence_shape& shape);

#if UNMASK_DEFINES
UNMASK_LIBRARY policy_requirements requirements_of(const named_policy& policy,
                                                   const model_info& model,
                                                   const session_capacity& capacity,
                                                   const sequence_shape& shape) {
  const named_policy p = policy.of_model(model);
  session_capacity room = capacity;
  room.window = room.window == 0 ? 1 : room.window;
  validate(shape, shape.length, validated(room));
  const sequence_shape one = bounded(shape);
  detail::check_parts(p, shape, model);
  detail::check_layers(p.layered_now(), model);
  policy_requirements r;
  r.window = math::max(1, math::min(detail::policy_reach(p, one), one.length));
  r.most_forwards = most_forwards(p, one);
  room.window = std::max(room.window, r.window);
  room = detail::capacity_with<named_policy>(model, room, model.vocab);
  r.state_bytes = state_bytes(p, room);
  return r;
}
#endif

}  // namespace unmask
