// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda.hpp>
#include <unmask/named_policy.hpp>

#include <memory>
#include <new>
#include <vector>

/// Sessions on a stream for the library of c_library.hpp, in C++: c_library.cuh has their kernels.
namespace UNMASK_NAMESPACE::detail::c_api {

using device_session = unmask::session<unmask::named_policy, unmask::on_stream>;

// make(), whose lack of device memory is that of memory.
template <class Make>
[[nodiscard]] auto with_bad_alloc(const Make& make) {
  try {
    return make();
  } catch (const unmask::cuda_error& e) {
    if (e.code() == cudaErrorMemoryAllocation) {
      throw std::bad_alloc();
    }
    throw;
  }
}

// The keys that policies drop, on a stream. Calls enqueue.
class device_keys {
 public:
  // The given number of selectors for sequences of up to `length` positions.
  device_keys(unmask::index_t length, std::size_t selectors, cudaStream_t stream)
      : stream_(stream) {
    for (std::size_t i = 0; i < selectors; ++i) {
      selectors_.emplace_back(length, unmask::on_stream{stream});
    }
  }

  // unmask::device::score_keys() of keys of any type.
  void score(const unmask::any_rows& keys, const void* query, float* scores) const {
    unmask::detail::with_element_type<unmask::memory::device>(
        keys,
        "memory space of the keys",
        [&]<class T, unmask::memory M>(const unmask::rows_view<T, M>& rows) {
          unmask::validate(rows, 1, "", "keys");
          unmask::device::score_keys(rows, static_cast<const T*>(query), scores, stream_);
        });
  }
  [[nodiscard]] unmask::device_list select(std::size_t selector,
                                           const float* scores,
                                           unmask::index_t count,
                                           unmask::range block,
                                           double keep,
                                           unmask::index_t pool) {
    return selectors_[selector].select(scores, count, block, keep, pool);
  }

 private:
  cudaStream_t stream_;
  std::vector<unmask::device::key_selector> selectors_;
};

// Copies tokens to the host, in the order of a stream, and waits for them.
inline void
fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, cudaStream_t stream) {
  unmask::device::check(
      cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync of tokens");
  unmask::device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace UNMASK_NAMESPACE::detail::c_api
