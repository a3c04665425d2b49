// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Part of session.hpp: what is long, out of the class, so that a program for which `extern
// template` declares a session does not compile it.

namespace UNMASK_NAMESPACE {

template <class Policy, class Backend>
session<Policy, Backend>::session(const Policy& policy,
                                  const model_info& model,
                                  const session_capacity& capacity,
                                  const Backend& where)
    : session(model, capacity, where, model.vocab) {
  policy_ = policy;
  detail::check_layers(step::layered_now(policy), model);
  detail::check_attention_of(policy, model);
  if constexpr (space == memory::device) {
    detail::check_no_callback(policy);
  }
  for (index_t slot = 0; slot < capacity_.sequences; ++slot) {
    workspace_.reserve(slot, policy);
  }
}

template <class Policy, class Backend>
session<Policy, Backend>::session(const model_info& model,
                                  const session_capacity& capacity,
                                  const Backend& where,
                                  index_t columns)
    : model_(model)
    , capacity_(detail::capacity_with<Policy>(model, capacity, columns))
    , workspace_(model, capacity_, where)
    , request_(capacity_.sequences,
               Policy::varies ? max_branches : capacity_.branches + (Policy::shadows ? 1 : 0))
    , tokens_(capacity_.sequences)
    , layers_(capacity_) {}

template <class Policy, class Backend>
void session<Policy, Backend>::start(index_t slot,
                                     const Policy& policy,
                                     tokens_view<space> tokens,
                                     const sequence_shape& geometry,
                                     const start_options& options) {
  request_.check_start();
  validate_start(model_, capacity_, slot, tokens.data, tokens.size, geometry, options);
  const sequence_shape shape = bounded(geometry);
  if constexpr (Policy::varies) {
    detail::check_layers(step::layered_now(policy), model_);
    start_checked(slot, policy.of_model(model_), tokens, geometry, shape, options);
  } else {
    validate_branches(detail::policy_branches(policy), capacity_);
    start_checked(slot, policy, tokens, geometry, shape, options);
  }
}

template <class Policy, class Backend>
void session<Policy, Backend>::start_checked(index_t slot,
                                             const Policy& policy,
                                             tokens_view<space> tokens,
                                             const sequence_shape& geometry,
                                             const sequence_shape& shape,
                                             const start_options& options) {
  detail::check_attention_of(policy, model_);
  if constexpr (space == memory::device) {
    detail::check_no_callback(policy);
  }
  validate_reach(math::min(detail::policy_reach(policy, shape), shape.length), capacity_);
  detail::check_parts(policy, geometry, model_);
  if (detail::policy_moves_text(policy)) {
    validate_moving(options, shape, detail::policy_begin_length(policy, shape));
  }
  tokens_.check(slot, tokens.data, geometry.length, [this](std::size_t other) {
    return workspace_.statuses()[other].next.active();
  });
  workspace_.constrain(slot, policy, tokens, shape, options);
  workspace_.reserve(slot, policy);
  workspace_.start(slot, policy, tokens, shape, options);
  tokens_.record(slot, tokens.data, geometry.length);
  layers_.start(slot, policy);
  if constexpr (space == memory::host) {
    workspace_.check_callbacks();
  }
}

template <class Policy, class Backend>
std::optional<forward_request> session<Policy, Backend>::request() {
  const bool any = request_.is_out() || request_.make(workspace_.statuses());
  return any ? std::optional(request_.view()) : std::nullopt;
}

}  // namespace unmask
