// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// Why a sequence came to its end.
enum class ending : unsigned char {
  running,      ///< it has not ended
  complete,     ///< no position is masked
  eos_token,    ///< an EOS token is committed and so is everything left of it
  stop_tokens,  ///< a stop sequence is committed and so is everything left of it
  max_steps,    ///< the maximum number of forward passes is reached
  cancelled,    ///< the engine called cancel()
  idle          ///< no sequence was started in the slot yet
};

/// The name of an ending, as traces write it: "complete", "eos_token".
[[nodiscard]] constexpr const char* name_of(ending end) {
  constexpr const char* names[] = {
      "running", "complete", "eos_token", "stop_tokens", "max_steps", "cancelled", "idle"};
  return names[static_cast<int>(end)];
}

/// The geometry of one sequence and the seed of its request.
struct sequence_shape {
  /// Length of the prompt: positions before this one are given and never change.
  index_t prompt_length = 0;
  /// Number of positions, prompt included; the answer is [prompt_length, length).
  index_t length = 0;
  /// Positions decoded together. Blocks are counted from `prompt_length`; the last may be short. A
  /// value above `length` counts as `length`: one block.
  index_t block_length = 32;
  /// Key of this request's random numbers; `sequence` distinguishes requests of one seed.
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< Distinguishes requests of one seed.
};

/// Properties of a model, the same for every sequence decoded with it.
struct model_info {
  /// Valid columns of a logits row, at most max_vocab; padding after them is never read.
  index_t vocab = 0;
  /// The mask token: the token at masked positions. Required.
  token_id mask_token = no_token;
  /// The EOS token, different from the mask token; no_token if there is none.
  token_id eos_token = no_token;
  /// Row p - shift predicts position p (row 0 for the first positions): 0 LLaDA, 1 Dream.
  index_t logits_shift = 0;
  /// Whether the mask token is never proposed. If false, a position whose proposal is the mask
  /// token stays masked, and a model that always proposes it never finishes: most_forwards() does
  /// not hold, so add a max_steps. False is only for the parity presets of released code, and for
  /// a canvas, which has a bound of its own.
  bool suppress_mask = true;
  /// Layers of the model; required by policies that select the positions that a layer computes.
  index_t layers = 0;
  /// Whether the engine runs segments whose attention is attention_kind::causal, and those with
  /// attention_kind::shadow. A policy whose parts need one that is false is refused.
  bool causal_attention = false;
  bool shadow_attention = false;  ///< Whether it runs segments of attention_kind::shadow.
};

/// Capacities of a session; they determine its memory and the shapes of its grids.
struct session_capacity {
  /// Number of slots: sequences decoded at the same time.
  index_t sequences = 1;
  /// Largest sequence_shape::length, at most max_length.
  index_t length = 0;
  /// Largest number of positions whose rows one step reads: the block length, or the whole answer.
  /// A value above `length` counts, and takes memory, as `length`.
  index_t window = 0;
  /// Most branches of one step, the sequence itself not counted.
  index_t branches = 0;
  /// Set by the session: model_info::vocab and model_info::layers.
  index_t vocab = 0;
  index_t layers = 0;  ///< Set by the session: model_info::layers.
  /// Whether each step also reports every candidate: session::candidates(). Cost: sequences *
  /// window candidate_entry of memory, about two logarithms a candidate and step; nothing if false.
  bool trace = false;
};

/// Largest session_capacity::length, so that sums of a few positions are an index_t.
inline constexpr index_t max_length = index_t{1} << 29;

/// Largest model_info::vocab.
inline constexpr index_t max_vocab = index_t{1} << 30;

/// Most rows of logits that a session decides in one step: session_capacity::sequences * (1 +
/// session_capacity::branches) * session_capacity::window. An index into arrays of rows is an
/// index_t.
inline constexpr index_t max_rows = index_t{1} << 30;

/// Most tokens a request may suppress, the mask token included.
inline constexpr index_t max_suppressed = 16;

/// Most branches of one step, of lookahead, drafts or a beam.
inline constexpr index_t max_branches = 16;

/// Most tokens that the branches of one step place: all drafts together, or all members of a beam.
inline constexpr index_t max_placed = 32;

