// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: logits are a tensor with rows, of float, bfloat16 or float16: a view such as host_logits
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const std::vector<float>& logits) {
  s.supply(logits);
  s.read(0, logits);
}
