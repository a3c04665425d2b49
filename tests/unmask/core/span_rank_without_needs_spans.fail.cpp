// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks within spans are computed only if a part declares needs_spans.
// expect: span_rank
#include <unmask/unmask.hpp>

// `const rank_info&` has no span_rank either.
struct first_of_span {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto&, const auto& s) const { return s.span_rank == 0; }
};

void decode(unmask::session<unmask::policy<unmask::by_confidence, first_of_span>>& s) {
  s.supply(unmask::host_logits<float>());
}
