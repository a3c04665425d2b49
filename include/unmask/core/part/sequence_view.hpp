// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/plan.hpp>

#include <cstdint>
#include <cstring>

namespace UNMASK_NAMESPACE {

/// Most blocks that may be scored in one step: one bit each in plan::forced.
inline constexpr index_t max_active_blocks = 64;

struct sequence_view;

/// The step, the block and the position of a decision.
struct step_info {
  std::uint64_t seed = 0;      ///< Key of the request's random numbers: sequence_shape::seed.
  std::uint32_t sequence = 0;  ///< Distinguishes requests of one seed: sequence_shape::sequence.
  /// Forward passes of this sequence before this one.
  index_t step = 0;
  /// Index of the position's block, from the first position after the prompt.
  index_t block_index = 0;
  /// Forward passes since that block was first scored, 0 for the first.
  index_t block_step = 0;
  /// Masked positions of that block when it was first scored.
  index_t block_masked_at_first = 0;
  /// Masked positions of that block now, before this step's commits.
  index_t block_masked = 0;
  /// Number of positions of that block.
  index_t block_length = 0;
  /// The position that the call concerns; -1 if it concerns the whole sequence.
  index_t position = -1;
  /// The sequence in its current state; never null inside a step.
  const sequence_view* view = nullptr;
  /// For edit_token() only: the number of tokens that this step commits, and the softmax
  /// probability of the committed token after all edits; NaN unless a part `tracks_current`.
  index_t commits = 0;
  float current_probability = 0.0F;  ///< Softmax probability of the committed token.
  /// For edit_token() only: whether the position may be remasked; if not, verdict::remask counts as
  /// verdict::keep.
  bool may_remask = false;
};

/// State of a position, one byte each.
enum class mark : std::uint8_t {
  fixed,     ///< given by the caller: the prompt, a fixed slot
  masked,    ///< masked: its token is still to be decided
  committed  ///< committed by this session, or as if it were, from the start
};

namespace detail {

// The lowest bit of each of eight consecutive marks, set where a position is masked; `marks` is a
// multiple of 8.
[[nodiscard]] UNMASK_HD inline std::uint64_t masked_of_eight(const mark* marks) {
  static_assert(static_cast<int>(mark::masked) == 1 && static_cast<int>(mark::fixed) == 0 &&
                static_cast<int>(mark::committed) == 2);
  std::uint64_t bytes = 0;
  memcpy(&bytes, __builtin_assume_aligned(marks, sizeof bytes), sizeof bytes);
  return bytes & 0x0101010101010101U;
}
[[nodiscard]] UNMASK_HD inline bool begins_eight(const mark* marks) {
  return reinterpret_cast<std::uintptr_t>(marks) % sizeof(std::uint64_t) == 0;
}

}  // namespace detail

/// One sequence as given to the parts: the tokens, the state of each position and the geometry.
/// Borrowed for the call.
struct sequence_view {
  const token_id* tokens = nullptr;  ///< The tokens, one for each position.
  /// One for each position. Masked positions are never derived from `token == mask_token`.
  const mark* marks = nullptr;
  index_t prompt_length = 0;  ///< Positions that are given; the answer begins here.
  index_t length = 0;         ///< Number of positions, prompt included.
  index_t block_length = 1;   ///< Positions of a block.
  /// Positions of the first block that belong to the prompt: align_blocks().
  index_t prompt_in_block = 0;
  /// Number of masked positions.
  index_t masked_count = 0;
  /// Every position before this one is committed.
  index_t committed_prefix = 0;
  /// Steps so far: forward passes, but with drafts, which decide several steps from a pass.
  index_t step = 0;
  /// Tokens that the last step wrote or remasked.
  index_t changed = 0;
  /// Masked positions that the last step committed.
  index_t new_commits = 0;
  /// Lowest position whose committed token the last step replaced or remasked; `length` if there is
  /// none.
  index_t rewritten = 0;
  /// Lowest position whose token the last step moved: K/V from here on belong to other tokens;
  /// `length` if there is none.
  index_t moved = 0;
  /// Lowest position whose token the last step wrote or remasked; `length` if there is none.
  index_t first_changed = 0;
  /// Tokens that the last step wrote, in ascending positions.
  const commit_entry* commits = nullptr;
  index_t commit_count = 0;  ///< Number of `commits`.
  /// Highest position written by the last step that committed; -1 if no step has.
  index_t latest = -1;
  /// Largest number of positions that a plan may score.
  index_t window = 0;
  token_id eos_token = no_token;  ///< The model's EOS token, or no_token.
  /// First position of the last constrained field: an EOS token left of it pads another field, or
  /// is free text, and does not end the answer. 0 without constraints.
  index_t ends_from = 0;
  token_id mask_token = no_token;  ///< The model's mask token.

