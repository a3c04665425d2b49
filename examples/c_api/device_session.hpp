// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda.hpp>
#include <unmask/named_policy.hpp>

#include <new>

#include "c_api/device.hpp"

/// Implementation of device.cu in C++, so that the tests can run it without a device.
namespace example {

template <class Compositions>
[[nodiscard]] std::unique_ptr<mixed_device_session>
device_session_of(const unmask::named_parts& parts,
                  const unmask::model_info& model,
                  const unmask::session_capacity& capacity,
                  void* stream) {
  try {
    const unmask::on_stream where{static_cast<cudaStream_t>(stream)};
    return unmask::make_mixed_session<Compositions>(parts, model, capacity, where);
  } catch (const unmask::cuda_error& e) {
    if (e.code() == cudaErrorMemoryAllocation) {
      throw std::bad_alloc();
    }
    throw;
  }
}

inline void
copy_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, cudaStream_t stream) {
  unmask::device::check(
      cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync of tokens");
  unmask::device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace example
