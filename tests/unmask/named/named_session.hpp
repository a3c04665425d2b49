// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_session.hpp>

#include <memory>
#include <string_view>

namespace unmask::testing {

/// A session of a policy by name: all types of these are compiled in one file.
[[nodiscard]] std::unique_ptr<any_session>
named_session(std::string_view text, const model_info& model, const session_capacity& capacity);

}  // namespace unmask::testing