/// A token placed at a position: the difference between a branch and its sequence.
struct placement {
  index_t position = 0;       ///< Position of the token.
  token_id token = no_token;  ///< The token placed there.
  /// Branch score and log-probability of the candidate that was chosen for the branch.
  float lookahead_score = 0.0F;
  float log_probability = 0.0F;  ///< ln of the token's probability when it was chosen, in nats.
};

namespace detail {

/// A token that the constraints of a sequence place themselves.
struct placed_token {
  index_t position = 0;
  token_id token = no_token;
  bool is_certain = true;  ///< it is the only one possible; if not, the step had to commit one
};

/// Some of them, in memory of their constraints.
struct placed_tokens {
  const placed_token* first = nullptr;
  index_t count = 0;
};

}  // namespace detail

/// Treatment of keys outside the decided blocks, in a policy that evicts some.
enum class eviction : unsigned char {
  none,    ///< all receive attention
  choose,  ///< all receive attention; each layer then selects keys for the next passes
  chosen   ///< only the selected ones and the blocks receive attention
};

/// Positions that the positions of a pass attend to, among those of its keys.
enum class attention_kind : unsigned char {
  bidirectional,  ///< all
  causal,         ///< those that are not to the right of it
  /// The keys of the segment `shadow_of`, except the key at its own position, and all of this
  /// segment, which are masks.
  shadow
};

/// The name of a kind of attention, as in C and Python.
[[nodiscard]] constexpr const char* name_of(attention_kind kind) {
  constexpr const char* names[] = {"bidirectional", "causal", "shadow"};
  return names[static_cast<int>(kind)];
}

/// The purpose of a forward pass.
enum class pass_kind : unsigned char {
  candidates,  ///< the commit rule accepts some of the masked positions
  canvas,      ///< every position gets a new token (policy/canvas.hpp)
  rewriting,   ///< a rule rewrites the scored block as a whole (core/part/rewriting.hpp)
  drafting,    ///< as candidates, but what it commits are drafts, until a pass that checks them
  checking,    ///< it is decided which drafts stay (core/part/schedule.hpp)
  hiding,      ///< some committed tokens are masks in it, and are reconsidered
  /// The branches are the members of a beam (core/part/branches.hpp), and so is the sequence
  /// itself, with tokens of its own: branch 0.
  beam
};

/// The name of a kind of pass.
[[nodiscard]] constexpr const char* name_of(pass_kind kind) {
  constexpr const char* names[] = {
      "candidates", "canvas", "rewriting", "drafting", "checking", "hiding", "beam"};
  return names[static_cast<int>(kind)];
}

/// Plan of the next forward pass of one sequence, without its branches.
struct sequence_plan {
  ending end = ending::running;            ///< Why the sequence has ended, or ending::running.
  pass_kind kind = pass_kind::candidates;  ///< Purpose of the pass.
  /// False for a slot that was never started.
  bool started = false;
  /// Positions to compute (queries). Of an ended sequence whose text moves: all its positions.
  range query;
  /// Key range of these positions. Positions outside `query` keep the K/V of the pass that last
  /// computed them.
  range keys;
  /// True: every layer computes all positions of this pass. False: a layer rule may skip some.
  bool refresh = true;
  /// Which keys outside the blocks receive attention.
  eviction evict = eviction::none;
  /// Attention of the positions: bidirectional or causal.
  attention_kind attention = attention_kind::bidirectional;
  /// Positions that a shadow segment also computes, and whose rows it returns where they are
  /// committed; empty if there is no such segment.
  range shadow;
  /// Row p - shift of this pass predicts position p: that of the model, 1 for a causal pass.
  index_t logits_shift = 0;
  /// The scored range: positions that the step decides. The masked ones among them are candidates.
  range score;
  /// Bit b: block first_block + b must commit at least one token in this step.
  std::uint64_t forced = 0;
  /// The blocks that `score` overlaps, [first_block, last_block).
  index_t first_block = 0;
  index_t last_block = 0;  ///< One past the last block that `score` overlaps.
  /// Positions whose K/V are final from now on; an engine with a cache may freeze them.
  range freeze;
  /// The branch that won the last step: keep its K/V.
  index_t winner = 0;
};

