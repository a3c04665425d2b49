// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

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

/// A sequence of a trace, as the session started it.
struct trace_sequence {
  index_t slot = 0;      ///< Slot of the session.
  sequence_shape shape;  ///< Its geometry and seed.
  /// Its tokens, in the host's memory, after session::start(). They must outlive the sequence: its
  /// end is written from them.
  std::span<const token_id> tokens;
  /// As start_options::editable: a mark for each position. Null: a position after the
  /// prompt is fixed if it does not hold the mask token. Read by trace_writer::start() alone.
  const std::uint8_t* editable = nullptr;
  /// Tokens that a constraint filled before the first pass: session::candidates() after the start.
  std::span<const candidate_entry> filled = {};
  /// Its policy. Null: that of the head.
  std::shared_ptr<const trace_policy> policy = {};
  /// Positions that it has at its start, prompt included, if the answer may grow; 0: all.
  index_t begin_length = 0;
  /// start_options::soft_tokens, so that no step allocates.
  index_t soft_tokens = 0;
};

}  // namespace unmask
