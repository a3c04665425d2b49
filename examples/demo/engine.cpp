// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/engine.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>

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
          .end_token = text_.end()};
}

std::vector<token_id> engine::canvas(std::string_view prompt, index_t answer_length) const {
  std::vector<token_id> tokens = text_.canvas(prompt, static_cast<std::size_t>(answer_length));
  unmask::check_argument(tokens.size() <= static_cast<std::size_t>(context()),
                         "begin token, prompt and answer",
                         tokens.size(),
                         "at most the model's context of ",
                         context(),
                         " tokens");
  return tokens;
}

unmask::host_logits<float> engine::forward(const unmask::forward_request& request,
                                           std::span<const std::vector<token_id>> tokens) {
  const std::size_t vocabulary = text_.vocabulary();
  logits_.resize(std::max(logits_.size(), static_cast<std::size_t>(request.rows) * vocabulary));

  // Each thread has a model of its own and takes the next segment that nobody has taken.
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  auto work = [&](index_t thread) noexcept {
    try {
      example::llada_model& model = models_[static_cast<std::size_t>(thread)];
      std::vector<token_id>& branch = branches_[static_cast<std::size_t>(thread)];
      for (std::size_t i = next++; i < request.segments.size(); i = next++) {
        const unmask::segment& s = request.segments[i];
        unmask::check_argument(s.feed.first == 0,
                               "first position to run",
                               s.feed.first,
                               "0: this engine has no cache");
        auto sequence = std::span(tokens[static_cast<std::size_t>(s.slot)])
                            .first(static_cast<std::size_t>(s.feed.last));
        if (s.branch > 0) {
          branch.assign(sequence.begin(), sequence.end());
          branch.at(static_cast<std::size_t>(s.placed.position)) = s.placed.token;
          sequence = branch;
        }
        const example::logits_view rows = model.forward(sequence,
                                                        static_cast<std::size_t>(s.rows.first),
                                                        static_cast<std::size_t>(s.rows.last));
        std::copy_n(rows.data,
                    rows.rows * vocabulary,
                    logits_.data() + static_cast<std::size_t>(s.first_row) * vocabulary);
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
  return {logits_.data(), request.rows, static_cast<index_t>(vocabulary)};
}

}  // namespace demo
