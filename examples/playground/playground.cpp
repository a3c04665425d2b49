// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The playground's decodes in WebAssembly: a small model, a policy by name, a trace. page.js makes
// the calls.
#include <unmask/constraint.hpp>
#include <unmask/language.hpp>
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
#include "demo/problems.hpp"
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
         unmask::constraint* language,
         bool traced)
      : model_(model)
      , prompt_length_(model.prompt_length(prompt))
      , tokens_{model.canvas(prompt, answer_length, given)} {
    const auto length = static_cast<index_t>(tokens_[0].size());
    const unmask::sequence_shape shape{.prompt_length = prompt_length_,
                                       .length = length,
                                       .block_length = block_length,
                                       .seed = seed};
    const unmask::session_capacity capacity{.sequences = 1,
                                            .length = length,
                                            .window = length - prompt_length_,
                                            .branches = unmask::max_branches,
                                            .trace = traced};
    session_ = std::make_unique<unmask::named_session>(
        unmask::read_policy(policy), model.info(), capacity);
    if (traced) {
      trace_.emplace(
          [this](std::string_view line) {
            lines_ += line;
            return true;
          },
          demo::head_of_trace(model, name, policy));
    }
    const std::vector<std::uint8_t> editable = model.text().masked(tokens_[0]);
    const unmask::constrained_field answer{.language = language};
    const std::size_t fields = language == nullptr ? 0 : 1;
    session_->start(0,
                    tokens_[0],
                    shape,
                    {.editable = editable,
                     .suppressed = model.text().never(),
                     .constraints = {&answer, fields}});
    if (trace_) {
      trace_->start({.slot = 0, .shape = shape, .tokens = tokens_[0]}, *session_);
    }
  }

  /// Runs one forward pass. Returns false if the sequence had ended.
  bool step() {
    const auto request = session_->next();
    if (!request) {
      return false;
    }
    if (trace_) {
      trace_->request(*request, *session_);
    }
    segments_ += static_cast<int>(request->segments.size());
    const auto start = std::chrono::steady_clock::now();
    const auto logits = model_.forward(*session_, *request, tokens_);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      session_->read(i, logits[i]);
    }
    session_->decide();
    if (trace_) {
      trace_->step(*session_, took.count());
    }
    model_.keep(0, session_->planned(0).winner);
    return true;
  }

  /// The trace so far.
  [[nodiscard]] const std::string& lines() const { return lines_; }

  [[nodiscard]] const unmask::sequence_report& report() const { return session_->report(0); }

  /// Segments that the model ran: the forward passes with each lookahead branch counted.
  [[nodiscard]] int segments() const { return segments_; }

  /// The tokens after the prompt.
  [[nodiscard]] std::span<const token_id> answer() const {
    return std::span(tokens_[0]).subspan(static_cast<std::size_t>(prompt_length_));
  }

 private:
  demo::engine& model_;
  index_t prompt_length_;
  int segments_ = 0;
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
int wrong_line = 0;                          // of a text, from 1; 0: none
int wrong_column = 0;                        // in that line, or of a text with one, from 1; 0: none

/// The text of a language that is refused.
class refused_text : public std::exception {
 public:
  explicit refused_text(unmask::language::refusal why)
      : why_(std::move(why)) {}
  [[nodiscard]] const char* what() const noexcept override { return why_.message.c_str(); }
  [[nodiscard]] const unmask::language::refusal& why() const { return why_; }

 private:
  unmask::language::refusal why_;
};

/// The automaton of a text: of an expression, a schema or a grammar, or the file of a table.
unmask::byte_table table_of(std::string_view kind, const std::string& text) {
  namespace language = unmask::language;
  if (kind == "table") {
    return unmask::read_byte_table(text);
  }
  const language::compile_limits limits{
      .states = 1U << 15U, .positions = 1U << 20U, .milliseconds = 3000};
  const language::compiled made =
      kind == "schema"    ? language::compile_schema(text, {.limits = limits, .longest = 256})
      : kind == "grammar" ? language::compile_grammar(text, {.limits = limits})
                          : language::compile_expression(text, {.limits = limits});
  if (!made) {
    throw refused_text(*made.refused);
  }
  return made.bytes.table();
}

/// Returns the message of an error, empty without one.
template <class F>
const char* attempt(F&& work) {
  said.clear();
  wrong_line = 0;
  wrong_column = 0;
  try {
    work();
  } catch (const unmask::policy_text_error& e) {
    said = e.what();
    wrong_column = static_cast<int>(e.column());
  } catch (const refused_text& e) {
    said = e.what();
    wrong_line = static_cast<int>(e.why().line);
    wrong_column = static_cast<int>(e.why().column);
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

/// Line and column of the last error in the text of a policy or a language, from 1; 0 if it has
/// none.
int playground_line() {
  return wrong_line;
}
int playground_column() {
  return wrong_column;
}

/// Sets the language that answers of a model obey from now on, by its text: "expression", "schema"
/// or "grammar", or "table" with the name of a file of write_byte_table(); "": any text.
const char* playground_language(const char* name, const char* kind, const char* text) {
  return attempt([=] {
    running.reset();
    language.reset();
    if (*kind != '\0') {
      language.emplace(table_of(kind, text).view(),
                       vocabulary_of(models.at(name)),
                       unmask::constraint_limits{.states = 1U << 15U, .bytes = 4U << 20U});
    }
  });
}

/// Begins a decode. `given` has the answer's positions that are known, and '_' for the others; ""
/// means that none is. `traced` is 0 where nobody reads the trace.
const char* playground_start(const char* name,
                             const char* policy,
                             const char* prompt,
                             const char* given,
                             int answer_length,
                             int block_length,
                             double seed,
                             int traced) {
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
                                       language ? &*language : nullptr,
                                       traced != 0);
  });
}

/// Whether a text is right for a problem, as demo::is_right(): by its checker, or if that is "" by
/// its answer.
int playground_right(const char* prompt,
                     const char* given,
                     const char* answer,
                     const char* checker,
                     const char* text) {
  bool right = false;
  attempt([&] {
    const demo::problem p{
        .task = "", .prompt = prompt, .answer = answer, .given = given, .checker = checker};
    right = p.checker.empty() ? p.answer == text : demo::find_checker(p.checker)(p, text);
  });
  return right ? 1 : 0;
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
const char* playground_answer() {
  return attempt([] {
    if (running != nullptr) {
      said = model->text().decode(running->answer());
    }
  });
}

/// Segments that the decode ran so far, and tokens that it committed.
int playground_segments() {
  return running != nullptr ? running->segments() : 0;
}
int playground_committed() {
  return running != nullptr ? static_cast<int>(running->report().committed) : 0;
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
