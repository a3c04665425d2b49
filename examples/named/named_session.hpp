// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/named_parts.hpp>

#include <memory>

namespace example {

/// A session of a policy by name. The types of these sessions are compiled here, once for all
/// programs that link it. Errors as unmask::make_any_layer_session.
[[nodiscard]] std::unique_ptr<unmask::any_layer_session>
named_session(const unmask::named_parts& parts,
              const unmask::model_info& model,
              const unmask::limits& capacity,
              const unmask::on_host& where = {});

}  // namespace example