/// Plan of the next forward pass of one sequence. Written by the last step, read by the host and by
/// the kernels of the next step.
struct plan : sequence_plan {
  /// Number of branches in addition to the sequence itself (the anchor, branch 0): branch b is the
  /// sequence with the tokens branch[placed(b)] placed, 0 <= b <= branches.
  index_t branches = 0;
  placement branch[max_placed];  ///< The tokens of the branches.
  /// With drafts: draft b has the first placed_last[b] tokens. With a beam: member b has those from
  /// placed_last[b - 1] to placed_last[b]. Else 0: lookahead, a token a branch.
  unsigned char placed_last[1 + max_branches] = {};
  /// End of the scored range of branch b; its query range is shorter by the same amount. Equals
  /// score.last unless the schedule plans each branch separately. Set only if the policy uses
  /// lookahead.
  index_t branch_last[1 + max_branches] = {};

  /// The tokens of branch b, as indices into `branch`; none for the sequence itself but in a beam.
  [[nodiscard]] UNMASK_HD range placed(index_t b) const {
    const index_t last = placed_last[b];
    if (kind == pass_kind::beam) {
      return {b > 0 ? placed_last[b - 1] : 0, last};
    }
    return b == 0 || last > 0 ? range{0, last} : range{b - 1, b};
  }
  /// True if branch b places a token at a position.
  [[nodiscard]] UNMASK_HD bool places(index_t b, index_t position) const {
    const range tokens = placed(b);
    index_t k = tokens.first;
    while (k < tokens.last && branch[k].position != position) {
      ++k;
    }
    return k < tokens.last;
  }

  /// True if a next step is due.
  [[nodiscard]] UNMASK_HD bool active() const { return started && end == ending::running; }
  /// Number of segments: of the branches, and of the shadow.
  [[nodiscard]] UNMASK_HD index_t segments() const {
    return 1 + branches + (shadow.empty() ? 0 : 1);
  }
};

/// A token written by a step. The EOS token if the step remasked a position and the end of the
/// sequence then filled it.
struct commit_entry {
  index_t slot = 0;           ///< Index of the sequence in the session.
  index_t position = 0;       ///< Position of the token.
  token_id token = no_token;  ///< The token written.
  /// Natural logarithm of the probability of the token when it was committed, in nats; 0 for tokens
  /// filled in at the end, or by a constraint.
  float log_probability = 0.0F;
  /// Index of the forward pass, from 0; -1 for a token that a constraint filled in before the
  /// first.
  index_t step = 0;
  /// Index of the block with which the position was decided, from 0 at the first position after
  /// the prompt.
  index_t block = 0;
  /// Forward passes since the one that first scored the block, 0 in that one.
  index_t block_step = 0;
  /// Rank of the candidate in its step, from 0, as rank_info::rank; -1 for a token without a rank:
  /// of a lookahead branch, of an invalid row, of an edit, or filled in at the end.
  index_t rank = -1;
};

/// Outcome of a candidate in a step.
enum class candidate_outcome : unsigned char {
  committed,    ///< committed by the commit rule
  forced,       ///< committed by the progress guarantee
  held,         ///< still masked: the commit rule, or the filter of a part, rejected it
  excluded,     ///< still masked: a part excluded it from this step
  invalid,      ///< still masked: its row is invalid
  replaced,     ///< a committed token became the proposed one
  remasked,     ///< a committed position is masked again
  kept,         ///< a committed position was a candidate again, and keeps its token
  from_branch,  ///< committed with the winning lookahead branch
  refused,      ///< unchanged: a constraint, or a part that gates, does not allow its token
  filled,       ///< committed without a decision: the only token that a constraint leaves there
};

