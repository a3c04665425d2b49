// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "goldens/lopa_lines.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// Decodes a line of lopa.jsonl, d2f.single_branch included, with a session and compares every
/// round: branches with their tokens, lengths, worths and scores, the winner, what it commits, the
/// new branches; blocks, activation, cached prefix; forwards and final tokens.
[[nodiscard]] verdict check_lopa(const lopa_line& line);

}  // namespace unmask::goldens
