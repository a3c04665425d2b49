// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/device.hpp>
#include <unmask/cuda.hpp>
#include <unmask/named_policy.hpp>

#include <memory>
#include <new>
#include <vector>

/// Definitions of c_api/device.hpp but for the types of device_session(), in C++, so that the tests
/// can run them without a device. One file of a program includes them: c_library.cuh.
namespace UNMASK_NAMESPACE::detail::c_api {

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

template <class Compositions>
[[nodiscard]] std::unique_ptr<mixed_device_session>
device_session_of(const unmask::named_parts& parts,
                  const unmask::model_info& model,
                  const unmask::session_capacity& capacity,
                  void* stream) {
  const unmask::on_stream where{static_cast<cudaStream_t>(stream)};
  return with_bad_alloc(
      [&] { return unmask::make_mixed_session<Compositions>(parts, model, capacity, where); });
}

class device_key_selectors final : public device_keys {
 public:
  device_key_selectors(unmask::index_t length, std::size_t selectors, cudaStream_t stream)
      : stream_(stream) {
    for (std::size_t i = 0; i < selectors; ++i) {
      selectors_.emplace_back(length, unmask::on_stream{stream});
    }
  }

  void score(const unmask::any_rows& keys, const void* query, float* scores) override {
    switch (keys.kind) {
    case unmask::element_kind::f32:
      return score_as<float>(keys, query, scores);
    case unmask::element_kind::bf16:
      return score_as<unmask::bfloat16>(keys, query, scores);
    case unmask::element_kind::f16:
      return score_as<unmask::float16>(keys, query, scores);
    }
  }
  [[nodiscard]] unmask::device_list select(std::size_t selector,
                                           const float* scores,
                                           unmask::index_t count,
                                           unmask::range block,
                                           double keep,
                                           unmask::index_t pool) override {
    return selectors_[selector].select(scores, count, block, keep, pool);
  }

 private:
  template <class T>
  void score_as(const unmask::any_rows& keys, const void* query, float* scores) {
    const unmask::rows_view<T, unmask::memory::device> rows(
        static_cast<const T*>(keys.data), keys.rows, keys.columns, keys.stride);
    unmask::validate(rows, 1, "", "keys");
    unmask::device::score_keys(rows, static_cast<const T*>(query), scores, stream_);
  }

  cudaStream_t stream_;
  std::vector<unmask::device::key_selector> selectors_;
};

// NOLINTBEGIN(misc-definitions-in-headers): one file of device code defines them
std::unique_ptr<device_keys>
make_device_keys(unmask::index_t length, std::size_t selectors, void* stream) {
  return with_bad_alloc([&] {
    return std::make_unique<device_key_selectors>(
        length, selectors, static_cast<cudaStream_t>(stream));
  });
}

void fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  unmask::device::check(cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToHost, on),
                        "cudaMemcpyAsync of tokens");
  unmask::device::check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
}
// NOLINTEND(misc-definitions-in-headers)

}  // namespace UNMASK_NAMESPACE::detail::c_api
