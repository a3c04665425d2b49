// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/mixed_session.hpp>

#include <cstdint>
#include <memory>

/// Device part of the library behind unmask/c_api.h, if it is built with one: device.cu.
namespace example {

using mixed_device_session = unmask::basic_mixed_session<unmask::memory::device>;

/// A session on a stream. Errors as unmask::make_mixed_session on a stream.
[[nodiscard]] std::unique_ptr<mixed_device_session>
device_session(const unmask::named_parts& parts,
               const unmask::model_info& model,
               const unmask::session_capacity& capacity,
               void* stream);

/// Copies tokens to the host, in the order of a stream, and waits for them.
void fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, void* stream);

}  // namespace example
