// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Ends a sequence once an end token is settled and everything left of it is, too. What is still
/// open behind it becomes the end token without a forward pass.
///
/// Looks at the answer only, never at the prompt; O(newly settled) a step. A sequence of a model
/// without an end token is refused: nothing would ever stop it. Source: CreditDecoding (2025), appendix C.7, early stop.
struct stop_at_end {
  struct sequence_state {
    index_t seen = 0;
  };
  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "stop_at_end", "stop_at_end", "ends once an end token is settled and all before it"};

  void check(const layout&, const model_info& m) const {
    check_argument(m.end_token != no_token,
                   "model_info::end_token",
                   "no_token",
                   "a token where a policy has stop_at_end, which would else never stop");
  }

  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    index_t& i = own.sequence.seen;
    i = math::min(i, math::min(q.settled, q.rewritten));
    for (i = math::max(i, q.prompt); i < q.settled; ++i) {
      if (q.tokens[i] == q.end_token) {
        return ending::end_token;
      }
    }
    return ending::running;
  }
};
static_assert(stopping<stop_at_end>);

/// Ends a sequence once a sequence of tokens is settled in the answer and everything left of it is,
/// too: ending::stop_tokens. Several stop sequences are several parts.
///
/// The match may cross blocks and may hold tokens the caller gave (fixed slots), but not the
/// prompt's. One that ends before `min_tokens` tokens of the answer does not count, now or later.
/// What is settled behind the match stays; what is open becomes the end token, if the model has
/// one, and sequence_report::settled is then the length of the sequence: trim the text with find().
/// Without an end token it stays masked, and `settled` is the first open position.
///
/// Of the `Length` tokens those that are given among the first `count` are used, at least one and
/// without a gap: Range count in [1, Length], tokens >= 0, min_tokens >= 0. O(newly settled * count) a step at most; tokens that a policy rewrites are
/// compared anew.
template <int Length = 8>
struct stop_sequence {
  static_assert(Length >= 1, "a stop sequence of no tokens would end every text at once");

  listed_token tokens[Length] = {};  ///< The tokens of the sequence.
  index_t count = Length;  ///< Number of tokens.
  index_t min_tokens = 0;

  struct sequence_state {
    index_t seen = 0;  ///< no match ends before this position
  };
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "stop_sequence",
      "stop_sequence",
      "ends once these tokens are settled and all before them; at most 8"};
  static constexpr knob<stop_sequence> knobs[] = {
      {"tokens", knob_kind::tokens, Length, &detail::fill_tokens<stop_sequence>},
      {"min_tokens", &stop_sequence::min_tokens, at_least(0)}};

  void check(const layout&) const {
    check_argument(count >= 1 && count <= Length, "stop_sequence::count", count, "in [1, Length]");
    detail::check_tokens(tokens, count, "stop_sequence::tokens");
    for (index_t k = length(); k < count; ++k) {
      check_argument(tokens[k] == no_token,
                     "stop_sequence::tokens",
                     tokens[k],
                     "no_token behind an entry that is: a sequence has no gaps");
    }
  }

  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    index_t& i = own.sequence.seen;
    i = math::min(i, math::min(q.settled, q.rewritten));
    i = math::max(i, q.prompt);
    const index_t end = find(q.tokens, {q.prompt, q.settled}, i);
    i = math::max(i, end < 0 ? q.settled : end - 1);
    return end < 0 ? ending::running : ending::stop_tokens;
  }

  /// The position behind the first match within `answer`, or -1.
  [[nodiscard]] UNMASK_HD index_t find(const token_id* text, range answer) const {
    return find(text, answer, answer.first);
  }

 private:
  // Tokens that were given.
  [[nodiscard]] UNMASK_HD index_t length() const {
    index_t given = 0;
    while (given < count && tokens[given] != no_token) {
      ++given;
    }
    return given;
  }

  // The same for matches whose last token stands at position `from` or behind.
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
static_assert(stopping<stop_sequence<>>);

/// Ends a sequence that is not complete after `steps` forward passes. What is still open becomes
/// the end token, if the model has one, and stays masked otherwise. Range steps >= 1.
struct step_budget {
  index_t steps = 1024;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "step_budget", "step_budget", "ends after so many forward passes"};
  static constexpr knob<step_budget> knobs[] = {{"steps", &step_budget::steps, at_least(1)}};

  UNMASK_HD ending stop(const sequence_view& q, auto&) const {
    return q.step >= steps && q.open_count > 0 ? ending::step_budget : ending::running;
  }
};
static_assert(stopping<step_budget>);

}  // namespace unmask
