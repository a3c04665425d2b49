// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An edit of a token that was not read apart would be left out.
// expect: names them before the row is read: track\(list, context\)
#include <unmask/unmask.hpp>

struct edits_untracked {
  static constexpr unmask::statistics required = unmask::stat::none;
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

void decode(unmask::session<
            unmask::policy<unmask::by_confidence, unmask::tokens_per_step, edits_untracked>>& s) {
  s.supply(unmask::host_logits<float>());
}
