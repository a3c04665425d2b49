// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part/sequence_view.hpp>
#include <unmask/step/active.hpp>
#include <unmask/step/layer_memory.hpp>
#include <unmask/step/sort.hpp>

#if defined(UNMASK_RED_ZONES)
#  include <sanitizer/asan_interface.h>
#endif

/// State of a slot that is the same for every policy.
namespace UNMASK_NAMESPACE::step {

/// Status of a slot after a step, which the host reads: copied in one piece.
struct slot_status {
  plan next;
  /// Rows of logits that the next step needs; contiguous, the first and the last are of masked
  /// positions.
  range rows;
  /// Rows of the shadow segment; the first and the last belong to committed positions.
  range shadow_rows;
  sequence_report report;

  /// Ends the sequence in its current state: tokens that its pass hides stay hidden, because they
  /// may no longer exist.
  void cancel() {
    next.end = ending::cancelled;
    report.end = ending::cancelled;
    const index_t shown = next.kind == pass_kind::hiding ? next.score.first : report.answer_end;
    report.answer_end = math::min(shown, report.committed_prefix);
  }
  /// The rows of branch b, 0 for the sequence: a schedule may plan it to end before the others.
  [[nodiscard]] UNMASK_HD range rows_of(index_t b) const {
    const index_t last =
        next.branches > 0 ? math::max(next.branch_last[b] - 1 - next.logits_shift, index_t{0}) + 1
                          : rows.last;
    return {rows.first, math::min(rows.last, last)};
  }
};

/// State of a slot's sequence, except that of the policy and of rows.
struct slot_state {
  model_info model;
  sequence_shape geometry;
  token_id* tokens = nullptr;
  sequence_view view;
  /// The branch whose rows this step uses.
  index_t winner = 0;
  /// State of the default schedule, if the policy names none.
  semi_autoregressive::sequence_state fallback_schedule;
  /// Blocks [0, blocks_seen) have been scored at least once.
  index_t blocks_seen = 0;
  /// For block b, at b % max_active_blocks: the step in which it was first scored, its masked
  /// positions then, and those before the next step.
  index_t block_step[max_active_blocks] = {};
  index_t block_masked_at_first[max_active_blocks] = {};
  index_t block_masked[max_active_blocks] = {};
  /// How the text moves after the writes of this step: whether it does, the size that the scored
  /// range gets, the positions that are appended to it and their token.
  struct text_moves {
    bool any = false;
    index_t size = 0;
    index_t appended = 0;
    token_id token = no_token;
  };
  text_moves moves;
  /// A pass has computed every position before this one.
  index_t reached = 0;
  /// A plan has scored every position before this one that is scored at all.
  index_t scored = 0;
  /// Remasked tokens that were not outnumbered by the commits of their step; with a part that
  /// remasks the least certain, by all commits so far, and negative while more may be remasked.
  std::int64_t remasked = 0;
  /// Positions that the next pass hides and reads, and whether a step decides again what it
  /// committed.
  index_t hidden_count = 0;
  bool decides_again = false;
  /// Tokens that are never proposed, ascending; [0, suppressed_count) of slot_memory::suppressed.
  index_t suppressed_count = 0;
  /// Bounds of the sequence, constant: forward passes, those at its start that may commit nothing,
  /// and tokens that may be remasked beyond the rule that commits outnumber them.
  struct pass_bounds {
    std::int64_t forwards = 0;
    std::int64_t waits = 0;
    std::int64_t remasked = 0;
  };
  pass_bounds bounds;
  /// row_read::bits() of the reads that a policy by name needs on a device; 0 elsewhere.
  std::uint32_t read = 0;
  /// The parts that a policy by name uses in each stage.
  active_parts active;
};

/// Role of a scored position between ranking and commit.
enum class role : std::uint8_t {
  inactive,  ///< not masked, or not considered
  candidate,
  ranked_last,    ///< a candidate that is ranked last
  rejected,       ///< a candidate that is rejected without calling the commit rule
  excluded,       ///< masked, but excluded from this step's commits
  invalid,        ///< masked, but its row is invalid
  accepted,       ///< a candidate that the commit rule commits
  forced,         ///< a candidate that the progress guarantee commits
  replaced,       ///< committed; a part replaces it by its proposed token
  remasked,       ///< committed; a part remasks it
  passed,         ///< accepted, and passed by the gate; accepted again when the gate is done
  passed_forced,  ///< passed, and was forced
  refused,        ///< accepted or replaced, but refused by the gate
  refused_forced  ///< refused, and was forced
};

/// True for a candidate that the step commits.
[[nodiscard]] UNMASK_HD constexpr bool is_accepted(role r) {
  return r == role::accepted || r == role::forced;
}
/// True for one that the gate refuses.
[[nodiscard]] UNMASK_HD constexpr bool is_refused(role r) {
  return r == role::refused || r == role::refused_forced;
}

/// A committed token that a pass hides.
struct hidden_token {
  token_id token = no_token;  ///< no_token: not hidden
  bool checked = false;       ///< it was committed before the step that hides it, and is read
};

/// Why a scored position has its role, for candidate_entry. Only with session_capacity::trace.
struct role_reason {
  index_t part = -1;    ///< See candidate_entry::part.
  bool forced = false;  ///< Whether it was accepted after that part had rejected it.
};

/// State of the drafts of a sequence.
struct draft_state {
  index_t masked = 0;  ///< masked positions of the sequence when its pass was planned
  index_t spared = 0;  ///< steps that were decided without a pass of their own
  /// For block b, at b % max_active_blocks: such steps when it was first scored.
  index_t spared_before[max_active_blocks] = {};
  /// Tokens that steps before the last one of a pass have written, ascending; a draft's at most.
  index_t entry_count = 0;
  index_t traced_count = 0;
  commit_entry entries[max_placed];
  candidate_entry traced[max_placed];
};

/// A state that a member of a beam leads to: its tokens, and another token or all tokens of its
/// step.
struct beam_successor {
  index_t member = 0;
  placement next = {.position = -1};  ///< position -1: the whole step
  float score = 0.0F;

