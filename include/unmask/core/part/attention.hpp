// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/plan.hpp>

#include <concepts>

namespace UNMASK_NAMESPACE {

/// A part with segments whose attention is not bidirectional: `static constexpr
/// attention_kind attention`. A model whose engine cannot run it is refused (model_info).
///
/// With attention_kind::shadow the rows of committed positions of the scored range come from a
/// second segment, the shadow: masks at the positions of the scored range. Each mask sees the other
/// masks and the sequence except the token at its own position. Parts that edit or remask committed
/// tokens then compare a token with what the model proposes without it. One part of a policy makes
/// all of them do so. Optional `shadows_now() -> bool`.
template <class P>
concept attending = requires {
  { P::attention } -> std::convertible_to<attention_kind>;
};

namespace detail {

template <class P>
inline constexpr attention_kind attention_of = attention_kind::bidirectional;
template <attending P>
inline constexpr attention_kind attention_of<P> = P::attention;

// Checks that the engine can run an attention that a part of that name needs.
inline void check_attention(std::string_view part, attention_kind kind, const model_info& model) {
  const std::string_view name = part.empty() ? "a part of this policy" : part;
  check_argument(kind != attention_kind::causal || model.causal_attention,
                 "model_info::causal_attention",
                 "false",
                 "true for ",
                 name,
                 ", which has passes with causal attention");
  check_argument(kind != attention_kind::shadow || model.shadow_attention,
                 "model_info::shadow_attention",
                 "false",
                 "true for ",
                 name,
                 ", which has segments with shadow attention");
  check_argument(kind != attention_kind::shadow || model.logits_shift == 0,
                 "model_info::logits_shift",
                 model.logits_shift,
                 "0 for ",
                 name,
                 ": a row of the position before sees the token that a shadow hides");
}

/// Checks that the engine can run the attention of a part, and of the parts of a family.
template <class P>
void check_attention(const P& part, const model_info& model) {
  if constexpr (requires { part.check_attention(model); }) {
    part.check_attention(model);
  } else if constexpr (attending<P>) {
    bool needs_it = true;
    if constexpr (requires { part.shadows_now(); }) {
      needs_it = part.shadows_now();
    }
    if (needs_it) {
      check_attention(label_of<P>().name, P::attention, model);
    }
  }
}

}  // namespace detail

}  // namespace unmask
