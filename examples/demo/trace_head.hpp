// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/trace.hpp>

#include <string>
#include <utility>

#include "demo/engine.hpp"

namespace demo {

/// Head of a trace of this engine's decodes; the engine must outlive its use.
inline unmask::trace_head
head_of_trace(const engine& model, std::string name, const std::string& policy) {
  return {.model = std::move(name),
          .info = model.info(),
          .policy = policy,
          .parts = unmask::part_texts(policy),
          .text = [&text = model.text()](token_id token) { return text.text_of(token); }};
}

}  // namespace demo
