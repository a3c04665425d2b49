// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An edit of a token that was not read apart would be left out.
// expect: names them before the row is read: watch\(list, own\)
#include <unmask/unmask.hpp>

struct edits_unwatched {
  static constexpr unmask::statistics required = unmask::stat::none;
  void revise(auto& row, const auto&) const { row.add(3, 1.0F); }
};

void decode(unmask::session<unmask::policy<unmask::by_confidence, unmask::top_k, edits_unwatched>>& s) {
  s.supply(unmask::host_logits<float>());
}
