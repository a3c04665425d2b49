// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Recorded decodes in which text moves: insertion and deletion of SGLang, and DAEDAL.

#include "goldens/json_node.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// Each decodes a line and compares every forward pass.
verdict check_indel(const node& line);
verdict check_daedal(const node& line);

}  // namespace unmask::goldens