  [[nodiscard]] UNMASK_HD bool is_whole() const { return next.position < 0; }
  /// True if it has `next`: a token, not a mask that is not suppressed.
  [[nodiscard]] UNMASK_HD bool adds(const auto& m) const {
    return !is_whole() && next.token != m.state->model.mask_token;
  }
};

/// State of the beam of a sequence.
struct beam_state {
  index_t members = 0;  ///< of the next pass; 0 or 1: the sequence alone
  placement placed[max_placed];
  unsigned char placed_last[1 + max_branches] = {};  ///< as plan::placed_last
  float scores[1 + max_branches] = {};
  /// The best states that the members lead to, best first, and whether one is a whole step.
  index_t count = 0;
  beam_successor best[1 + max_branches];
  bool is_whole = false;
};

/// Assigns memory to arrays, one behind the other; the same on host and device. With a null base it
/// only computes the size.
template <std::size_t Alignment>
class array_layout {
 public:
  explicit UNMASK_HD constexpr array_layout(std::byte* base)
      : base_(base) {}

  template <class T>
  [[nodiscard]] UNMASK_HD constexpr T* take(auto count) {
    static_assert(alignof(T) <= alignment);
    T* const result =
        base_ == nullptr || count == 0 ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(count);
    used_ += (bytes + alignment - 1) / alignment * alignment;
#if defined(UNMASK_RED_ZONES)  // of tests with the address sanitizer
    if (result != nullptr) {
      std::byte* const end = reinterpret_cast<std::byte*>(result) + bytes;
      ASAN_POISON_MEMORY_REGION(end, static_cast<std::size_t>(base_ + used_ + alignment - end));
    }
    used_ += alignment;
#endif
    return result;
  }
  [[nodiscard]] UNMASK_HD constexpr std::size_t used() const { return used_; }

  static constexpr std::size_t alignment = Alignment;

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

using slot_layout = array_layout<64>;

struct soft_rows;

/// The arrays of a slot whose size depends on what the policy does.
struct slot_needs {
  index_t branches = 0;          ///< branches of lookahead, drafts or a beam
  bool drafts = false;           ///< they are drafts
  bool beams = false;            ///< they are members of a beam
  bool compares = false;         ///< rows are compared with the rows of the previous step
  bool anchors = false;          ///< a part names anchors
  bool layered = false;          ///< a part has hooks at the layers
  bool moves = false;            ///< text may move
  bool reconsiders = false;      ///< a part looks at committed tokens without them
  index_t tracked_capacity = 0;  ///< tokens tracked at a position
  index_t probes = 0;            ///< tokens probed at a position
  std::uint64_t reductions = 0;  ///< parts with a step reduction, by bit
  std::uint64_t states = 0;      ///< states that parts keep at positions, by bit

  /// The needs of both.
  [[nodiscard]] constexpr slot_needs joined(const slot_needs& other) const {
    return {.branches = math::max(branches, other.branches),
            .drafts = drafts || other.drafts,
            .beams = beams || other.beams,
            .compares = compares || other.compares,
            .anchors = anchors || other.anchors,
            .layered = layered || other.layered,
            .moves = moves || other.moves,
            .reconsiders = reconsiders || other.reconsiders,
            .tracked_capacity = math::max(tracked_capacity, other.tracked_capacity),
            .probes = math::max(probes, other.probes),
            .reductions = reductions | other.reductions,
            .states = states | other.states};
  }
  friend constexpr bool operator==(const slot_needs&, const slot_needs&) = default;
};

/// Most tokens that a step writes: one at each position of the window, and the tokens of a branch
/// if its sequence may have `branches`.
[[nodiscard]] UNMASK_HD constexpr index_t most_commits(const session_capacity& capacity,
                                                       bool branches) {
  return capacity.window + (branches ? max_placed : 1);
}

/// Memory of one slot that is the same for every policy, in the backend's space: pointers into one
/// block of bytes, each with the number of elements that it takes of the block; null if that is 0.
struct slot_arrays {
  /// The block of bytes; after the last array its size is known.
  slot_layout at{nullptr};
  slot_needs needs = {};
  session_capacity capacity = {};
  index_t slot = 0;
  index_t window = capacity.window;
  index_t vocab = capacity.vocab;
  std::ptrdiff_t places = window;
  std::ptrdiff_t rows = places * (1 + needs.branches);

