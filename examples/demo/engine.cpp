// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/engine.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "demo/forward.hpp"

namespace demo {

engine::engine(const std::filesystem::path& file, index_t threads)
    : engine(example::gguf_file(file), threads) {}

engine::engine(const example::gguf_file& file, index_t threads)
    : text_(file)
    , pool_(threads) {
  const auto weights =
      std::make_shared<const example::llada_weights>(example::llada_weights::load(file));
  if (weights->config.vocabulary != text_.vocabulary()) {
    file.fail("the model has " + std::to_string(weights->config.vocabulary) +
              " tokens, must be as many as the tokenizer's " + std::to_string(text_.vocabulary()));
  }
  for (index_t i = 0; i < threads; ++i) {
    models_.emplace_back(weights);
  }
  branches_.resize(models_.size());
}

unmask::model_info engine::info() const {
  return {.vocab = static_cast<index_t>(text_.vocabulary()),
          .mask_token = text_.mask(),
          .eos_token = text_.end(),
          .layers = static_cast<index_t>(models_.front().config().layers),
          .causal_attention = true,
          .shadow_attention = true};
}

std::vector<token_id>
engine::canvas(std::string_view prompt, index_t answer_length, std::string_view given) const {
  const auto length = static_cast<std::size_t>(answer_length);
  const std::vector<token_id> answer =
      given.empty() ? std::vector(length, text_.mask()) : text_.encode_masked(given);
  unmask::check_argument(text_.ends_all() || answer.size() == length,
                         "characters of the given answer",
                         answer.size(),
                         "as many as the answer has positions, ",
                         answer_length);
  std::vector<token_id> tokens = text_.canvas(prompt, answer);
  unmask::check_argument(tokens.size() <= static_cast<std::size_t>(context()),
                         "begin token, prompt and answer",
                         tokens.size(),
                         "at most the model's context of ",
                         context(),
                         " tokens");
  return tokens;
}

index_t engine::prompt_length(std::string_view prompt) const {
  return static_cast<index_t>(text_.encode(prompt).size() + 1);
}

example::sequence_memory& engine::memory_of(const unmask::segment& s) {
  return memories_[static_cast<std::size_t>(s.slot)][static_cast<std::size_t>(s.branch)];
}

/// Room for what the segments keep. A branch starts with what its sequence keeps.
void engine::make_room(const unmask::forward_request& request) {
  logits_.resize(
      std::max(logits_.size(), static_cast<std::size_t>(request.rows) * text_.vocabulary()));
  answers_.resize(request.segments.size());
  for (const unmask::segment& s : request.segments) {
    const auto slot = static_cast<std::size_t>(s.slot);
    memories_.resize(std::max(memories_.size(), slot + 1));
    auto& branches = memories_[slot];
    branches.resize(std::max(branches.size(), static_cast<std::size_t>(s.branch) + 1));
    if (s.branch > 0 && s.query.size() < s.keys.size()) {
      memory_of(s) = branches.front();
    }
  }
}

/// Runs the shadow of a sequence, whose keys and values of this pass are in `memory`.
void engine::run_shadow(example::llada_model& model,
                        const unmask::segment& s,
                        std::span<const token_id> sequence,
                        const example::sequence_memory& memory,
                        unmask::host_logits<float>& answer) {
  const example::logits_view rows = model.forward_shadow(sequence,
                                                         text_.mask(),
                                                         {s.query.first, s.query.last},
                                                         {s.rows.first, s.rows.last},
                                                         static_cast<std::size_t>(s.keys.last),
                                                         memory);
  float* const place = logits_.data() + static_cast<std::size_t>(s.first_row) * text_.vocabulary();
  std::copy_n(rows.data, rows.rows * rows.vocabulary, place);
  answer = {place, static_cast<index_t>(rows.rows), static_cast<index_t>(rows.vocabulary)};
}

void engine::keep(index_t slot, index_t winner) {
  if (winner > 0) {
    auto& branches = memories_.at(static_cast<std::size_t>(slot));
    std::swap(branches.front(), branches.at(static_cast<std::size_t>(winner)));
  }
}

template std::span<const unmask::host_logits<float>> engine::forward(
    unmask::named_session&, const unmask::forward_request&, std::span<const std::vector<token_id>>);

}  // namespace demo
