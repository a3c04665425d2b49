// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The search for the policy that costs the fewest passes on a user's own problems.

#include <unmask/tune/tuner.hpp>
