// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part must declare what it reads: static constexpr statistics required
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

struct varying {
  unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

int main() {
  std::vector<int> tokens(16, 1);
  unmask::policy p{unmask::by_confidence{}, varying{}};
  unmask::session s(p, {.vocab = 32, .mask_token = 31}, tokens, {.length = 16});
  return static_cast<int>(s.next()->rows);
}
