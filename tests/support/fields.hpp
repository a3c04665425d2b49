// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The fields of what a session returns: two decodes are the same if these are, and a hash of a
/// decode is one of these. A structure that gets a member does not compile here until its list has
/// it.

#include <unmask/core/plan.hpp>
#include <unmask/core/request.hpp>

#include <bit>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

/// Fields in order, those of a structure that are lists last; floating-point numbers are their
/// bits.
class fields {
 public:
  /// Adds a number, a structure, or a list of either, under the name of what it is.
  template <class T>
  fields& add(const char* of, const T& x) {
    if constexpr (is_list<T>) {
      put(of, "size", 0, std::ranges::size(x));
      for (const auto& element : x) {
        add(of, element);
      }
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      put(of, "", 0, x);
    } else {
      add_members(of, x);
    }
    return *this;
  }

  /// A hash of them, and of those that `sum` is of.
  [[nodiscard]] std::uint64_t hash(std::uint64_t sum) const {
    for (const std::uint64_t value : values_) {
      sum = mixed(sum, value);
    }
    return sum;
  }

  /// The first field that is not the same in both; empty if all are.
  [[nodiscard]] friend std::string difference(const fields& a, const fields& b) {
    if (a.values_ == b.values_) {
      return "";
    }
    std::size_t k = 0;
    while (k < a.values_.size() && k < b.values_.size() && a.values_[k] == b.values_[k]) {
      ++k;
    }
    const fields& longer = k < a.values_.size() ? a : b;
    const auto value = [k](const fields& x) {
      return k < x.values_.size() ? std::to_string(static_cast<std::int64_t>(x.values_[k]))
                                  : "nothing";
    };
    return longer.names_[k].text() + " is " + value(a) + ", not " + value(b);
  }

 private:
  struct field_name {
    const char* of;
    const char* members;  ///< separated by commas
    int number;           ///< of the member

    [[nodiscard]] std::string text() const {
      std::string_view left = members;
      for (int k = 0; k < number; ++k) {
        left.remove_prefix(left.find(',') + 2);
      }
      return std::string(of) + ": " + std::string(left.substr(0, left.find(',')));
    }
  };

  template <class T>
  static constexpr bool is_list = std::ranges::range<T>;

  template <class T>
  void put(const char* of, const char* members, int number, const T& x) {
    if constexpr (std::is_same_v<T, float>) {
      put(of, members, number, std::bit_cast<std::uint32_t>(x));
    } else if constexpr (std::is_same_v<T, range>) {
      put(of, members, number, x.first);
      put(of, members, number, x.last);
    } else if constexpr (!is_list<T>) {
      names_.push_back({of, members, number});
      values_.push_back(static_cast<std::uint64_t>(x));
    }
  }
  template <class... T>
  void put_members(const char* of, const char* names, const T&... members) {
    int number = 0;
    (put(of, names, number++, members), ...);
    const auto add_list = [&](const auto& member) {
      if constexpr (is_list<std::remove_cvref_t<decltype(member)>>) {
        add(of, member);
      }
    };
    (add_list(members), ...);
  }

// All members of a structure, in order.
#define UNMASK_FIELDS(type, ...)                                                                   \
  void add_members(const char* of, const type& structure) {                                        \
    const auto& [__VA_ARGS__] = structure;                                                         \
    put_members(of, #__VA_ARGS__, __VA_ARGS__);                                                    \
  }
  UNMASK_FIELDS(placement, position, token, lookahead_score, log_probability)
  UNMASK_FIELDS(sequence_plan,
                end,
                kind,
                started,
                query,
                keys,
                refresh,
                evict,
                attention,
                shadow,
                logits_shift,
                score,
                forced,
                first_block,
                last_block,
                freeze,
                winner)
  UNMASK_FIELDS(segment,
                slot,
                branch,
                placed,
                query,
                rows,
                first_row,
                keys,
                evict,
                attention,
                shadow_of,
                logits_shift)
  UNMASK_FIELDS(commit_entry, slot, position, token, log_probability, step, block, block_step, rank)
  UNMASK_FIELDS(token_probability, slot, position, token, step, probability, share)
  UNMASK_FIELDS(sequence_report,
                end,
                forwards,
                committed,
                committed_prefix,
                answer_end,
                masked,
                rewritten,
                forced,
                invalid_rows,
                second_reads,
                last_commits,
                last_probabilities,
                last_moved,
                last_candidates,
                refused,
                filled,
                constraint_met)
  UNMASK_FIELDS(forward_request, segments, rows)
#undef UNMASK_FIELDS

  /// Those that mean something: the tokens of the branches that there are.
  void add_members(const char* of, const plan& x) {
    add_members(of, static_cast<const sequence_plan&>(x));
    put_members(of, "branches", x.branches);
    add(of, std::span(x.branch, static_cast<std::size_t>(x.placed(x.branches).last)));
  }
  /// Members beside those of a base have no names that a declaration could list.
  void add_members(const char* of, const candidate_entry& x) {
    static_assert(sizeof(candidate_entry) == sizeof(commit_entry) + 5 * sizeof(float));
    add_members(of, static_cast<const commit_entry&>(x));
    put_members(of,
                "committed, outcome, part, confidence, margin, entropy",
                x.committed,
                x.outcome,
                x.part,
                x.confidence,
                x.margin,
                x.entropy);
  }

  std::vector<field_name> names_;
  std::vector<std::uint64_t> values_;
};

/// The fields of results.
template <class... T>
[[nodiscard]] fields fields_of(const T&... results) {
  fields all;
  (all.add("result", results), ...);
  return all;
}

}  // namespace unmask::testing
