// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "demo/engine.hpp"
#include "demo/options.hpp"
#include "demo/problems.hpp"

namespace demo {

/// Decodes the problems by the rules of a file of reference decodes and compares tokens and numbers
/// of forwards; a difference is decoded again to see whether it hangs on a near-tie. Prints what it
/// finds. Returns whether everything is equal but for near-ties; throws std::runtime_error for a
/// file that can not be compared with.
bool check(engine& model, std::span<const problem> problems, const options& wanted);

}  // namespace demo
