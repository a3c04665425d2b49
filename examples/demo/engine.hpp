// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace demo {

using unmask::index_t;
using unmask::token_id;

/// The example engine behind the one call that a session needs: answer a forward request.
///
/// Sequences of a request are shared among threads; a sequence's logits do not depend on the number
/// of threads nor on the other sequences.
class engine {
 public:
  /// Loads a GGUF file. Throws std::runtime_error if it can not be read.
  engine(const std::filesystem::path& file, index_t threads);

  const example::char_tokenizer& text() const { return text_; }

  /// What a session wants to know about the model.
  unmask::model_info info() const;

  /// Longest sequence, prompt and answer together.
  index_t context() const { return static_cast<index_t>(models_.front().config().context); }

  index_t threads() const { return pool_.concurrency(); }

  /// The sequence to start decoding from: begin token, prompt, masks. Throws std::invalid_argument
  /// for a character that the model does not know and for a sequence longer than the context.
  std::vector<token_id> canvas(std::string_view prompt, index_t answer_length) const;

  /// Runs a request; `tokens[slot]` is the whole sequence in that slot. The view is valid until the
  /// next call. Throws std::invalid_argument for a request that only an engine with a cache serves.
  unmask::host_logits<float> forward(const unmask::forward_request& request,
                                     std::span<const std::vector<token_id>> tokens);

 private:
  engine(const example::gguf_file& file, index_t threads);

  example::char_tokenizer text_;
  std::vector<example::llada_model> models_;     // one for each thread; they share the weights
  std::vector<std::vector<token_id>> branches_;  // of each thread: a sequence with a token placed
  unmask::host::thread_pool pool_;
  std::vector<float> logits_;  // [rows of the request, vocabulary]
};

}  // namespace demo