  /// Number of blocks of the answer.
  [[nodiscard]] UNMASK_HD index_t blocks() const {
    const index_t all = length - first_block();
    return all / block_length + (all % block_length != 0 ? 1 : 0);
  }
  /// The positions of block b that belong to the answer, cut at the end of the sequence.
  [[nodiscard]] UNMASK_HD range block(index_t b) const {
    const index_t first = first_block() + b * block_length;
    return {b == 0 ? prompt_length : first,
            block_length < length - first ? first + block_length : length};
  }
  /// The block that a position of the answer belongs to.
  [[nodiscard]] UNMASK_HD index_t block_of(index_t position) const {
    return (position - first_block()) / block_length;
  }
  /// Where the first block begins.
  [[nodiscard]] UNMASK_HD index_t first_block() const { return prompt_length - prompt_in_block; }
  /// Lets blocks begin at multiples of the block length, counted from position 0, so that the first
  /// one contains the end of the prompt. For schedules.
  UNMASK_HD void align_blocks() { prompt_in_block = prompt_length % block_length; }
  /// Index of the first of `commits` at or right of `position`; commit_count if there is none.
  /// Cost: O(log commits).
  [[nodiscard]] UNMASK_HD index_t commit_from(index_t position) const {
    index_t low = 0;
    index_t high = commit_count;
    while (low < high) {
      const index_t middle = (low + high) / 2;
      if (commits[middle].position < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  /// Whether the last step wrote within `r`.
  [[nodiscard]] UNMASK_HD bool wrote_in(range r) const {
    const index_t at = commit_from(r.first);
    return at < commit_count && commits[at].position < r.last;
  }
  /// True if the position is masked.
  [[nodiscard]] UNMASK_HD bool is_masked(index_t position) const {
    return marks[position] == mark::masked;
  }
  /// True if the position holds an EOS token that may end the answer.
  [[nodiscard]] UNMASK_HD bool ends_at(index_t position) const {
    return position >= ends_from && tokens[position] == eos_token && !is_masked(position);
  }
  /// True if a position of `r` holds such a token.
  [[nodiscard]] UNMASK_HD bool holds_eos(range r) const {
    index_t p = r.first;
    while (p < r.last && !ends_at(p)) {
      ++p;
    }
    return p < r.last;
  }
  /// Number of masked positions within `r`. Eight at a time: every schedule calls it, from one
  /// thread of a device.
  [[nodiscard]] UNMASK_HD index_t masked_in(range r) const {
    index_t count = 0;
    index_t i = r.first;
    for (; i < r.last && !detail::begins_eight(marks + i); ++i) {
      count += is_masked(i) ? 1 : 0;
    }
    for (; i + 8 <= r.last; i += 8) {  // the product's highest byte is the sum of all bytes
      const std::uint64_t masked = detail::masked_of_eight(marks + i);
      count += static_cast<index_t>((masked * 0x0101010101010101U) >> 56U);
    }
    for (; i < r.last; ++i) {
      count += is_masked(i) ? 1 : 0;
    }
    return count;
  }
  /// Number of committed positions of `r`.
  [[nodiscard]] UNMASK_HD index_t committed_in(range r) const {
    index_t count = 0;
    for (index_t i = r.first; i < r.last; ++i) {
      count += marks[i] == mark::committed ? 1 : 0;
    }
    return count;
  }
  /// The first masked position of `r`; r.last if there is none.
  [[nodiscard]] UNMASK_HD index_t first_masked_in(range r) const {
    index_t i = r.first;
    while (i < r.last && !is_masked(i)) {
      const bool none = i + 8 <= r.last && detail::begins_eight(marks + i) &&
                        detail::masked_of_eight(marks + i) == 0;
      i += none ? 8 : 1;
    }
    return i;
  }
};

}  // namespace unmask
