// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole sessions on a stream, with emulated kernels and a fake runtime, beside sessions on the host:
// the same requests, tokens, reports and commits at every step. What this leaves to a real device is
// the compiler's code for it and the true order of its memory accesses.
//
// Needs the fake <cuda_runtime_api.h> of fake_cuda/ on the include path.

#if __has_include(<cuda_runtime_api.h>)
#  include <cuda_runtime_api.h>
#endif
#if defined(UNMASK_FAKE_CUDA)

#  include "support/dice.hpp"
#  include "support/emulated_block.hpp"
#  include "support/fake_logits.hpp"
#  include "unmask/device/policies.hpp"

#  include <unmask/cuda/workspace.hpp>
#  include <unmask/host/backend.hpp>
#  include <unmask/session.hpp>

#  include <gtest/gtest.h>

#  include <algorithm>
#  include <bit>
#  include <memory>
#  include <span>
#  include <string>
#  include <vector>

/// The launches of the library, run by emulated threads when their turn in the stream comes.
namespace unmask::device {

template <class T, class Policy>
void launch_reads(const session_site<Policy>& site,
                  const row_batch& batch,
                  index_t window,
                  cudaStream_t stream) {
  ++fake_cuda().launches;
  fake_enqueue(stream, [=] {
    unmask::testing::block_emulator block(64, static_cast<std::uint64_t>(fake_cuda().launches));
    std::vector<record<Policy::required>> nodes(max_run_chunks);
    for (index_t n = 0; n < batch.count; ++n) {
      for (index_t run = site.shape.runs - 1; run >= 0; --run) {
        for (index_t i = 0; i < window; ++i) {
          block.run([&](const unmask::testing::emulated_block& b) {
            read_position<T, exact_exponential>(b, site, batch, n, i, run, nodes.data());
          });
        }
      }
    }
  });
  check(fake_cuda().outcome(), "launch of read_rows");
}

template <class Policy>
void launch_decisions(const session_site<Policy>& site,
                      index_t count,
                      unsigned threads,
                      std::size_t scratch,
                      cudaStream_t stream) {
  ++fake_cuda().launches;
  fake_enqueue(stream, [=] {
    unmask::testing::block_emulator block(static_cast<index_t>(threads), 5);
    for (index_t slot = 0; slot < count; ++slot) {
      void* const shared = std::aligned_alloc(64, (scratch + 64) / 64 * 64);
      block.run([&](const unmask::testing::emulated_block& b) {
        decide_slot(b, site, slot, scratch > 0 ? static_cast<std::byte*>(shared) : nullptr);
      });
      std::free(shared);
    }
  });
  check(fake_cuda().outcome(), "launch of decide_slots");
}

template <class Policy>
void launch_start(const step::slot_memory<Policy>* slots,
                  index_t slot,
                  const start_arguments<Policy>& arguments,
                  unsigned threads,
                  cudaStream_t stream) {
  ++fake_cuda().launches;
  fake_enqueue(stream, [=] {
    unmask::testing::block_emulator block(static_cast<index_t>(threads), 6);
    block.run([&](const unmask::testing::emulated_block& b) { start_slot(b, arguments, slots[slot]); });
  });
  check(fake_cuda().outcome(), "launch of start_one");
}

}  // namespace unmask::device

namespace unmask::testing {
namespace {

/// The logits of one forward request in memory: rows at a distance, at an odd address, with riders.
template <element T>
struct logits_of {
  const fake_model* model = nullptr;
  index_t columns = 0;
  std::ptrdiff_t stride = 0;
  std::vector<T> numbers;
  std::vector<T> unconditional;
  std::vector<std::uint32_t> allowed;
  std::ptrdiff_t words = 0;
  bool guided = false;
  bool masked = false;

  logits_of(const fake_model& m, index_t rows, index_t padding, bool guide, bool mask)
      : model(&m)
      , columns(m.vocab)
      , stride(m.vocab + padding)
      , numbers(static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows) + 1)
      , words((m.vocab + 31) / 32 + 1)
      , guided(guide)
      , masked(mask) {
    unconditional.resize(numbers.size());
    allowed.assign(static_cast<std::size_t>(words) * static_cast<std::size_t>(rows), 0);
    dice d(m.seed);
    for (std::uint32_t& w : allowed) {
      w = static_cast<std::uint32_t>(d.bits() | d.bits());
    }
  }

