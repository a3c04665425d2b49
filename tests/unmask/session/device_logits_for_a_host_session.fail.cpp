// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: these logits live in another memory space than the session's backend
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const unmask::device_logits<float>& logits) {
  s.supply(logits);
}
