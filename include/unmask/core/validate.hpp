// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/validate_rows.hpp>
#include <unmask/core/walk.hpp>

#include <span>

/// Argument checks of a session. Host only. Errors: each throws std::invalid_argument that names
/// the argument, its value and the rule, and changes nothing.
namespace UNMASK_NAMESPACE {

/// Optional inputs of start() in addition to the geometry. Read during start() only; host memory.
struct start_options {
  /// One byte for each position of the sequence, a `mark`: 0 = fixed, 1 = masked at the start, 2 =
  /// committed: the token stays, and parts that edit or remask committed tokens may change it, as
  /// one that this session has committed. Positions of the prompt are fixed. Empty: the whole
  /// answer is masked. Used for infilling, fixed slots, and to edit a text that is there. No policy
  /// changes a fixed position; rules that move text refuse them.
  std::span<const std::uint8_t> editable = {};
  /// Tokens that are never proposed, in addition to the mask token.
  std::span<const token_id> suppressed = {};
  /// Fields of the answer that are to be strings of a language, from left to right without overlap.
  /// Such a start allocates and, on a device, synchronises.
  std::span<const constrained_field> constraints = {};
  /// Tokens of a row in session::soft_tokens() and session::alternatives(); 0: the rows are not
  /// read for them. On a device for policies by name. Such a start allocates if the slot has no
  /// room for them, and synchronises then on a device.
  index_t soft_tokens = 0;
};

/// Checks a model.
UNMASK_LIBRARY void validate(const model_info& m);

/// Returns the capacities with the window reduced to at most the length.
[[nodiscard, gnu::noinline]] constexpr session_capacity validated(session_capacity c) {
  check_argument(c.sequences >= 1, "session_capacity::sequences", c.sequences, "at least 1");
  check_argument(c.length >= 1 && c.length <= max_length,
                 "session_capacity::length",
                 c.length,
                 "at least 1 and at most ",
                 max_length);
  check_argument(c.window >= 1, "session_capacity::window", c.window, "at least 1");
  check_argument(c.branches >= 0 && c.branches <= max_branches,
                 "session_capacity::branches",
                 c.branches,
                 "in [0, ",
                 max_branches,
                 "]");
  c.window = math::min(c.window, c.length);
  const std::int64_t rows = (std::int64_t{1} + c.branches) * c.window;
  check_argument(c.sequences <= max_rows / rows,
                 "session_capacity::sequences",
                 c.sequences,
                 "at most ",
                 max_rows / rows,
                 ", for ",
                 max_rows,
                 " rows of (1 + session_capacity::branches) * session_capacity::window = ",
                 rows,
                 " a sequence");
  return c;
}

/// Checks a sequence of the given number of tokens against the capacities of a session.
UNMASK_LIBRARY void
validate(const sequence_shape& g, index_t tokens, const session_capacity& capacity);

/// Returns the geometry with the block length reduced to at most the length of the sequence.
[[nodiscard]] constexpr sequence_shape bounded(sequence_shape g) {
  g.block_length = math::min(g.block_length, g.length);
  return g;
}

/// Writes the tokens that are never proposed, ascending and without repeats. Returns their number.
UNMASK_LIBRARY index_t suppressed_tokens(const model_info& m,
                                         const start_options& o,
                                         token_id (&out)[max_suppressed]);

/// Checks the optional inputs of start().
UNMASK_LIBRARY void validate(const start_options& o, const model_info& m, const sequence_shape& g);

/// Checks the index of a slot.
UNMASK_LIBRARY void validate_slot(index_t slot, const session_capacity& capacity);

/// Checks the arguments of start() whose rules are the same for every policy; `count` is the number
/// of tokens.
UNMASK_LIBRARY void validate_start(const model_info& m,
                                   const session_capacity& capacity,
                                   index_t slot,
                                   const token_id* tokens,
                                   index_t count,
                                   const sequence_shape& g,
                                   const start_options& o);

/// Checks start_options::editable under a policy that moves text: no position of the answer may be
/// fixed, because it could not stay, and none from `begin_length` on committed, because the answer
/// does not have it yet.
UNMASK_LIBRARY void
validate_moving(const start_options& o, const sequence_shape& g, index_t begin_length);

/// Checks that a sequence has no constraints and no soft tokens, which `where` does not know yet.
UNMASK_LIBRARY void validate_unconstrained(const start_options& o, const char* where);

/// Checks that a sequence wants no soft tokens.
UNMASK_LIBRARY void validate_without_soft_tokens(const start_options& o, const char* where);

/// Checks the largest number of positions that one step of a sequence may read.
UNMASK_LIBRARY void validate_reach(index_t reach, const session_capacity& capacity);

/// Checks the number of branches of a policy.
UNMASK_LIBRARY void validate_branches(index_t branches, const session_capacity& capacity);

#if UNMASK_DEFINES
UNMASK_LIBRARY void validate(const model_info& m) {
  check_argument(m.vocab >= 1 && m.vocab <= max_vocab,
                 "model_info::vocab",
                 m.vocab,
                 "at least 1 and at most ",
                 max_vocab);
  check_argument(m.mask_token != no_token,
                 "model_info::mask_token",
                 "no_token, its default",
                 "given: the token at masked positions");
  check_argument(m.mask_token >= 0 && m.mask_token < m.vocab,
                 "model_info::mask_token",
                 m.mask_token,
                 "in [0, vocab = ",
                 m.vocab,
                 ")");
  check_argument(m.eos_token == no_token || (m.eos_token >= 0 && m.eos_token < m.vocab),
                 "model_info::eos_token",
                 m.eos_token,
                 "in [0, vocab = ",
                 m.vocab,
                 ") or no_token");
  check_argument(m.eos_token != m.mask_token,
                 "model_info::eos_token",
                 m.eos_token,
                 "another token than model_info::mask_token = ",
                 m.mask_token);
  check_argument(m.logits_shift == 0 || m.logits_shift == 1,
                 "model_info::logits_shift",
                 m.logits_shift,
                 "0 or 1");
  check_argument(m.layers >= 0, "model_info::layers", m.layers, "at least 0");
  check_argument(!m.suppress_mask || m.vocab >= 2,
                 "model_info::vocab",
                 m.vocab,
                 "at least 2 when the mask token is suppressed");
}

UNMASK_LIBRARY void
validate(const sequence_shape& g, index_t tokens, const session_capacity& capacity) {
  check_argument(
      g.prompt_length >= 0, "sequence_shape::prompt_length", g.prompt_length, "at least 0");
  check_argument(g.length >= 1, "sequence_shape::length", g.length, "at least 1");
  check_argument(g.prompt_length <= g.length,
                 "sequence_shape::prompt_length",
                 g.prompt_length,
                 "at most sequence_shape::length = ",
                 g.length);
  check_argument(g.length <= tokens,
                 "sequence_shape::length",
                 g.length,
                 "at most the number of tokens, ",
                 tokens);
  check_argument(g.length <= capacity.length,
                 "sequence_shape::length",
                 g.length,
                 "at most session_capacity::length = ",
                 capacity.length);
  check_argument(g.block_length >= 1, "sequence_shape::block_length", g.block_length, "at least 1");
}

UNMASK_LIBRARY index_t suppressed_tokens(const model_info& m,
                                         const start_options& o,
                                         token_id (&out)[max_suppressed]) {
  index_t count = 0;
  const auto insert = [&](token_id v) {
    index_t at = count;
    while (at > 0 && out[at - 1] > v) {
      --at;
    }
    if (at > 0 && out[at - 1] == v) {
      return;
    }
    for (index_t k = count++; k > at; --k) {
      out[k] = out[k - 1];
    }
    out[at] = v;
  };
  if (m.suppress_mask) {
    insert(m.mask_token);
  }
  for (const token_id v : o.suppressed) {
    insert(v);
  }
  return count;
}

UNMASK_LIBRARY void validate(const start_options& o, const model_info& m, const sequence_shape& g) {
  check_argument(o.editable.empty() || o.editable.size() >= static_cast<std::size_t>(g.length),
                 "start_options::editable.size()",
                 o.editable.size(),
                 "0 or at least sequence_shape::length = ",
                 g.length);
  for (const std::uint8_t is : o.editable) {
    check_argument(is <= static_cast<std::uint8_t>(mark::committed),
                   "start_options::editable",
                   is,
                   "0 (fixed), 1 (masked) or 2 (committed)");
  }
  check_argument(o.suppressed.size() + 1 <= static_cast<std::size_t>(max_suppressed),
                 "start_options::suppressed.size()",
                 o.suppressed.size(),
                 "at most ",
                 max_suppressed - 1);
  for (const token_id v : o.suppressed) {
    check_argument(v >= 0 && v < m.vocab,
                   "start_options::suppressed",
                   v,
                   "a token in [0, vocab = ",
                   m.vocab,
                   ")");
  }
  check_argument(o.soft_tokens >= 0 && o.soft_tokens <= held_tokens::capacity,
                 "start_options::soft_tokens",
                 o.soft_tokens,
                 "in [0, ",
                 held_tokens::capacity,
                 "]");
  token_id all[max_suppressed];
  const index_t count = suppressed_tokens(m, o, all);
  check_argument(count < m.vocab,
                 "number of suppressed tokens",
                 count,
                 "less than model_info::vocab = ",
                 m.vocab);
}

UNMASK_LIBRARY void validate_slot(index_t slot, const session_capacity& capacity) {
  check_argument(slot >= 0 && slot < capacity.sequences,
                 "slot",
                 slot,
                 "in [0, session_capacity::sequences = ",
                 capacity.sequences,
                 ")");
}

UNMASK_LIBRARY void validate_start(const model_info& m,
                                   const session_capacity& capacity,
                                   index_t slot,
                                   const token_id* tokens,
                                   index_t count,
                                   const sequence_shape& g,
                                   const start_options& o) {
  validate_slot(slot, capacity);
  validate(g, count, capacity);
  detail::check_address(tokens, "the tokens");
  validate(o, m, g);
}

UNMASK_LIBRARY void
validate_moving(const start_options& o, const sequence_shape& g, index_t begin_length) {
  for (index_t p = g.prompt_length; !o.editable.empty() && p < g.length; ++p) {
    const auto is = static_cast<mark>(o.editable[static_cast<std::size_t>(p)]);
    const bool has_begun = p < begin_length;
    if (is == mark::fixed || (is == mark::committed && !has_begun)) {
      detail::message()
          .add("start_options::editable of position ")
          .add(p)
          .add(" must be ")
          .add(has_begun ? "1 (masked) or 2 (committed)" : "1 (masked)")
          .add(
              " with a rule that moves text, such as daedal, rho_eos or joint_threshold_indel with "
              "its commands, got ")
          .add(is == mark::fixed ? "0 (fixed), which it could not keep there"
                                 : "2 (committed), where the answer has no position yet")
          .refuse();
    }
  }
}

UNMASK_LIBRARY void validate_unconstrained(const start_options& o, const char* where) {
  if (!o.constraints.empty()) {
    detail::message()
        .add("constraint does not combine with ")
        .add(where)
        .add(" yet: use a session on the host")
        .refuse();
  }
  validate_without_soft_tokens(o, where);
}
UNMASK_LIBRARY void validate_without_soft_tokens(const start_options& o, const char* where) {
  if (o.soft_tokens != 0) {
    detail::message()
        .add("start_options::soft_tokens does not combine with ")
        .add(where)
        .add(" yet: use a session on the host")
        .refuse();
  }
}

UNMASK_LIBRARY void validate_reach(index_t reach, const session_capacity& capacity) {
  check_argument(reach <= capacity.window,
                 "positions read in one step (sequence_shape::block_length, or more if the policy "
                 "reads more)",
                 reach,
                 "at most session_capacity::window = ",
                 capacity.window);
}

UNMASK_LIBRARY void validate_branches(index_t branches, const session_capacity& capacity) {
  check_argument(branches <= capacity.branches,
                 "branches",
                 branches,
                 "at most session_capacity::branches = ",
                 capacity.branches);
}
#endif

namespace detail {

// Checks every part of a policy.
template <class Policy, std::size_t... I>
void check_parts(const Policy& p,
                 const sequence_shape& g,
                 const model_info& m,
                 std::index_sequence<I...>) {
  (check_part(p.template part_at<I>(), g, m), ...);
}
template <class Policy>
void check_parts(const Policy& p, const sequence_shape& g, const model_info& m) {
  check_parts(p, g, m, std::make_index_sequence<Policy::part_total>{});
}

// Checks that the engine can run the attention of every part.
template <class Policy>
void check_attention_of(const Policy& p, const model_info& m) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (check_attention(p.template part_at<I>(), m), ...);
  }(std::make_index_sequence<Policy::part_total>{});
}

