// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "unmask/interposed/runtime.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace unmask::testing {

interposed_runtime& runtime() {
  static interposed_runtime world;
  return world;
}

namespace {

launch configured;  // by the launch that is being made
cudaStream_t configured_stream = nullptr;

cudaError_t count(const char* call) {
  ++runtime().calls[call];
  return cudaSuccess;
}

void* junk(std::size_t bytes) {
  void* const p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(p, 0xCD, bytes);
  return p;
}

cudaError_t launch_kernel(const void* function, const launch& what) {
  const auto kernel = runtime().kernels.find(function);
  if (kernel == runtime().kernels.end()) {
    return cudaErrorInvalidDeviceFunction;
  }
  kernel->second(what);
  return count("launch");
}

}  // namespace

}  // namespace unmask::testing

using unmask::testing::count;

extern "C" {

// Functions that nvcc's code calls for kernels and launches; names, and the lack of declarations,
// are nvcc's. NOLINTBEGIN
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(
    void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*) {}
// libcu++ has some, which are empty.
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  unmask::testing::configured = {grid, block, nullptr, shared};
  unmask::testing::configured_stream = static_cast<cudaStream_t>(stream);
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = unmask::testing::configured.grid;
  *block = unmask::testing::configured.block;
  *shared = unmask::testing::configured.shared;
  std::memcpy(stream, &unmask::testing::configured_stream, sizeof(cudaStream_t));
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               std::size_t shared,
                               cudaStream_t) {
  return unmask::testing::launch_kernel(kernel, {grid, block, arguments, shared});
}
// NOLINTEND
cudaError_t cudaLaunchKernel(const void* function,
                             dim3 grid,
                             dim3 block,
                             void** arguments,
                             std::size_t shared,
                             cudaStream_t) {
  return unmask::testing::launch_kernel(function, {grid, block, arguments, shared});
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;  // a launch that fails would be an error of the tests
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the interposed runtime";
}
cudaError_t cudaGetDevice(int* which) {
  *which = 0;
  return count("cudaGetDevice");
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 132;
  return count("cudaDeviceGetAttribute");
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = unmask::testing::junk(bytes);
  return count("cudaMalloc");
}
cudaError_t cudaFree(void* p) {
  std::free(p);
  return count("cudaFree");
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  *p = unmask::testing::junk(bytes);
  return count("cudaMallocHost");
}
cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return count("cudaFreeHost");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static int anything = 0;
  *event = reinterpret_cast<cudaEvent_t>(&anything);
  return count("cudaEventCreateWithFlags");
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return count("cudaEventDestroy");
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return count("cudaEventRecord");
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return count("cudaEventSynchronize");
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return count("cudaStreamSynchronize");
}
cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t) {
  std::memset(p, byte, bytes);
  return count("cudaMemsetAsync");
}
cudaError_t
cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return count("cudaMemcpyAsync");
}
cudaError_t cudaMemcpy2DAsync(void* to,
                              std::size_t to_pitch,
                              const void* from,
                              std::size_t from_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind,
                              cudaStream_t) {
  for (std::size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch,
                width);
  }
  return count("cudaMemcpy2DAsync");
}

}  // extern "C"