  /// Fills the rows of a segment whose sequence holds `tokens`.
  void forward(const segment& s, std::vector<token_id> tokens) {
    if (s.branch > 0) {
      tokens[static_cast<std::size_t>(s.placed.position)] = s.placed.token;
    }
    for (index_t r = 0; r < s.rows.size(); ++r) {
      const std::ptrdiff_t at = 1 + (s.first_row + r) * stride;
      const auto width = static_cast<std::size_t>(columns);
      model->row<T>(tokens, s.rows.first + r, std::span<T>(numbers.data() + at, width));
      fake_model other = *model;
      other.seed += 1;
      other.row<T>(tokens, s.rows.first + r, std::span<T>(unconditional.data() + at, width));
    }
  }

  template <memory M>
  [[nodiscard]] rows_view<T, M> view(index_t rows) const {
    return {numbers.data() + 1, rows, columns, stride};
  }
  [[nodiscard]] row_riders<T> riders() const {
    row_riders<T> r;
    if (masked) {
      r.allowed = allowed.data();
      r.allowed_stride = words;
    }
    if (guided) {
      r.unconditional = unconditional.data() + 1;
      r.unconditional_stride = stride;
      r.guidance_scale = 0.75F;
    }
    return r;
  }
};

void expect_equal(const forward_request& a, const forward_request& b) {
  EXPECT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (std::size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].slot, b.segments[i].slot);
    EXPECT_EQ(a.segments[i].branch, b.segments[i].branch);
    EXPECT_EQ(a.segments[i].placed.position, b.segments[i].placed.position);
    EXPECT_EQ(a.segments[i].placed.token, b.segments[i].placed.token);
    EXPECT_EQ(a.segments[i].feed, b.segments[i].feed);
    EXPECT_EQ(a.segments[i].rows, b.segments[i].rows);
    EXPECT_EQ(a.segments[i].first_row, b.segments[i].first_row);
  }
}

void expect_equal(const sequence_report& a, const sequence_report& b) {
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.forwards, b.forwards);
  EXPECT_EQ(a.committed, b.committed);
  EXPECT_EQ(a.settled, b.settled);
  EXPECT_EQ(a.open, b.open);
  EXPECT_EQ(a.forced, b.forced);
  EXPECT_EQ(a.invalid_rows, b.invalid_rows);
  EXPECT_EQ(a.last_commits, b.last_commits);
}

void expect_equal(std::span<const commit_entry> a, std::span<const commit_entry> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].slot, b[i].slot);
    EXPECT_EQ(a[i].position, b[i].position);
    EXPECT_EQ(a[i].token, b[i].token);
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(a[i].log_probability),
              std::bit_cast<std::uint32_t>(b[i].log_probability));
  }
}

void expect_equal(std::span<const token_probability> a, std::span<const token_probability> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].slot, b[i].slot);
    EXPECT_EQ(a[i].position, b[i].position);
    EXPECT_EQ(a[i].token, b[i].token);
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(a[i].probability),
              std::bit_cast<std::uint32_t>(b[i].probability));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(a[i].share), std::bit_cast<std::uint32_t>(b[i].share));
  }
}

/// Some sequences in the slots of two sessions.
struct batch {
  model_info model;
  limits capacity;
  std::vector<layout> layouts;
  std::vector<std::vector<token_id>> host;
  std::vector<std::vector<token_id>> device;

  template <class Policy>
  batch(const Policy& p, index_t vocab, index_t slots, dice& d) {
    model.vocab = vocab;
    model.mask_token = d.within(0, vocab - 1);
    model.end_token = d.chance(0.5) ? no_token : d.within(0, vocab - 1);
    model.row_shift = d.within(0, 1);
    capacity = {.sequences = slots, .length = 1, .window = 1, .branches = detail::policy_branches(p)};
    for (index_t slot = 0; slot < slots; ++slot) {
      layout g;
      g.prompt = d.within(0, 4);
      g.length = g.prompt + d.within(1, 14);
      g.block_length = d.within(2, 9);
      g.seed = d.bits();
      layouts.push_back(g);
      std::vector<token_id> tokens;
      for (index_t i = 0; i < g.length; ++i) {
        tokens.push_back(d.within(0, vocab - 1));
      }
      host.push_back(tokens);
      device.push_back(tokens);
      capacity.length = std::max(capacity.length, g.length);
      capacity.window = std::max(capacity.window, detail::policy_reach(p, g) + d.within(0, 2));
    }
  }
};

