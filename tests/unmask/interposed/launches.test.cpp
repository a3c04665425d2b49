// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole decodes through the launches that nvcc compiles, with NVIDIA's runtime exchanged for one
// that counts its calls and runs emulated kernels with the grid, the block, the shared memory and
// the arguments that it is given. Needs nvcc and no GPU: the device's own code does not run.

#include <unmask/cuda.hpp>
#include <unmask/cuda/at_layer.hpp>
#include <unmask/cuda/decide_slot.hpp>
#include <unmask/cuda/key_selector.hpp>
#include <unmask/cuda/read_rows.hpp>
#include <unmask/cuda/shards.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "support/fake_logits.hpp"
#include "unmask/interposed/kernels.hpp"
#include "unmask/interposed/runtime.hpp"

namespace unmask::testing::launches_test {
namespace {

using device_view = device::session_device_view<launched_policy>;
using layers_device_view = device::session_device_view<launched_layers_policy>;

template <class A>
const A& argument(const launch& l, std::size_t i) {
  return *static_cast<const A*>(l.arguments[i]);
}

/// The body of a kernel, in every block of a grid.
void each_block(const launch& l, const auto& body) {
  block_emulator block(static_cast<index_t>(l.block.x), 3);
  struct freed {
    void operator()(void* p) const { std::free(p); }
  };
  const std::unique_ptr<void, freed> shared(std::aligned_alloc(64, l.shared / 64 * 64 + 64));
  for (unsigned z = 0; z < l.grid.z; ++z) {
    for (unsigned y = 0; y < l.grid.y; ++y) {
      for (unsigned x = 0; x < l.grid.x; ++x) {
        block.run([&](const emulated_block& b) {
          body(b, dim3(x, y, z), static_cast<std::byte*>(shared.get()));
        });
      }
    }
  }
}

template <element T, class Policy = launched_policy>
void emulate_reads(const launch& l) {
  EXPECT_EQ(l.block.x, static_cast<unsigned>(device::read_threads));
  const auto space = std::make_unique<device::read_space<T, Policy::required, false, Policy>>();
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::read_position<device::exact_exponential>(
        b,
        argument<device::session_device_view<Policy>>(l, 0),
        argument<device::row_batch>(l, 1),
        static_cast<index_t>(at.z),
        static_cast<index_t>(at.x),
        static_cast<index_t>(at.y),
        *space);
  });
}

template <class Policy>
void emulate_decisions(const launch& l) {
  device::decide_space<Policy> space;
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte* scratch) {
    device::decide_slot(b,
                        argument<device::session_device_view<Policy>>(l, 0),
                        static_cast<index_t>(at.x),
                        argument<bool>(l, 1) ? scratch : nullptr,
                        space);
  });
}

template <class Policy>
void emulate_starts(const launch& l) {
  each_block(l, [&](const emulated_block& b, dim3, std::byte*) {
    device::start_slot(b,
                       argument<device::start_arguments<Policy>>(l, 2),
                       argument<device::session_device_view<Policy>>(l, 0),
                       argument<index_t>(l, 1));
  });
}

using shard = device::shard_device_view<launched_policy>;

void emulate_shard_reads(const launch& l) {
  EXPECT_EQ(l.block.x, static_cast<unsigned>(device::read_threads));
  const auto space = std::make_unique<device::shard_space<float, launched_policy>>();
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::read_shard<float, device::exact_exponential>(b,
                                                         argument<device_view>(l, 0),
                                                         argument<shard>(l, 1),
                                                         argument<device::row_batch>(l, 2),
                                                         static_cast<index_t>(at.z),
                                                         static_cast<index_t>(at.x),
                                                         static_cast<index_t>(at.y),
                                                         *space);
  });
}

