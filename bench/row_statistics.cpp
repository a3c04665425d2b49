// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The read of the logits, beside the floor: a plain loop over the same memory. Compare numbers of
// one run only; the memory of a shared machine changes its speed within minutes.
//
// Arguments: rows, vocabulary, threads. Names: element type, statistics, tier. Counters: bytes per
// second, and wall time per logit in picoseconds.
#include <unmask/host/read_rows.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using unmask::bfloat16;
using unmask::float16;
using unmask::index_t;
using unmask::record;
using unmask::row_input;
using unmask::statistics;
using unmask::token_id;
namespace host = unmask::host;
namespace stat = unmask::stat;

template <unmask::element T>
T from_float(float x) {
  const auto bits = unmask::math::bits_of(x);
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {static_cast<std::uint16_t>(bits >> 16U)};
  } else {  // a normal number of moderate size, truncated
    const std::uint32_t rest = (bits & 0x7fffffffU) >> 13U;
    const std::uint32_t low = 113U << 10U;
    return {static_cast<std::uint16_t>(((bits >> 16U) & 0x8000U) |
                                       (rest < low ? 0U : rest - (112U << 10U)))};
  }
}

struct freed {
  void operator()(void* memory) const { std::free(memory); }
};

/// Rows as a model writes them: a spread of 2.5 and one peak of 18.
template <unmask::element T>
class logits {
 public:
  logits(index_t rows, index_t vocab)
      : size_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab))
      , memory_(
            static_cast<T*>(std::aligned_alloc(4096, (size_ * sizeof(T) + 4095) / 4096 * 4096))) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
    std::mt19937 random(1);
    std::normal_distribution<float> spread(0.0F, 2.5F);
    std::vector<float> some(1 << 16);
    for (float& x : some) {
      x = spread(random);
    }
    for (std::size_t i = 0; i < size_; ++i) {
      memory_.get()[i] = from_float<T>(some[(i * 7919 + i / some.size()) % some.size()]);
    }
    for (index_t r = 0; r < rows; ++r) {
      row_input<T> in;
      in.logits = memory_.get() + static_cast<std::size_t>(r) * static_cast<std::size_t>(vocab);
      in.columns = vocab;
      memory_.get()[in.logits - memory_.get() + vocab / 3] = from_float<T>(18.0F);
      rows_.push_back(in);
    }
  }

  [[nodiscard]] const std::vector<row_input<T>>& rows() const { return rows_; }
  [[nodiscard]] const T* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::unique_ptr<T, freed> memory_;
  std::vector<row_input<T>> rows_;
};

void report(benchmark::State& state, std::size_t logits, std::size_t bytes) {
  const auto times = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(times * static_cast<double>(bytes)));
  state.counters["per_logit"] =
      benchmark::Counter(times * static_cast<double>(logits),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <statistics S, unmask::element T>
void read_rows(benchmark::State& state, host::tier level) {
  const logits<T> all(static_cast<index_t>(state.range(0)), static_cast<index_t>(state.range(1)));
  host::thread_pool pool(static_cast<index_t>(state.range(2)));
  std::vector<record<S>> out(all.rows().size());
  std::vector<record<S>> scratch(host::scratch_records(pool.concurrency()));
  for (auto _ : state) {
    host::read_rows<S, T>(all.rows(), host::no_edits{}, out.data(), pool, level, scratch);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, all.size(), all.size() * sizeof(T));
}

using words = std::uint64_t __attribute__((vector_size(64)));

// 512 KB, or what is left: pieces that threads can share.
std::uint64_t read_words(const words* p, std::size_t count) {
  words a{};
  words b{};
  words c{};
  words d{};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a |= p[i];
    b |= p[i + 1];
    c |= p[i + 2];
    d |= p[i + 3];
  }
  a |= b | c | d;
  return a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7];
}

template <unmask::element T>
void floor_of(benchmark::State& state) {
  const logits<T> all(static_cast<index_t>(state.range(0)), static_cast<index_t>(state.range(1)));
  host::thread_pool pool(static_cast<index_t>(state.range(2)));
  const auto* p = reinterpret_cast<const words*>(all.data());
  const std::size_t count = all.size() * sizeof(T) / sizeof(words);
  constexpr std::size_t piece = (std::size_t{1} << 19U) / sizeof(words);
  std::vector<std::uint64_t> seen(count / piece + 1);
  const auto work = [&](index_t i) noexcept {
    const std::size_t first = static_cast<std::size_t>(i) * piece;
    seen[static_cast<std::size_t>(i)] = read_words(p + first, std::min(piece, count - first));
  };
  for (auto _ : state) {
    pool.run(static_cast<index_t>(seen.size()), work);
    benchmark::DoNotOptimize(seen.data());
    benchmark::ClobberMemory();
  }
  report(state, all.size(), all.size() * sizeof(T));
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
  b->ArgNames({"rows", "vocab", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
}

using reader = void (*)(benchmark::State&, host::tier);

template <unmask::element T>
void add_element(const std::string& element) {
  sizes(benchmark::RegisterBenchmark((element + "/floor").c_str(), floor_of<T>));
  const std::pair<const char*, reader> sets[] = {
      {"best", read_rows<stat::none, T>},
      {"confidence", read_rows<stat::confidence, T>},
      {"margin_entropy", read_rows<stat::margin | stat::entropy, T>},
      {"all", read_rows<stat::margin | stat::entropy | stat::second_moment, T>}};
  const std::pair<const char*, host::tier> tiers[] = {{"avx512", host::tier::avx512},
                                                      {"avx2", host::tier::avx2}};
  for (const auto& level : tiers) {
    if (!host::available(level.second)) {
      continue;
    }
    for (const auto& set : sets) {
      const std::string name = element + "/" + set.first + "/" + level.first;
      sizes(benchmark::RegisterBenchmark(name.c_str(), set.second, level.second));
    }
  }
  // Orders of magnitude slower where fma() is a call: one size tells enough.
  const std::string name = element + "/margin_entropy/portable";
  benchmark::RegisterBenchmark(name.c_str(), sets[2].second, host::tier::portable)
      ->Args({1, 32000, 1})
      ->ArgNames({"rows", "vocab", "threads"})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  add_element<float>("f32");
  add_element<bfloat16>("bf16");
  add_element<float16>("f16");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
