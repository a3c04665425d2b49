// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>
#include <unmask/trace/trace_reader.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace UNMASK_NAMESPACE {

/// What a trace did at a position in a step.
enum class replay_action : std::uint8_t { hold, commit, replace, remask };

/// A candidate of a trace.
struct replay_entry {
  index_t position = 0;                        ///< Its position.
  token_id token = no_token;                   ///< The token proposed for it.
  replay_action action = replay_action::hold;  ///< What the step did.
};

/// A step of a trace.
struct replay_step {
  range score;         ///< Positions that it decided.
  index_t pass = 0;    ///< One behind the last position that its forward pass attended to.
  index_t freeze = 0;  ///< Positions before this one are decided in no later step.
  index_t first = 0;   ///< Index of the first of its entries.
  index_t last = 0;    ///< One behind the last of its entries.
};

/// The table of a replay, for host and device: pointers to the arrays of a replay_table, or to
/// copies of them on a device.
struct replay_view {
  const replay_step* steps = nullptr;     ///< The steps.
  const replay_entry* entries = nullptr;  ///< The entries of all steps, each ascending.
  index_t count = 0;                      ///< Number of steps.
  ending end = ending::running;           ///< Why the sequence ended; running: not known.
  bool fills = false;                     ///< Whether no position is masked at the end.
  bool edits = false;                     ///< Whether a step replaces or remasks a token.
  index_t remasked = 0;                   ///< Number of remasked tokens.
  index_t reach = 0;                      ///< Most positions that a step decides.
  index_t vocab = 0;                      ///< Vocabulary size of the model.
  token_id mask = no_token;               ///< Its mask token; no_token: not known.
  sequence_shape shape;                   ///< Shape of the sequence.

  /// The entry of a position in a step; null if there is none. Cost: O(log entries).
  [[nodiscard]] UNMASK_HD const replay_entry* find(index_t step, index_t position) const {
    if (step < 0 || step >= count) {
      return nullptr;
    }
    index_t low = steps[step].first;
    index_t high = steps[step].last;
    while (low < high) {
      const index_t middle = (low + high) / 2;
      if (entries[middle].position < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool is_there = low < steps[step].last && entries[low].position == position;
    return is_there ? entries + low : nullptr;
  }
  /// The action at a position in a step; hold without an entry.
  [[nodiscard]] UNMASK_HD replay_action action_at(index_t step, index_t position) const {
    const replay_entry* const found = find(step, position);
    return found != nullptr ? found->action : replay_action::hold;
  }
};

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