/// Decodes a batch on both backends, comparing each step.
template <element T, class Policy>
void decode_beside(const Policy& p, index_t vocab, dice& d) {
  fake_cuda().multiprocessors = d.within(1, 9);
  batch x(p, vocab, d.within(1, 3), d);
  const fake_model model{.seed = d.bits(),
                         .vocab = vocab,
                         .trouble = {.nan_rows = 0.03, .empty_rows = 0.02, .infinite_rows = 0.02}};
  CUstream_st stream;
  session<Policy, on_host> host(x.model, x.capacity, on_host{});
  session<Policy, on_stream> device(x.model, x.capacity, on_stream{&stream});
  for (index_t slot = 0; slot < x.capacity.sequences; ++slot) {
    const auto i = static_cast<std::size_t>(slot);
    for (int again = d.within(0, 1); again >= 0; --again) {
      std::vector<std::uint8_t> editable;
      for (index_t j = 0; j < x.layouts[i].length; ++j) {
        editable.push_back(d.chance(0.8) ? 1 : 0);
      }
      const std::vector<token_id> suppressed = {d.within(0, vocab - 1), d.within(0, vocab - 1)};
      start_options options;
      if (d.chance(0.5)) {
        options.editable = editable;
      }
      if (d.chance(0.5)) {
        options.suppressed = suppressed;
      }
      host.start(slot, p, x.host[i], x.layouts[i], options);
      device.start(slot, p, {x.device[i].data(), x.layouts[i].length}, x.layouts[i], options);
      std::fill(editable.begin(), editable.end(), std::uint8_t{0});  // it was copied
    }
  }
  const bool guided = d.chance(0.3);
  const bool masked = d.chance(0.3);
  const index_t padding = d.within(0, 3);
  const int way = d.within(0, 2);
  for (int steps = 0; steps < 60; ++steps) {
    const auto wanted = host.next();
    const auto request = device.next();
    EXPECT_EQ(x.host, x.device);
    for (index_t slot = 0; slot < x.capacity.sequences; ++slot) {
      expect_equal(device.report(slot), host.report(slot));
      expect_equal(device.committed(slot), host.committed(slot));
      expect_equal(device.probabilities(slot), host.probabilities(slot));
    }
    ASSERT_EQ(wanted.has_value(), request.has_value());
    if (!wanted || ::testing::Test::HasFailure()) {
      break;
    }
    expect_equal(*request, *wanted);

    // The host's engine computes at once, the device's when the stream gets there.
    logits_of<T> on_the_host(model, wanted->rows, padding, guided, masked);
    for (const segment& s : wanted->segments) {
      on_the_host.forward(s, x.host[static_cast<std::size_t>(s.slot)]);
    }
    host.supply(on_the_host.template view<memory::host>(wanted->rows), on_the_host.riders());

    const auto on_the_device =
        std::make_shared<logits_of<T>>(model, request->rows, padding, guided, masked);
    for (const segment& s : request->segments) {
      fake_enqueue(&stream, [on_the_device, s, &x] {
        on_the_device->forward(s, x.device[static_cast<std::size_t>(s.slot)]);
      });
    }
    const auto all = on_the_device->template view<memory::device>(request->rows);
    const int waits = fake_cuda().waits;
    if (way == 0) {
      device.supply(all, on_the_device->riders());
    } else if (way == 1 && !guided && !masked) {
      std::vector<rows_view<T, memory::device>> parts;
      for (const segment& s : request->segments) {
        parts.push_back(all.subrows({s.first_row, s.first_row + s.rows.size()}));
      }
      device.supply(std::span<const rows_view<T, memory::device>>(parts));
    } else {
      for (std::size_t i = 0; i < request->segments.size(); ++i) {
        const segment& s = request->segments[i];
        device.read(i, all.subrows({s.first_row, s.first_row + s.rows.size()}),
                    on_the_device->riders().from_row(s.first_row));
      }
      device.decide();
    }
    EXPECT_EQ(fake_cuda().waits, waits) << "supply() must not wait";
    fake_enqueue(&stream, [on_the_device] {});  // keeps the logits until they were read
  }
}

