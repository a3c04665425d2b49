// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace UNMASK_NAMESPACE {

/// An error of the device. A session that threw it may have done part of the call: start its
/// sequences again or discard it. what() names the call and the runtime's reason.
class cuda_error : public std::runtime_error {
 public:
  /// The error of a call of CUDA's runtime.
  cuda_error(cudaError_t code, const char* call)
      : std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code))
      , code_(code) {}

  /// The code that the call returned.
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

namespace device {

/// Throws cuda_error unless `code` is cudaSuccess. `call` names the call.
inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // the runtime would report it again at the next launch
    throw cuda_error(code, call);
  }
}

}  // namespace device

}  // namespace unmask
