// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The little that the CUDA examples need of a device: a check, a stream, arrays.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace example {

/// The status of an example that has nothing to run on; CTest counts it as skipped.
inline constexpr int skipped = 77;

/// Ends the program unless a call has succeeded.
inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
    std::exit(1);
  }
}

/// Says on which device the program runs; false, with a word, if there is none.
inline bool find_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("SKIPPED: there is no CUDA device");
    return false;
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  std::printf("device: %s, %d multiprocessors, %.0f MB of L2, driver for CUDA %d.%d\n",
              device.name,
              device.multiProcessorCount,
              static_cast<double>(device.l2CacheSize) / 1048576.0,
              driver / 1000,
              driver % 1000 / 10);
  return true;
}

class stream {
 public:
  stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An array on the device.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count)
      : count_(count) {
    void* p = nullptr;
    check(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(p);
  }
  device_array(device_array&& other) noexcept
      : data_(other.data_)
      , count_(other.count_) {
    other.data_ = nullptr;
  }
  device_array& operator=(device_array&&) = delete;
  ~device_array() { static_cast<void>(cudaFree(data_)); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }

  void upload(const T* from, std::size_t count, const stream& on) const {
    check(cudaMemcpyAsync(data_, from, count * sizeof(T), cudaMemcpyHostToDevice, on.get()),
          "cudaMemcpyAsync");
  }
  /// Waits.
  void download(std::vector<T>& to, const stream& on) const {
    check(
        cudaMemcpyAsync(to.data(), data_, to.size() * sizeof(T), cudaMemcpyDeviceToHost, on.get()),
        "cudaMemcpyAsync");
    on.wait();
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace example
