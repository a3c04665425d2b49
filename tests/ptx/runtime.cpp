// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of the CUDA runtime that the library, its tests and nvcc's own code make. Memory of the
// device is the host's, at the same addresses. A stream is a queue; when it works, the schedule
// says.

#include "ptx/runtime.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::ptx {
namespace {

using work = std::function<void()>;

struct graph {
  std::vector<work> nodes;
};

struct stream {
  std::deque<work> queue;
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  graph* capture = nullptr;
  bool capture_is_spoilt = false;
};

struct event {
  stream* in = nullptr;
  std::uint64_t after = 0;
};

/// A fat binary, whose PTX is read when a kernel of it is launched.
struct binary {
  std::string_view text;
  std::unique_ptr<module> code;
};

struct function {
  binary* from = nullptr;
  std::string name;
};

struct configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t in = nullptr;
};

struct world {
  machine device{schedule::from_environment()};
  std::list<binary> binaries;
  std::map<const void*, function> functions;
  std::list<stream> streams = std::list<stream>(1);  // the first is the legacy default
  std::map<void*, std::size_t> blocks;
  std::map<void*, std::size_t> pinned;
  std::vector<configuration> configurations;
  cudaError_t last_error = cudaSuccess;
  int captures = 0;
  bool has_device = std::getenv("UNMASK_PTX_DEVICES") == nullptr;

  // Ends a program of which something was reported, though it believes to have succeeded.
  ~world() {
    device.write_counts();
    if (device.report_count() > 0) {
      std::fprintf(stderr, "ptx: %zu reports\n", device.report_count());
      std::fflush(nullptr);
      std::_Exit(3);
    }
  }
};

// Modules register themselves before main(), and unregister behind it.
world& the_world() {
  static world w;
  return w;
}

cudaError_t failed(cudaError_t e) {
  the_world().last_error = e;
  return e;
}

stream& of(cudaStream_t s) {
  return s == nullptr ? the_world().streams.front() : *reinterpret_cast<stream*>(s);
}

void drain(stream& s, std::uint64_t until = UINT64_MAX) {
  while (!s.queue.empty() && s.done < until) {
    const work next = std::move(s.queue.front());
    s.queue.pop_front();
    ++s.done;
    next();
  }
}

void drain_all() {
  for (stream& s : the_world().streams) {
    drain(s);
  }
}

// Lets streams work, each as far as the schedule says, when the host calls.
void let_streams_work() {
  world& w = the_world();
  if (w.device.how().is_late) {
    return;
  }
  for (stream& s : w.streams) {
    if (w.device.how().seed == 0) {
      drain(s);
    } else if (!s.queue.empty() && w.device.choices().chance(0.3)) {
      drain(s, s.done + 1 + w.device.choices().bits() % s.queue.size());
    }
  }
}

void enqueue(cudaStream_t in, work w) {
  stream& s = of(in);
  if (s.capture != nullptr) {
    s.capture->nodes.push_back(std::move(w));
    return;
  }
  s.queue.push_back(std::move(w));
  ++s.enqueued;
  let_streams_work();
}

// True, and reported, while a stream is captured: the call allocates or waits.
bool is_forbidden(const char* call) {
  world& w = the_world();
  if (w.captures == 0) {
    return false;
  }
  for (stream& s : w.streams) {
    s.capture_is_spoilt = s.capture_is_spoilt || s.capture != nullptr;
  }
  w.device.report(std::string(call) + " while a stream is captured");
  failed(cudaErrorStreamCaptureUnsupported);
  return true;
}

void* allocate(std::size_t bytes, const char* call, bool is_written) {
  void* const p = std::aligned_alloc(512, (bytes + 511) / 512 * 512 + 512);  // none touch
  std::memset(p, 0xCD, bytes);
  the_world().device.memory().add(p, bytes, call, is_written);
  return p;
}

[[nodiscard]] bool is_pageable(const void* p) {
  const world& w = the_world();
  const auto in = [p](const std::map<void*, std::size_t>& blocks) {
    const auto after = blocks.upper_bound(const_cast<void*>(p));
    return after != blocks.begin() &&
           static_cast<const std::byte*>(p) <
               static_cast<const std::byte*>(std::prev(after)->first) + std::prev(after)->second;
  };
  return !in(w.blocks) && !in(w.pinned);
}

