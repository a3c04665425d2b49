// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of rules inside a pass, on a device (Google Benchmark).
//
//     unmask_bench_cuda_layers [options of Google Benchmark] [SEGMENTS ROWS]   # each of them once
//
// pass/<rule>/<segments>/<rows> is a pass through 32 layers that computes nothing but what the
// library does: hooks, each for all segments at once, and a step on rows of 2,048 logits. `none` is
// that step alone; `early_skip` has 2 hooks, of which the second sees half of the rows,
// `similarity_refresh` and `cache_budget` one in each layer. Hidden states are rows of 4,096
// bfloat16, which all hooks read, so that they are in the L2 cache as after a layer; rows of the
// last pass are the engine's memory, a layer behind the other. `pass/floor` is a plain read of what
// the hooks of `similarity_refresh` read.
//
// keys/score/<rows> are the scores of the keys of a layer, rows of 1,024 bfloat16, keys/floor a
// plain read of the same; keys/select/<rows> the choice of half of them.
//
// Passes are nodes of graphs that are replayed; a time counts only if all of them were decided.
// Executed from its PTX by the tests. Times: bench/results/gpu.md.

#include <unmask/cuda.cuh>
#include <unmask/cuda/key_selector.cuh>

#include <benchmark/benchmark.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/replay.cuh"
#include "pieces.cuh"
#include "wrong_result.hpp"

namespace {

using example::device_array;
using unmask::bfloat16;
using unmask::index_t;
using unmask::token_id;
using device_rows = unmask::rows_view<bfloat16, unmask::memory::device>;

constexpr index_t layers = 32;
constexpr index_t width = 4096;
constexpr index_t key_width = 1024;
constexpr index_t vocab = 2048;

constexpr unmask::policy none{
    unmask::by_confidence{}, unmask::tokens_per_step{1}, unmask::interval_cache{0, 0}};
constexpr unmask::policy early_skip{unmask::by_confidence{},
                                    unmask::tokens_per_step{1},
                                    unmask::early_skip{},
                                    unmask::interval_cache{0, 0}};
constexpr unmask::policy similarity_refresh{unmask::by_confidence{},
                                            unmask::tokens_per_step{1},
                                            unmask::similarity_refresh{},
                                            unmask::interval_cache{0, 0}};
constexpr unmask::policy cache_budget{
    unmask::by_confidence{},
    unmask::tokens_per_step{1},
    unmask::cache_budget{.budget = 8, .window = 0, .share = unmask::sharing::released},
    unmask::interval_cache{0, 0}};

[[nodiscard]] constexpr std::size_t as_size(index_t i) {
  return static_cast<std::size_t>(i);
}

[[nodiscard]] device_array<bfloat16>
filled(index_t rows, index_t columns, index_t favourite, const example::stream& on) {
  device_array<bfloat16> a(as_size(rows) * as_size(columns));
  example::fill<<<256, 256, 0, on.get()>>>(a.data(), a.size(), columns, favourite);
  example::check(cudaGetLastError(), "launch of fill");
  return a;
}

void read_plainly(const device_array<bfloat16>& a, unsigned* out, const example::stream& on) {
  example::read_all<8><<<264, 512, 0, on.get()>>>(
      reinterpret_cast<const uint4*>(a.data()), a.size() * sizeof(bfloat16) / sizeof(uint4), out);
  example::check(cudaGetLastError(), "launch of read_all");
}

/// Pieces of a graph.
[[nodiscard]] std::size_t pieces() {
  return bench::shape_of_all.empty() ? 16 : 1;
}

/// An engine whose layers do nothing. Its logits favour the mask token, which may be proposed here:
/// it commits that and goes on for ever.
template <class Policy>
class engine {
 public:
  engine(const Policy& policy, index_t segments, index_t rows, const example::stream& on)
      : rows_(rows)
      , session_(
            {.vocab = vocab, .mask_token = vocab - 1, .suppress_mask = false, .layers = layers},
            {.sequences = segments, .length = rows, .window = rows},
            unmask::on_stream{on.get()})
      , hidden_(filled(segments * rows, width, -1, on))
      , stored_(filled(segments * layers * rows, width, -1, on))
      , logits_(filled(segments * rows, vocab, vocab - 1, on)) {
    for (index_t k = 0; k < segments; ++k) {
      tokens_.emplace_back(as_size(rows));
      session_.start(
          k, policy, {tokens_.back().data(), rows}, {.length = rows, .block_length = rows});
    }
    for (int pass = 0; pass < 3; ++pass) {  // the first one refreshes, the second has no shares yet
      next();
      run();
    }
  }

