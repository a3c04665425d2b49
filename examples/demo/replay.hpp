// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace demo {

/// An engine that runs the forward passes of a replay, one sequence after another.
struct replay_engine {
  unmask::model_info info;
  /// Called before each sequence, with the parts of the recorded policy and the sequence's length.
  std::function<void(const unmask::named_policy&, unmask::index_t)> begin;
  /// Returns the logits of each segment; `tokens[0]` is the sequence.
  std::function<std::span<const unmask::host_logits<float>>(
      unmask::named_session&,
      const unmask::forward_request&,
      std::span<const std::vector<unmask::token_id>> tokens)>
      forward;
};

/// Decodes each sequence of a file's trace again, with its tokens in the same steps, and prints how
/// far the log-probabilities of the engine are from those of the trace. Returns whether the tokens
/// are the same. Throws std::invalid_argument for what is not a trace of this model's vocabulary.
bool replay(const std::filesystem::path& file, const replay_engine& engine);

}  // namespace demo
