// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tokens are 32-bit, unmask::token_id
// lines: 40
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void start(unmask::session<rule>& s, const rule& p, std::int64_t* tokens) {
  s.start(0, p, {tokens, 4}, {.length = 4});
}
