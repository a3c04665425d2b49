// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/semi_autoregressive.hpp>

namespace UNMASK_NAMESPACE {

/// Action of a trace at a position in a step.
enum class replay_action : std::uint8_t { hold, commit, replace, remask };

/// A candidate of a trace.
struct replay_entry {
  index_t position = 0;                        ///< Its position.
  token_id token = no_token;                   ///< The token proposed for it.
  replay_action action = replay_action::hold;  ///< Action of the step.
};

/// A position of the scored range that text moves at.
struct replay_move {
  index_t position = 0;  ///< Index in the range, before the step.
  index_t inserts = 0;   ///< Masked positions that are put before it; -1: it is erased.
};

/// A step of a trace.
struct replay_step {
  range score;         ///< Positions that it decided.
  index_t pass = 0;    ///< One past the last position that its forward pass attended to.
  index_t freeze = 0;  ///< Positions before this one are decided in no later step.
  index_t first = 0;   ///< Index of the first of its entries.
  index_t last = 0;    ///< One past the last of its entries.
  /// In a step that moves text: its moves, the size that the range gets, and the committed
  /// positions that are appended to it, with their token.
  index_t first_move = 0;
  index_t last_move = 0;      ///< One past the last of its moves.
  index_t size = -1;          ///< Size of the range after the step; -1: no text moves.
  index_t appended = 0;       ///< Positions that are appended.
  token_id token = no_token;  ///< Their token.
  /// One past the last of the tokens that a constraint filled in this step or before it.
  index_t last_filled = 0;
};

/// The table of a replay, for host and device: pointers to the arrays of a replay_table, or to
/// copies of them on a device.
struct replay_view {
  const replay_step* steps = nullptr;     ///< The steps.
  const replay_entry* entries = nullptr;  ///< The entries of all steps, each ascending.
  const replay_move* moves = nullptr;     ///< The moves of all steps, each ascending.
  /// The tokens that a constraint filled: those before the first step, then those of each step,
  /// each ascending.
  const detail::placed_token* filled = nullptr;
  index_t filled_at_start = 0;   ///< Number of those before the first step.
  index_t count = 0;             ///< Number of steps.
  ending end = ending::running;  ///< Why the sequence ended; running: not known.
  bool fills = false;            ///< Whether no position is masked at the end.
  bool edits = false;            ///< Whether a step replaces or remasks a token.
  bool moves_text = false;       ///< Whether a step moves text, or the answer grows.
  index_t begin_length = 0;      ///< Positions that the sequence has at its start.
  index_t remasked = 0;          ///< Number of remasked tokens.
  index_t reach = 0;             ///< Most positions that a step decides.
  index_t vocab = 0;             ///< Vocabulary size of the model.
  token_id mask = no_token;      ///< Its mask token; no_token: not known.
  sequence_shape shape;          ///< Shape of the sequence.

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

/// Decodes as a trace did: commits its tokens in its steps, whatever the logits are, and reports
/// the log-probability that these logits give them (session::committed(), candidates()).
///
/// It ranks, is the commit rule and the schedule, draws, edits tokens and stops; parts that edit
/// logits, caches and layer rules of the recorded policy are added to it. The trace's token is the
/// proposed one at every candidate; its log-probability is -inf where the row excludes it, is
/// invalid, or left the pass at a layer. A constraint masks the rows; it refuses and fills nothing,
/// because the trace has what it filled.
///
///     const replay_table table(read_trace(text), 0);
///     const policy again{replay{table.view()}, trace_credit{}};
///
/// State: none; `trace` must outlive the session, in memory that the backend can read.
/// Cost: O(log candidates) a candidate, and O(candidates) a step.
/// Errors: a sequence of another shape, vocabulary or mask token than the trace's; a trace in which
/// text moves, which named_policy::replaying replays.
struct replay {
  replay_view trace = {};  ///< The view of a replay_table (trace/replay_table.hpp).

  static constexpr statistics required = stat::confidence | stat::sampled;
  static constexpr bool paces = true;
  static constexpr part_label label{"replay", "what a trace did, in the same steps"};

