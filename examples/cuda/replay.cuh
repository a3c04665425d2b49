// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Times on a device: rows of logits, the plain read of the same bytes, and captured calls that are
/// replayed.

#include <unmask/unmask.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device.hpp"

namespace example {

/// Logits around 0 with a spread of 2.5 (a sum of uniform numbers), 18 for the mask token.
template <class T>
__global__ void
fill(T* logits, std::size_t count, unmask::index_t vocab, unmask::index_t favourite) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    auto h = static_cast<std::uint32_t>(i * 2654435761U) ^ 0x9e3779b9U;
    float x = 0.0F;
    for (int k = 0; k < 4; ++k) {
      h = h * 1664525U + 1013904223U;
      x += static_cast<float>(h >> 8U) * 0x1p-24F - 0.5F;
    }
    x = static_cast<unmask::index_t>(i % static_cast<std::size_t>(vocab)) == favourite ? 18.0F
                                                                                       : 4.33F * x;
    const std::uint32_t bits = __float_as_uint(x);
    if constexpr (std::is_same_v<T, float>) {
      logits[i] = x;
    } else {
      logits[i] = T{static_cast<std::uint16_t>(bits >> 16U)};
    }
  }
}

/// The floor: 16 bytes a load, eight in flight.
template <int Unroll>
__global__ void __launch_bounds__(512) read_all(const uint4* p, std::size_t count, unsigned* out) {
  uint4 sum[Unroll] = {};
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (Unroll - 1) * step < count; i += Unroll * step) {
#pragma unroll
    for (int k = 0; k < Unroll; ++k) {
      const uint4 x = __ldcs(p + i + static_cast<std::size_t>(k) * step);
      sum[k].x |= x.x;
      sum[k].y |= x.y;
      sum[k].z |= x.z;
      sum[k].w |= x.w;
    }
  }
  for (; i < count; i += step) {
    sum[0].x |= __ldcs(p + i).x;
  }
  unsigned all = 0;
  for (int k = 0; k < Unroll; ++k) {
    all |= sum[k].x | sum[k].y | sum[k].z | sum[k].w;
  }
  if (all == 0x5a5a5a5aU) {  // never, which the compiler does not know
    *out = all;
  }
}

/// A chain of captured pieces as one graph, timed with events.
class replay {
 public:
  explicit replay(const stream& on)
      : stream_(on) {
    check(cudaGraphCreate(&graph_, 0), "cudaGraphCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;
  ~replay() {
    static_cast<void>(cudaEventDestroy(end_));
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaGraphExecDestroy(exec_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }

  /// Adds what `enqueue` enqueues, behind all the rest.
  void add(const auto& enqueue) {
    cudaGraph_t piece = nullptr;
    check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeGlobal), "capture");
    enqueue();
    check(cudaStreamEndCapture(stream_.get(), &piece), "capture");
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddChildGraphNode(
              &node, graph_, last_ == nullptr ? nullptr : &last_, last_ ? 1 : 0, piece),
          "cudaGraphAddChildGraphNode");
    last_ = node;
    ++pieces_;
    check(cudaGraphDestroy(piece), "cudaGraphDestroy");
  }
  void finish() {
    check(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
    static_cast<void>(microseconds());  // warm
  }
  /// For each piece.
  [[nodiscard]] double microseconds() const {
    check(cudaEventRecord(begin_, stream_.get()), "cudaEventRecord");
    check(cudaGraphLaunch(exec_, stream_.get()), "cudaGraphLaunch");
    check(cudaEventRecord(end_, stream_.get()), "cudaEventRecord");
    stream_.wait();
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds) / pieces_;
  }

 private:
  const stream& stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  cudaGraphNode_t last_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  int pieces_ = 0;
};

}  // namespace example
