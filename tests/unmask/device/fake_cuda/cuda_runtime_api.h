// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// As much of the CUDA runtime's C interface as the library uses, over host memory, for tests on
/// machines without the toolkit. Same names, same order of effects.
///
/// A stream is a queue that runs as late as possible: only when a call waits for it. So a host that
/// reads a result without waiting reads the old one, and a host that overwrites a buffer before its
/// copy is done gets the new bytes copied, as on a busy device. Memory is filled with junk.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define UNMASK_FAKE_CUDA 1

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorStreamCaptureUnsupported = 900,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaStreamNonBlocking = 1;

struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraph_st*;
struct CUstream_st {
  std::deque<std::function<void()>> queue;
  cudaGraph_t capture = nullptr;
};
using cudaStream_t = CUstream_st*;
struct CUevent_st {
  cudaStream_t stream = nullptr;
};
using cudaEvent_t = CUevent_st*;

/// State of the fake runtime that the tests read.
struct fake_cuda_world {
  /// Live allocations, events included; junk if memory leaks.
  std::map<void*, std::size_t> alive;
  /// Calls until one fails, -1 for never.
  int calls_until_failure = -1;
  /// A kernel has done what it must not: from now on every call fails.
  bool broken = false;
  cudaError_t last_error = cudaSuccess;
  /// Calls so far, by name.
  std::map<std::string, int> calls;
  int multiprocessors = 1;
  /// Kernels launched, waits for a stream.
  int launches = 0;
  int waits = 0;
  CUstream_st default_stream;

  [[nodiscard]] cudaError_t outcome(const char* call) {
    ++calls[call];
    if (broken) {
      return last_error = cudaErrorIllegalAddress;
    }
    if (calls_until_failure > 0 && --calls_until_failure == 0) {
      calls_until_failure = -1;
      return last_error = cudaErrorMemoryAllocation;
    }
    return cudaSuccess;
  }
};
inline fake_cuda_world& fake_cuda() {
  static fake_cuda_world world;
  return world;
}

/// Enqueues host code as if it were a kernel.
inline void fake_enqueue(cudaStream_t stream, std::function<void()> work) {
  stream = stream == nullptr ? &fake_cuda().default_stream : stream;
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
  }
}
/// Launches host code as a kernel.
inline cudaError_t fake_launch(cudaStream_t stream, std::function<void()> kernel) {
  const cudaError_t code = fake_cuda().outcome("launch");
  if (code == cudaSuccess) {
    ++fake_cuda().launches;
    fake_enqueue(stream, std::move(kernel));
  }
  return code;
}
inline void fake_drain(cudaStream_t stream) {
  stream = stream == nullptr ? &fake_cuda().default_stream : stream;
  ++fake_cuda().waits;
  if (fake_cuda().broken) {
    stream->queue.clear();
  }
  while (!stream->queue.empty()) {
    const std::function<void()> work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
  }
}
inline bool fake_captures(cudaStream_t stream) {
  return (stream == nullptr ? &fake_cuda().default_stream : stream)->capture != nullptr;
}

inline const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory"
         : code == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                           : "fake error";
}
inline cudaError_t cudaGetLastError() {
  const cudaError_t last = fake_cuda().last_error;
  fake_cuda().last_error = fake_cuda().broken ? cudaErrorIllegalAddress : cudaSuccess;
  return last;
}
inline cudaError_t cudaGetDevice(int* which) {
  *which = 0;
  return fake_cuda().outcome("cudaGetDevice");
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = fake_cuda().multiprocessors;
  return fake_cuda().outcome("cudaDeviceGetAttribute");
}

inline cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  const cudaError_t code = fake_cuda().outcome("cudaMalloc");
  if (code == cudaSuccess) {
    *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*p, 0xCD, bytes);
    fake_cuda().alive[*p] = bytes;
  }
  return code;
}
inline cudaError_t cudaFree(void* p) {
  ++fake_cuda().calls["cudaFree"];
  fake_cuda().alive.erase(p);
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  return cudaMalloc(p, bytes);
}
inline cudaError_t cudaFreeHost(void* p) {
  return cudaFree(p);
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const cudaError_t code = fake_cuda().outcome("cudaEventCreateWithFlags");
  if (code == cudaSuccess) {
    *event = new CUevent_st;
    fake_cuda().alive[*event] = sizeof(CUevent_st);
  }
  return code;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  fake_cuda().alive.erase(event);
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->stream = stream;
  return fake_captures(stream) ? cudaErrorStreamCaptureUnsupported
                               : fake_cuda().outcome("cudaEventRecord");
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  fake_drain(event->stream);
  return fake_cuda().outcome("cudaEventSynchronize");
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (fake_captures(stream)) {
    return cudaErrorStreamCaptureUnsupported;
  }
  fake_drain(stream);
  return fake_cuda().outcome("cudaStreamSynchronize");
}

inline cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t stream) {
  fake_enqueue(stream, [=] { std::memset(p, byte, bytes); });
  return fake_cuda().outcome("cudaMemsetAsync");
}
/// If no bytes are copied, either end may be null.
inline void fake_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}
/// In the order of the default stream, which no stream of the tests waits for.
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  fake_copy(to, from, bytes);
  return fake_cuda().outcome("cudaMemcpy");
}
inline bool fake_knows(const void* p) {
  const auto behind = fake_cuda().alive.upper_bound(const_cast<void*>(p));
  if (behind == fake_cuda().alive.begin()) {
    return false;
  }
  const auto& [base, bytes] = *std::prev(behind);
  return static_cast<const std::byte*>(p) < static_cast<const std::byte*>(base) + bytes;
}
/// From memory that is neither the device's nor pinned the bytes are taken at once, as the runtime
/// does.
inline cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice && !fake_knows(from)) {
    const auto* const first = static_cast<const std::byte*>(from);
    fake_enqueue(stream, [to, staged = std::vector<std::byte>(first, first + bytes)] {
      fake_copy(to, staged.data(), staged.size());
    });
  } else {
    fake_enqueue(stream, [=] { fake_copy(to, from, bytes); });
  }
  return fake_cuda().outcome("cudaMemcpyAsync");
}
inline cudaError_t cudaMemcpy2DAsync(void* to,
                                     std::size_t to_pitch,
                                     const void* from,
                                     std::size_t from_pitch,
                                     std::size_t width,
                                     std::size_t height,
                                     cudaMemcpyKind,
                                     cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) {
    return cudaErrorInvalidValue;
  }
  fake_enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                  static_cast<const std::byte*>(from) + row * from_pitch,
                  width);
    }
  });
  return fake_cuda().outcome("cudaMemcpy2DAsync");
}

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capture = new CUgraph_st;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = stream->capture;
  stream->capture = nullptr;
  return cudaSuccess;
}
inline cudaError_t
cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraph_st(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const auto& node : exec->nodes) {
    fake_enqueue(stream, node);
  }
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
