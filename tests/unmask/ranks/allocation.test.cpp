// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/sharded_session.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/count_allocations.hpp"

namespace unmask::testing::allocation_test {
namespace {

TEST(sharded_session, allocates_nothing_in_a_step) {
  if (!counts_allocations) {
    GTEST_SKIP() << "the sanitizer owns operator new";
  }
  const index_t vocab = 3 * canonical::chunk_columns;
  const policy p{by_margin{}, tokens_per_step{1}, trace_credit<8>{}};
  const std::vector<index_t> cuts = chunk_cuts(vocab, 2);
  std::vector<sharded_session<std::remove_const_t<decltype(p)>>> ranks;
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(6, 1));
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.emplace_back(model_info{.vocab = vocab, .mask_token = 0},
                       session_capacity{.sequences = 1, .length = 6, .window = 6},
                       cuts,
                       static_cast<index_t>(r));
    ranks[r].start(0,
                   p,
                   tokens_view<memory::host>(tokens[r]),
                   {.prompt_length = 1, .length = 6, .block_length = 5});
  }
  const std::vector<float> logits(static_cast<std::size_t>(6 * vocab), 0.5F);
  std::vector<std::byte> all(100'000);
  int steps = 0;
  while (true) {
    const allocation_count count;
    const auto request = ranks[0].next();
    static_cast<void>(ranks[1].next());
    if (!request) {
      break;
    }
    std::size_t size = 0;
    for (auto& rank : ranks) {
      const index_t columns = rank.columns().size();
      const auto message =
          rank.read_shard(host_logits<float>(logits.data(), request->rows, columns));
      std::copy(message.begin(), message.end(), all.begin() + static_cast<std::ptrdiff_t>(size));
      size += message.size();
    }
    for (auto& rank : ranks) {
      rank.supply(std::span(all).first(size));
    }
    EXPECT_EQ(count.value(), 0) << "step " << steps;
    ++steps;
  }
  EXPECT_EQ(steps, 5);
}

}  // namespace
}  // namespace unmask::testing::allocation_test
