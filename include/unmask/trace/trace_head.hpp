// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>
#include <unmask/core/validate.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The words of a trace, and what a program adds to what its session knows.
namespace UNMASK_NAMESPACE {

/// The format that trace_writer writes.
inline constexpr std::string_view trace_format = "unmask-trace/1";

/// The letters of candidate_outcome in a trace.
inline constexpr std::string_view trace_outcomes = "cfhxierkwgl";

/// The words of `ending` in a trace.
inline constexpr std::array<std::string_view, 6> trace_endings = [] {
  std::array<std::string_view, 6> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = name_of(static_cast<ending>(i));
  }
  return words;
}();

/// Takes the lines of a trace, one in each call, with its line end. Returns false if it could not
/// keep the line; the trace then ends there, readable up to its last whole line. So it does if the
/// sink throws.
using trace_sink = std::function<bool(std::string_view)>;

/// A policy of one sequence.
struct trace_policy {
  std::string text;                ///< Its text.
  std::vector<std::string> parts;  ///< Its parts in written order: part_texts().
};

/// Contents of a trace that its session does not know.
struct trace_head {
  std::string model;               ///< Name of the model.
  model_info info;                 ///< The model that the session was made with.
  std::string policy;              ///< Text of the policy of sequences that name none.
  std::vector<std::string> parts;  ///< Its parts in written order: part_texts().
  /// Returns the text of a token of the vocabulary; empty: the trace has none. What it throws comes
  /// out of trace_writer; the line is written without this text, which is requested again where
  /// the token occurs again.
  std::function<std::string(token_id)> text = {};
};

/// A sequence of a trace, with what the session's start() was given.
struct trace_sequence {
  index_t slot = 0;      ///< Slot of the session.
  sequence_shape shape;  ///< Its geometry and seed.
  /// Its tokens, in the host's memory, after session::start(). They must outlive the sequence: its
  /// end is written from them.
  std::span<const token_id> tokens;
  /// Its options, read by the calls that take this alone. Without start_options::editable a
  /// position after the prompt is fixed if it does not hold the mask token.
  start_options options = {};
  /// Its policy. Null: that of the head.
  std::shared_ptr<const trace_policy> policy = {};
};

/// A step of a trace. What its line does not have is as it is here.
template <template <class...> class List>
struct trace_step {
  index_t slot = 0;                       ///< Slot of its sequence.
  index_t step = 0;                       ///< Index of the forward pass, from 0.
  std::int64_t forward = 0;               ///< Forward passes of the engine, this one included.
  index_t segment = 0;                    ///< Index of its segment in that pass.
  range score = {};                       ///< Positions that it decided.
  range compute = {};                     ///< Positions that the pass computed.
  range keys = {};                        ///< Positions that the pass attended to.
  List<candidate_entry> candidates = {};  ///< Its candidates, positions ascending.
  List<index_t> layers = {};              ///< Positions that each layer computed.
  List<placement> branches = {};          ///< Branches of lookahead, or drafts.
  index_t winner = -1;  ///< The branch of lookahead that won; -1: the sequence itself, or none.
  /// In a step that moved text: the lowest position that moved, and the text from there to its end
  /// after the step.
  index_t first_moved = -1;
  List<token_id> after = {};          ///< The tokens from `first_moved`.
  List<token_probability> soft = {};  ///< The most probable tokens of positions left masked.
  double milliseconds = -1.0;         ///< Time of the forward pass; negative: not known.
  index_t line = 0;                   ///< Its line in the text that was read, from 1.
};

/// The start of a sequence, as it is in a trace.
struct trace_start {
  index_t slot = 0;                ///< Slot of its session.
  sequence_shape shape = {};       ///< Its geometry and seed.
  std::vector<token_id> tokens;    ///< Its tokens before the first step.
  std::vector<index_t> fixed;      ///< Positions after the prompt that are given.
  std::vector<index_t> committed;  ///< Positions that are committed at the start.
  std::vector<index_t> filled;     ///< Positions that a constraint filled before the first step.
  index_t begin_length = 0;        ///< Positions at its start, if the answer may grow; 0: all.
};

}  // namespace unmask
