// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/compose_named.hpp>
#include <unmask/named_policy.hpp>
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
/// Cost: compiles each type of `Compositions` without its session.
/// Errors: as those of make_any_layer_session, and of start() for the shape.
template <class Compositions = common_layer_compositions>
[[nodiscard]] policy_requirements requirements_of(const named_parts& parts,
                                                  const model_info& model,
                                                  const session_capacity& capacity,
                                                  const sequence_shape& shape) {
  session_capacity room = detail::with_branches(parts, capacity);
  room.window = room.window == 0 ? 1 : room.window;
  validate(shape, shape.length, validated(room));
  const sequence_shape one = bounded(shape);
  return with_policy<Compositions>(parts, model, [&](const auto& p) {
    detail::check_parts(p, shape, model);
    policy_requirements r;
    r.window = math::max(1, math::min(detail::policy_reach(p, one), one.length));
    r.most_forwards = most_forwards(p, one);
    room.window = std::max(room.window, r.window);
    room = detail::capacity_with<std::remove_cvref_t<decltype(p)>>(model, room, model.vocab);
    r.state_bytes = state_bytes<std::remove_cvref_t<decltype(p)>>(room);
    return r;
  });
}

#if defined(UNMASK_COMPILED)
// The same for the common types, defined in the library.
[[nodiscard]] policy_requirements requirements_of(const named_parts& parts,
                                                  const model_info& model,
                                                  const session_capacity& capacity,
                                                  const sequence_shape& shape);
#endif

}  // namespace unmask
