// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// Why a sequence came to its end.
enum class ending : unsigned char {
  running,      ///< it has not
  complete,     ///< no position is open any more
  end_token,    ///< an end token is settled and everything left of it is, too
  stop_tokens,  ///< a stop sequence is settled and everything left of it is, too
  step_budget,  ///< the number of forward passes it was given is used up
  cancelled     ///< the engine called cancel()
};

/// The geometry of one sequence and what belongs to this request alone.
struct layout {
  /// Positions before this one are given and never change.
  index_t prompt = 0;
  /// Number of positions, prompt included; the answer is [prompt, length).
  index_t length = 0;
  /// Positions denoised together. Blocks are counted from `prompt`; the last may be short. More
  /// than `length` counts as `length`: one block.
  index_t block_length = 32;
  /// Key of this request's random numbers; `sequence` tells requests of one seed apart.
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;
};

/// What a model fixes for every sequence decoded with it.
struct model_info {
  /// Valid columns of a logits row, at most max_vocab; padding behind them is never read.
  index_t vocab = 0;
  /// The token that stands at an open position. Must be given.
  token_id mask_token = no_token;
  /// The token that ends an answer, another than the mask token; no_token if there is none.
  token_id end_token = no_token;
  /// Row p - shift predicts position p (row 0 for the first positions): 0 LLaDA, 1 Dream.
  index_t row_shift = 0;
  /// Whether the mask token can never be proposed. Without that, a step that proposes it leaves the
  /// position open, and a model that goes on proposing it is asked for ever: most_forwards() does
  /// not hold, so add a step_budget. Only the parity presets of released code want that, and a
  /// canvas, which has a bound of its own.
  bool suppress_mask = true;
  /// Layers of the model; asked for by policies that decide which positions a layer computes.
  index_t layers = 0;
};

/// Capacities of a session; memory and grid shapes follow from them alone.
struct limits {
  /// Slots: sequences decoded at a time.
  index_t sequences = 1;
  /// Largest layout::length, at most max_length.
  index_t length = 0;
  /// Largest number of positions whose rows one step reads: the block length, or the whole
  /// answer. More than `length` counts, and takes memory, as `length`.
  index_t window = 0;
  /// Most lookahead branches of one step, beside the sequence itself.
  index_t branches = 0;
  /// Set by the session: model_info::vocab and model_info::layers.
  index_t vocab = 0;
  index_t layers = 0;
  /// Whether each step also reports every candidate: session::candidates(). Costs sequences *
  /// window candidate_entry of memory and one logarithm a candidate and step; nothing where it is
  /// off.
  bool trace = false;
};

/// Largest limits::length, so that sums of a few positions are an index_t.
inline constexpr index_t max_length = index_t{1} << 29;

/// Largest model_info::vocab.
inline constexpr index_t max_vocab = index_t{1} << 30;

/// Most rows of logits that a session decides in one step: limits::sequences * (1 +
/// limits::branches) * limits::window. An index into arrays of rows is an index_t.
inline constexpr index_t max_rows = index_t{1} << 30;

/// Most tokens a request may suppress, the mask token included.
inline constexpr index_t max_suppressed = 16;

/// Most lookahead branches of one step.
inline constexpr index_t max_branches = 16;

/// The one token in which a lookahead branch differs from the sequence it looks ahead of.
struct placement {
  index_t position = 0;
  token_id token = no_token;
  /// The worth and the log-probability it was chosen with.
  float worth = 0.0F;
  float log_probability = 0.0F;
};

/// What becomes of keys outside the blocks decided about, in a policy that evicts some.
enum class eviction : unsigned char {
  none,    ///< all are attended to
  choose,  ///< all are; each layer then chooses those that the passes to come attend to
  chosen   ///< attend to the chosen ones, and to the blocks
};

