// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Properties of every step of every decode, whatever the policy and the engine.

#include <functional>
#include <memory>

#include "hostile/decode.hpp"

namespace unmask::hostile {

/// An observer that throws violation at the first property that is violated.
[[nodiscard]] std::unique_ptr<observer> make_oracle(const scenario& s);

/// Decodes a case once with an oracle and then in all ways(), which must be the same bit by bit.
/// `seen` is called with the steps of each decode. Throws violation, or refusal.
void check(const scenario& s,
           const std::function<void(const std::vector<std::vector<step_record>>&)>& seen);

}  // namespace unmask::hostile