  void check(const sequence_shape& g, const model_info& m) const {
    check_argument(!trace.moves_text,
                   "replay::trace",
                   "a trace in which text moves",
                   "replayed by named_policy::replaying()");
    check_trace(g, m);
  }
  /// Like check(), for a trace in which text may move.
  void check_trace(const sequence_shape& g, const model_info& m) const {
    const sequence_shape& t = trace.shape;
    check_argument(trace.steps != nullptr, "replay::trace", "none", "the view of a replay_table");
    check_argument(g.length == t.length, "length", g.length, "that of the trace, ", t.length);
    check_argument(g.prompt_length == t.prompt_length,
                   "prompt_length",
                   g.prompt_length,
                   "that of the trace, ",
                   t.prompt_length);
    check_argument(m.vocab == trace.vocab, "vocab", m.vocab, "that of the trace, ", trace.vocab);
    check_argument(trace.mask == no_token || m.mask_token == trace.mask,
                   "mask_token",
                   m.mask_token,
                   "that of the trace, ",
                   trace.mask);
  }
  [[nodiscard]] index_t reach(const sequence_shape&) const { return trace.reach; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return std::int64_t{trace.count} + trace.remasked;
  }

  UNMASK_HD float score(const auto&) const { return 0.0F; }
  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    return trace.action_at(context.at.step, c.position) == replay_action::commit;
  }
  /// Whether the trace replaces or remasks a token.
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return trace.edits; }
  UNMASK_HD verdict edit_token(const auto& c, const auto& context) const {
    const replay_action action = trace.action_at(context.at.step, c.position);
    return action == replay_action::replace  ? verdict::replace
           : action == replay_action::remask ? verdict::remask
                                             : verdict::keep;
  }

  /// The tokens that a constraint filled in a step; -1: before the first.
  [[nodiscard]] UNMASK_HD detail::placed_tokens filled_tokens(index_t step) const {
    if (step >= trace.count) {
      return {};
    }
    const index_t first = step < 0    ? 0
                          : step == 0 ? trace.filled_at_start
                                      : trace.steps[step - 1].last_filled;
    const index_t last = step < 0 ? trace.filled_at_start : trace.steps[step].last_filled;
    return {trace.filled + first, last - first};
  }
  [[nodiscard]] UNMASK_HD float draw_temperature() const { return 1.0F; }
  [[nodiscard]] UNMASK_HD token_id forced_token(const step_info& at) const {
    const replay_entry* const found = trace.find(at.step, at.position);
    return found != nullptr ? found->token : no_token;
  }

  UNMASK_HD ending stop(const sequence_view& q, auto&) const {
    return q.step >= trace.count && trace.fills ? trace.end : ending::running;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    if (q.step >= trace.count) {
      next.end = q.masked_count == 0            ? ending::complete
                 : trace.end == ending::running ? ending::max_steps
                                                : trace.end;
      return;
    }
    const replay_step& now = trace.steps[q.step];
    next.query = {0, now.pass};
    next.score = now.score;
    next.freeze = {0, now.freeze};
    // The last pass over a block that is already decided has no row.
    const index_t last = math::max(now.score.last - 1, q.prompt_length);
    next.first_block = q.block_of(math::min(now.score.first, last));
    next.last_block = q.block_of(last) + 1;
    if (next.last_block - next.first_block > max_active_blocks) {
      q.block_length = q.length - q.prompt_length;
      next.first_block = 0;
      next.last_block = 1;
    }
    // The blocks that commit: a layer rule keeps a position of each.
    for (index_t i = now.first; i < now.last; ++i) {
      const replay_entry& e = trace.entries[i];
      if (e.action == replay_action::commit) {
        next.forced |= std::uint64_t{1} << (q.block_of(e.position) - next.first_block);
      }
    }
  }
};
static_assert(ranking<replay> && commit_rule<replay> && token_editing<replay> && forcing<replay> &&
              pacing<replay> && stopping<replay> && reaching<replay> && extending<replay>);

}  // namespace unmask
