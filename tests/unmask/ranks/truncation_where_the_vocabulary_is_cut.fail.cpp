// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: leave them out where the vocabulary is cut
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/sharded_session.hpp>

int main() {
  using namespace unmask;
  using cut = policy<by_confidence, tokens_per_step, sampling, top_p>;
  const index_t cuts[] = {0, 5, 9};
  const sharded_session<cut> s({.vocab = 9, .mask_token = 0}, {.length = 1, .window = 1}, cuts, 0);
}