// Copies bytes, and with them whether they were written.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  device_memory& memory = the_world().device.memory();
  if (bytes == 0) {
    return;
  }
  const auto there = reinterpret_cast<std::uint64_t>(to);
  const auto here = reinterpret_cast<std::uint64_t>(from);
  allocation* const source = memory.find(here, bytes);
  allocation* const sink = memory.find(there, bytes);
  if ((source == nullptr && !is_pageable(from)) || (sink == nullptr && !is_pageable(to))) {
    the_world().device.report("a copy of " + std::to_string(bytes) + " bytes from " +
                              memory.describe(here) + " to " + memory.describe(there) +
                              " is out of bounds");
    failed(cudaErrorInvalidValue);
    return;
  }
  std::memmove(to, from, bytes);
  if (sink != nullptr && !sink->written.empty()) {
    for (std::size_t n = 0; n < bytes; ++n) {
      sink->written[there - sink->begin + n] = source == nullptr || source->written.empty()
                                                   ? 1
                                                   : source->written[here - source->begin + n];
    }
  }
}

void fill_bytes(void* to, int byte, std::size_t bytes) {
  const auto there = reinterpret_cast<std::uint64_t>(to);
  allocation* const sink = the_world().device.memory().find(there, bytes);
  if (sink == nullptr) {
    the_world().device.report("cudaMemset of " + std::to_string(bytes) + " bytes of " +
                              the_world().device.memory().describe(there) + " is out of bounds");
    failed(cudaErrorInvalidValue);
    return;
  }
  std::memset(to, byte, bytes);
  sink->mark_written(there, bytes);
}

// Rows of bytes, in the order of a stream. Memory that is not pinned is read at once, and waited
// for when it is written.
cudaError_t copy_rows(void* to,
                      std::size_t to_pitch,
                      const void* from,
                      std::size_t from_pitch,
                      std::size_t width,
                      std::size_t height,
                      cudaStream_t in) {
  const bool is_captured = of(in).capture != nullptr;
  if (is_pageable(from) && !is_captured) {
    auto staged = std::make_shared<std::vector<std::byte>>(width * height);
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(staged->data() + row * width,
                  static_cast<const std::byte*>(from) + row * from_pitch,
                  width);
    }
    enqueue(in, [=] {
      for (std::size_t row = 0; row < height; ++row) {
        copy_bytes(
            static_cast<std::byte*>(to) + row * to_pitch, staged->data() + row * width, width);
      }
    });
  } else {
    enqueue(in, [=] {
      for (std::size_t row = 0; row < height; ++row) {
        copy_bytes(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch,
                   width);
      }
    });
  }
  if (is_pageable(to) && !is_captured) {
    drain(of(in));
  }
  return the_world().last_error;
}

// The PTX in a fat binary, which is uncompressed text there and ends with a zero.
[[nodiscard]] std::string_view ptx_of(const void* wrapper) {
  struct fat_binary {
    int magic;
    int version;
    const char* data;
    void* more;
  };
  const char* const data = static_cast<const fat_binary*>(wrapper)->data;
  std::uint16_t header = 0;
  std::uint64_t bytes = 0;
  std::memcpy(&header, data + 6, sizeof header);
  std::memcpy(&bytes, data + 8, sizeof bytes);
  const std::string_view all(data, header + bytes);
  const std::size_t begin = all.find(".version ");
  return begin == std::string_view::npos ? std::string_view{} : std::string_view(data + begin);
}

