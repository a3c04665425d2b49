// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Device memory of the tests, as an engine would hold it.

#include <unmask/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace unmask::testing {

/// False where there is no device to run on: a test then skips itself.
[[nodiscard]] inline bool has_device() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  static_cast<void>(cudaGetLastError());
  return found;
}

/// An array on the device.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count)
      : count_(count) {
    void* p = nullptr;
    device::check(cudaMalloc(&p, count * sizeof(T) + 1), "cudaMalloc of a test");
    data_ = static_cast<T*>(p);
  }
  explicit device_array(const std::vector<T>& from)
      : device_array(from.size()) {
    device::check(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
                  "cudaMemcpy of a test");
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { static_cast<void>(cudaFree(data_)); }

  [[nodiscard]] T* data() const { return data_; }
  /// Enqueues a copy of as many elements. `from` may go at once.
  void copy(const std::vector<T>& from, cudaStream_t stream) const {
    device::check(
        cudaMemcpyAsync(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync of a test");
  }
  [[nodiscard]] std::vector<T> to_host() const {
    std::vector<T> result(count_);
    device::check(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
                  "cudaMemcpy of a test");
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// A stream of its own.
class test_stream {
 public:
  test_stream() {
    device::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  test_stream(const test_stream&) = delete;
  test_stream& operator=(const test_stream&) = delete;
  ~test_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace unmask::testing
