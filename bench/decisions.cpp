// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of the work after the read: ranking, the merge of shards, credit, and whole steps of a
// session.
//
// rank/N sorts the keys of N candidates; merge/shards joins the records of that many shards of a
// row; step/<policy>/rows runs start(), next() and supply() of a session whose answer is one block
// of that many rows of 126,464 logits; host/<policy>/rows does so with 64 columns, where the read
// is small. partial_sort/k finds the k largest logits of one row of 126,464 with the standard
// library, to compare with what top_k costs a row: 20 are found by the read, 200 by a second one.
#include <unmask/unmask.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/race.hpp"
#include "support/rows.hpp"
#include "support/steps.hpp"

namespace {

using namespace bench;
using unmask::policy;

void rank(benchmark::State& state) {
  const auto count = static_cast<index_t>(state.range(0));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> confidence(0.0F, 1.0F);
  // More inputs than a branch predictor can learn.
  std::vector<std::vector<std::uint64_t>> inputs(256);
  for (auto& keys : inputs) {
    for (index_t i = 0; i < unmask::step::sort_size(count); ++i) {
      keys.push_back(i < count ? unmask::step::order_key(confidence(random), i)
                               : unmask::step::no_key);
    }
  }
  std::vector<std::uint64_t> keys;
  std::size_t next = 0;
  for (auto _ : state) {
    keys = inputs[next++ % inputs.size()];
    unmask::step::sort(unmask::serial{}, keys.data(), static_cast<index_t>(keys.size()));
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(rank)->Arg(8)->Arg(32)->Arg(64)->Arg(256)->Arg(1024);

void merge(benchmark::State& state) {
  const auto shards = static_cast<std::size_t>(state.range(0));
  const index_t columns = 126976 / static_cast<index_t>(shards) / 2048 * 2048;
  const logits<float> rows(static_cast<index_t>(shards), columns);
  std::vector<record<all_statistics>> parts;
  for (std::size_t i = 0; i < shards; ++i) {
    row_input<float> in = rows.rows()[i];
    in.first_token = static_cast<token_id>(i) * columns;
    parts.push_back(
        host::read_row<all_statistics>(in, unmask::identity{}, host::best_instruction_set()));
  }
  for (auto _ : state) {
    unmask::row_accumulator<all_statistics> sum;
    for (const auto& part : parts) {
      sum.merge(unmask::row_accumulator<all_statistics>{part});
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["bytes_a_shard"] = sizeof(record<all_statistics>);
}
BENCHMARK(merge)->Arg(2)->Arg(8);

void partial_sort(benchmark::State& state) {
  const logits<float> rows(1, 126464);
  const float* const row = rows.data();
  std::vector<std::pair<float, token_id>> columns(126464);
  for (auto _ : state) {
    for (std::size_t v = 0; v < columns.size(); ++v) {
      columns[v] = {row[v], static_cast<token_id>(v)};
    }
    std::partial_sort(columns.begin(),
                      columns.begin() + state.range(0),
                      columns.end(),
                      [](const auto& a, const auto& b) { return a.first > b.first; });
    benchmark::DoNotOptimize(columns.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(partial_sort)->Arg(20)->Arg(200)->Arg(5000)->Unit(benchmark::kMicrosecond);

template <class Policy>
void step_of(benchmark::State& state, const Policy& how, index_t vocab) {
  const logits<float> rows(static_cast<index_t>(state.range(0)), vocab);
  first_step step(how, rows);
  for (auto _ : state) {
    step();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(rows.size() * sizeof(float)));
}

template <class Policy>
void add(const std::string& name, const Policy& how) {
  benchmark::RegisterBenchmark(("step/" + name).c_str(),
                               [how](benchmark::State& s) { step_of(s, how, 126464); })
      ->Arg(1)
      ->Arg(8)
      ->Arg(32)
      ->Arg(256)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark(("host/" + name).c_str(),
                               [how](benchmark::State& s) { step_of(s, how, 64); })
      ->Arg(8)
      ->Arg(32)
      ->Arg(256);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace unmask;
  add("confidence", policy{by_confidence{}, threshold{0.9F}});
  add("entropy", policy{by_entropy{}, tokens_per_step{4}});
  add("margin", policy{by_margin{}, tokens_per_step{4}});
  add("credit_16", policy{by_confidence{}, threshold{0.9F}, trace_credit<16>{}});
  add("credit_64", policy{by_confidence{}, threshold{0.9F}, trace_credit<64>{}});
  add("penalty", policy{by_confidence{}, threshold{0.9F}, repetition_penalty<>{}});
  add("sampling", policy{by_confidence{}, threshold{0.9F}, sampling{1.0F}});
  add("top_k_20", policy{by_confidence{}, threshold{0.9F}, sampling{0.7F}, top_k{20}});
  add("top_k_200", policy{by_confidence{}, threshold{0.9F}, sampling{0.7F}, top_k{200}});
  add("top_k_5000", policy{by_confidence{}, threshold{0.9F}, sampling{0.7F}, top_k{5000}});
  add("top_p", policy{by_confidence{}, threshold{0.9F}, sampling{1.0F}, top_p{0.95F}});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
