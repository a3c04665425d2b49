// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/constrained_field.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/step/process_logits.hpp>

#include <cstddef>

/// The constraints of a sequence that is about to start, for every backend.
namespace UNMASK_NAMESPACE::step {

/// Whether the parts of a policy allow a token at a position, for the constraints of a sequence.
template <class Policy>
struct allowed_by_parts {
  const Policy* policy;
  sequence_view view;

  [[nodiscard]] static bool allows(const void* object, token_id token, index_t position) {
    const auto& self = *static_cast<const allowed_by_parts*>(object);
    step_info at;
    at.position = position;
    at.view = &self.view;
    return step::allows(*self.policy, token, at);
  }
};

UNMASK_LIBRARY void
check_constrained(bool branches, bool remasks, bool rewrites_blocks, bool verifies);
#if UNMASK_DEFINES
UNMASK_LIBRARY void
check_constrained(bool branches, bool remasks, bool rewrites_blocks, bool verifies) {
  const char* const why =
      branches ? "lookahead yet, nor with drafts: a branch places tokens without testing them"
      : remasks
          ? "remask_below yet: committed positions that compete would have to be tested as masked"
      : rewrites_blocks
          ? "a rule that rewrites blocks: it inserts and erases tokens without testing the others"
      : verifies
          ? "drafts and tokens that are checked yet: one that the language allows may be replaced "
            "by one that it does not"
          : nullptr;
  if (why != nullptr) {
    detail::message().add("constraint does not combine with ").add(why).refuse();
  }
}
#endif

/// Prepares the constraints of a sequence whose tokens, `tokens`, are in host memory; nothing
/// without any. Errors: std::invalid_argument.
template <class Policy>
[[nodiscard]] detail::owned_answer begin_constraints(const Policy& policy,
                                                     const model_info& model,
                                                     const session_capacity& capacity,
                                                     const token_id* tokens,
                                                     const sequence_shape& geometry,
                                                     const start_options& options) {
  if (options.constraints.empty()) {
    return {};
  }
  check_constrained(branches_now(policy),
                    remasks_now(policy),
                    rewrites_blocks_now(policy),
                    verifies_now(policy) || reconsiders_now(policy));
  token_id suppressed[max_suppressed];
  const index_t count = suppressed_tokens(model, options, suppressed);
  allowed_by_parts<Policy> parts{&policy, {}};
  parts.view.tokens = tokens;
  parts.view.prompt_length = geometry.prompt_length;
  parts.view.length = geometry.length;
  parts.view.block_length = geometry.block_length;
  parts.view.eos_token = model.eos_token;
  const detail::any_constraint* const language = options.constraints[0].language;
  check_argument(language != nullptr, "constrained_field::language", "null", "a constraint");
  detail::answer_start start{.model = model,
                             .shape = geometry,
                             .tokens = tokens,
                             .editable = options.editable,
                             .suppressed = {suppressed, static_cast<std::size_t>(count)},
                             .read_again = renoises_now(policy),
                             .window = capacity.window,
                             .trace = capacity.trace};
  if constexpr (stages<Policy>::restricts > 0) {
    start.allows = &parts.allows;
    start.policy = &parts;
  }
  return language->begin(options.constraints, start);
}

}  // namespace unmask::step