void emulate_merges(const launch& l) {
  std::uint32_t wrong = 7;
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::merge_line(b,
                       argument<device_view>(l, 0),
                       argument<shard>(l, 1),
                       argument<const std::byte*>(l, 2),
                       argument<index_t>(l, 3),
                       argument<range>(l, 4),
                       static_cast<index_t>(l.grid.x),
                       static_cast<index_t>(at.x),
                       wrong);
  });
}

void emulate_choices(const launch& l) {
  EXPECT_EQ(l.block.x, static_cast<unsigned>(device::layer_threads));
  const auto space = std::make_unique<device::choice_space<launched_layers_policy>>();
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::layer_block(b,
                        argument<layers_device_view>(l, 0),
                        argument<device::layer_batch<float>>(l, 1).segments[at.y],
                        static_cast<index_t>(at.x),
                        static_cast<index_t>(l.grid.x),
                        *space);
  });
}

void emulate_stores(const launch& l) {
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::store_chosen(b,
                         argument<layers_device_view>(l, 0),
                         argument<device::layer_batch<float>>(l, 1).segments[at.y],
                         static_cast<index_t>(at.x));
  });
}

void emulate_scores(const launch& l) {
  EXPECT_EQ(l.block.x, static_cast<unsigned>(device::layer_threads));
  each_block(l, [&](const emulated_block& b, dim3 at, std::byte*) {
    device::score_block(b, argument<device::key_products<float>>(l, 0), static_cast<index_t>(at.x));
  });
}

void emulate_selections(const launch& l) {
  device::digit_counts space{};
  each_block(l, [&](const emulated_block& b, dim3, std::byte*) {
    device::select_keys(b, argument<device::selection_arguments<float>>(l, 0), space);
  });
}

class InterposedLaunches : public ::testing::Test {
 protected:
  void SetUp() override {
    const kernel_addresses kernels = addresses_of_kernels();
    runtime().kernels = {{kernels.reads_of_float, emulate_reads<float>},
                         {kernels.reads_of_bfloat16, emulate_reads<bfloat16>},
                         {kernels.decisions, emulate_decisions<launched_policy>},
                         {kernels.starts, emulate_starts<launched_policy>},
                         {kernels.shard_reads, emulate_shard_reads},
                         {kernels.merges, emulate_merges}};
    const layer_kernel_addresses layered = addresses_of_layer_kernels();
    runtime().kernels.insert({{layered.reads, emulate_reads<float, launched_layers_policy>},
                              {layered.decisions, emulate_decisions<launched_layers_policy>},
                              {layered.starts, emulate_starts<launched_layers_policy>},
                              {layered.choices, emulate_choices},
                              {layered.stores, emulate_stores}});
    const key_kernel_addresses keys = addresses_of_key_kernels();
    runtime().kernels.insert(
        {{keys.scores, emulate_scores}, {keys.selections, emulate_selections}});
  }
};

using calls = std::map<std::string, int>;

/// The calls that were made since `before`.
calls since(const calls& before) {
  calls made = runtime().calls;
  for (const auto& [name, count] : before) {
    made[name] -= count;
  }
  std::erase_if(made, [](const auto& entry) { return entry.second == 0; });
  return made;
}

