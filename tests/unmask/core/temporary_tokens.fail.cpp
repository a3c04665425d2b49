// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: these tokens are a temporary, gone before the session writes them
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void start(unmask::session<rule>& s, const rule& p) {
  s.start(0, p, std::vector<unmask::token_id>(4), {.length = 4});
}
