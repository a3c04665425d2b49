// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: these logits live in another memory space
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/sharded_session.hpp>

int main() {
  using namespace unmask;
  const index_t cuts[] = {0, 9};
  sharded_session<policy<by_confidence, tokens_per_step>> s(
      {.vocab = 9, .mask_token = 0}, {.length = 1, .window = 1}, cuts, 0);
  static_cast<void>(s.read_shard(device_logits<float>(nullptr, 1, 9)));
}
