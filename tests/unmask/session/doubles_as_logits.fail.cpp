// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: convert numbers of another type, such as double, to float
// lines: 40
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const double* logits) {
  s.supply(unmask::host_logits<double>(logits, 4, 100));
}