TEST(EmulatedSession, DecidesStepByStepWhatTheHostDoes) {
  for_some_policies([](const char* name, const auto& p) {
    SCOPED_TRACE(name);
    for (std::uint64_t round = 0; round < 4 && !HasFailure(); ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      dice d(mixed(11, round));
      const index_t vocab = d.one_of(std::vector<index_t>{7, 33, 64, 301});
      switch (round % 3) {
        case 0:
          decode_beside<float>(p, vocab, d);
          break;
        case 1:
          decode_beside<bfloat16>(p, vocab, d);
          break;
        default:
          decode_beside<float16>(p, vocab, d);
      }
    }
  });
  EXPECT_TRUE(fake_cuda().alive.empty()) << "a session left memory behind";
}

TEST(EmulatedSession, SharesRowsOfSeveralRunsAmongBlocks) {
  dice d(12);
  decode_beside<bfloat16>(in_steps, 40000, d);  // 20 chunks, several runs
}

TEST(EmulatedSession, MoreSegmentsThanABatchHoldsTakeSeveralLaunches) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  constexpr index_t slots = device::row_batch::capacity + 3;
  const fake_model model{.seed = 3, .vocab = 16};
  CUstream_st stream;
  session<policy_type, on_stream> s({.vocab = 16, .mask_token = 15},
                                    {.sequences = slots, .length = 1, .window = 1},
                                    on_stream{&stream});
  std::vector<token_id> tokens(slots, 7);
  for (index_t slot = 0; slot < slots; ++slot) {
    s.start(slot, sure_ones, {tokens.data() + slot, 1}, {.length = 1});
  }
  const auto request = s.next();
  logits_of<float> logits(model, request->rows, 0, false, false);
  for (const segment& g : request->segments) {
    logits.forward(g, {tokens[static_cast<std::size_t>(g.slot)]});
  }
  const int launches = fake_cuda().launches;
  s.supply(logits.view<memory::device>(request->rows));
  EXPECT_EQ(fake_cuda().launches - launches, 3);  // two reads, one decision
  EXPECT_FALSE(s.next().has_value());
  for (index_t slot = 0; slot < slots; ++slot) {
    EXPECT_EQ(s.report(slot).committed, 1) << slot;
  }
}

TEST(EmulatedSession, ACancelledSequenceStaysAsItIsWhileOthersGoOn) {
  using policy_type = std::remove_const_t<decltype(in_steps)>;
  const fake_model model{.seed = 4, .vocab = 16};
  CUstream_st stream;
  session<policy_type, on_stream> s({.vocab = 16, .mask_token = 15},
                                    {.sequences = 2, .length = 6, .window = 6},
                                    on_stream{&stream});
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(6, 1));
  for (index_t slot = 0; slot < 2; ++slot) {
    s.start(slot, in_steps, {tokens[static_cast<std::size_t>(slot)].data(), 6},
            {.length = 6, .block_length = 2});
  }
  int steps = 0;
  while (const auto request = s.next()) {
    logits_of<float> logits(model, request->rows, 0, false, false);
    for (const segment& g : request->segments) {
      logits.forward(g, tokens[static_cast<std::size_t>(g.slot)]);
    }
    s.supply(logits.view<memory::device>(request->rows));
    if (++steps == 1) {
      s.cancel(0);
    }
    static_cast<void>(s.report());  // so that the logits may go
  }
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  EXPECT_EQ(s.report(0).forwards, 1);
  EXPECT_EQ(std::count(tokens[0].begin(), tokens[0].end(), 15), s.report(0).open);
  EXPECT_GT(s.report(0).open, 0);
  EXPECT_EQ(s.report(1).end, ending::complete);
}

