// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/sharded_session.hpp>

#include <cstddef>
#include <nccl.h>
#include <stdexcept>
#include <string>

#include "cuda/device.hpp"

/// Exchange between ranks of NCCL of the messages of unmask::sharded_session on a stream. NCCL has
/// no operation of its users, so it is an all-gather, and every rank merges the messages itself, in
/// the order of the ranks.
namespace example {

inline void check(ncclResult_t e, const char* call) {
  if (e != ncclSuccess) {
    throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(e));
  }
}

// [nccl]
/// One ncclAllGather a step, in the order of the session's stream: nothing is copied to the host,
/// and the host does not wait. Use from the thread that has set the communicator's device.
class gathered_by_nccl {
 public:
  /// Room for messages of so many bytes; nothing is allocated afterwards.
  gathered_by_nccl(ncclComm_t ranks, const stream& on, std::size_t most_bytes)
      : ranks_(ranks)
      , stream_(on.get())
      , everyone_(most_bytes * static_cast<std::size_t>(size_of(ranks))) {}

  unmask::ranks::device_messages operator()(const unmask::ranks::device_messages& mine) const {
    check(ncclAllGather(mine.data(), everyone_.data(), mine.size(), ncclChar, ranks_, stream_),
          "ncclAllGather");
    return {everyone_.data(), everyone_.size()};
  }

 private:
  static int size_of(ncclComm_t ranks) {
    int count = 0;
    check(ncclCommCount(ranks, &count), "ncclCommCount");
    return count;
  }

  ncclComm_t ranks_;
  cudaStream_t stream_;
  device_array<std::byte> everyone_;
};
// [/nccl]

}  // namespace example