/// Decodes two sequences of 20 positions in a vocabulary of several runs; all rows of a step at
/// once, or segment by segment. Expects `of_a_step` for each step and the tokens of the host.
template <element T>
void decode(bool in_pieces, const calls& of_a_step) {
  const fake_model model{.seed = 5, .vocab = 9000};
  const model_info info{.vocab = 9000, .mask_token = 8999, .logits_shift = 1};
  const session_capacity capacity{.sequences = 2, .length = 20, .window = 6};
  const sequence_shape g{.prompt_length = 2, .length = 20, .block_length = 6};
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(20, 4));
  tokens[1][0] = 5;
  std::vector<std::vector<token_id>> expected = tokens;
  session<launched_policy, on_host> host(info, capacity);
  session<launched_policy, on_stream> s(info, capacity);
  for (index_t slot = 0; slot < 2; ++slot) {
    const auto i = static_cast<std::size_t>(slot);
    host.start(slot, launched, expected[i], g);
    s.start(slot, launched, {tokens[i].data(), 20}, g);
  }
  int steps = 0;
  while (const auto request = s.next()) {
    ASSERT_EQ(host.next()->rows, request->rows);
    std::vector<T> rows(static_cast<std::size_t>(request->rows * info.vocab));
    for (const segment& part : request->segments) {
      for (index_t r = 0; r < part.rows.size(); ++r) {
        const auto row = static_cast<std::size_t>(part.first_row + r);
        model.row<T>(tokens[static_cast<std::size_t>(part.slot)],
                     part.rows.first + r,
                     std::span(rows).subspan(row * 9000, 9000));
      }
    }
    host.supply(host_logits<T>(rows.data(), request->rows, info.vocab));
    const device_logits<T> all(rows.data(), request->rows, info.vocab);
    const calls before = runtime().calls;
    if (in_pieces) {
      for (std::size_t i = 0; i < request->segments.size(); ++i) {
        const segment& part = request->segments[i];
        s.read(i, all.subrows({part.first_row, part.first_row + part.rows.size()}));
      }
      s.decide();
    } else {
      s.supply(all);
    }
    const calls made = since(before);
    if (request->segments.size() == 2) {
      EXPECT_EQ(made, of_a_step);
      ++steps;
    }
  }
  EXPECT_FALSE(host.next().has_value());
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(s.report(1).forwards, host.report(1).forwards);
  EXPECT_GT(steps, 3);
}

constexpr index_t hook_length = 30;
constexpr model_info hook_model{.vocab = 11, .mask_token = 10, .layers = 8};
constexpr session_capacity hook_capacity{.length = hook_length, .window = 12};
constexpr sequence_shape hook_shape{.prompt_length = 5, .length = hook_length, .block_length = 12};

/// Decodes `tokens`, which `s` was started with in slot 0, beside the host.
void decode_with_hooks(auto& s, const std::vector<token_id>& tokens) {
  constexpr index_t length = hook_length;
  constexpr index_t width = 40;
  constexpr index_t vocab = hook_model.vocab;
  std::vector<token_id> expected = tokens;
  session<launched_layers_policy> host(hook_model, hook_capacity);
  host.start(0, launched_layers, expected, hook_shape);
  std::vector<float> host_stored(2 * length * width);
  std::vector<float> stored = host_stored;
  std::vector<float> logits(length * vocab);
  dice d(3);
  int hooks = 0;
  while (s.next()) {
    ASSERT_TRUE(host.next());
    auto host_pass = host.pass(0);
    auto pass = s.pass(0);
    const calls before_the_pass = runtime().calls;
    std::ptrdiff_t memory = 0;
    for (index_t l = 0; l < hook_model.layers; ++l) {
      if (!pass.hooks(l)) {
        continue;
      }
      std::vector<float> hidden(length * width);
      for (float& x : hidden) {
        x = d.real(-1.0F, 1.0F);
      }
      const auto rows = static_cast<index_t>(host_pass.positions().size());
      const auto kept =
          host_pass.at_layer(l,
                             host_hidden<float>(hidden.data(), rows, width),
                             host_state<float>(host_stored.data() + memory, length, width));
      const calls before = runtime().calls;
      const auto got =
          pass.at_layer(l,
                        device_hidden<float>(hidden.data(), pass.positions().most, width),
                        device_state<float>(stored.data() + memory, length, width));
      EXPECT_EQ(since(before), (calls{{"launch", 2}}));
      // Here the launches are through, and the device's memory is the host's.
      ASSERT_EQ((std::vector<index_t>{got.rows.data, got.rows.data + got.rows.size()}),
                (std::vector<index_t>{kept.rows.begin(), kept.rows.end()}));
      memory += length * width;
      ++hooks;
    }
    for (float& x : logits) {
      x = d.real(-4.0F, 4.0F);
    }
    const auto wanted = static_cast<index_t>(host_pass.rows().size());
    host.read(0, host_logits<float>(logits.data(), wanted, vocab));
    host.decide();
    s.read(0, device_logits<float>(logits.data(), pass.rows().most, vocab));
    s.decide();
    EXPECT_EQ(since(before_the_pass), (calls{{"launch", 2 * 2 + 2}}));
    ASSERT_EQ(tokens, expected);
    ASSERT_EQ(stored, host_stored);
  }
  EXPECT_GT(hooks, 10);
  EXPECT_FALSE(host.next());
}

