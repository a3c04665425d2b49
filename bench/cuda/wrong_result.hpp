// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <benchmark/benchmark.h>

namespace bench {

/// Benchmarks that computed something else than the ones they are compared with.
inline int wrong_results = 0;

/// Ends a benchmark without a time, because of what it computed. Google Benchmark itself ends with
/// status 0 then: main() returns wrong_results.
inline void skip_wrong_result(benchmark::State& state, const char* what) {
  ++wrong_results;
  state.SkipWithError(what);
}

}  // namespace bench