/// What the engine has to know before its next forward pass of one sequence. Written by the last
/// step, read by the host (and by the kernels of the next step).
struct plan {
  ending end = ending::running;
  /// False for a slot that was never started.
  bool started = false;
  /// Run these positions.
  range feed;
  /// They attend to these. Those that are not run keep the K/V of the pass that last ran them.
  range attend;
  /// Every layer computes whatever enters this pass; false lets a layer rule skip.
  bool refresh = true;
  /// Which keys outside the blocks are attended to.
  eviction evict = eviction::none;
  /// Positions of which a decision is due; those that are open among them are candidates.
  range score;
  /// Bit b: block first_block + b must commit at least one token in this step.
  std::uint64_t forced = 0;
  /// The blocks that `score` overlaps, [first_block, last_block).
  index_t first_block = 0;
  index_t last_block = 0;
  /// K/V of these positions are final from now on (an engine with a cache may freeze them).
  range freeze;
  /// Lookahead branches to run beside the sequence itself (the anchor, branch 0): branch b is the
  /// sequence with branch[b - 1] placed, 1 <= b <= branches.
  index_t branches = 0;
  placement branch[max_branches];
  /// Branch b is scored before branch_last[b] only, and fed as much less: score.last, unless the
  /// schedule plans each branch on its own. Set if the policy looks ahead.
  index_t branch_last[1 + max_branches] = {};
  /// The branch that won the last step; its K/V are those to keep.
  index_t winner = 0;

  [[nodiscard]] UNMASK_HD bool active() const { return started && end == ending::running; }
};

/// A token that a step wrote. The end token where the step reopened a position and the end of the
/// sequence then filled it.
struct commit_entry {
  index_t slot = 0;
  index_t position = 0;
  token_id token = no_token;
  /// ln of the probability that the decision rested on, in nats; 0 for tokens filled in at the end.
  float log_probability = 0.0F;
  /// Index of the forward pass, from 0.
  index_t step = 0;
  /// The block that the decision was made with, counted from the first position behind the prompt.
  index_t block = 0;
  /// Forward passes between the one that first scored the block and this one, 0 for the first.
  index_t block_step = 0;
};

/// An open position of a step's scored range, and the token proposed for it.
///
/// log_probability is -inf where the row was invalid; `token` is then what it would have committed.
struct candidate_entry : commit_entry {
  /// Whether the step wrote the token: the same entry is then among the committed ones.
  bool admitted = false;
};

/// How probable a token that the policy asks about was at an open position of a step.
struct token_probability {
  index_t slot = 0;
  index_t position = 0;
  token_id token = no_token;
  /// Index of the forward pass, from 0.
  index_t step = 0;
  /// Softmax probability in the row as it was where the question stands among the policy's edits.
  float probability = 0.0F;
  /// Softmax probability among the asked tokens alone; 0 if none of them is possible.
  float share = 0.0F;
};

/// What became of one sequence so far.
struct sequence_report {
  ending end = ending::running;
  /// Forward passes supplied, the number of function evaluations.
  index_t forwards = 0;
  /// Tokens committed by decisions; those filled in behind an end token are not counted.
  index_t committed = 0;
  /// Every position before this one is settled: safe to stream, unless the policy revisits.
  index_t settled = 0;
  /// Positions still open.
  index_t open = 0;
  /// Settled tokens that were replaced or reopened.
  index_t rewritten = 0;
  /// Commits that no admission asked for, made because each forced block commits at least one, and
  /// a step that remasks more than that.
  index_t forced = 0;
  /// Rows whose statistics were NaN or infinite.
  index_t invalid_rows = 0;
  /// Rows that were read again, because the columns held of the first read did not prove what a
  /// truncation keeps (policy/logits/keep.hpp).
  index_t second_reads = 0;
  /// Entries of committed(): tokens that the last step wrote.
  index_t last_commits = 0;
  /// Entries of probabilities(): tokens that the policy asked about in the last step.
  index_t last_probabilities = 0;
  /// Entries of candidates(): open positions that the last step decided about; 0 without trace.
  index_t last_candidates = 0;

  /// Committed tokens per forward pass; 0 before the first.
  [[nodiscard]] double tokens_per_forward() const {
    return forwards > 0 ? static_cast<double>(committed) / static_cast<double>(forwards) : 0.0;
  }
};

}  // namespace unmask
