// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace UNMASK_NAMESPACE {

/// constrained_field::state of a field that begins with the first token of the language.
inline constexpr std::uint32_t from_start = 0xffffffffU;

/// constrained_field::behind of a field behind which any number of tokens may follow.
inline constexpr index_t any_number = -1;

namespace detail {

class any_constraint;

}  // namespace detail

/// Positions of an answer whose tokens are to form a string of a language.
struct constrained_field {
  /// The language: a constraint (unmask/constraint.hpp). Several sequences and fields may have one.
  detail::any_constraint* language = nullptr;
  /// First position of the field, counted from the end of the prompt.
  index_t first = 0;
  /// One behind the last position, counted likewise; the end of the sequence if that is lower.
  index_t last = 0x7fffffff;
  /// Tokens that follow the field in later sequences: of an answer that a host decodes block by
  /// block, those of the later blocks. any_number: as many as it takes.
  index_t behind = 0;
  /// The state before the field: session::constraint_state() of the block before.
  std::uint32_t state = from_start;
  /// Whether a token that is certain is written without a forward pass.
  bool fill = true;
};

namespace detail {

/// Start of a field: its tokens, and what else decides about tokens.
struct field_start {
  std::span<const token_id> tokens;  ///< those of the field; no_token: masked
  index_t position = 0;              ///< position of the first of them in the sequence
  std::span<const token_id> suppressed;
  /// Whether the policy's parts allow a token at a position; null: all.
  bool (*allows)(const void* policy, token_id token, index_t position) = nullptr;
  const void* policy = nullptr;
};

/// A field of a running sequence: its tokens, and which tokens may stand at each masked position so
/// that the others can still be completed to a string of the language. Positions count from the
/// beginning of the field.
class running_field {
 public:
  virtual ~running_field() = default;

  /// Bitmask of the tokens that are possible at a position, and-ed with `given` unless that is
  /// null. Null if there is no memory for it until release().
  [[nodiscard]] virtual const std::uint32_t* mask(index_t at, const std::uint32_t* given) = 0;
  virtual void release() = 0;
  /// Whether a string of the language has the token there and the other tokens where they are.
  [[nodiscard]] virtual bool admits(index_t at, token_id token) = 0;
  /// Writes a token, or masks the position with no_token. Others are then possible elsewhere.
  virtual void write(index_t at, token_id token) = 0;
  /// The lowest token that is possible at a position, preferably one that may be proposed.
  [[nodiscard]] virtual token_id lowest(index_t at) = 0;
  /// The next position at or behind `at` whose token is certain, and which; the size of the field
  /// if there is none. Fields that are not filled have none.
  [[nodiscard]] virtual index_t next_certain(index_t at, token_id& token) = 0;
  /// Whether the token of a position is certain.
  [[nodiscard]] virtual bool is_certain(index_t at) = 0;
  /// The state behind the tokens before the first masked position.
  [[nodiscard]] virtual std::uint32_t state() = 0;
  /// Ends the field with its tokens as they are, and frees what it holds except the state. Returns
  /// whether they are a string of the language.
  virtual bool finish() = 0;
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

 private:
  friend class constrained_answer;
  /// Begins a field. Errors: std::invalid_argument if no string of the language fits.
  [[nodiscard]] virtual std::unique_ptr<running_field> begin(const constrained_field& field,
                                                             const field_start& with) = 0;
};

}  // namespace detail

}  // namespace unmask
