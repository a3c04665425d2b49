// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes block after block. Each block ends with a delimiter that the model proposes, such as
/// a line break or a full stop.
///
/// The first pass of a block also reads the rows of a window, the next floor(share * answer)
/// positions. Among the masked positions of the window whose most probable token is one of `tokens`
/// it takes the one of the highest confidence; if that is `threshold` or more, the block ends with
/// it, otherwise after sequence_shape::block_length positions. The same pass decides that block,
/// and passes follow until it has no masked position. A block may be longer than block_length; an
/// answer of fewer than 1 / share positions has no window.
///
/// Commit rules that count by block (steps_per_block, moving_threshold) see the whole answer as one
/// block. A drawing part draws the token that is compared. A layer rule that skips positions
/// computes the first one of the block. The delimiters are the given ones among the first `count`
/// of the `Length` tokens.
/// Range: threshold and share in [0, 1], count in [1, Length], tokens >= 0.
/// Ties: equal confidences: the lower position. A row of NaN proposes nothing.
/// State: 12 bytes a sequence.
/// Cost: the first pass of a block ranks its candidates twice.
/// Example: `tokens_per_step + block_at_delimiter([0], 0.5, 1)`, rows c70 b60 a80 d90, blocks of 1:
/// decides 0-3 0-2 1-2 3; `__a_` `c_a_` `cba_` `cbad`.
/// Source: Lu et al., AdaBlock-dLLM: semantic-aware diffusion LLM inference via adaptive block size
/// (2025), as its released code computes the block, with its threshold and share.
template <int Length = 8>
struct block_at_delimiter {
  static_assert(Length >= 1, "a block cannot end with one of no tokens");

  listed_token tokens[Length] = {};  ///< The delimiters.
  float threshold = 0.3F;
  float share = 0.25F;
  index_t count = Length;  ///< Number of tokens.

  struct sequence_state {
    index_t block_length = 0;  ///< that of the sequence; 0 before the first pass
    index_t last = 0;          ///< end of the block; not after its first position: not known yet
    index_t window = 0;        ///< end of the window
  };

  struct step_reduction {
    float confidence = -1.0F;  ///< of the surest delimiter
    index_t position = -1;

    UNMASK_HD void merge(const step_reduction& other) {
      if (other.confidence > confidence) {
        *this = other;
      }
    }
  };

  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "block_at_delimiter",
      "one block after another, each up to a delimiter that the model proposes; at most 8 tokens"};
  static constexpr knob<block_at_delimiter> knobs[] = {
      {"tokens", knob_kind::tokens, Length, &detail::fill_tokens<block_at_delimiter>},
      {"threshold", &block_at_delimiter::threshold, within(0, 1)},
      {"share", &block_at_delimiter::share, within(0, 1)}};

  void check(const sequence_shape&) const {
    check_argument(count >= 1 && count <= Length,
                   "block_at_delimiter::count",
                   count,
                   "in [1, Length = ",
                   Length,
                   "]");
    detail::check_tokens(tokens, count, "block_at_delimiter::tokens");
  }

  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    const index_t answer = g.length - g.prompt_length;
    return math::min(math::max(window_of(answer), g.block_length), answer);
  }

  UNMASK_HD step_reduction reduce(const auto& c, const auto& context) const {
    const bool counts = c.position < context.sequence.window && is_delimiter(c.token);
    return counts ? step_reduction{c.confidence(), c.position} : step_reduction{};
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    const index_t answer = q.length - q.prompt_length;
    if (s.block_length == 0) {
      s = {q.block_length, q.prompt_length, q.prompt_length};
      q.block_length = answer;
    }
    const index_t first = q.first_masked_in({q.prompt_length, q.length});
    if (first >= s.last) {  // a new block, after the one that is complete
      s.window = math::min(first + window_of(answer), q.length);
      next.score = {first, math::min(math::max(first + s.block_length, s.window), q.length)};
    } else {
      s.window = first;
      next.score = {first, s.last};
    }
    next.freeze = {0, first};
    next.last_block = 1;
    next.forced = 1;
  }

  [[nodiscard]] UNMASK_HD index_t block_end(const sequence_view&,
                                            const plan& now,
                                            auto& context) const {
    sequence_state& s = context.sequence;
    if (now.score.first >= s.last) {
      const step_reduction& found = context.step_reduction;
      s.last = found.position >= 0 && found.confidence >= threshold
                   ? found.position + 1
                   : math::min(now.score.first + s.block_length, now.score.last);
    }
    return s.last;
  }

 private:
  [[nodiscard]] UNMASK_HD index_t window_of(index_t answer) const {
    return static_cast<index_t>(share * static_cast<float>(answer));
  }
  [[nodiscard]] UNMASK_HD bool is_delimiter(token_id token) const {
    bool any = false;
    for (index_t k = 0; k < count; ++k) {
      any = any || (tokens[k] != no_token && token_id{tokens[k]} == token);
    }
    return any;
  }
};
static_assert(scheduling<block_at_delimiter<>> && reaching<block_at_delimiter<>> &&
              step_reducing<block_at_delimiter<>> && block_ending<block_at_delimiter<>>);

}  // namespace unmask
