// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: device_logits_for_ranks_on_the_host
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

// case: truncation_where_the_vocabulary_is_cut
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
