// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes with insertion and deletion, recorded from SGLang.

#include "goldens/json_node.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// Decodes a line and compares every forward pass.
verdict check_indel(const node& line);

}  // namespace unmask::goldens
