// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Properties of every step of every decode, whatever the policy and the engine.

#include <memory>

#include "hostile/decode.hpp"

namespace unmask::hostile {

/// An observer that throws violation at the first property that is violated.
[[nodiscard]] std::unique_ptr<observer> make_oracle(const scenario& s);

}  // namespace unmask::hostile
