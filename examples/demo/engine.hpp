// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/threads.hpp>
#include <unmask/unmask.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace demo {

using unmask::index_t;
using unmask::token_id;

/// The example engine behind the two calls that a decode needs: answer a forward request, and keep
/// what later ones reuse.
///
/// Sequences of a request are shared among threads; a sequence's logits do not depend on the number
/// of threads nor on the other sequences. What is kept belongs to a slot, and nothing has to be
/// cleared between sequences or sessions: the first pass of a sequence runs everything.
class engine {
 public:
  /// Loads a GGUF file. Throws std::runtime_error if it can not be read.
  engine(const std::filesystem::path& file, index_t threads);

  const example::char_tokenizer& text() const { return text_; }

  /// The model_info of a session.
  unmask::model_info info() const;

  /// Longest sequence, prompt and answer together.
  index_t context() const { return static_cast<index_t>(models_.front().config().context); }

  index_t threads() const { return pool_.concurrency(); }

  /// The sequence to start decoding from: begin token, prompt and the answer, which is masked where
  /// `given` has '_' or, if `given` is empty, everywhere; then the EOS token, where the model has
  /// it behind every sequence. Throws std::invalid_argument for a character that the model does not
  /// know, for a sequence longer than the context, and for a `given` of another length than the
  /// answer, unless EOS tokens end all sequences: there `given` is the answer's length.
  std::vector<token_id>
  canvas(std::string_view prompt, index_t answer_length, std::string_view given = {}) const;

  /// Tokens of the begin token and the prompt, after which an answer starts.
  index_t prompt_length(std::string_view prompt) const;

  /// Runs the request of a session; `tokens[slot]` is the whole sequence in that slot. Returns the
  /// logits that each segment's pass requests, valid until the next call.
  template <class Session>
  std::span<const unmask::host_logits<float>>
  forward(Session& session,
          const unmask::forward_request& request,
          std::span<const std::vector<token_id>> tokens);

  /// Parameters with which the policy of the next sessions drops keys, if it does: a pass only says
  /// when.
  void drop_keys(const unmask::key_eviction& how) { dropping_ = how; }

  /// Whether the positions that a pass decides about attend to one another if the model has
  /// block-causal attention.
  void open_window(bool opens) { opens_window_ = opens; }

  /// Keeps logits of full passes, up to so many bytes, and returns them for the same tokens: for
  /// policies whose passes reuse no keys and values, skip nothing and are all bidirectional. 0, the
  /// default, keeps none.
  void share_passes(std::size_t bytes) { shared_capacity_ = bytes; }

  /// Keeps the K/V of one of the branches of a slot that the last request computed.
  void keep(index_t slot, index_t winner);

  /// Layer-positions so far: what the layers computed, and what full forwards would have.
  std::int64_t computed() const { return computed_; }
  std::int64_t in_full() const { return in_full_; }

 private:
  engine(const example::gguf_file& file, index_t threads);
  example::sequence_memory& memory_of(const unmask::segment& s);
  void make_room(const unmask::forward_request& request);
  void run_shadow(example::llada_model& model,
                  const unmask::segment& s,
                  std::span<const token_id> sequence,
                  const example::sequence_memory& memory,
                  unmask::host_logits<float>& answer);

  struct shared_logits {
    std::vector<float> rows;
    std::int64_t computed = 0;
  };

  example::char_tokenizer text_;
  std::vector<example::llada_model> models_;     // one for each thread; they share the weights
  std::vector<std::vector<token_id>> branches_;  // of each thread: a sequence with a token placed
  unmask::host::thread_pool pool_;
  std::vector<float> logits_;                        // [rows of the request, vocabulary]
  std::vector<unmask::host_logits<float>> answers_;  // of each segment, in logits_
  std::vector<std::vector<example::sequence_memory>> memories_;  // [slot][branch]
  unmask::key_eviction dropping_;
  bool opens_window_ = false;
  std::map<std::vector<token_id>, shared_logits> shared_;  // by tokens, rows and the last key
  std::size_t shared_bytes_ = 0;
  std::size_t shared_capacity_ = 0;
  std::int64_t computed_ = 0;
  std::int64_t in_full_ = 0;
};

extern template std::span<const unmask::host_logits<float>> engine::forward(
    unmask::named_session&, const unmask::forward_request&, std::span<const std::vector<token_id>>);

}  // namespace demo