TEST_F(InterposedLaunches, AStepOfARankIsThreeLaunchesAndNothingElse) {
  constexpr index_t vocab = 9000;
  const fake_model model{.seed = 6, .vocab = vocab};
  const model_info info{.vocab = vocab, .mask_token = vocab - 1};
  const session_capacity capacity{.length = 12, .window = 6};
  const sequence_shape g{.prompt_length = 2, .length = 12, .block_length = 6};
  const index_t cuts[] = {0, 3 * canonical::chunk_columns, vocab};
  std::vector<std::vector<token_id>> tokens(3, std::vector<token_id>(12, 4));
  session<launched_policy, on_host> host(info, capacity);
  host.start(0, launched, tokens[2], g);
  std::vector<sharded_session<launched_policy, on_stream>> ranks;
  for (index_t r = 0; r < 2; ++r) {
    ranks.emplace_back(info, capacity, cuts, r);
    ranks.back().start(0, launched, {tokens[static_cast<std::size_t>(r)].data(), 12}, g);
  }
  while (const auto request = host.next()) {
    std::vector<float> rows;
    for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
      rows.resize(rows.size() + vocab);
      model.row<float>(tokens[2], r, std::span(rows).last(vocab));
    }
    host.supply(host_logits<float>(rows.data(), request->rows, vocab));
    std::vector<std::byte> everyone;
    for (auto& rank : ranks) {
      ASSERT_TRUE(rank.next());
      const calls before = runtime().calls;
      const range columns = rank.columns();
      const auto mine = rank.read_shard(
          device_logits<float>(rows.data() + columns.first, request->rows, columns.size(), vocab));
      EXPECT_EQ(since(before), (calls{{"launch", 1}}));
      everyone.insert(everyone.end(), mine.data(), mine.data() + mine.size());
    }
    for (auto& rank : ranks) {
      const calls before = runtime().calls;
      rank.supply({everyone.data(), everyone.size()});
      EXPECT_EQ(since(before), (calls{{"launch", 2}}));
    }
    ASSERT_EQ(tokens[0], tokens[2]);
    ASSERT_EQ(tokens[1], tokens[2]);
  }
  EXPECT_FALSE(ranks[0].next());
  EXPECT_GT(ranks[0].report().forwards, 2);
}

TEST_F(InterposedLaunches, AHookIsLaunchesAndNothingElse) {
  std::vector<token_id> tokens(hook_length, 3);
  session<launched_layers_policy, on_stream> s(hook_model, hook_capacity);
  s.start(0, launched_layers, {tokens.data(), hook_length}, hook_shape);
  decode_with_hooks(s, tokens);
}

