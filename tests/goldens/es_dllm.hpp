// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// One selection after the other on given features: scores and survivors of each layer.
[[nodiscard]] verdict check_es_select(const node& line);

/// A whole decode: fed positions, requested and selected survivors, scores, commits.
[[nodiscard]] verdict check_es_loop(const node& line);

/// One decision under delayed EOS tokens: confidences, delayed positions, commits.
[[nodiscard]] verdict check_es_sample_tokens(const node& line);

}  // namespace unmask::goldens
