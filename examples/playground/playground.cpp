// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The playground's decodes in WebAssembly: a small model, a policy by name, a trace. page.js makes
// the calls.
#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/checkers.hpp"
#include "demo/engine.hpp"
#include "demo/trace_head.hpp"

namespace {

using unmask::index_t;
using unmask::token_id;

/// One sequence that is decoded step by step.
class decode {
 public:
  decode(demo::engine& model,
         const std::string& name,
         const std::string& policy,
         const std::string& prompt,
         const std::string& given,
         index_t answer_length,
         index_t block_length,
         std::uint64_t seed,
         unmask::constraint* language)
      : model_(model)
      , tokens_{model.canvas(prompt, answer_length, given)} {
    const auto length = static_cast<index_t>(tokens_[0].size());
    const unmask::sequence_shape shape{.prompt_length = length - answer_length,
                                       .length = length,
                                       .block_length = block_length,
                                       .seed = seed};
    const unmask::session_capacity capacity{.sequences = 1,
                                            .length = length,
                                            .window = answer_length,
                                            .branches = unmask::max_branches,
                                            .trace = true};
    session_ = std::make_unique<unmask::named_session>(
        unmask::read_policy(policy), model.info(), capacity);
    trace_.emplace(
        [this](std::string_view line) {
          lines_ += line;
          return true;
        },
        demo::head_of_trace(model, name, policy));
    const std::vector<std::uint8_t> editable = model.text().masked(tokens_[0]);
    const unmask::constrained_field answer{.language = language};
    const std::size_t fields = language == nullptr ? 0 : 1;
    session_->start(0, tokens_[0], shape, {.editable = editable, .constraints = {&answer, fields}});
    trace_->start({.slot = 0, .shape = shape, .tokens = tokens_[0]}, *session_);
  }

  /// Runs one forward pass. Returns false if the sequence had ended.
  bool step() {
    const auto request = session_->next();
    if (!request) {
      return false;
    }
    trace_->request(*request, *session_);
    const auto start = std::chrono::steady_clock::now();
    const auto logits = model_.forward(*session_, *request, tokens_);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      session_->read(i, logits[i]);
    }
    session_->decide();
    trace_->step(*session_, took.count());
    model_.keep(0, session_->planned(0).winner);
    return true;
  }

  /// The trace so far.
  [[nodiscard]] const std::string& lines() const { return lines_; }

  [[nodiscard]] const unmask::sequence_report& report() const { return session_->report(0); }

  /// All tokens.
  [[nodiscard]] const std::vector<token_id>& tokens() const { return tokens_[0]; }

 private:
  demo::engine& model_;
  std::vector<std::vector<token_id>> tokens_;  // [slot]
  std::unique_ptr<unmask::named_session> session_;
  std::optional<unmask::trace_writer> trace_;
  std::string lines_;
};

// A constraint needs the bytes of each token: special ones have none.
unmask::vocabulary vocabulary_of(const demo::engine& of) {
  const example::char_tokenizer& text = of.text();
  const auto never = text.never();
  std::vector<std::string> words;
  for (int v = 0; v < static_cast<int>(text.vocabulary()); ++v) {
    const bool is_special = v == text.mask() || v == text.end() || v == text.begin() ||
                            std::find(never.begin(), never.end(), v) != never.end();
    words.push_back(is_special ? "" : text.text_of(v));
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  return {views, of.info()};
}

std::map<std::string, demo::engine> models;
demo::engine* model = nullptr;  // of the decode that runs
std::unique_ptr<decode> running;
std::optional<unmask::constraint> language;  // of the answers; none: any text
std::string said;                            // the last string that a call returned
int wrong_column = 0;                        // of the policy's text, from 1; 0: none

/// Returns the message of an error, empty without one.
template <class F>
const char* attempt(F&& work) {
  said.clear();
  wrong_column = 0;
  try {
    work();
  } catch (const unmask::policy_text_error& e) {
    said = e.what();
    wrong_column = static_cast<int>(e.column());
  } catch (const std::exception& e) {
    said = e.what();
  }
  return said.c_str();
}

}  // namespace

// Calls that return a text return it until the next call; an error is a sentence, "" if there is
// none.
extern "C" {

/// Loads a model, which then has a name.
const char* playground_load(const char* name, const char* file) {
  return attempt([=] { models.try_emplace(name, file, 1); });
}

/// Checks the text of a policy.
const char* playground_check(const char* policy) {
  return attempt([policy] { static_cast<void>(unmask::read_policy(policy)); });
}

/// Column of the last error in the text of a policy, from 1; 0 if it has none.
int playground_column() {
  return wrong_column;
}

/// Reads the table of the language that answers of a model obey from now on, a file of
/// write_byte_table(); "": any text.
const char* playground_language(const char* name, const char* file) {
  return attempt([=] {
    running.reset();
    language.reset();
    if (*file != '\0') {
      language.emplace(
          unmask::constraint::read(file, vocabulary_of(models.at(name)), {.bytes = 4 << 20}));
    }
  });
}

/// Begins a decode. `given` has the answer's positions that are known, and '_' for the others; ""
/// means that none is.
const char* playground_start(const char* name,
                             const char* policy,
                             const char* prompt,
                             const char* given,
                             int answer_length,
                             int block_length,
                             double seed) {
  return attempt([=] {
    running.reset();
    model = &models.at(name);
    running = std::make_unique<decode>(*model,
                                       name,
                                       policy,
                                       prompt,
                                       given,
                                       index_t{answer_length},
                                       index_t{block_length},
                                       static_cast<std::uint64_t>(seed),
                                       language ? &*language : nullptr);
  });
}

/// Whether a text is the solution of a Sudoku of 6 x 6 cells.
int playground_solves(const char* given, const char* answer) {
  return demo::sudoku_6x6(given, answer) ? 1 : 0;
}

/// Runs one forward pass of the decode: 1 if there was one, 0 at its end, -1 on an error, which
/// playground_said() has.
int playground_step() {
  bool stepped = false;
  attempt([&stepped] { stepped = running != nullptr && running->step(); });
  return !said.empty() ? -1 : stepped ? 1 : 0;
}

const char* playground_said() {
  return said.c_str();
}

/// The trace of the decode so far.
const char* playground_trace() {
  return running != nullptr ? running->lines().c_str() : "";
}

/// The answer, up to its EOS token.
const char* playground_answer(int answer_length) {
  return attempt([=] {
    if (running == nullptr) {
      return;
    }
    const std::vector<token_id>& tokens = running->tokens();
    said = model->text().decode(
        std::span(tokens).last(std::min(tokens.size(), static_cast<std::size_t>(answer_length))));
  });
}

/// Candidates of the decode that the language refused, and tokens that it filled in without a pass.
int playground_refused() {
  return running != nullptr ? running->report().refused : 0;
}
int playground_filled() {
  return running != nullptr ? running->report().filled : 0;
}

/// All parts of policies with their arguments, as text.
const char* playground_parts() {
  said = unmask::describe_parts();
  return said.c_str();
}

}  // extern "C"