/// An engine whose forward pass was captured: it computes rows [0, length) wherever they are wanted.
TEST(EmulatedSession, AReplayedGraphDecodesOnUntilOtherRowsAreWanted) {
  policy one_by_one = sure_ones;
  one_by_one = policy{by_confidence{}, confidence_above{1.0F}, stop_at_end{}};  // admits none
  using policy_type = decltype(one_by_one);
  const fake_model model{.seed = 5, .vocab = 40};
  constexpr index_t length = 12;
  const model_info info{.vocab = 40, .mask_token = 39};
  const layout g{.prompt = 0, .length = length, .block_length = 4};
  CUstream_st stream;
  session<policy_type, on_stream> s(info, {.length = length, .window = 4}, on_stream{&stream});
  session<policy_type, on_host> host(info, {.length = length, .window = 4});
  std::vector<token_id> tokens(length, 1);
  std::vector<token_id> expected(length, 1);
  s.start(0, one_by_one, {tokens.data(), length}, g);
  host.start(0, one_by_one, expected, g);
  while (const auto request = host.next()) {
    logits_of<float> logits(model, request->rows, 0, false, false);
    logits.forward(request->segments[0], expected);
    host.supply(logits.view<memory::host>(request->rows));
  }

  int captures = 0;
  while (const auto request = s.next()) {
    ASSERT_LT(captures++, 3) << "one graph for each block is enough";
    const segment wanted = request->segments[0];
    logits_of<float> logits(model, request->rows, 0, false, false);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    cudaStreamBeginCapture(&stream, cudaStreamCaptureModeThreadLocal);
    fake_enqueue(&stream, [&] { logits.forward(wanted, tokens); });
    s.supply(logits.view<memory::device>(request->rows));
    cudaStreamEndCapture(&stream, &graph);
    cudaGraphInstantiate(&step, graph, 0);
    const index_t before = s.report().forwards;
    EXPECT_EQ(before, 4 * (captures - 1)) << "a captured step has not run";
    for (int i = 0; i < 7; ++i) {  // three of them too many
      cudaGraphLaunch(step, &stream);
    }
    EXPECT_EQ(s.report().forwards, before + 4);
    cudaGraphExecDestroy(step);
    cudaGraphDestroy(graph);
  }
  EXPECT_EQ(captures, 3);
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(s.report().forced, length);
}

TEST(EmulatedSession, NothingLeaksWhenAnyCallOfItsConstructionFails) {
  using session_type = session<std::remove_const_t<decltype(sure_ones)>, on_stream>;
  const model_info model{.vocab = 16, .mask_token = 15};
  const limits capacity{.sequences = 2, .length = 6, .window = 6};
  int failures = 0;
  for (int call = 1;; ++call) {
    fake_cuda().calls_until_failure = call;
    try {
      const session_type s(model, capacity);
      fake_cuda().calls_until_failure = -1;
      break;
    } catch (const cuda_error& e) {
      ++failures;
      EXPECT_EQ(e.code(), cudaErrorMemoryAllocation);
      EXPECT_NE(std::string(e.what()).find("out of memory"), std::string::npos);
    }
    EXPECT_TRUE(fake_cuda().alive.empty());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the error was told, it must not be told again";
    fake_drain(nullptr);
  }
  EXPECT_GE(failures, 7);
  EXPECT_TRUE(fake_cuda().alive.empty());
}

struct counting_allocator {
  int allocations = 0;
  int alive = 0;
  void* allocate(std::size_t bytes, cudaStream_t) {
    ++allocations;
    ++alive;
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  void deallocate(void* p, cudaStream_t) {
    --alive;
    std::free(p);
  }
};

TEST(EmulatedSession, TakesItsDeviceMemoryFromTheEnginesAllocator) {
  counting_allocator lent;
  {
    CUstream_st stream;
    session<std::remove_const_t<decltype(sure_ones)>, on_stream> s(
        {.vocab = 16, .mask_token = 15}, {.length = 6, .window = 6}, on_stream{&stream, lent});
    EXPECT_EQ(lent.alive, 1);
    auto moved = std::move(s);
    EXPECT_FALSE(moved.next().has_value());
    EXPECT_EQ(lent.alive, 1);
  }
  EXPECT_EQ(lent.allocations, 1);
  EXPECT_EQ(lent.alive, 0);
}

TEST(EmulatedSession, ALaunchThatFailsIsReportedAndTheSlotCanBeStartedAnew) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  const fake_model model{.seed = 6, .vocab = 16};
  CUstream_st stream;
  session<policy_type, on_stream> s(
      {.vocab = 16, .mask_token = 15}, {.length = 3, .window = 3}, on_stream{&stream});
  std::vector<token_id> tokens(3, 1);
  s.start(0, sure_ones, {tokens.data(), 3}, {.length = 3});
  const auto request = s.next();
  logits_of<float> logits(model, request->rows, 0, false, false);
  logits.forward(request->segments[0], tokens);
  fake_cuda().calls_until_failure = 1;
  EXPECT_THROW(s.supply(logits.view<memory::device>(request->rows)), cuda_error);
  s.supply(logits.view<memory::device>(request->rows));
  EXPECT_EQ(s.report().forwards, 1);
}

}  // namespace
}  // namespace unmask::testing

#endif
