// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/mixed_session.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

/// Device part of the library behind c_api.h, if it is built with one: cuda/c_library.cuh.
namespace UNMASK_NAMESPACE::detail::c_api {

using mixed_device_session = unmask::basic_mixed_session<unmask::memory::device>;

/// A session on a stream. Errors as unmask::make_mixed_session on a stream.
[[nodiscard]] std::unique_ptr<mixed_device_session>
device_session(const unmask::named_parts& parts,
               const unmask::model_info& model,
               const unmask::session_capacity& capacity,
               void* stream);

/// The keys that policies drop, on a stream. Calls enqueue.
class device_keys {
 public:
  virtual ~device_keys() = default;
  /// As unmask::device::score_keys().
  virtual void score(const unmask::any_rows& keys, const void* query, float* scores) = 0;
  /// As unmask::device::key_selector::select(), with one of several selectors.
  [[nodiscard]] virtual unmask::device_list select(std::size_t selector,
                                                   const float* scores,
                                                   unmask::index_t count,
                                                   unmask::range block,
                                                   double keep,
                                                   unmask::index_t pool) = 0;
};

/// So many selectors for sequences of up to `length` positions.
[[nodiscard]] std::unique_ptr<device_keys>
make_device_keys(unmask::index_t length, std::size_t selectors, void* stream);

/// Copies tokens to the host, in the order of a stream, and waits for them.
void fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, void* stream);

}  // namespace UNMASK_NAMESPACE::detail::c_api
