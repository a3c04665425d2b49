// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/sequence_view.hpp>
#include <unmask/policy/replay.hpp>
#include <unmask/trace/trace_reader.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE {

/// One sequence of a trace, as `replay` needs it. Host only; it must outlive the sessions that
/// replay it, and does not move its arrays when it is moved.
///
/// The token of a winning lookahead branch is committed one step earlier than the trace says: in
/// the step whose logits proposed it, so that the next step's logits have it in place, as the
/// logits of the branch had. A token that all members of a beam have is committed in the step of
/// the trace.
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
      if (step.first_moved >= 0) {
        const bool is_filled = &step == &s.steps.back() && s.end != ending::running &&
                               s.end != ending::complete && s.end != ending::cancelled;
        move(step, is_filled ? from.info.eos_token : no_token);
      }
    }
    index_t freeze = s.shape.length;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      freeze = std::min(freeze, steps_[i].score.first);
      steps_[i].freeze = freeze;
    }
    view_.count = static_cast<index_t>(steps_.size());
    view_.fills = !s.final_tokens.empty();
    for (std::size_t p = 0; p < std::min(text_.size(), s.final_tokens.size()); ++p) {
      const bool stays_masked = text_[p].is == mark::masked && s.final_tokens[p] == view_.mask;
      view_.fills = view_.fills && !stays_masked;
    }
    steps_.emplace_back();  // so that the view of an empty trace is also valid
    view_.steps = steps_.data();
    view_.entries = entries_.data();
    view_.moves = moves_.data();
    view_.filled = filled_.data();
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
  /// The moves, for a copy on a device.
  [[nodiscard]] std::span<const replay_move> moves() const { return moves_; }
  /// The filled tokens, for a copy on a device.
  [[nodiscard]] std::span<const detail::placed_token> filled() const { return filled_; }
  /// The tokens before the first step, to start the sequence with.
  [[nodiscard]] const std::vector<token_id>& tokens() const { return tokens_; }
  /// A mark for each position: start_options::editable.
  [[nodiscard]] const std::vector<std::uint8_t>& editable() const { return editable_; }
  /// Whether a constraint filled positions, at the start or in a step. The sequence must then be
  /// started with the same constraint.
  [[nodiscard]] bool has_filled() const { return !filled_.empty(); }

 private:
  struct place {
    token_id token = no_token;
    mark is = mark::masked;
  };

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
      throw std::invalid_argument(
          "trace: slot " + std::to_string(s.slot) +
          " has no sequence: it must have the number of tokens of its length, " +
          std::to_string(g.length) + ", and no longer a prompt");
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
    for (const index_t p : s.committed) {
      if (p < g.prompt_length || p >= g.length || editable_[static_cast<std::size_t>(p)] == 0) {
        throw std::invalid_argument("trace: committed position " + std::to_string(p) +
                                    " is fixed or outside the answer");
      }
      editable_[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(mark::committed);
    }
    text_.reserve(length);
    for (std::size_t p = 0; p < length; ++p) {
      const auto is = static_cast<mark>(editable_[p]);
      text_.push_back({is == mark::masked ? view_.mask : s.tokens[p], is});
    }
    const bool grows = s.begin_length > 0;
    if (grows && (s.begin_length < g.prompt_length || s.begin_length > g.length)) {
      throw std::invalid_argument("trace: slot " + std::to_string(s.slot) + " begins with " +
                                  std::to_string(s.begin_length) +
                                  " positions, more than its length or fewer than its prompt");
    }
    view_.begin_length = grows ? s.begin_length : g.length;
    view_.moves_text = view_.begin_length < g.length;
    text_.resize(static_cast<std::size_t>(view_.begin_length));
    index_t before = -1;
    for (const index_t p : s.filled) {
      if (p <= before || p >= view_.begin_length ||
          text_[static_cast<std::size_t>(p)].is != mark::masked ||
          s.tokens[static_cast<std::size_t>(p)] == view_.mask ||
          !is_token(s.tokens[static_cast<std::size_t>(p)])) {
        throw std::invalid_argument("trace: filled position " + std::to_string(p) +
                                    " is fixed, committed, masked or outside the answer, or not "
                                    "after the one before it");
      }
      before = p;
      fill(p, s.tokens[static_cast<std::size_t>(p)]);
    }
    view_.filled_at_start = static_cast<index_t>(filled_.size());
  }

  void add(const traced_step& step) {
    const sequence_shape& g = view_.shape;
    const auto index = static_cast<index_t>(steps_.size());
    if (step.step != index) {
      fail(step, step.score.first, "the step must be " + std::to_string(index));
    }
    if (step.score.first < g.prompt_length || step.score.last > length() ||
        step.score.first > step.score.last) {
      fail(step, step.score.first, "the scored range must lie in the answer");
    }
    range score = step.score;
    for (const candidate_entry& e : step.candidates) {
      const index_t p = e.position;
      if (is_of_beam(step, e) && p >= g.prompt_length && p < length()) {
        score = {std::min(score.first, p), std::max(score.last, p + 1)};
      }
    }
    const auto first = static_cast<index_t>(entries_.size());
    index_t before = g.prompt_length - 1;
    for (const candidate_entry& e : step.candidates) {
      const index_t p = e.position;
      // A committed position that a part masked and a constraint filled in one step was replaced.
      const bool is_filled = e.outcome == candidate_outcome::filled &&
                             !(score.contains(p) && p < length() && is_committed(p));
      if (p <= before || p >= length() || (!is_filled && !score.contains(p))) {
        fail(step, p, "positions must ascend within the scored range");
      }
      before = p;
      if (is_filled) {
        fill(step, p, e.token);
      } else if (e.outcome == candidate_outcome::from_branch && !is_of_beam(step, e)) {
        commit_before(step, p, e.token);
      } else {
        entries_.push_back({p, e.token, action_of(step, e)});
      }
    }
    const index_t pass = std::clamp(step.keys.last, score.last, g.length);
    steps_.push_back({score, pass, 0, first, static_cast<index_t>(entries_.size())});
    const auto first_move = static_cast<index_t>(moves_.size());
    steps_.back().first_move = first_move;
    steps_.back().last_move = first_move;
    steps_.back().last_filled = static_cast<index_t>(filled_.size());
    view_.reach = std::max(view_.reach, score.size());
  }

  [[nodiscard]] bool is_committed(index_t position) const {
    return position >= 0 && text_[static_cast<std::size_t>(position)].is == mark::committed;
  }
  // Whether all members of a beam have the token of a candidate. They may have left its block.
  [[nodiscard]] static bool is_of_beam(const traced_step& step, const candidate_entry& e) {
    return e.outcome == candidate_outcome::from_branch && step.winner < 0;
  }

  void fill(index_t position, token_id token) {
    filled_.push_back({position, token, true});
    text_[static_cast<std::size_t>(position)] = {token, mark::committed};
  }
  void fill(const traced_step& step, index_t position, token_id token) {
    check_token(step, position, token);
    check_written(step, position, token);
    if (text_[static_cast<std::size_t>(position)].is != mark::masked) {
      fail(step, position, "it is not masked, there is nothing to fill");
    }
    fill(position, token);
  }

  // Commits the token of a branch in the step before.
  void commit_before(const traced_step& step, index_t position, token_id token) {
    check_token(step, position, token);
    check_written(step, position, token);
    place& now = text_[static_cast<std::size_t>(position)];
    const bool has_step = !steps_.empty();
    const auto begin = entries_.begin() + (has_step ? steps_.back().first : 0);
    const auto end = entries_.begin() + (has_step ? steps_.back().last : 0);
    const auto at = std::lower_bound(
        begin, end, position, [](const replay_entry& e, index_t p) { return e.position < p; });
    if (now.is != mark::masked || at == end || at->position != position) {
      fail(step, position, "the token of a branch must be a masked candidate of the step before");
    }
    *at = {position, token, replay_action::commit};
    now = {token, mark::committed};
  }

  [[nodiscard]] replay_action action_of(const traced_step& step, const candidate_entry& e) {
    const index_t p = e.position;
    place& now = text_[static_cast<std::size_t>(p)];
    const candidate_outcome outcome = e.outcome;
    const bool was_committed =
        outcome == candidate_outcome::replaced || outcome == candidate_outcome::filled ||
        outcome == candidate_outcome::remasked || outcome == candidate_outcome::kept ||
        (outcome == candidate_outcome::refused && now.is == mark::committed);
    if (now.is != (was_committed ? mark::committed : mark::masked)) {
      fail(step,
           p,
           now.is == mark::fixed       ? "it is fixed"
           : now.is == mark::committed ? "it is committed already; a canvas cannot be replayed"
                                       : "it is masked and has no token to change");
    }
    check_token(step, p, e.token);
    switch (outcome) {
    case candidate_outcome::committed:
    case candidate_outcome::forced:
    case candidate_outcome::from_branch:  // all members of a beam have it
      check_written(step, p, e.token);
      now = {e.token, mark::committed};
      return replay_action::commit;
    case candidate_outcome::replaced:
    case candidate_outcome::filled:
      check_written(step, p, e.token);
      now.token = e.token;
      view_.edits = true;
      return replay_action::replace;
    case candidate_outcome::remasked:
      view_.edits = true;
      ++view_.remasked;
      now = {view_.mask, mark::masked};
      return replay_action::remask;
    default:
      return replay_action::hold;
    }
  }

  [[nodiscard]] index_t length() const { return static_cast<index_t>(text_.size()); }

  // Adds the moves that lead from the text to that after a step. Which of two equal tokens moved is
  // not in a trace, and changes no decision: no part that combines with text that moves keeps state
  // at positions, and a trace edits no token that is fixed. `filler`: the EOS token of a step after
  // which the end of the sequence filled masked positions, which then are masked ones; or no_token.
  void move(const traced_step& step, token_id filler) {
    const range block = step.score;
    const index_t first = step.first_moved;
    const index_t end = first + static_cast<index_t>(step.after.size());
    const bool ends = block.last == length();
    if (first < block.first || first > block.last || end > view_.shape.length ||
        (!ends && end != length())) {
      fail(step, first, "the text that moved must lie in the scored range, or end with it");
    }
    const auto after = [&](index_t p) {
      return p < first ? text_[static_cast<std::size_t>(p)].token
                       : step.after[static_cast<std::size_t>(p - first)];
    };
    for (index_t p = block.last; !ends && p < end; ++p) {
      const place& was = text_[static_cast<std::size_t>(p)];
      if (after(p) != was.token && !(after(p) == filler && was.is == mark::masked)) {
        fail(step, p, "text after the scored range has also moved");
      }
    }
    const index_t last = ends ? end : block.last;
    std::vector<place> moved(text_.begin(), text_.begin() + block.first);
    index_t from = block.first;
    index_t inserts = 0;
    index_t to = block.first;
    for (; from < block.last && to < last; ++to) {
      token_id token = after(to);
      check_token(step, to, token);
      // The text changes at `first`, also where the tokens are equal.
      const bool is_first = to == first && from == first;
      if (token == filler && (is_first || text_[static_cast<std::size_t>(from)].token != filler)) {
        token = view_.mask;
      }
      if (token == view_.mask &&
          (is_first || text_[static_cast<std::size_t>(from)].token != token)) {
        ++inserts;
        moved.push_back({view_.mask, mark::masked});
        continue;
      }
      while (from < block.last && ((is_first && from == first) ||
                                   text_[static_cast<std::size_t>(from)].token != token)) {
        moves_.push_back({from - block.first, -1});
        ++from;
      }
      if (from == block.last) {
        break;
      }
      if (inserts > 0) {
        moves_.push_back({from - block.first, inserts});
      }
      inserts = 0;
      moved.push_back(text_[static_cast<std::size_t>(from)]);
      ++from;
    }
    if (inserts > 0 && from < block.last) {
      moves_.push_back({from - block.first, inserts});
    }
    for (; to < last && (after(to) == view_.mask || after(to) == filler); ++to) {
      moved.push_back({view_.mask, mark::masked});
    }
    replay_step& now = steps_.back();
    now.last_move = static_cast<index_t>(moves_.size());
    now.size = to - block.first;
    now.appended = last - to;
    for (; to < last; ++to) {
      now.token = now.token == no_token ? after(to) : now.token;
      check_token(step, to, now.token);
      if (after(to) != now.token || now.token == view_.mask || !ends) {
        fail(step, to, "token " + std::to_string(after(to)) + " was nowhere before the step");
      }
      moved.push_back({now.token, mark::committed});
    }
    moved.insert(
        moved.end(), text_.begin() + block.last, ends ? text_.begin() + block.last : text_.end());
    text_ = std::move(moved);
    view_.moves_text = true;
  }

  [[nodiscard]] bool is_token(token_id token) const { return token >= 0 && token < view_.vocab; }
  void check_token(const traced_step& step, index_t position, token_id token) const {
    if (!is_token(token)) {
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
  std::vector<place> text_;  // before the next step
  std::vector<replay_step> steps_;
  std::vector<replay_entry> entries_;
  std::vector<replay_move> moves_;
  std::vector<detail::placed_token> filled_;
};

}  // namespace unmask