// Whether text moves.
template <class Policy>
[[nodiscard]] bool policy_moves_text([[maybe_unused]] const Policy& p) {
  bool any = false;
  visit_parts<&part_traits::rewrites_blocks>(
      p, [&any](const auto& v) { any = any || moves_text(v.part); });
  return any;
}

// Largest number of positions whose rows one step may read.
template <class Policy>
[[nodiscard]] index_t policy_reach(const Policy& p, const sequence_shape& g) {
  if (reads_ahead(p)) {
    return g.length - g.prompt_length;
  }
  index_t reach = math::min(g.block_length, g.length - g.prompt_length);
  visit_parts<&part_traits::reaches>(p, [&](const auto& v) { reach = v.part.reach(g); });
  return reach;
}

// Number of branches of a policy value: of one of its parts.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t policy_branches([[maybe_unused]] const Policy& p) {
  index_t branches = 0;
  const auto add = [&](auto part) {
    branches += p.template part_at<decltype(part)::value>().branches;
  };
  for_each_part<Policy, &part_traits::looks_ahead>(add);
  for_each_part<Policy, &part_traits::drafts>(add);
  for_each_part<Policy, &part_traits::beams>(
      [&](auto part) { branches += p.template part_at<decltype(part)::value>().width - 1; });
  return branches;
}

}  // namespace detail

}  // namespace unmask
