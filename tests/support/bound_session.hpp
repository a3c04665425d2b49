// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A session of one policy that is started with the address and the number of tokens.

#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>

#include <memory>
#include <span>

namespace unmask::testing {

template <class Policy, class Backend = on_host>
class bound_session : public session<Policy, Backend> {
  using base = session<Policy, Backend>;

 public:
  bound_session(const Policy& policy,
                const model_info& model,
                const session_capacity& capacity,
                const Backend& where = {})
      : base(policy, model, capacity, where) {}

  using base::start;
  void start(index_t slot,
             token_id* tokens,
             index_t count,
             const sequence_shape& geometry,
             const start_options& options = {}) {
    base::start(slot, {tokens, count}, geometry, options);
  }
};

template <class Policy, class Backend = on_host>
[[nodiscard]] auto make_bound(const Policy& policy,
                              const model_info& model,
                              const session_capacity& capacity,
                              const Backend& where = {}) {
  return std::make_unique<bound_session<Policy, Backend>>(policy, model, capacity, where);
}

}  // namespace unmask::testing
