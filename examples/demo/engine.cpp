// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/engine.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "demo/hooked_pass.hpp"
#include "engine/llada_pass.hpp"

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
          .layers = static_cast<index_t>(models_.front().config().layers)};
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

void engine::keep(index_t slot, index_t winner) {
  if (winner > 0) {
    auto& branches = memories_.at(static_cast<std::size_t>(slot));
    std::swap(branches.front(), branches.at(static_cast<std::size_t>(winner)));
  }
}

std::span<const unmask::host_logits<float>>
engine::forward(unmask::any_layer_session& session,
                const unmask::forward_request& request,
                std::span<const std::vector<token_id>> tokens) {
  const std::size_t vocabulary = text_.vocabulary();
  make_room(request);

  // Each thread has a model of its own and takes the next free segment.
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> computed{0};
  std::mutex using_session;
  std::mutex failing;
  std::exception_ptr failure;
  auto work = [&](index_t thread) noexcept {
    try {
      example::llada_model& model = models_[static_cast<std::size_t>(thread)];
      std::vector<token_id>& branch = branches_[static_cast<std::size_t>(thread)];
      for (std::size_t i = next++; i < request.segments.size(); i = next++) {
        const unmask::segment& s = request.segments[i];
        auto sequence = std::span(tokens[static_cast<std::size_t>(s.slot)]);
        if (s.branch > 0) {
          branch.assign(sequence.begin(), sequence.end());
          branch.at(static_cast<std::size_t>(s.placed.position)) = s.placed.token;
          sequence = branch;
        }
        float* const place = logits_.data() + static_cast<std::size_t>(s.first_row) * vocabulary;
        std::vector<token_id> key;
        if (shared_capacity_ > 0) {
          key.assign(sequence.begin(), sequence.end());
          key.insert(key.end(), {s.rows.first, s.rows.last});
          const std::lock_guard lock(using_session);
          if (const auto found = shared_.find(key); found != shared_.end()) {
            const std::vector<float>& rows = found->second.rows;
            std::copy(rows.begin(), rows.end(), place);
            answers_[i] = {place,
                           static_cast<index_t>(rows.size() / vocabulary),
                           static_cast<index_t>(vocabulary)};
            computed += found->second.computed;
            continue;
          }
        }
        hooked_pass pass(session.pass(i), [&](auto& of, const auto&... at) {
          const std::lock_guard lock(using_session);  // one thread at a time may use a session
          return of.at_layer(at...);
        });
        example::sequence_memory& memory = memory_of(s);
        const std::int64_t before = memory.computed;
        const unmask::range blocks = session.planned(s.slot).score;
        const example::logits_view rows = model.forward(
            pass, sequence, memory, {blocks.first, blocks.last, dropping_.keep, dropping_.pool});
        computed += memory.computed - before;
        std::copy_n(rows.data, rows.rows * vocabulary, place);
        answers_[i] = {place, static_cast<index_t>(rows.rows), static_cast<index_t>(vocabulary)};
        if (shared_bytes_ < shared_capacity_) {
          const std::lock_guard lock(using_session);
          shared_bytes_ += key.size() * sizeof(token_id) + rows.rows * vocabulary * sizeof(float);
          shared_.insert_or_assign(
              std::move(key),
              shared_logits{{place, place + rows.rows * vocabulary}, memory.computed - before});
        }
      }
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  pool_.run(threads(), work);
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  computed_ += computed;
  for (const unmask::segment& s : request.segments) {
    in_full_ += std::int64_t{s.keys.size()} * info().layers;
  }
  return answers_;
}

}  // namespace demo
