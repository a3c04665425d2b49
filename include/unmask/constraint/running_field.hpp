// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/set_pool.hpp>
#include <unmask/core/constraint_rule.hpp>
#include <unmask/core/field_tables.hpp>

#include <memory>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::detail::constraints {

/// The sets of a field of a running sequence, interned: `left`, the states that the tokens left of
/// a position can lead to, and `right`, those from which the tokens right of it lead to acceptance.
/// Positions count from the beginning of the field.
///
/// State: 16 bytes a position and 5 a class. Cost: of a changed token, two look-ups for each
/// position whose sets change; of a set that was not seen before, its operation.
class interned_sets : public field_state {
 public:
  static constexpr std::uint32_t no_class = constraints::no_class;
  static constexpr bool keeps_all = false;

  /// Errors: as any_constraint::begin().
  interned_sets(std::shared_ptr<set_pool> pool,
                const constrained_field& field,
                index_t first,
                std::span<const token_id> tokens,
                const answer_start& with);
  interned_sets(const interned_sets&) = delete;
  interned_sets& operator=(const interned_sets&) = delete;
  ~interned_sets() { leave(); }

  /// Bitmask of the tokens that are possible at a position, and-ed with `given` unless that is
  /// null. Null if there is no memory for it until release().
  [[nodiscard]] const std::uint32_t* mask(index_t at, const std::uint32_t* given);
  void release() { pool_->release(); }
  /// The state after the first of these symbols that are classes; null: the symbols of the field.
  [[nodiscard]] std::uint32_t state_of(const std::uint32_t* symbols) const;
  /// True if these symbols are a string of the language.
  [[nodiscard]] bool is_string(const std::uint32_t* symbols) const;
  /// Frees the sets. The state stays.
  void leave();

  /// The field as tables, of these sizes. The arrays of `to` are zero.
  [[nodiscard]] field_sizes sizes() const;
  void write_tables(field_tables& to) const;

  // As field_over asks for.
  [[nodiscard]] index_t size() const { return size_; }
  [[nodiscard]] std::uint32_t classes() const { return pool_->automaton().classes; }
  [[nodiscard]] std::uint32_t class_at(token_id token) const {
    return pool_->automaton().class_at(token);
  }
  [[nodiscard]] std::uint32_t symbol(index_t at) const {
    return symbols_[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] std::uint32_t masked_symbol(index_t at) const {
    return pool_->any(restrictions_[static_cast<std::size_t>(at)]);
  }
  void set_symbol(index_t at, std::uint32_t symbol) {
    symbols_[static_cast<std::size_t>(at)] = symbol;
  }
  [[nodiscard]] bool is_usable(index_t at, std::uint32_t c) const {
    return has_bit(usable_at(at), c);
  }
  [[nodiscard]] token_id lowest_in(std::uint32_t c) const { return lowest_of_[c]; }
  void extend(const serial& t, index_t to_left, index_t to_right);
  [[nodiscard]] bool leads(const serial& t, std::uint32_t c, index_t at);
  [[nodiscard]] token_id certain_at(const serial& t, index_t at) const;
  [[nodiscard]] bool ends_meet(const serial& /*t*/) const {
    return pool_->intersects(sets_of_left_.back(), sets_of_right_[0]);
  }

 private:
  // The set before position `at`, and that after it, which are known.
  [[nodiscard]] std::uint32_t left_of(index_t at) const {
    return sets_of_left_[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] std::uint32_t right_of(index_t at) const {
    return sets_of_right_[static_cast<std::size_t>(size_ - 1 - at)];
  }
  [[nodiscard]] const std::uint64_t* usable_at(index_t at) const {
    return pool_->restriction(restrictions_[static_cast<std::size_t>(at)]);
  }
  void take_proposed(std::span<const token_id> suppressed);
  void take_restrictions(index_t first, const answer_start& with);
  void take_tokens(index_t first, std::span<const token_id> tokens);
  void check(const constrained_field& field, index_t first, std::span<const token_id> tokens);
  [[nodiscard]] std::vector<std::uint32_t> distinct_restrictions() const;
  void for_each_row(std::uint32_t restriction,
                    const std::vector<std::uint32_t>& first,
                    const std::vector<std::uint32_t>& to,
                    const std::vector<std::uint32_t>& label,
                    const auto& use) const;

  std::shared_ptr<set_pool> pool_;
  index_t size_ = 0;
  std::uint32_t first_state_ = 0;
  // By class: its lowest token that is not suppressed, no_token if there is none, and whether there
  // are more.
  std::vector<token_id> lowest_of_;
  std::vector<std::uint8_t> has_several_;
  std::vector<std::uint32_t> symbols_;       // by position: of its token, or any(restriction)
  std::vector<std::uint32_t> restrictions_;  // by position: that of its mask
  std::vector<std::uint32_t> sets_of_left_;
  std::vector<std::uint32_t> sets_of_right_;
  kept_sets sets_[2];
  bool is_registered_ = false;
};

/// A constrained field of a sequence on the host.
using running_field = field_over<interned_sets>;

}  // namespace unmask::detail::constraints

#if UNMASK_DEFINES
#  include <unmask/constraint/field_tables.hpp>
#  include <unmask/constraint/running_field_steps.hpp>
#endif
