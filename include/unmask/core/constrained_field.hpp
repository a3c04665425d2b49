// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/sequence_view.hpp>
#include <unmask/core/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace UNMASK_NAMESPACE {

/// constrained_field::state of a field that begins with the first token of the language.
inline constexpr std::uint32_t from_start = 0xffffffffU;

/// constrained_field::tokens_after of a field after which any number of tokens may follow.
inline constexpr index_t any_number = -1;

namespace detail {

class any_constraint;
struct field_sizes;
struct field_tables;

}  // namespace detail

/// Positions of an answer whose tokens are to form a string of a language.
struct constrained_field {
  /// The language: a constraint (unmask/constraint.hpp). Several sequences and fields may have one.
  detail::any_constraint* language = nullptr;
  /// First position of the field, counted from the end of the prompt.
  index_t first = 0;
  /// One after the last position, counted likewise; the end of the sequence if that is lower.
  index_t last = 0x7fffffff;
  /// Tokens that follow the field in later sequences: if a host decodes an answer block by block,
  /// the tokens of the later blocks. any_number: any number of positions.
  index_t tokens_after = 0;
  /// The state before the field: session::constraint_state() of the block before.
  std::uint32_t state = from_start;
  /// Whether a token that is certain is written without a forward pass.
  bool fill = true;
  /// Whether a candidate that the gate refuses is read again, under the tokens that are possible by
  /// then, and committed with the best of them in the same step: a rule with a fixed number of
  /// passes keeps it. The state of parts at such a position is new before the second read. A
  /// canvas always does so at its end. The logits are then needed until the step is decided: not
  /// with read() in pieces, and not on a device.
  bool read_again = false;
};

namespace detail {

/// Start of the constraints of a sequence: its tokens, and what else decides about tokens.
struct answer_start {
  model_info model;
  sequence_shape shape;
  const token_id* tokens = nullptr;
  std::span<const std::uint8_t> editable;  ///< as start_options::editable
  std::span<const token_id> suppressed;
  bool read_again = false;  ///< in all fields, as constrained_field::read_again
  /// Whether the policy's parts allow a token at a position; null: all.
  bool (*allows)(const void* policy, token_id token, index_t position) = nullptr;
  const void* policy = nullptr;
  index_t window = 0;
  bool trace = false;
};

/// Reads the row of a scored position of a slot once more, under the tokens that are possible by
/// then: given by a backend while it decides.
struct second_reader {
  void* backend = nullptr;
  void (*read)(void* backend, index_t slot, index_t i) = nullptr;
};

/// The constraints of a running sequence, as its steps see them. Positions are counted in the
/// sequence; outside all fields everything is possible.
class constrained_answer {
 public:
  virtual ~constrained_answer() = default;

  /// Bitmask of the tokens that are possible at a position, and-ed with `given` unless that is
  /// null; `given` itself outside all fields. `is_there` is false if there is no memory for it
  /// until release().
  [[nodiscard]] virtual const std::uint32_t*
  mask(index_t position, const std::uint32_t* given, bool& is_there) = 0;
  virtual void release() = 0;
  /// The positions of the last field that has any.
  [[nodiscard]] virtual range last_field() const = 0;
  /// Whether the other tokens and this one can be completed.
  [[nodiscard]] virtual bool admits(index_t position, token_id token) = 0;
  virtual void write(index_t position, token_id token) = 0;
  /// Masks a position; nothing for one that a token is to be placed at.
  virtual void mask(index_t position) = 0;
  /// True if no other token is possible at a position, which is to be filled then.
  [[nodiscard]] virtual bool is_certain(index_t position) = 0;
  /// Whether a refused candidate is read again, at a position or at any.
  [[nodiscard]] virtual bool reads_again(index_t position) = 0;
  [[nodiscard]] virtual bool reads_again() = 0;
  /// The lowest token that is possible at a position; no_token outside all fields.
  [[nodiscard]] virtual token_id lowest(index_t position) = 0;
  /// Chooses a token for a position; the next place_tokens() returns it. Returns false outside all
  /// fields.
  [[nodiscard]] virtual bool place(index_t position) = 0;
  /// The tokens to write now, by position: the tokens of place(), and the certain ones.
  [[nodiscard]] virtual placed_tokens place_tokens() = 0;
  /// Ends the fields with these tokens, or, if that is null, with those that were written. Returns
  /// whether all are strings of their language.
  virtual bool finish(const token_id* tokens, const mark* marks) = 0;
  /// The state of a field after the first of these symbols that are classes; null: its own, so the
  /// state after its committed prefix. Errors: std::invalid_argument for a field that there is not.
  [[nodiscard]] virtual std::uint32_t state_of(std::size_t field, const std::uint32_t* symbols) = 0;

  /// The fields as tables, for a device: their number, the sizes of each, and what is written to
  /// the arrays of one before the sequence starts. Whether symbols are a string of its language.
  [[nodiscard]] virtual std::size_t fields() = 0;
  /// Errors: std::invalid_argument for a field that there is not.
  virtual void check_field(std::size_t field) = 0;
  [[nodiscard]] virtual field_sizes sizes(std::size_t field) = 0;
  virtual void write_tables(std::size_t field, field_tables& to) = 0;
  [[nodiscard]] virtual bool is_string(std::size_t field, const std::uint32_t* symbols) = 0;

  // Overloads for the phases of a step, with their thread group.
  [[nodiscard]] bool admits(const auto& /*group*/, index_t position, token_id token) {
    return admits(position, token);
  }
  [[nodiscard]] bool is_certain(const auto& /*group*/, index_t position) {
    return is_certain(position);
  }
  [[nodiscard]] placed_tokens place_tokens(const auto& /*group*/) { return place_tokens(); }

  /// The lists of a step, with room for a token at each position; traced() is null without a trace.
  [[nodiscard]] virtual commit_entry* entries() = 0;
  [[nodiscard]] virtual candidate_entry* traced() = 0;

  second_reader rows;

 protected:
  constrained_answer() = default;
  constrained_answer(const constrained_answer&) = default;
  constrained_answer& operator=(const constrained_answer&) = default;
};

/// Owns the constraints of a sequence, or nothing. (std::unique_ptr without <memory>, which would
/// be a sixth of what programs without constraints parse.)
class owned_answer {
 public:
  owned_answer() = default;
  explicit owned_answer(constrained_answer* answer)
      : answer_(answer) {}
  owned_answer(owned_answer&& other) noexcept
      : answer_(std::exchange(other.answer_, nullptr)) {}
  owned_answer& operator=(owned_answer&& other) noexcept {
    delete std::exchange(answer_, std::exchange(other.answer_, nullptr));
    return *this;
  }
  ~owned_answer() { delete answer_; }

  [[nodiscard]] constrained_answer* get() const { return answer_; }

 private:
  constrained_answer* answer_ = nullptr;
};

/// The language of a field as a session sees it: a constraint.
class any_constraint {
 public:
  any_constraint() = default;
  any_constraint(const any_constraint&) = default;
  any_constraint& operator=(const any_constraint&) = default;
  virtual ~any_constraint() = default;

  /// The model that it was made for.
  [[nodiscard]] virtual const model_info& model() const = 0;
  /// The constraints of a sequence. Errors: std::invalid_argument for fields that overlap or are
  /// malformed, for a model that is not the constraint's, and for a field that no string of its
  /// language fills.
  [[nodiscard]] virtual owned_answer begin(std::span<const constrained_field> fields,
                                           const answer_start& with) const = 0;
};

}  // namespace detail

}  // namespace unmask
