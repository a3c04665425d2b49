// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times a step on this device, and its floor: a kernel that reads the same bytes and
// does nothing with them. Logits of the shapes of LLaDA 8B (126,464 columns) and Dream (151,936).
//
//     unmask_example_cuda_step_time [runs [columns rows]]
//
// Every number is the median of interleaved runs of one process. Steps and floors are nodes of
// graphs that are replayed. "cold" goes round buffers of four times the L2 cache together, "warm"
// reads one buffer again and again. The rows prefer the mask token, which may be proposed here: a
// step reads, merges and ranks all its rows, calls the commit rule for each, commits none, and can
// be repeated for ever.
//
// Compiled and linked on any machine with nvcc. Times of an H100: bench/results/gpu.md.

#include <unmask/cuda.cuh>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/replay.cuh"

namespace {

using example::replay;
using unmask::index_t;

// A policy with the fewest statistics, and one with all that a read can collect except draws
// and comparisons: the composition should make no difference to the read.
constexpr unmask::policy usual{unmask::by_confidence{}, unmask::threshold{0.9F}};
constexpr unmask::policy rich{unmask::by_margin{}, unmask::entropy_bound{0.1F}};
using usual_policy = std::remove_const_t<decltype(usual)>;
using rich_policy = std::remove_const_t<decltype(rich)>;

/// cudaMalloc that reports a session's size.
struct counting_allocator {
  std::size_t bytes = 0;
  void* allocate(std::size_t size, cudaStream_t /*stream*/) {
    void* p = nullptr;
    example::check(cudaMalloc(&p, size), "cudaMalloc");
    bytes += size;
    return p;
  }
  void deallocate(void* p, cudaStream_t /*stream*/) { static_cast<void>(cudaFree(p)); }
};

/// A session whose one block has all the rows, and its captured steps.
template <class T, class Policy>
struct endless_decode {
  counting_allocator lent;
  example::device_array<unmask::token_id> tokens;
  unmask::session<Policy, unmask::on_stream> session;
  replay steps;

  endless_decode(const Policy& p,
                 index_t rows,
                 index_t vocab,
                 const std::vector<T*>& buffers,
                 int pieces,
                 const example::stream& on)
      : tokens(static_cast<std::size_t>(rows))
      , session({.vocab = vocab, .mask_token = vocab - 1, .suppress_mask = false},
                {.length = rows, .window = rows},
                unmask::on_stream{on.get(), lent})
      , steps(on) {
    session.start(0, p, {tokens.data(), rows}, {.length = rows, .block_length = rows});
    for (int i = 0; i < pieces; ++i) {
      const auto request = session.next();
      if (!request) {
        std::puts("FAILED: the sequence should not end");
        std::exit(1);
      }
      steps.add([&] {
        session.supply(unmask::rows_view<T, unmask::memory::device>(
            buffers[static_cast<std::size_t>(i) % buffers.size()], rows, vocab));
      });
    }
    steps.finish();
  }
};

[[nodiscard]] double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class T>
void measure(const char* type, index_t vocab, index_t rows, bool cold, int runs, int l2_bytes) {
  const example::stream on;
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab);
  const std::size_t bytes = count * sizeof(T);
  const std::size_t wanted = cold ? 4 * static_cast<std::size_t>(l2_bytes) / bytes + 2 : 1;
  std::vector<example::device_array<T>> memory;
  std::vector<T*> buffers;
  for (std::size_t i = 0; i < std::min<std::size_t>(wanted, 256); ++i) {
    memory.emplace_back(count);
    buffers.push_back(memory.back().data());
    example::fill<<<1024, 256, 0, on.get()>>>(buffers.back(), count, vocab, vocab - 1);
    example::check(cudaGetLastError(), "launch of fill");
  }
  const int pieces = static_cast<int>(std::max<std::size_t>(buffers.size(), 32));
  const example::device_array<unsigned> out(1);
  int multiprocessors = 0;
  example::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                 "cudaDeviceGetAttribute");
  replay floor(on);
  for (int i = 0; i < pieces; ++i) {
    floor.add([&] {
      example::read_all<8><<<static_cast<unsigned>(2 * multiprocessors), 512, 0, on.get()>>>(
          reinterpret_cast<const uint4*>(buffers[static_cast<std::size_t>(i) % buffers.size()]),
          bytes / sizeof(uint4),
          out.data());
      example::check(cudaGetLastError(), "launch of read_all");
    });
  }
  floor.finish();
  endless_decode<T, usual_policy> plain(usual, rows, vocab, buffers, pieces, on);
  endless_decode<T, rich_policy> composed(rich, rows, vocab, buffers, pieces, on);

  std::vector<double> floors;
  std::vector<double> plains;
  std::vector<double> ratios;  // composed to plain, of the same run
  for (int i = 0; i < runs; ++i) {
    floors.push_back(floor.microseconds());
    plains.push_back(plain.steps.microseconds());
    ratios.push_back(composed.steps.microseconds() / plains.back());
  }
  const double f = median(floors);
  const double s = median(plains);
  const auto runs_of_a_row = unmask::device::shape_rows(rows, vocab, multiprocessors).runs;
  const double allowed_bytes = 32.0 * rows * runs_of_a_row + 65536.0;
  std::printf("| %d | %s | %d | %s | %.2f | %.2f | %.0f | %.2f | %s | %.3f | %.2f |\n",
              vocab,
              type,
              rows,
              cold ? "cold" : "warm",
              f,
              s,
              static_cast<double>(bytes) / (1e3 * s),
              f / s,
              rows >= 256 ? (f / s >= 0.88 ? "G1 yes" : "G1 no")
                          : (s <= f / 0.8 + 4.0 ? "G2 yes" : "G2 no"),
              median(ratios),
              static_cast<double>(plain.lent.bytes) / allowed_bytes);
}

}  // namespace

template class unmask::on_stream::workspace<usual_policy>;
template class unmask::on_stream::workspace<rich_policy>;

int main(int count, char** arguments) {
  if (!example::find_device()) {
    return example::skipped;
  }
  const int runs = count > 1 ? std::atoi(arguments[1]) : 9;
  int l2_bytes = 0;
  example::check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0),
                 "cudaDeviceGetAttribute");
  std::puts(
      "floor: a plain read of the same bytes, step: read, merge, rank and decide, both in graphs;\n"
      "goals: G1 floor / step >= 0.88 from 256 rows, G2 step <= floor / 0.8 + 4 us below;\n"
      "G3: with margin and entropy / confidence alone, <= 1.05; G5: memory / allowed, <= 1\n\n"
      "| columns | type | rows | buffers | floor us | step us | GB/s | floor / step | goal | G3 | "
      "G5 |\n"
      "| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |");
  if (count > 3) {
    for (const bool cold : {true, false}) {
      measure<unmask::bfloat16>(
          "bf16", std::atoi(arguments[2]), std::atoi(arguments[3]), cold, runs, l2_bytes);
      measure<float>("f32", std::atoi(arguments[2]), std::atoi(arguments[3]), cold, runs, l2_bytes);
    }
    return 0;
  }
  for (const index_t vocab : {126464, 151936}) {
    for (const bool cold : {true, false}) {
      for (const index_t rows : {32, 64, 128, 256, 512, 1024}) {
        measure<unmask::bfloat16>("bf16", vocab, rows, cold, runs, l2_bytes);
        measure<float>("f32", vocab, rows, cold, runs, l2_bytes);
      }
    }
  }
  return 0;
}
