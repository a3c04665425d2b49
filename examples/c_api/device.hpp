// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_session.hpp>
#include <unmask/named/named_parts.hpp>

#include <cstdint>
#include <memory>

/// Device part of the library behind unmask/c_api.h, if it is built with one: device.cu.
namespace example {

/// A session on a stream. Errors as unmask::make_any_session on a stream.
[[nodiscard]] std::unique_ptr<unmask::any_session>
device_session(const unmask::named_parts& parts,
               const unmask::model_info& model,
               const unmask::session_capacity& capacity,
               void* stream);

/// Copies tokens to the host, in the order of a stream, and waits for them.
void fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, void* stream);

}  // namespace example