/// A candidate of a step: a masked position of its scored range, or a committed one that a part
/// made a candidate again, replaced or remasked, and the token proposed for it.
///
/// If the row was invalid, `token` is the one it would have committed, log_probability is -inf,
/// confidence 0, margin and entropy NaN. A candidate that a part ranks last has the statistics of
/// the worst possible row: -inf, 0, 0, infinity. A candidate from a branch has the numbers of the
/// step that created the branch: its confidence is e^log_probability, margin and entropy are NaN.
struct candidate_entry : commit_entry {
  /// Whether the step wrote the token; if so, the same entry is in session::committed().
  bool committed = false;
  candidate_outcome outcome = candidate_outcome::held;  ///< Its outcome.
  /// The part that decided, as an index into the parts in written order, those inside any_of,
  /// all_of and at_most counted one by one, an at_most itself before the parts of its rule; -1 if
  /// none did: invalid and forced.
  ///
  /// In a commit rule it is the first part that decides the result when the expression is read from
  /// left to right: the first to commit the candidate in any_of, the first to reject it in all_of,
  /// the last part where none of them does; an at_most where it holds back what its rule commits.
  /// Otherwise it is the part that excluded or rejected the candidate, that edits tokens, that
  /// remasks, or that looks ahead.
  index_t part = -1;
  float confidence = 0.0F;  ///< Softmax probability of the token, in [0, 1].
  /// Confidence minus the probability of the runner-up; NaN if the policy does not read it.
  float margin = 0.0F;
  /// Entropy of the row in nats; NaN if the policy does not read it.
  float entropy = 0.0F;
};

/// The probability of a probed token, or of a soft token, at a masked position of a step.
struct token_probability {
  index_t slot = 0;           ///< Index of the sequence in the session.
  index_t position = 0;       ///< Position of the row.
  token_id token = no_token;  ///< The probed token.
  /// Index of the forward pass, from 0.
  index_t step = 0;
  /// Softmax probability in the row after the edits of the parts written before the probe; of a
  /// soft token after all edits.
  float probability = 0.0F;
  /// Softmax probability among the probed tokens alone, or among the soft tokens of the position; 0
  /// if none of them is possible.
  float share = 0.0F;
};

/// Report of one sequence so far; of a slot without one, ending::idle and zeros.
struct sequence_report {
  /// Why the sequence has ended, or ending::running; ending::idle before the first start.
  ending end = ending::idle;
  /// Forward passes supplied: the number of function evaluations (NFE).
  index_t forwards = 0;
  /// Tokens that decisions committed; tokens that the end of the sequence filled in are not
  /// counted.
  index_t committed = 0;
  /// Every position before this one is committed, or filled with the EOS token by the end of the
  /// sequence.
  index_t committed_prefix = 0;
  /// One past the last position of the answer. While the sequence runs: its length. Of an ended
  /// sequence: after the EOS token or the stop sequence that ended it, and never after the first
  /// position that no decision committed. Such positions have the EOS token, or stay masked after a
  /// cancel() or for a model without one. The text to show is [prompt_length, min(committed_prefix,
  /// answer_end)): it is final, unless the policy rewrites committed tokens.
  index_t answer_end = 0;
  /// Number of masked positions.
  index_t masked = 0;
  /// Committed tokens that were replaced or remasked.
  index_t rewritten = 0;
  /// Forced commits: candidates that the commit rule did not commit. Each forced block commits at
  /// least one, and a step that remasks commits more than it remasks.
  index_t forced = 0;
  /// Rows whose statistics were NaN or infinite.
  index_t invalid_rows = 0;
  /// Rows that were read twice, because the columns held after the first read did not determine the
  /// result of a truncation (policy/logits/truncation.hpp), or for constrained_field::read_again.
  index_t second_reads = 0;
  /// Size of committed(): tokens that the last step wrote.
  index_t last_commits = 0;
  /// Size of probabilities(): tokens that the policy probed in the last step.
  index_t last_probabilities = 0;
  /// Lowest position whose text the last step moved; -1 if it moved none.
  index_t last_moved = -1;
  /// Size of candidates() of the last step; 0 without trace.
  index_t last_candidates = 0;
  /// Candidates that a constraint, or a part that gates, refused and that stayed as they were.
  index_t refused = 0;
  /// Committed tokens that a constraint left no choice about: they took no decision.
  index_t filled = 0;
  /// Whether the sequence has ended with a string of the language in each of its constrained
  /// fields. False while it runs and for one without such fields.
  bool constraint_met = false;

  /// Committed tokens per forward pass; 0 before the first.
  [[nodiscard]] double tokens_per_forward() const {
    return forwards > 0 ? static_cast<double>(committed) / static_cast<double>(forwards) : 0.0;
  }
};

}  // namespace unmask
