// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Truncation by emulated threads: the held columns of one read, and the
// second read, which must agree with the host's bit by bit whatever the cut of a row.

#include <unmask/cuda/keep_row.hpp>
#include <unmask/host/second_read.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "support/fake_logits.hpp"
#include "support/random_draw_key.hpp"

namespace unmask::testing::emulated_truncation_test {
namespace {

constexpr statistics contents = every_sum | stat::sampled | stat::truncated;
using space = device::second_space<contents>;

/// Three logits in ten tie with others; some are missing.
std::vector<float> random_row(index_t columns, dice& d) {
  const double ties = d.one_of(std::vector<double>{0.0, 0.3, 1.0});
  const double absent = d.one_of(std::vector<double>{0.0, 0.5, 0.99});
  std::vector<float> z;
  for (index_t j = 0; j < columns; ++j) {
    const bool tied = d.chance(ties);
    z.push_back(d.chance(absent) ? -std::numeric_limits<float>::infinity()
                : tied ? static_cast<float>(d.within(-1, 2)) * (d.chance(0.5) ? 1.0F : -1.0F)
                       : d.real(-9, 9));
  }
  return z;
}

/// Reads a row in all its runs, in any order; the holds of the row are in `held`.
record<contents> emulated_record(
    block_emulator& block, row_input<float> row, index_t run_chunks, held_tokens& held, dice& d) {
  const index_t chunks = canonical::chunks_of(row.columns);
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  std::vector<record<contents>> nodes(device::node_count<contents>);
  std::vector<record<contents>> parts(static_cast<std::size_t>(runs));
  std::vector<std::uint64_t> kept(static_cast<std::size_t>(runs * device::warp_list::held), 7);
  std::vector<device::warp_list> lists(static_cast<std::size_t>(block.threads() / 32));
  std::uint32_t arrived = 0;
  record<contents> out;
  row.held = &held;
  for (const index_t run : d.permutation(runs)) {
    block.run([&](const emulated_block& b) {
      device::read_row<contents, device::exact_exponential>(
          b,
          row,
          identity{},
          run,
          run_chunks,
          device::row_reduction<contents>{parts.data(), &arrived, kept.data()},
          nodes.data(),
          out,
          lists.data());
    });
  }
  return out;
}

TEST(EmulatedKeep, HoldsTheFirstColumnsOfARowHoweverItIsCut) {
  dice d(1);
  for (int round = 0; round < 40; ++round) {
    const index_t threads = d.one_of(std::vector<index_t>{32, 64, 128});
    const index_t run_chunks = d.one_of(std::vector<index_t>{1, 2, 8});
    const index_t columns = d.chance(0.3) ? d.within(1, 200) : d.within(1, 20000);
    SCOPED_TRACE("columns " + std::to_string(columns) + ", run " + std::to_string(run_chunks));
    const std::vector<float> z = random_row(columns, d);
    row_input<float> row;
    row.logits = z.data();
    row.columns = columns;
    row.first_token = d.chance(0.5) ? 0 : 2048 * d.within(0, 9);
    block_emulator block(threads, d.bits());
    held_tokens held;
    held.push(1e9F, 3);  // what was there does not count
    static_cast<void>(emulated_record(block, row, run_chunks, held, d));
    held_tokens expected;
    for (index_t j = 0; j < columns; ++j) {
      expected.push(z[static_cast<std::size_t>(j)], row.first_token + j);
    }
    ASSERT_EQ(held.size(), expected.size());
    for (index_t i = 0; i < held.size(); ++i) {
      ASSERT_EQ(held[i].token, expected[i].token) << i;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(held[i].logit),
                std::bit_cast<std::uint32_t>(expected[i].logit));
    }
  }
}

TEST(EmulatedKeep, ReadsARowAgainWithTheBitsOfTheHost) {
  dice d(2);
  int tied = 0;
  for (int round = 0; round < 60; ++round) {
    const index_t threads = d.one_of(std::vector<index_t>{32, 128});
    const index_t run_chunks = d.one_of(std::vector<index_t>{1, 4});
    const index_t columns = d.chance(0.3) ? d.within(1, 200) : d.within(1, 9000);
    std::vector<float> z = random_row(columns, d);
    z[static_cast<std::size_t>(d.within(0, columns - 1))] = 4.0F;  // one at least is there
    row_input<float> row;
    row.logits = z.data();
    row.columns = columns;
    row.first_token = d.chance(0.5) ? 0 : 2048 * d.within(0, 9);
    row.draw.key = random_draw_key(d);
    row.draw.temperature = d.real(0.3, 2.0);
    truncation rules;
    rules.tokens = d.chance(0.5) ? d.within(1, columns + 3) : no_token;
    rules.tokens = rules.tokens == no_token ? columns : rules.tokens;
    rules.mass = d.chance(0.5) ? d.real(0, 1) : 1.0F;
    rules.ratio = d.chance(0.3) ? d.real(0, 0.5) : 0.0F;
    rules.renormalises = d.chance(0.5);
    SCOPED_TRACE("columns " + std::to_string(columns) + ", tokens " + std::to_string(rules.tokens) +
                 ", mass " + std::to_string(rules.mass));

    // Some tracked tokens, edited, one of them suppressed.
    std::vector<token_id> tracked;
    for (index_t j = 0; j < columns && tracked.size() < 5; j += d.within(1, 400)) {
      tracked.push_back(row.first_token + j);
    }
    std::vector<float> edited;
    for (std::size_t k = 0; k < tracked.size(); ++k) {
      edited.push_back(d.real(-3, 6));
    }
    const token_id suppressed[] = {tracked.back()};
    const tracked_logits w{tracked.data(),
                           edited.data(),
                           static_cast<index_t>(tracked.size()),
                           suppressed,
                           columns > 1 ? 1 : 0};
    row.excluded = tracked.data();
    row.excluded_count = w.count;

    held_tokens unused;
    row.held = &unused;
    record<contents> whole =
        host::read_row<contents>(row, identity{}, host::best_instruction_set());
    row_accumulator<contents> sum{whole};
    for (index_t k = 0; k < w.count - w.suppressed_count; ++k) {
      canonical::push_alone(sum, w.logits[k], w.tokens[k], row.draw);
    }
    whole = sum.finish();
    if (!whole.valid()) {
      continue;
    }
    record<contents> expected = whole;
    host::read_again(expected, row, identity{}, w, rules, {}, host::best_instruction_set());

    const index_t runs = (canonical::chunks_of(columns) + run_chunks - 1) / run_chunks;
    std::vector<record<contents>> parts(static_cast<std::size_t>(runs));
    record<contents> actual = whole;
    const auto shared = std::make_unique<space>();
    block_emulator block(threads, d.bits());
    block.run([&](const emulated_block& b) {
      device::read_again<device::exact_exponential>(
          b, actual, row, identity{}, w, rules, unused, run_chunks, parts.data(), *shared);
    });
    ASSERT_TRUE(same_bits(actual, expected));
    tied += std::count(z.begin(), z.end(), expected.drawn_logit) > 1 ? 1 : 0;
  }
  EXPECT_GT(tied, 3) << "ties at the end of what is kept were hardly met";
}

// The earlier contents of the memory of a cut, and the thread that runs first, have no effect.
TEST(EmulatedKeep, CutsAHeadWithTheBitsOfOneThread) {
  dice d(3);
  int known = 0;
  for (int round = 0; round < 300; ++round) {
    const index_t columns = d.chance(0.5) ? d.within(1, 64) : d.within(1, 150);
    std::vector<float> z = random_row(columns, d);
    z[0] = 4.0F;  // one at least is there
    std::vector<token_id> tracked;
    std::vector<float> logits;
    held_tokens held;
    row_accumulator<contents> sum;
    for (token_id v = 0; v < columns; ++v) {
      sum.push(z[static_cast<std::size_t>(v)], v);
      if (v > 0 && d.chance(0.1) && tracked.size() < 20) {
        tracked.push_back(v);
        logits.push_back(z[static_cast<std::size_t>(v)]);
      } else {
        held.push(z[static_cast<std::size_t>(v)], v);
      }
    }
    const tracked_logits list{
        tracked.data(), logits.data(), static_cast<index_t>(tracked.size()), nullptr, 0};
    truncation rules;
    rules.tokens = d.chance(0.7) ? d.within(1, 70) : columns;
    rules.mass = d.chance(0.5) ? d.real(0, 1) : 1.0F;
    rules.ratio = d.chance(0.3) ? d.real(0, 0.5) : 0.0F;
    rules.renormalises = d.chance(0.5);
    draw_request draw;
    draw.key = random_draw_key(d);
    draw.temperature = d.real(0.3, 2.0);

    using cut = canonical::head_cut<84>;
    record<contents> expected = sum.finish();
    const auto alone = std::make_unique<cut>();
    const bool is_known =
        canonical::cut_held<contents>(serial{}, expected, held, list, rules, draw, *alone);
    record<contents> actual = sum.finish();
    const auto shared = std::make_unique<cut>();
    shared->head.push(99.0F, 7);
    std::fill(std::begin(shared->masses), std::end(shared->masses), d.bits() >> 20U);
    std::fill(std::begin(shared->keys), std::end(shared->keys), 1e9F);
    shared->count = 84;
    block_emulator block(d.one_of(std::vector<index_t>{32, 64, 128}), d.bits());
    block.run([&](const emulated_block& b) {
      EXPECT_EQ(canonical::cut_held<contents>(b, actual, held, list, rules, draw, *shared),
                is_known);
    });
    ASSERT_TRUE(same_bits(actual, expected)) << round;
    known += is_known ? 1 : 0;
  }
  EXPECT_GT(known, 150);
  EXPECT_LT(known, 300);
}

}  // namespace
}  // namespace unmask::testing::emulated_truncation_test
