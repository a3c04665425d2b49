// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/cache_budget.hpp>
#include <unmask/policy/early_skip.hpp>
#include <unmask/policy/named_parts.hpp>

#include <memory>

namespace example {

/// What decides which positions each layer computes. Each is a type of policy of its own.
enum class layer_rule_kind : unsigned char { none, skip, budget, similarity };

/// A cache and a layer rule, with their knobs set.
struct layer_setup {
  unmask::any_cache cache = {};
  layer_rule_kind which = layer_rule_kind::none;
  unmask::early_skip skip = {};
  unmask::cache_budget budget = {};
  unmask::similarity_refresh similarity = {};

  /// Whether a policy with this decides which single positions are run.
  [[nodiscard]] bool layered() const {
    return which != layer_rule_kind::none || cache.how == unmask::feeding::delayed;
  }
};

/// A session of a policy by name. The types of these sessions are compiled here, once for all
/// programs that link it. Errors as unmask::make_any_layer_session.
[[nodiscard]] std::unique_ptr<unmask::any_layer_session>
named_session(const unmask::named_parts& parts,
              const unmask::model_info& model,
              const unmask::limits& capacity,
              const unmask::on_host& where = {});

/// The same with a cache and a layer rule of the caller's in place of the cache of the parts.
/// Throws std::invalid_argument where they do not go together.
[[nodiscard]] std::unique_ptr<unmask::any_layer_session>
named_session(const unmask::named_parts& parts,
              const layer_setup& layers,
              const unmask::model_info& model,
              const unmask::limits& capacity);

}  // namespace example
