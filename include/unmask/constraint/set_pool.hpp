// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/bit_sets.hpp>
#include <unmask/constraint/lift.hpp>
#include <unmask/constraint/token_automaton.hpp>
#include <unmask/core/constraint_rule.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

/// Sets of states and masks of a constraint, shared by its sequences.
namespace UNMASK_NAMESPACE::detail::constraints {

/// The sets of a sequence that the pool must not forget: a row of them. `chain` says which
/// are valid, and which may become valid again. None is before the first is there: chain->ok is -1.
struct kept_sets {
  std::uint32_t* value = nullptr;
  index_t room = 0;  ///< size of `value`
  set_chain* chain = nullptr;
};

/// Sets of states, classes and tokens, and the operations on them, each computed once and
/// remembered as long as there is room. One thread at a time. Allocates in its constructor only.
class set_pool {
 public:
  /// Symbols of positions: a class, or `any(r)`, every class that restriction r leaves.
  [[nodiscard]] std::uint32_t any(std::uint32_t restriction) const {
    return a_->classes + restriction;
  }
  static constexpr std::uint32_t most_restrictions = 64;

  set_pool(std::shared_ptr<const token_automaton> automaton, const constraint_limits& limits);

  [[nodiscard]] const token_automaton& automaton() const { return *a_; }
  [[nodiscard]] const std::shared_ptr<const token_automaton>& shared() const { return a_; }

  /// The set of one state, and of all.
  [[nodiscard]] std::uint32_t set_of(std::uint32_t state);
  [[nodiscard]] std::uint32_t all_states();
  /// States from which exactly `tokens` tokens can follow to an accepted end; -1: any number.
  [[nodiscard]] std::uint32_t suffix(index_t tokens);
  [[nodiscard]] const std::uint64_t* states_in(std::uint32_t set) const { return sets_[set]; }

  /// States after the states of a set, and before them, by a symbol.
  [[nodiscard]] std::uint32_t forward(std::uint32_t set, std::uint32_t symbol);
  [[nodiscard]] std::uint32_t backward(std::uint32_t set, std::uint32_t symbol);
  /// The classes that lead from a state of `left` to one of `right`: an index for classes().
  [[nodiscard]] std::uint32_t between(std::uint32_t left, std::uint32_t right);
  [[nodiscard]] const std::uint64_t* classes(std::uint32_t class_set) const {
    return class_sets_[class_set];
  }
  [[nodiscard]] bool intersects(std::uint32_t a, std::uint32_t b) const;

  /// A bitmask of the tokens of a class set, in row_modifiers' form. It stays until release();
  /// null if there is no room before that.
  [[nodiscard]] const std::uint32_t* mask(std::uint32_t class_set);
  /// Returns mask(class_set), and-ed with `given`.
  [[nodiscard]] const std::uint32_t* mask(std::uint32_t class_set, const std::uint32_t* given);
  /// The masks that were returned are no longer needed.
  void release() { ++epoch_; }

  /// Index of a restriction, a set of classes that may occur at a position, for drop(); the first
  /// is 0, all classes. most_restrictions if all are in use.
  [[nodiscard]] std::uint32_t take_restriction(const std::uint64_t* classes);
  void drop_restriction(std::uint32_t restriction);
  [[nodiscard]] const std::uint64_t* restriction(std::uint32_t r) const {
    return restrictions_.data() + r * a_->class_words();
  }

  /// Registers sets that a flush keeps. Allocates if there is no room for the given number of sets.
  void add(kept_sets* sets, std::size_t count);
  void remove(kept_sets* sets, std::size_t count);

  [[nodiscard]] std::size_t flushes() const { return flushes_; }
  [[nodiscard]] std::uint32_t most_sets() const { return sets_.capacity(); }

 private:
  enum operation : std::uint64_t { forwards = 1, backwards = 2, betweens = 3 };
  struct mask_entry {
    std::uint32_t class_set = bit_sets::none;
    std::uint64_t epoch = 0;
  };

  [[nodiscard]] static std::uint64_t key(operation o, std::uint32_t a, std::uint32_t b) {
    return std::uint64_t{o} << 62U | std::uint64_t{a} << 31U | b;
  }
  // The scratch set, empty.
  [[nodiscard]] std::uint64_t* scratch();
  // The set in the scratch, interned; makes room if there is none.
  [[nodiscard]] std::uint32_t intern_scratch();
  void flush();
  void mark_pairs(const std::vector<std::uint32_t>& first,
                  const std::vector<std::uint32_t>& to,
                  const std::vector<std::uint32_t>& label,
                  std::uint32_t set,
                  std::uint32_t restriction);
  [[nodiscard]] bool leads(std::uint32_t label, std::uint32_t restriction) const;
  [[nodiscard]] std::uint32_t* free_mask(std::uint32_t for_class_set);
  void write_mask(std::uint32_t class_set, std::uint32_t* out) const;

  std::shared_ptr<const token_automaton> a_;
  bit_sets sets_;
  bit_sets class_sets_;
  memo memo_;
  std::vector<std::uint64_t> scratch_;
  std::vector<std::uint64_t> class_scratch_;
  std::vector<std::uint32_t> seen_;  // by label: the count of the call that saw it
  std::uint32_t call_ = 0;
  std::unique_ptr<std::uint32_t[], free_memory> rename_;  // by set, in a flush: 1 + its new index
  std::size_t mask_words_;                                // of 32 bits, a multiple of 16
  std::unique_ptr<std::uint32_t[], free_memory> mask_bits_;
  std::vector<mask_entry> masks_;
  std::unique_ptr<std::uint32_t[], free_memory> mask_of_;  // by class set: 1 + index of its mask
  std::size_t next_mask_ = 0;
  std::uint64_t epoch_ = 1;
  std::vector<std::uint64_t> restrictions_;
  std::uint32_t restriction_uses_[most_restrictions] = {};
  std::vector<kept_sets*> kept_;
  std::size_t promised_ = 0;
  std::size_t flushes_ = 0;
};

}  // namespace unmask::detail::constraints

#if UNMASK_DEFINES
#  include <unmask/constraint/set_pool_operations.hpp>
#endif