  /// Waits.
  void next() {
    const auto request = session_.next();
    segments_ = request ? request->segments.size() : 0;
  }
  /// Enqueues what the library does in a pass.
  void run() {
    for (index_t l = 0; l < layers; ++l) {
      hooks_.clear();
      for (std::size_t k = 0; k < segments_; ++k) {
        auto pass = session_.pass(k);
        if (pass.hooks(l)) {
          hooks_.push_back(
              {k,
               device_rows(
                   hidden_.data() + k * as_size(rows_ * width), pass.positions().most, width),
               {stored_.data() + (k * layers + as_size(l)) * as_size(rows_ * width), rows_, width},
               {}});
        }
      }
      if (!hooks_.empty()) {
        session_.at_layer(l, std::span(hooks_));
      }
    }
    index_t rows = 0;
    for (std::size_t k = 0; k < segments_; ++k) {
      rows += session_.pass(k).rows().most;
    }
    session_.supply(device_rows(logits_.data(), rows, vocab));
  }
  /// Waits.
  [[nodiscard]] std::int64_t passes() { return session_.report(0).forwards; }

 private:
  index_t rows_;
  unmask::session<Policy, unmask::on_stream> session_;
  device_array<bfloat16> hidden_;
  device_array<bfloat16> stored_;
  device_array<bfloat16> logits_;
  std::vector<device_array<token_id>> tokens_;
  std::vector<unmask::layer_hook<bfloat16, unmask::memory::device>> hooks_;
  std::size_t segments_ = 0;
};

template <class Policy>
void time_pass(benchmark::State& state, const Policy& policy) {
  const example::stream on;
  engine<Policy> e(
      policy, static_cast<index_t>(state.range(0)), static_cast<index_t>(state.range(1)), on);
  const std::int64_t before = e.passes();
  const std::int64_t enqueued = bench::time_pieces(
      state, on, pieces(), [&](std::size_t /*i*/) { e.run(); }, [&] { e.next(); });
  if (e.passes() - before != enqueued) {
    bench::skip_wrong_result(state, "did not decide every pass");
  }
}

void time_floor(benchmark::State& state) {
  const example::stream on;
  const auto rows = static_cast<index_t>(state.range(0) * state.range(1));
  const device_array<bfloat16> hidden = filled(rows, width, -1, on);
  const device_array<bfloat16> stored = filled(layers * rows, width, -1, on);
  const device_array<unsigned> out(1);
  static_cast<void>(bench::time_pieces(state, on, pieces(), [&](std::size_t /*i*/) {
    for (index_t l = 0; l < layers; ++l) {
      read_plainly(hidden, out.data(), on);
    }
    read_plainly(stored, out.data(), on);
  }));
}

void time_scores(benchmark::State& state, bool plainly) {
  const example::stream on;
  const auto rows = static_cast<index_t>(state.range(0));
  const device_array<bfloat16> keys = filled(rows, key_width, -1, on);
  const device_array<bfloat16> query = filled(1, key_width, -1, on);
  const device_array<float> scores(as_size(rows));
  const device_array<unsigned> out(1);
  static_cast<void>(bench::time_pieces(state, on, pieces(), [&](std::size_t /*i*/) {
    if (plainly) {
      read_plainly(keys, out.data(), on);
    } else {
      unmask::device::score_keys(device_rows(keys.data(), rows, key_width),
                                 static_cast<const bfloat16*>(query.data()),
                                 scores.data(),
                                 on.get());
    }
  }));
}

void time_selection(benchmark::State& state) {
  const example::stream on;
  const auto rows = static_cast<index_t>(state.range(0));
  const device_array<bfloat16> scores = filled(1, rows, -1, on);
  unmask::device::key_selector selector(rows, unmask::on_stream{on.get()});
  static_cast<void>(bench::time_pieces(state, on, pieces(), [&](std::size_t /*i*/) {
    static_cast<void>(
        selector.select(static_cast<const bfloat16*>(scores.data()), rows, {0, rows / 8}, 0.5, 3));
  }));
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::take_arguments(argc, argv)) {
    return 1;
  }
  if (!example::find_device()) {
    return example::skipped;
  }
  const std::vector<std::vector<std::int64_t>> batches{{1, 32}, {1, 256}, {16, 32}, {16, 256}};
  bench::add("pass/none", batches, [](benchmark::State& s) { time_pass(s, none); });
  bench::add("pass/early_skip", batches, [](benchmark::State& s) { time_pass(s, early_skip); });
  bench::add("pass/similarity_refresh", batches, [](benchmark::State& s) {
    time_pass(s, similarity_refresh);
  });
  bench::add("pass/cache_budget", batches, [](benchmark::State& s) { time_pass(s, cache_budget); });
  bench::add("pass/floor", batches, time_floor);
  const std::vector<std::vector<std::int64_t>> lengths{{256}, {2048}, {16384}};
  bench::add("keys/score", lengths, [](benchmark::State& s) { time_scores(s, false); });
  bench::add("keys/floor", lengths, [](benchmark::State& s) { time_scores(s, true); });
  bench::add("keys/select", lengths, time_selection);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return bench::wrong_results > 0 ? 1 : 0;
}