cudaError_t launch_kernel(const void* host_function, configuration c, void** arguments) {
  world& w = the_world();
  const auto found = w.functions.find(host_function);
  if (found == w.functions.end()) {
    return failed(cudaErrorInvalidDeviceFunction);
  }
  binary& from = *found->second.from;
  launch l;
  try {
    if (from.code == nullptr) {
      from.code = std::make_unique<module>(from.text);
    }
    l.code = from.code->find(found->second.name);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ptx: not known: %s\n", e.what());
    std::fflush(nullptr);
    std::_Exit(4);
  }
  if (l.code == nullptr) {
    std::fprintf(stderr,
                 "ptx: no text of %s: compile it to PTX, uncompressed\n",
                 found->second.name.c_str());
    std::_Exit(4);
  }
  l.from = from.code.get();
  l.grid = {c.grid.x, c.grid.y, c.grid.z};
  l.block = {c.block.x, c.block.y, c.block.z};
  l.dynamic_shared = c.shared;
  l.parameters.resize(l.code->parameter_bytes());
  for (std::size_t n = 0; n < l.code->parameters.size(); ++n) {
    const parameter& p = l.code->parameters[n];
    std::memcpy(l.parameters.data() + p.offset, arguments[n], p.bytes);
  }
  enqueue(c.in, [l = std::move(l)] {
    if (!the_world().device.run(l)) {
      failed(cudaErrorLaunchFailure);
    }
  });
  return the_world().last_error;
}

}  // namespace

machine& device() {
  return the_world().device;
}

}  // namespace unmask::ptx

using namespace unmask::ptx;

