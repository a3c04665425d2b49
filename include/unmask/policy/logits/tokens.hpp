// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/policy.hpp>

/// Logits processors: edits of a few logits of each row. The tokens are tracked: the read excludes
/// them from its sums and reports them separately, so an edit in either direction is exact for
/// every statistic.
///
/// Combinations of these parts, and of those of repetition.hpp, eos.hpp, stop.hpp and
/// remask_below.hpp, with others ("yes": in any written order):
///
/// | part                       | credit       | lookahead | edits tokens |
/// |----------------------------|--------------|-----------|--------------|
/// | logit_bias                 | order counts | yes       | edits those  |
/// | allowed_tokens             | before it    | yes       | edits those  |
/// | repetition_penalty         | order counts | yes       | edits those  |
/// | presence_frequency_penalty | order counts | yes       | edits those  |
/// | neighbour_penalty          | order counts | yes       | edits those  |
/// | eos_penalty                | order counts | yes       | edits those  |
/// | min_new_tokens             | before it    | yes       | edits those  |
/// | no_equal_neighbours        | yes          | yes       | yes          |
/// | eos_gate, eos_last         | yes          | yes       | yes          |
/// | stop_sequence              | yes          | yes       | yes          |
/// | remask_current_below       | yes          | yes       | at most once |
/// | edit_committed             | yes          | yes       | yes          |
///
/// All of them combine with every ranking and commit rule, and with sampling{}: a token is drawn
/// from the edited row, exactly. truncation.hpp states what combines with top_k, top_p and min_p;
/// probability.hpp reports the probability of allowed tokens.
///
/// "order counts": credit is computed on the row as edited by the parts written before it, and its
/// result is edited by those after it. "edits those": rows of committed positions are also edited,
/// so that a banned token never replaces a committed one. "no" and "before it" are compile errors.
/// temperature{} is applied while the row is read, so always before any of these edits.
namespace UNMASK_NAMESPACE {

/// A token and the number that is added to its logit. no_token: an unused entry.
struct token_bias {
  token_id token = no_token;  ///< The token.
  float bias = 0.0F;          ///< Added to its logit, in nats.
};

/// Adds a constant to the logits of up to `Count` tokens, in nats; -inf bans a token. If a token
/// occurs twice, both are added.
///
///     logit_bias<2>{{{newline, -1.0F}, {semicolon, 0.5F}}}
///
/// Range: bias finite or -inf, tokens >= 0; tokens outside the vocabulary have no effect.
/// Cost: O(Count log Count) a row.
/// Example: `tokens_per_step + logit_bias([1], [1])`, rows a60b40: `b` at 0.64.
/// Source: `logit_bias` of the OpenAI completion interface.
template <int Count = 16>
struct logit_bias {
  static_assert(Count >= 1, "a logit_bias without tokens has no effect: leave it out");

  token_bias pairs[Count] = {};  ///< The tokens and their biases.

  static constexpr statistics required = stat::none;
  /// Sets the tokens from a text's list.
  static constexpr void take_tokens(logit_bias& b, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      b.pairs[i].token = static_cast<token_id>(values[i]);
    }
  }
  /// Sets the biases from a text's list.
  static constexpr void take_biases(logit_bias& b, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      b.pairs[i].bias = static_cast<float>(values[i]);
    }
  }
  static constexpr part_label label{"logit_bias",
                                    "adds biases[i] to the logit of tokens[i]; at most 16 tokens"};
  static constexpr knob<logit_bias> knobs[] = {{"tokens", knob_kind::tokens, Count, &take_tokens},
                                               {"biases", knob_kind::reals, Count, &take_biases}};
  static constexpr index_t tracks = Count;
  static constexpr bool processes_committed = true;

  void check(const sequence_shape&) const {
    for (const token_bias& b : pairs) {
      check_argument(b.token >= 0, "logit_bias::pairs::token", b.token, "at least 0");
      check_argument(!math::is_nan(b.bias) && b.bias < math::infinity(),
                     "logit_bias::pairs::bias",
                     b.bias,
                     "finite or -inf");
    }
  }

  UNMASK_HD void track(auto& list, const auto&) const {
    for (const token_bias& b : pairs) {
      if (b.token != no_token) {
        list.add(b.token);
      }
    }
  }

  UNMASK_HD void process(auto& row, const auto&) const {
    for (const token_bias& b : pairs) {
      if (b.token != no_token) {
        row.add(b.token, b.bias);
      }
    }
  }

  UNMASK_HD bool allows(token_id token, const step_info&) const {
    bool banned = false;
    for (const token_bias& b : pairs) {
      banned = banned || (b.token == token && b.bias == -math::infinity());
    }
    return !banned;
  }
};
static_assert(tracking<logit_bias<>> && logits_processor<logit_bias<>> &&
              restricting<logit_bias<>>);

