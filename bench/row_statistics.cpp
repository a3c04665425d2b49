// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The read of the logits. Every iteration also reads the same memory plainly and runs the kernel in
// the first cache: of_floor is time / plain read, of_bound is time / the larger of the plain read
// and the cached kernel's share of a thread. Compare ratios; the memory of a shared machine changes
// its speed within minutes.
//
// Arguments: rows, vocabulary, threads. Names: element type, statistics, instruction set.
#include <Eigen/Core>
#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "support/race.hpp"
#include "support/rows.hpp"

namespace {

using namespace bench;

// The kernel, the plain read of the same memory and the same kernel in the first cache, in turns.
template <statistics S, unmask::element T>
void read_rows(benchmark::State& state, host::instruction_set level) {
  const logits<T> all(static_cast<index_t>(state.range(0)), static_cast<index_t>(state.range(1)));
  const auto threads = static_cast<index_t>(state.range(2));
  host::thread_pool pool(threads);
  host::thread_pool alone(1);
  const logits<T> few(1, 6144);
  reading<S, T> kernel(all, pool, level);
  reading<S, T> resident(few, alone, level);
  std::vector<std::uint64_t> seen;
  double kernel_ns = 0.0;
  double floor_ns = 0.0;
  double ceiling_ns = 0.0;
  for (auto _ : state) {
    const double start = nanoseconds();
    kernel();
    const double read = nanoseconds();
    read_plainly<128>(all, pool, seen);
    const double plain = nanoseconds();
    for (int i = 0; i < 8; ++i) {
      resident();
    }
    ceiling_ns += (nanoseconds() - plain) / 8.0;
    floor_ns += plain - read;
    kernel_ns += read - start;
    state.SetIterationTime((read - start) * 1e-9);
  }
  const auto times = static_cast<double>(state.iterations());
  const auto size = static_cast<double>(all.size());
  const double ceiling = ceiling_ns / static_cast<double>(few.size()) / threads * size;
  state.SetBytesProcessed(static_cast<std::int64_t>(times * size * sizeof(T)));
  state.counters["ps_per_logit"] = 1e3 * kernel_ns / times / size;
  state.counters["of_floor"] = kernel_ns / floor_ns;
  state.counters["of_bound"] = kernel_ns / std::max(floor_ns, ceiling);
}

// Maximum and denominator of each row by Eigen, as a program without the library would write it, in
// turns with the kernel that reads the confidence: of_kernel is Eigen's time / the kernel's.
void read_rows_with_eigen(benchmark::State& state) {
  const logits<float> all(static_cast<index_t>(state.range(0)),
                          static_cast<index_t>(state.range(1)));
  host::thread_pool alone(1);
  reading<stat::confidence, float> kernel(all, alone, host::best_instruction_set());
  double eigen_ns = 0.0;
  double kernel_ns = 0.0;
  for (auto _ : state) {
    const double start = nanoseconds();
    for (const row_input<float>& in : all.rows()) {
      const Eigen::Map<const Eigen::ArrayXf> row(in.logits, in.columns);
      Eigen::Index best = 0;
      const float most = row.maxCoeff(&best);
      float denominator = (row - most).exp().sum();
      benchmark::DoNotOptimize(best);
      benchmark::DoNotOptimize(denominator);
    }
    const double read = nanoseconds();
    kernel();
    kernel_ns += nanoseconds() - read;
    eigen_ns += read - start;
    state.SetIterationTime((read - start) * 1e-9);
  }
  state.counters["ps_per_logit"] =
      1e3 * eigen_ns / static_cast<double>(state.iterations()) / static_cast<double>(all.size());
  state.counters["of_kernel"] = eigen_ns / kernel_ns;
}

/// One row in L2, a block's worth of rows, and more than the last cache of most machines.
void sizes(benchmark::internal::Benchmark* b) {
  for (const int vocab : {32000, 126464, 151936}) {
    for (const int rows : {1, 32, 256}) {
      for (const int threads : {1, 2}) {
        b->Args({rows, vocab, threads});
      }
    }
  }
  b->ArgNames({"rows", "vocab", "threads"})->UseManualTime()->Unit(benchmark::kMicrosecond);
}

using reader = void (*)(benchmark::State&, host::instruction_set);

template <unmask::element T>
void add_element(const std::string& element) {
  const std::pair<const char*, reader> sets[] = {
      {"best", read_rows<stat::none, T>},
      {"confidence", read_rows<stat::confidence, T>},
      {"margin_entropy", read_rows<stat::margin | stat::entropy, T>},
      {"all", read_rows<stat::margin | stat::entropy | stat::second_moment, T>}};
  const std::pair<const char*, host::instruction_set> instruction_sets[] = {
      {"avx512", host::instruction_set::avx512},
      {"avx2", host::instruction_set::avx2},
      {"neon", host::instruction_set::neon}};
  for (const auto& level : instruction_sets) {
    if (!host::available(level.second)) {
      continue;
    }
    for (const auto& set : sets) {
      const std::string name = element + "/" + set.first + "/" + level.first;
      sizes(benchmark::RegisterBenchmark(name.c_str(), set.second, level.second));
    }
  }
  // Orders of magnitude slower if fma() is a call: one size is enough.
  const std::string name = element + "/margin_entropy/portable";
  benchmark::RegisterBenchmark(name.c_str(), sets[2].second, host::instruction_set::portable)
      ->Args({1, 32000, 1})
      ->ArgNames({"rows", "vocab", "threads"})
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  add_element<float>("f32");
  add_element<bfloat16>("bf16");
  add_element<float16>("f16");
  benchmark::RegisterBenchmark("f32/confidence/eigen", read_rows_with_eigen)
      ->Args({1, 126464})
      ->Args({32, 126464})
      ->ArgNames({"rows", "vocab"})
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
