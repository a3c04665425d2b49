// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/answer_end.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Ends a sequence once an EOS token and every position left of it are committed. Positions after
/// it that are still masked become the EOS token without a forward pass, also between committed
/// ones; sequence_report::answer_end is the position after the first EOS token. With `whole_block`
/// all positions of the token's block must also be committed.
///
/// Reads the answer only, not the prompt, and with constraints nothing left of the last field,
/// where an EOS token pads another field or is free text.
/// Cost: O(newly committed) a step.
/// Errors: a model without an EOS token is refused, because the part would never stop a sequence.
/// Example: `tokens_per_step + stop_at_eos`, rows a90 e80 c70, EOS e: `a__` `aee`.
/// Source: CreditDecoding (2025), appendix C.7, early stop.
struct stop_at_eos {
  bool whole_block = false;

  struct sequence_state {
    index_t seen = 0;
  };
  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "stop_at_eos", "ends when an EOS token and all tokens before it are committed"};
  static constexpr knob<stop_at_eos> knobs[] = {{"whole_block", &stop_at_eos::whole_block}};

  void check(const sequence_shape&, const model_info& m) const {
    check_argument(m.eos_token != no_token,
                   "model_info::eos_token",
                   "no_token",
                   "a token if a policy has stop_at_eos, which would otherwise never stop");
  }

  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    index_t& i = context.sequence.seen;
    i = math::min(i, math::min(q.committed_prefix, q.rewritten));
    for (i = math::max(i, q.prompt_length); i < q.committed_prefix; ++i) {
      if (q.ends_at(i)) {
        const bool waits = whole_block && q.masked_in(q.block(q.block_of(i))) > 0;
        return waits ? ending::running : ending::eos_token;
      }
    }
    return ending::running;
  }

  [[nodiscard]] UNMASK_HD index_t answer_end(const sequence_view& q) const {
    return detail::end_at_eos(q);
  }
};
static_assert(delimiting<stop_at_eos>);

/// Ends a sequence once a given sequence of tokens in the answer and every position left of it are
/// committed: ending::stop_tokens. For several stop sequences use several parts.
///
/// The match may cross blocks and may contain tokens that the caller gave (fixed slots), but not
/// tokens of the prompt. A match that ends before `min_tokens` tokens of the answer never counts.
/// sequence_report::answer_end is the position after the match. Tokens committed after it stay but
/// are not part of the answer. Positions still masked become the EOS token if the model has one,
/// and sequence_report::committed_prefix is then the length of the sequence; without one they stay
/// masked, and it is the first masked position. With constraints, a match whose EOS token is left
/// of the last field does not count.
///
/// The stop sequence is formed by the given ones among the first `count` of the `Length` tokens,
/// at least one and without a gap; tokens that a policy rewrites are compared again.
/// Range: count in [1, Length], tokens >= 0, min_tokens >= 0.
/// Cost: at most O(newly committed * count) a step.
/// Example: `tokens_per_step + stop_sequence([0, 1])`, rows a90 b80 c70: `a__` `ab_`.
template <int Length = 8>
struct stop_sequence {
  static_assert(Length >= 1, "a stop sequence of no tokens would end every text at once");

  listed_token tokens[Length] = {};  ///< The tokens of the sequence.
  index_t count = Length;            ///< Number of tokens.
  index_t min_tokens = 0;

  struct sequence_state {
    index_t seen = 0;  ///< no match ends before this position
  };
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "stop_sequence",
      "ends when these tokens and all before them are committed; at most 8 tokens"};
  static constexpr knob<stop_sequence> knobs[] = {
      {"tokens", knob_kind::tokens, Length, &detail::fill_tokens<stop_sequence>},
      {"min_tokens", &stop_sequence::min_tokens, at_least(0)}};

  void check(const sequence_shape&) const {
    check_argument(count >= 1 && count <= Length,
                   "stop_sequence::count",
                   count,
                   "in [1, Length = ",
                   Length,
                   "]");
    detail::check_tokens(tokens, count, "stop_sequence::tokens");
    for (index_t k = length(); k < count; ++k) {
      check_argument(tokens[k] == no_token,
                     "stop_sequence::tokens",
                     tokens[k],
                     "no_token after another no_token: a sequence has no gaps");
    }
  }

  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    index_t& i = context.sequence.seen;
    i = math::min(i, math::min(q.committed_prefix, q.rewritten));
    const index_t end =
        find(q.tokens, {q.prompt_length, q.committed_prefix}, math::max(i, first_end(q)));
    i = q.committed_prefix;
    return end < 0 ? ending::running : ending::stop_tokens;
  }

  [[nodiscard]] UNMASK_HD index_t answer_end(const sequence_view& q) const {
    const index_t end = find(q.tokens, {q.prompt_length, q.committed_prefix}, first_end(q));
    return end < 0 ? q.length : end;
  }

  /// Position after the first match within `answer`, or -1.
  [[nodiscard]] UNMASK_HD index_t find(const token_id* text, range answer) const {
    return find(text, answer, answer.first);
  }

 private:
  // The first position at which a match may have its last token.
  [[nodiscard]] UNMASK_HD index_t first_end(const sequence_view& q) const {
    const index_t given = length();
    index_t k = 0;
    while (k < given && tokens[k] != q.eos_token) {
      ++k;
    }
    return k < given ? q.ends_from + given - 1 - k : 0;
  }
  // Number of tokens that are given.
  [[nodiscard]] UNMASK_HD index_t length() const {
    index_t given = 0;
    while (given < count && tokens[given] != no_token) {
      ++given;
    }
    return given;
  }

  // Overload for matches whose last token is at position `from` or after it.
  [[nodiscard]] UNMASK_HD index_t find(const token_id* text, range answer, index_t from) const {
    const index_t given = length();
    const index_t shortest = math::max(given, min_tokens);
    if (shortest > answer.size()) {
      return -1;
    }
    for (index_t p = math::max(from, answer.first + shortest - 1); p < answer.last; ++p) {
      index_t k = 0;
      while (k < given && text[p - k] == tokens[given - 1 - k]) {
        ++k;
      }
      if (k == given) {
        return p + 1;
      }
    }
    return -1;
  }
};
static_assert(delimiting<stop_sequence<>>);

/// Ends a sequence that is not complete after `steps` forward passes. Positions still masked become
/// the EOS token if the model has one, and stay masked otherwise. No decision committed these
/// tokens: sequence_report::answer_end is at most the first such position, although tokens after it
/// may be committed.
/// Range: steps >= 1.
/// Example: `tokens_per_step + max_steps(2)`, rows a90 b80 c70: `a__` `ab_`.
struct max_steps {
  index_t steps = 1024;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "max_steps", "ends after this number of forward passes; masked positions become EOS"};
  static constexpr knob<max_steps> knobs[] = {{"steps", &max_steps::steps, at_least(1)}};

  UNMASK_HD ending stop(const sequence_view& q, auto&) const {
    return q.step >= steps && q.masked_count > 0 ? ending::max_steps : ending::running;
  }
};
static_assert(stopping<max_steps>);

}  // namespace unmask