extern "C" {

// What nvcc's code calls for kernels and launches; names, and the lack of declarations, are nvcc's.
// NOLINTBEGIN
void** __cudaRegisterFatBinary(void* wrapper) {
  the_world().binaries.push_back({ptx_of(wrapper), nullptr});
  return reinterpret_cast<void**>(&the_world().binaries.back());
}
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(
    void** from, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  the_world().functions[host] = {reinterpret_cast<binary*>(from), name};
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* in) {
  the_world().configurations.push_back({grid, block, shared, static_cast<cudaStream_t>(in)});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* in) {
  const configuration c = the_world().configurations.back();
  the_world().configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  std::memcpy(in, &c.in, sizeof c.in);
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               std::size_t shared,
                               cudaStream_t in) {
  return launch_kernel(kernel, {grid, block, shared, in}, arguments);
}
// NOLINTEND
cudaError_t cudaLaunchKernel(const void* host,
                             dim3 grid,
                             dim3 block,
                             void** arguments,
                             std::size_t shared,
                             cudaStream_t in) {
  return launch_kernel(host, {grid, block, shared, in}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* host, void** arguments) {
  return launch_kernel(
      host, {how->gridDim, how->blockDim, how->dynamicSmemBytes, how->stream}, arguments);
}

cudaError_t cudaGetLastError() {
  return std::exchange(the_world().last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return the_world().last_error;
}
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
  case cudaSuccess:
    return "no error";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorLaunchFailure:
    return "a kernel was ended, with a report";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  default:
    return "an error of the PTX runtime";
  }
}
const char* cudaGetErrorName(cudaError_t e) {
  return cudaGetErrorString(e);
}

cudaError_t cudaGetDevice(int* which) {
  *which = 0;
  return the_world().has_device ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = the_world().has_device ? 1 : 0;
  return the_world().has_device ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
  case cudaDevAttrMultiProcessorCount:
    *value = the_world().device.how().multiprocessors;
    return cudaSuccess;
  case cudaDevAttrL2CacheSize:  // there is none
    *value = 0;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = 9;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = 0;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = 48 * 1024;
    return cudaSuccess;
  default:
    *value = 0;
    return failed(cudaErrorInvalidValue);
  }
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* what, const void*) {
  *what = {};
  what->maxThreadsPerBlock = 1024;
  what->ptxVersion = what->binaryVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int threads, std::size_t, unsigned) {
  *blocks = 2048 / threads;  // registers are not known
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* what, int) {
  *what = {};
  std::snprintf(what->name, sizeof what->name, "PTX on the host");
  what->multiProcessorCount = the_world().device.how().multiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (!the_world().has_device) {
    return failed(cudaErrorNoDevice);
  }
  if (is_forbidden("cudaMalloc")) {
    return the_world().last_error;
  }
  *p = allocate(bytes, "a cudaMalloc", false);
  the_world().blocks[*p] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  if (is_forbidden("cudaMallocHost")) {
    return the_world().last_error;
  }
  *p = allocate(bytes, "a cudaMallocHost", true);
  the_world().pinned[*p] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) {
    return cudaSuccess;
  }
  if (is_forbidden("cudaFree")) {
    return the_world().last_error;
  }
  drain_all();
  if (the_world().blocks.erase(p) + the_world().pinned.erase(p) == 0) {
    the_world().device.report("cudaFree of what was not allocated");
    return failed(cudaErrorInvalidValue);
  }
  the_world().device.memory().remove(p);
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  return cudaFree(p);
}
cudaError_t cudaMemset(void* p, int byte, std::size_t bytes) {
  if (is_forbidden("cudaMemset")) {
    return the_world().last_error;
  }
  fill_bytes(p, byte, bytes);
  return the_world().last_error;
}
cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t in) {
  enqueue(in, [=] { fill_bytes(p, byte, bytes); });
  return the_world().last_error;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (is_forbidden("cudaMemcpy")) {
    return the_world().last_error;
  }
  drain(of(nullptr));
  copy_bytes(to, from, bytes);
  return the_world().last_error;
}
cudaError_t
cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t in) {
  return copy_rows(to, bytes, from, bytes, bytes, 1, in);
}
cudaError_t cudaMemcpy2DAsync(void* to,
                              std::size_t to_pitch,
                              const void* from,
                              std::size_t from_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind,
                              cudaStream_t in) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, in);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  the_world().streams.emplace_back();
  *s = reinterpret_cast<cudaStream_t>(&the_world().streams.back());
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* s) {
  return cudaStreamCreateWithFlags(s, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  drain(of(s));
  return cudaSuccess;  // an event may still name it
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (is_forbidden("cudaStreamSynchronize")) {
    return the_world().last_error;
  }
  drain(of(s));
  return the_world().last_error;
}
cudaError_t cudaDeviceSynchronize() {
  if (is_forbidden("cudaDeviceSynchronize")) {
    return the_world().last_error;
  }
  drain_all();
  return the_world().last_error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = reinterpret_cast<cudaEvent_t>(new event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) {
  return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete reinterpret_cast<event*>(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t in) {
  stream& s = of(in);
  if (s.capture == nullptr) {  // else the graph records it
    *reinterpret_cast<event*>(e) = {&s, s.enqueued};
  }
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (is_forbidden("cudaEventSynchronize")) {
    return the_world().last_error;
  }
  const event& what = *reinterpret_cast<event*>(e);
  if (what.in != nullptr) {
    drain(*what.in, what.after);
  }
  return the_world().last_error;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (is_forbidden("cudaEventQuery")) {
    return the_world().last_error;
  }
  let_streams_work();
  const event& what = *reinterpret_cast<event*>(e);
  return what.in == nullptr || what.in->done >= what.after ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;  // nothing is timed here
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  of(s).capture = new graph;
  of(s).capture_is_spoilt = false;
  ++the_world().captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  *g = reinterpret_cast<cudaGraph_t>(std::exchange(of(s).capture, nullptr));
  --the_world().captures;
  return of(s).capture_is_spoilt ? failed(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaGraphCreate(cudaGraph_t* g, unsigned) {
  *g = reinterpret_cast<cudaGraph_t>(new graph);
  return cudaSuccess;
}
cudaError_t cudaGraphAddChildGraphNode(
    cudaGraphNode_t*, cudaGraph_t to, const cudaGraphNode_t*, std::size_t, cudaGraph_t child) {
  auto& nodes = reinterpret_cast<graph*>(to)->nodes;
  const auto& more = reinterpret_cast<graph*>(child)->nodes;
  nodes.insert(nodes.end(), more.begin(), more.end());
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t*, std::size_t* count) {
  *count = reinterpret_cast<graph*>(g)->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long) {
  *e = reinterpret_cast<cudaGraphExec_t>(new graph(*reinterpret_cast<graph*>(g)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t in) {
  for (const work& node : reinterpret_cast<graph*>(e)->nodes) {
    enqueue(in, node);
  }
  return the_world().last_error;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) {
  delete reinterpret_cast<graph*>(e);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  delete reinterpret_cast<graph*>(g);
  return cudaSuccess;
}

}  // extern "C"