  slot_status* status = nullptr;  ///< not in the block: the entries of all slots are contiguous
  soft_rows* soft = nullptr;      ///< likewise; null for a sequence that asks for no soft tokens
  slot_state* state = at.take<slot_state>(1);
  /// [window][vocab], by cell: edited logits of the previous step, and their sums. Only if the
  /// policy compares rows.
  float* previous = at.take<float>(needs.compares ? places * vocab : 0);
  previous_row* previous_rows = at.take<previous_row>(needs.compares ? window : 0);
  /// By position - score.first, as all arrays below without another rule.
  std::uint64_t* keys = at.take<std::uint64_t>(sort_size(window));
  role* roles = at.take<role>(window);
  /// [window][tracked_capacity]: tokens that the read of each row excludes, and [1 + branches]
  /// times as many logits from it, followed by a token (step::name_listed). Only if the policy
  /// tracks any; otherwise every row excludes `suppressed`.
  token_id* tracked = at.take<token_id>(places * needs.tracked_capacity);
  float* branch_logits = at.take<float>(rows * needs.tracked_capacity);
  index_t* tracked_count = at.take<index_t>(needs.tracked_capacity > 0 ? window : 0);
  /// By rank.
  float* cost_before = at.take<float>(window);
  float* largest_before = at.take<float>(window);
  /// The rank, -1 for no candidate.
  index_t* ranks = at.take<index_t>(window);
  /// Whether it is an anchor. Only if a part anchors.
  bool* anchors = at.take<bool>(needs.anchors ? window : 0);
  /// The tokens that the next pass hides. Only if a part reconsiders tokens.
  hidden_token* hidden = at.take<hidden_token>(needs.reconsiders ? window : 0);
  /// [1 + branches][window]: lookahead scores, whether there is one, and whether it is among the
  /// lowest of its branch; [1 + branches] scores. Only with lookahead.
  float* lookahead_scores = at.take<float>(needs.branches > 0 ? rows : 0);
  bool* is_masked = at.take<bool>(needs.branches > 0 ? rows : 0);
  bool* is_low = at.take<bool>(needs.branches > 0 ? rows : 0);
  float* branch_scores = at.take<float>(needs.branches > 0 ? 1 + needs.branches : 0);
  /// Only with drafts or a beam.
  draft_state* drafts = at.take<draft_state>(needs.drafts || needs.beams ? 1 : 0);
  /// Only with a beam.
  beam_state* beam = at.take<beam_state>(needs.beams ? 1 : 0);
  /// Tokens that the last step committed.
  commit_entry* entries = at.take<commit_entry>(most_commits(capacity, needs.branches > 0));
  /// Candidates of the last step, and the reasons of the roles. Only with session_capacity::trace.
  candidate_entry* traced =
      at.take<candidate_entry>(capacity.trace ? most_commits(capacity, needs.branches > 0) : 0);
  role_reason* reasons = at.take<role_reason>(capacity.trace ? window : 0);
  /// [window][probes]: probe results of the step, no_token if there is none; and those of the last
  /// step without gaps. Only with a probe.
  token_probability* probed = at.take<token_probability>(places * needs.probes);
  token_probability* probe_results = at.take<token_probability>(places * needs.probes);
  token_id* suppressed = at.take<token_id>(max_suppressed);
  mark* marks = at.take<mark>(capacity.length);
  /// By position: whether it was inserted. Only if text may move.
  bool* inserted = at.take<bool>(needs.moves ? capacity.length : 0);
  layer_memory layers = layer_memory::taken(at, capacity, needs.layered);

  /// Steps so far that were decided without a pass of their own.
  [[nodiscard]] UNMASK_HD index_t spared() const { return drafts == nullptr ? 0 : drafts->spared; }
  /// spared() since a block was first scored.
  [[nodiscard]] UNMASK_HD index_t spared_in(index_t block) const {
    const index_t cell = block & (max_active_blocks - 1);
    return drafts == nullptr ? 0 : drafts->spared - drafts->spared_before[cell];
  }

  /// Stores why scored position i has its role; nothing without trace.
  UNMASK_HD void note(index_t i, role_reason why) const {
    if (reasons != nullptr) {
      reasons[i] = why;
    }
  }

  /// Stores that position i is to be committed although the commit rule, or a part, rejected it.
  UNMASK_HD void note_forced(index_t i) const {
    if (reasons != nullptr) {
      reasons[i].forced = true;
    }
  }
};

/// The arrays of a slot in the block that begins at `base`; null: only their size.
[[nodiscard, gnu::noinline]] UNMASK_HD constexpr slot_arrays arrays_at(
    std::byte* base, const slot_needs& needs, const session_capacity& capacity, index_t slot) {
  return {slot_layout{base}, needs, capacity, slot};
}

}  // namespace unmask::step
