// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Benchmarks whose iterations are replays of a graph of equal pieces: the time is that of a piece.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cuda/replay.cuh"

namespace bench {

/// The shape of all benchmarks, once, instead of the usual ones: the two last arguments of the
/// program.
inline std::vector<std::int64_t> shape_of_all;

/// Takes two numbers as shape_of_all, and all of Google Benchmark's options. Returns false if there
/// is anything else.
inline bool take_arguments(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc == 3) {
    shape_of_all = {std::atoll(argv[1]), std::atoll(argv[2])};
    argc = 1;
  }
  return !benchmark::ReportUnrecognizedArguments(argc, argv);
}

/// Registers `body` for each of the shapes.
inline void add(const std::string& name,
                const std::vector<std::vector<std::int64_t>>& shapes,
                const std::function<void(benchmark::State&)>& body) {
  auto* const added = benchmark::RegisterBenchmark(name.c_str(), body);
  added->UseManualTime()->Unit(benchmark::kMicrosecond);
  if (!shape_of_all.empty()) {
    added->Args(shape_of_all)->Iterations(1);
    return;
  }
  added->MinTime(0.01);  // the time of an iteration is that of one of many pieces
  for (const auto& shape : shapes) {
    added->Args(shape);
  }
}

/// Times the replay of piece(0) ... piece(count - 1). `before()` is called before each is captured.
/// Returns how many were executed.
inline std::int64_t time_pieces(
    benchmark::State& state,
    const example::stream& on,
    std::size_t count,
    const std::function<void(std::size_t)>& piece,
    const std::function<void()>& before = [] {}) {
  example::replay graph(on);
  for (std::size_t i = 0; i < count; ++i) {
    before();
    graph.add([&] { piece(i); });
  }
  graph.finish();
  for (auto _ : state) {
    state.SetIterationTime(1e-6 * graph.microseconds());
  }
  return static_cast<std::int64_t>(count) * (1 + state.iterations());
}

}  // namespace bench
