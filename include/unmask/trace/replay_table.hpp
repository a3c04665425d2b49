// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/replay.hpp>
#include <unmask/trace/trace_reader.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace UNMASK_NAMESPACE {

/// One sequence of a trace, as `replay` needs it. Host only; it must outlive the sessions that
/// replay it, and does not move its arrays when it is moved.
///
/// The token of a winning lookahead branch is committed one step earlier than the trace says: in
/// the step whose logits proposed it, so that the next step's logits have it in place, as those of
/// the branch did.
///
/// Errors: std::invalid_argument that names line, step and position of what no policy without a
/// canvas can have done: a canvas cannot be replayed.
class replay_table {
 public:
  /// The table of one sequence of a trace. Errors: std::invalid_argument.
  explicit replay_table(const trace& from, std::size_t sequence = 0) {
    if (sequence >= from.sequences.size()) {
      throw std::invalid_argument("trace: it has " + std::to_string(from.sequences.size()) +
                                  " sequences, none has the index " + std::to_string(sequence));
    }
    const traced_sequence& s = from.sequences[sequence];
    view_.mask = from.info.mask_token;
    view_.vocab = from.info.vocab;
    view_.shape = s.shape;
    view_.end = s.end;
    check_shape(s);
    for (const traced_step& step : s.steps) {
      add(step);
    }
    index_t freeze = s.shape.length;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      freeze = std::min(freeze, steps_[i].score.first);
      steps_[i].freeze = freeze;
    }
    view_.count = static_cast<index_t>(steps_.size());
    view_.fills =
        !s.final_tokens.empty() &&
        std::find(s.final_tokens.begin(), s.final_tokens.end(), view_.mask) == s.final_tokens.end();
    steps_.emplace_back();  // so that the view of an empty trace is one, too
    view_.steps = steps_.data();
    view_.entries = entries_.data();
  }
  /// Moves the arrays; views stay valid.
  replay_table(replay_table&&) = default;
  /// Moves the arrays; views of the other table stay valid.
  replay_table& operator=(replay_table&&) = default;

  /// The table for replay::trace.
  [[nodiscard]] const replay_view& view() const { return view_; }
  /// The steps, for a copy on a device.
  [[nodiscard]] std::span<const replay_step> steps() const { return steps_; }
  /// The entries, for a copy on a device.
  [[nodiscard]] std::span<const replay_entry> entries() const { return entries_; }
  /// The tokens before the first step, to start the sequence with.
  [[nodiscard]] const std::vector<token_id>& tokens() const { return tokens_; }
  /// A byte for each position, 0 = fixed: start_options::editable.
  [[nodiscard]] const std::vector<std::uint8_t>& editable() const { return editable_; }

 private:
  enum class state : std::uint8_t { fixed, masked, committed };

  [[noreturn]] static void
  fail(const traced_step& step, index_t position, const std::string& what) {
    throw std::invalid_argument("trace, line " + std::to_string(step.line) + ": step " +
                                std::to_string(step.step) + ", position " +
                                std::to_string(position) + ": " + what);
  }

  void check_shape(const traced_sequence& s) {
    const sequence_shape& g = s.shape;
    const auto length = static_cast<std::size_t>(std::max(g.length, 0));
    const bool is_shape = g.prompt_length >= 0 && g.prompt_length <= g.length &&
                          g.length <= max_length && g.block_length >= 1;
    if (!is_shape || s.tokens.size() != length) {
      throw std::invalid_argument("trace: slot " + std::to_string(s.slot) +
                                  " has no sequence: as many tokens as its length, " +
                                  std::to_string(g.length) +
                                  ", of which the prompt has at most all");
    }
    tokens_ = s.tokens;
    editable_.assign(length, 1);
    std::fill_n(editable_.begin(), g.prompt_length, std::uint8_t{0});
    for (const index_t p : s.fixed) {
      if (p < 0 || p >= g.length) {
        throw std::invalid_argument("trace: fixed position " + std::to_string(p) +
                                    " is outside the sequence");
      }
      editable_[static_cast<std::size_t>(p)] = 0;
    }
    for (const std::uint8_t is_masked : editable_) {
      state_.push_back(is_masked != 0 ? state::masked : state::fixed);
    }
  }

  void add(const traced_step& step) {
    const sequence_shape& g = view_.shape;
    const auto index = static_cast<index_t>(steps_.size());
    if (step.step != index) {
      fail(step, step.score.first, "the step must be " + std::to_string(index));
    }
    if (step.score.first < g.prompt_length || step.score.last > g.length ||
        step.score.first >= step.score.last) {
      fail(step, step.score.first, "the scored range must lie in the answer");
    }
    const auto first = static_cast<index_t>(entries_.size());
    index_t before = step.score.first - 1;
    for (std::size_t i = 0; i < step.position.size(); ++i) {
      const index_t p = step.position[i];
      if (step.outcome[i] == candidate_outcome::filled) {
        fail(step, p, "a constraint filled it, which a replay has not: record without filling");
      }
      if (p <= before || p >= step.score.last) {
        fail(step, p, "positions must ascend within the scored range");
      }
      before = p;
      if (step.outcome[i] == candidate_outcome::from_branch) {
        commit_before(step, p, step.token[i]);
      } else {
        entries_.push_back({p, step.token[i], action_of(step, i)});
      }
    }
    const index_t pass = std::clamp(step.keys.last, step.score.last, g.length);
    steps_.push_back({step.score, pass, 0, first, static_cast<index_t>(entries_.size())});
    view_.reach = std::max(view_.reach, step.score.size());
  }

  // Commits the token of a branch in the step before.
  void commit_before(const traced_step& step, index_t position, token_id token) {
    check_token(step, position, token);
    check_written(step, position, token);
    state& now = state_[static_cast<std::size_t>(position)];
    const bool has_step = !steps_.empty();
    const auto begin = entries_.begin() + (has_step ? steps_.back().first : 0);
    const auto end = entries_.begin() + (has_step ? steps_.back().last : 0);
    const auto at = std::lower_bound(
        begin, end, position, [](const replay_entry& e, index_t p) { return e.position < p; });
    if (now != state::masked || at == end || at->position != position) {
      fail(step, position, "the token of a branch must be a masked candidate of the step before");
    }
    *at = {position, token, replay_action::commit};
    now = state::committed;
  }

  [[nodiscard]] replay_action action_of(const traced_step& step, std::size_t i) {
    const index_t p = step.position[i];
    state& now = state_[static_cast<std::size_t>(p)];
    const candidate_outcome outcome = step.outcome[i];
    const bool was_committed = outcome == candidate_outcome::replaced ||
                               outcome == candidate_outcome::remasked ||
                               outcome == candidate_outcome::kept;
    if (now != (was_committed ? state::committed : state::masked)) {
      fail(step,
           p,
           now == state::fixed       ? "it is fixed"
           : now == state::committed ? "it is committed already; a canvas cannot be replayed"
                                     : "it is masked, there is no token to change");
    }
    check_token(step, p, step.token[i]);
    switch (outcome) {
    case candidate_outcome::committed:
    case candidate_outcome::forced:
      check_written(step, p, step.token[i]);
      now = state::committed;
      return replay_action::commit;
    case candidate_outcome::replaced:
      check_written(step, p, step.token[i]);
      view_.edits = true;
      return replay_action::replace;
    case candidate_outcome::remasked:
      view_.edits = true;
      ++view_.remasked;
      now = state::masked;
      return replay_action::remask;
    default:
      return replay_action::hold;
    }
  }

  void check_token(const traced_step& step, index_t position, token_id token) const {
    if (token < 0 || token >= view_.vocab) {
      fail(step, position, "token " + std::to_string(token) + " is outside the vocabulary");
    }
  }

  void check_written(const traced_step& step, index_t position, token_id token) const {
    if (token == view_.mask) {
      fail(step,
           position,
           "token " + std::to_string(token) + " is the mask token, which no step writes");
    }
  }

  replay_view view_;
  std::vector<token_id> tokens_;
  std::vector<std::uint8_t> editable_;
  std::vector<state> state_;
  std::vector<replay_step> steps_;
  std::vector<replay_entry> entries_;
};

}  // namespace unmask
