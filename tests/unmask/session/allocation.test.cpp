// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/beside.hpp"
#include "support/bound_session.hpp"
#include "support/count_allocations.hpp"

namespace unmask::testing::allocation_test {
namespace {

using tokens_of = std::vector<token_id>;
using rich = policy<by_margin,
                    any_of<threshold, all_of<tokens_per_step, entropy_bound>>,
                    temperature,
                    stop_at_eos,
                    max_steps>;

TEST(allocation_count, sees_allocations) {
  const allocation_count count;
  const std::vector<int> some(10);
  const std::vector<double> more(some.size());
  struct alignas(64) wide {
    char bytes[64];
  };
  const auto aligned = std::make_unique<wide>();
  // A compiler may remove allocations whose memory is not used.
  for (const void* volatile seen : {static_cast<const void*>(some.data()),
                                    static_cast<const void*>(more.data()),
                                    static_cast<const void*>(aligned.get())}) {
    EXPECT_NE(seen, nullptr);
  }
  EXPECT_EQ(count.value(), 3);
}

/// Everything a session does after its construction, over several sequences in several slots; the
/// rows are made before. Returns the number of allocations.
template <element T>
long allocations_of_a_run(index_t vocab, index_t slots, const on_host& where) {
  const index_t length = 9;
  const model_info model = {.vocab = vocab, .mask_token = 0, .eos_token = 1};
  session<rich> s(model, {.sequences = slots, .length = length, .window = length}, where);
  const rich p{by_margin{},
               threshold{0.95F} || (tokens_per_step{2} && entropy_bound{0.1F}),
               temperature{0.9F},
               stop_at_eos{},
               max_steps{50}};
  std::vector<tokens_of> tokens(static_cast<std::size_t>(slots), tokens_of(9, 2));
  packed_rows<T> rows(slots * length, vocab, 1);
  const fake_model fake{.seed = 1, .vocab = vocab};
  for (index_t r = 0; r < slots * length; ++r) {
    fake.row<T>(tokens[0], r, rows.row(r));
  }
  const std::vector<std::uint8_t> editable = {1, 1, 0, 1, 1, 1, 1, 0, 1};
  const tokens_of suppressed = {3, 4};
  long committed = 0;

  const allocation_count count;
  for (int round = 0; round < 3; ++round) {
    for (index_t slot = 0; slot < slots; ++slot) {
      start_options options;
      if (slot % 2 == 1) {
        options = {.editable = editable, .suppressed = suppressed};
      }
      s.start(slot,
              p,
              tokens[static_cast<std::size_t>(slot)],
              {.length = length, .block_length = 4 + slot},
              options);
    }
    while (const auto request = s.next()) {
      const rows_view<T, memory::host> all = rows.view();
      if (round == 0) {
        s.supply(all.subrows({0, request->rows}));
      } else {
        for (std::size_t i = 0; i < request->segments.size(); ++i) {
          const segment& part = request->segments[i];
          s.read(i, all.subrows({part.first_row, part.first_row + part.rows.size()}));
        }
        s.decide();
      }
      for (index_t slot = 0; slot < slots; ++slot) {
        committed += static_cast<long>(s.committed(slot).size());
        committed += s.report(slot).last_commits + s.planned(slot).score.size();
      }
    }
    s.cancel(0);
  }
  const long asked = count.value();
  EXPECT_GT(committed, 0);
  return asked;
}

TEST(session, asks_for_no_memory_after_its_construction) {
  EXPECT_EQ(allocations_of_a_run<float>(40, 3, {}), 0);
  EXPECT_EQ(allocations_of_a_run<bfloat16>(40, 3, {}), 0);
  EXPECT_EQ(allocations_of_a_run<float16>(40, 3, {}), 0);
}

TEST(session, asks_for_no_memory_on_a_pool_of_threads) {
  // 27 rows of 40,000 columns are enough to be shared.
  host::thread_pool pool(3);
  EXPECT_EQ(allocations_of_a_run<float>(40'000, 3, {.executor = pool}), 0);
  EXPECT_EQ(allocations_of_a_run<bfloat16>(40'000, 3, {.executor = pool}), 0);
}

TEST(session, asks_for_no_memory_to_cut_a_long_row) {
  // Nine rows of 150,000 columns: fewer rows than pieces of work.
  host::thread_pool pool(4);
  EXPECT_EQ(allocations_of_a_run<float>(150'000, 1, {.executor = pool}), 0);
}

TEST(untyped_rows, ask_for_no_memory_after_its_construction) {
  const auto s = make_bound(policy{by_confidence{}, tokens_per_step{2}},
                            {.vocab = 20, .mask_token = 0},
                            {.length = 8, .window = 8});
  tokens_of tokens(8);
  const std::vector<float> z(160, 0.5F);
  const allocation_count count;
  s->start(0, tokens.data(), 8, {.length = 8, .block_length = 4});
  while (const auto request = s->next()) {
    s->supply(host_logits<float>(z.data(), request->rows, 20));
    static_cast<void>(s->committed(0));
    static_cast<void>(s->report(0));
  }
  EXPECT_EQ(count.value(), 0);
  EXPECT_EQ(s->report(0).end, ending::complete);
}

TEST(session, holds_the_bytes_it_says) {
  // The memory of the slots grows with their number, the window and the length.
  const model_info model = {.vocab = 20, .mask_token = 0};
  const auto bytes = [&](const session_capacity& c) { return session<rich>(model, c).bytes(); };
  const session_capacity one = {.sequences = 1, .length = 100, .window = 32};
  EXPECT_EQ(bytes({.sequences = 5, .length = 100, .window = 32}), 5 * bytes(one));
  EXPECT_GT(bytes({.sequences = 1, .length = 100, .window = 64}), bytes(one));
  EXPECT_GT(bytes({.sequences = 1, .length = 1000, .window = 32}), bytes(one));
  // Beside a fixed part, a slot takes a byte a position and some tens of bytes a scored one.
  EXPECT_LT(bytes(one), 10'000U);
}

}  // namespace
}  // namespace unmask::testing::allocation_test
