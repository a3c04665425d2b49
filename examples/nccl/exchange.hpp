// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <nccl.h>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// How ranks of NCCL exchange the messages of unmask::sharded_session. NCCL has no operation of its
/// users, so it is an all-gather, and every rank merges the messages itself, in the order of the
/// ranks.
namespace example {

inline void check(cudaError_t e, const char* call) {
  if (e != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(e));
  }
}
inline void check(ncclResult_t e, const char* call) {
  if (e != ncclSuccess) {
    throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(e));
  }
}

// [nccl]
/// One ncclAllGather a step, between two copies of some kilobytes. Use from the thread that has set
/// the communicator's device.
class gathered_by_nccl {
 public:
  /// Room for messages of so many bytes; nothing is allocated afterwards.
  gathered_by_nccl(ncclComm_t ranks, cudaStream_t stream, std::size_t most_bytes)
      : ranks_(ranks)
      , stream_(stream)
      , capacity_(most_bytes) {
    int count = 0;
    check(ncclCommCount(ranks, &count), "ncclCommCount");
    count_ = static_cast<std::size_t>(count);
    everyone_.resize(most_bytes * count_);
    check(cudaMalloc(&mine_on_device_, most_bytes), "cudaMalloc");
    check(cudaMalloc(&everyone_on_device_, most_bytes * count_), "cudaMalloc");
  }
  gathered_by_nccl(const gathered_by_nccl&) = delete;
  gathered_by_nccl& operator=(const gathered_by_nccl&) = delete;
  ~gathered_by_nccl() {
    static_cast<void>(cudaFree(mine_on_device_));
    static_cast<void>(cudaFree(everyone_on_device_));
  }

  std::span<const std::byte> operator()(std::span<const std::byte> mine) {
    if (mine.size() > capacity_) {
      throw std::length_error("a message is larger than gathered_by_nccl has room for");
    }
    const std::size_t all = mine.size() * count_;
    check(
        cudaMemcpyAsync(mine_on_device_, mine.data(), mine.size(), cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
    check(
        ncclAllGather(mine_on_device_, everyone_on_device_, mine.size(), ncclChar, ranks_, stream_),
        "ncclAllGather");
    check(cudaMemcpyAsync(
              everyone_.data(), everyone_on_device_, all, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return {everyone_.data(), all};
  }

 private:
  ncclComm_t ranks_;
  cudaStream_t stream_;
  std::size_t capacity_;
  std::size_t count_ = 0;
  std::vector<std::byte> everyone_;
  void* mine_on_device_ = nullptr;
  void* everyone_on_device_ = nullptr;
};
// [/nccl]

}  // namespace example