/// Restricts positions to a list of tokens: every other token is excluded from their rows.
/// Confidence, entropy, margin and the reported log-probability are then computed in the softmax
/// over the list alone: "which of these, and how sure?".
///
/// Applies to the answer offsets [first, last), counted from the end of the prompt; elsewhere it
/// has no effect. Suppressed tokens stay suppressed; a row in which no listed token is finite is
/// invalid and commits the lowest one that is allowed. Two lists at one position leave their
/// intersection. Must be written before parts with a memory, such as trace_credit, which would
/// otherwise remember tokens that can never be proposed. The tokens are the given ones among the
/// first `count`, at least one.
///
/// Range: count in [1, Count].
/// Cost: O(count * tracked) a row.
/// Example: `tokens_per_step + allowed_tokens([1, 2])`, rows a60b30c10: `b` at 0.75.
/// Source: choice-constrained decoding as in engines (vLLM `structured_outputs.choice`).
template <int Count = 16>
struct allowed_tokens {
  static_assert(Count >= 1, "allowed_tokens without tokens would leave nothing to propose");

  listed_token tokens[Count] = {};  ///< The listed tokens.
  index_t count = Count;            ///< Number of tokens.
  index_t first = 0;
  index_t last = 0x7fffffff;

  static constexpr statistics required = stat::none;
  static constexpr bool precedes_memory = true;
  static constexpr index_t tracks = Count;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{
      "allowed_tokens",
      "excludes all other tokens at answer positions [first, last); at most 16 tokens"};
  static constexpr knob<allowed_tokens> knobs[] = {
      {"tokens", knob_kind::tokens, Count, &detail::fill_tokens<allowed_tokens>},
      {"first", &allowed_tokens::first, at_least(0)},
      {"last", &allowed_tokens::last, at_least(0)}};

  void check(const sequence_shape&) const {
    check_argument(count >= 1 && count <= Count,
                   "allowed_tokens::count",
                   count,
                   "in [1, Count = ",
                   Count,
                   "]");
    detail::check_tokens(tokens, count, "allowed_tokens::tokens");
    check_argument(
        last >= first, "allowed_tokens::last", last, "at least allowed_tokens::first = ", first);
  }

  UNMASK_HD void track(auto& list, const auto& context) const {
    if (applies(context.at)) {
      for (index_t k = 0; k < count; ++k) {
        if (tokens[k] != no_token) {
          list.add(tokens[k]);
        }
      }
    }
  }

  UNMASK_HD void process(auto& row, const auto& context) const {
    if (applies(context.at)) {
      row.keep_only(tokens, count);
    }
  }

  UNMASK_HD bool allows(token_id token, const step_info& at) const {
    bool listed = !applies(at);
    for (index_t k = 0; k < count; ++k) {
      listed = listed || tokens[k] == token;
    }
    return listed;
  }

 private:
  [[nodiscard]] UNMASK_HD bool applies(const step_info& at) const {
    return range{first, last}.contains(at.position - at.view->prompt_length);
  }
};
static_assert(tracking<allowed_tokens<>> && logits_processor<allowed_tokens<>> &&
              restricting<allowed_tokens<>>);

}  // namespace unmask