TEST_F(InterposedLaunches, TheSegmentsOfAHookShareItsGrid) {
  constexpr index_t width = 4;
  constexpr index_t lengths[] = {hook_length, 17, 22};
  session_capacity capacity = hook_capacity;
  capacity.sequences = 3;
  std::vector<token_id> tokens(3 * hook_length, 3);
  session<launched_layers_policy, on_stream> s(hook_model, capacity);
  std::vector<float> hidden(hook_length * width);
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    hidden[i] = static_cast<float>(i);
  }
  std::vector<std::vector<float>> stored;
  std::vector<device_layer_hook<float>> hooks;
  for (index_t slot = 0; slot < 3; ++slot) {
    sequence_shape g = hook_shape;
    g.length = lengths[slot];
    s.start(slot, launched_layers, {tokens.data() + slot * hook_length, g.length}, g);
    stored.emplace_back(hidden.size());
    hooks.push_back({static_cast<std::size_t>(slot),
                     {hidden.data(), g.length, width},
                     {stored.back().data(), hook_length, width},
                     {}});
  }
  ASSERT_TRUE(s.next());
  index_t layer = 0;
  while (!s.pass(0).hooks(layer)) {
    ++layer;
  }
  const calls before = runtime().calls;
  s.at_layer(layer, std::span(hooks));
  EXPECT_EQ(since(before), (calls{{"launch", 2}}));
  for (std::size_t i = 0; i < 3; ++i) {  // a first pass computes and stores everything
    EXPECT_EQ(hooks[i].chosen.rows.size(), lengths[i]);
    std::vector<float> expected(hidden.size());
    std::copy_n(hidden.begin(), lengths[i] * width, expected.begin());
    EXPECT_EQ(stored[i], expected);
  }
}

TEST_F(InterposedLaunches, ChoosingTheKeysThatStayIsTwoLaunchesAndNothingElse) {
  constexpr index_t length = 37;
  constexpr index_t width = 64;
  dice d(8);
  std::vector<float> keys(length * width);
  for (float& x : keys) {
    x = d.real(-1.0F, 1.0F);
  }
  const std::vector<float> query(keys.begin(), keys.begin() + width);
  std::vector<float> expected(length);
  std::vector<float> scores(length);
  host::score_keys<float>({keys.data(), length, width}, query, expected);
  host::key_selector on_the_host(length);
  const auto stay = on_the_host.select(expected, {10, 20}, 0.5, 3);
  device::key_selector selector(length, on_stream{});
  const calls before = runtime().calls;
  device::score_keys<float>({keys.data(), length, width}, query.data(), scores.data(), nullptr);
  const device_list got = selector.select(scores.data(), length, {10, 20}, 0.5, 3);
  EXPECT_EQ(since(before), (calls{{"launch", 2}}));
  EXPECT_EQ(scores, expected);
  EXPECT_EQ((std::vector<index_t>{got.data, got.data + got.size()}),
            (std::vector<index_t>{stay.begin(), stay.end()}));
}

TEST_F(InterposedLaunches, AStepOfFloatsIsTwoLaunchesAndNothingElse) {
  decode<float>(false, {{"launch", 2}});
}

TEST_F(InterposedLaunches, AStepOfBfloat16IsTwoLaunchesAndNothingElse) {
  decode<bfloat16>(false, {{"launch", 2}});
}

TEST_F(InterposedLaunches, ASegmentAtATimeIsALaunchEachAndOneToDecide) {
  decode<float>(true, {{"launch", 3}});
}

TEST_F(InterposedLaunches, ASessionGivesBackAllThatItTook) {
  runtime().calls.clear();
  {
    const session<launched_policy, on_stream> s({.vocab = 9, .mask_token = 8},
                                                {.length = 3, .window = 3});
  }
  EXPECT_EQ(runtime().calls,
            (calls{{"cudaGetDevice", 1},
                   {"cudaDeviceGetAttribute", 1},
                   {"cudaMalloc", 3},  // of the session, of its rows and of its slot
                   {"cudaMallocHost", 1},
                   {"cudaEventCreateWithFlags", 1},
                   {"cudaMemsetAsync", 3},
                   {"cudaMemcpyAsync", 1},
                   {"cudaStreamSynchronize", 3},
                   {"cudaEventDestroy", 1},
                   {"cudaFreeHost", 1},
                   {"cudaFree", 3}}));
}

}  // namespace
}  // namespace unmask::testing::launches_test
