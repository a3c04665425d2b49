// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/set_pool.hpp>
#include <unmask/core/constrained_field.hpp>
#include <unmask/core/field_tables.hpp>

#include <memory>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::detail::constraints {

/// The states that are possible between the tokens of a field, from one end: set j is that after
/// j tokens. A change of a token makes those after it invalid; they are computed again when they
/// are needed, up to the one that is as before.
class chain {
 public:
  explicit chain(kept_sets& sets)
      : sets_(sets) {}

  /// The token after set j has changed.
  void changed(index_t j);
  /// Computes the sets up to j: `next(k)` is the set after set k and its token. `differs(k)` is
  /// called for each set that is not what it was.
  void compute(index_t j, const auto& next, const auto& differs) {
    while (sets_.ok < j) {
      const std::uint32_t set = next(sets_.ok);
      const index_t k = sets_.ok + 1;
      const bool is_known = k <= sets_.end;
      if (is_known && sets_.value[k] == set) {
        sets_.ok = k >= same_from_ ? sets_.end : k;
        continue;
      }
      differs(k);
      sets_.value[k] = set;
      sets_.ok = k;
      sets_.end = sets_.end < k ? k : sets_.end;
    }
  }

 private:
  kept_sets& sets_;
  index_t same_from_ = 0;  // sets from here to the end followed from each other before the change
};

/// A field of a running sequence, by sets of states: `left`, those possible after the tokens left
/// of a position, and `right`, those from which the tokens right of it lead to acceptance.
///
/// A token is possible at a masked position exactly if it leads from one of the left states to one
/// of the right states. State: 12 bytes a position. Cost: of a changed token, two look-ups for each
/// position whose sets change; of a set that was not seen before, its operation.
class running_field {
 public:
  running_field(std::shared_ptr<set_pool> pool,
                const constrained_field& field,
                index_t first,
                std::span<const token_id> tokens,
                const answer_start& with);
  running_field(const running_field&) = delete;
  running_field& operator=(const running_field&) = delete;
  ~running_field() { leave(); }

  // Positions count from the beginning of the field; no_token: masked.

  /// Bitmask of the tokens that are possible at a position, and-ed with `given` unless that is
  /// null. Null if there is no memory for it until release().
  [[nodiscard]] const std::uint32_t* mask(index_t at, const std::uint32_t* given);
  void release() { pool_->release(); }
  /// Whether a string of the language has the token there and the other tokens where they are.
  [[nodiscard]] bool admits(index_t at, token_id token);
  /// Writes a token, or masks the position with no_token. Others are then possible elsewhere.
  void write(index_t at, token_id token);
  /// The lowest token that is possible at a position, preferably one that may be proposed.
  [[nodiscard]] token_id lowest(index_t at);
  /// The next position from `at` on whose token is certain, and which; the size of the field if
  /// there is none. Fields that are not filled have none.
  [[nodiscard]] index_t next_certain(index_t at, token_id& token);
  /// Whether the token of a position is certain.
  [[nodiscard]] bool is_certain(index_t at) { return fills_ && certain(at) != no_token; }
  /// The state after the tokens before the first masked position.
  [[nodiscard]] std::uint32_t state();
  /// The field as tables, of these sizes; the arrays of `to` are zero. Of the symbols of those
  /// tables: the state after the first that are classes, and whether they are a string.
  [[nodiscard]] field_sizes sizes() const;
  void write_tables(field_tables& to) const;
  [[nodiscard]] std::uint32_t state_of(const std::uint32_t* symbols) const;
  [[nodiscard]] bool is_met(const std::uint32_t* symbols) const;
  /// Ends the field with its tokens as they are, and frees what it holds except the state. Returns
  /// whether they are a string of the language.
  bool finish();

 private:
  [[nodiscard]] index_t size() const { return size_; }
  // The state sets left and right of a position.
  [[nodiscard]] std::uint32_t left_of(index_t at);
  [[nodiscard]] std::uint32_t right_of(index_t at);
  // Index of the set of classes that are possible at a masked position.
  [[nodiscard]] std::uint32_t possible(index_t at);
  [[nodiscard]] bool is_masked(index_t at) const {
    return symbols_[static_cast<std::size_t>(at)] >= pool_->automaton().classes;
  }
  [[nodiscard]] bool is_suppressed(token_id token) const;
  // The classes that are possible at a masked position and may be proposed there.
  void for_each_usable(index_t at, const auto& use);
  // The token that is certain at a masked position, or no_token.
  [[nodiscard]] token_id certain(index_t at);
  void take_restrictions(index_t first, const answer_start& with);
  void take_tokens(index_t first, std::span<const token_id> tokens);
  void check(const constrained_field& field, index_t first, std::span<const token_id> tokens);
  void leave();
  [[nodiscard]] std::vector<std::uint32_t> distinct_restrictions() const;
  void for_each_row(std::uint32_t restriction,
                    const std::vector<std::uint32_t>& first,
                    const std::vector<std::uint32_t>& to,
                    const std::vector<std::uint32_t>& label,
                    const auto& use) const;

  std::shared_ptr<set_pool> pool_;
  index_t size_ = 0;
  bool fills_ = true;
  std::uint32_t first_state_ = 0;
  std::vector<token_id> suppressed_;
  std::vector<std::uint32_t> symbols_;       // by position: of its token, or any(restriction)
  std::vector<std::uint32_t> restrictions_;  // by position: that of its mask
  std::vector<std::uint32_t> sets_of_left_;
  std::vector<std::uint32_t> sets_of_right_;
  kept_sets sets_[2];
  chain left_{sets_[0]};
  chain right_{sets_[1]};
  bool is_registered_ = false;
  bool is_broken_ = false;
  std::uint32_t last_state_ = 0;  // once it has ended
  // Positions whose possible tokens may have changed since next_certain() was last at its end.
  index_t changed_first_ = 0;
  index_t changed_last_ = 0;
};

}  // namespace unmask::detail::constraints

#if UNMASK_DEFINES
#  include <unmask/constraint/field_tables.hpp>
#  include <unmask/constraint/running_field_steps.hpp>
#endif
