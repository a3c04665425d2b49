// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The fields of what a session returns: two decodes are the same if these are, and a hash of a
/// decode is one of these. A structure that gets a member does not compile here until it has a line
/// for it.

#include <unmask/core/plan.hpp>
#include <unmask/core/request.hpp>

#include <bit>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace unmask::testing {

/// Fields in order, each with its name and the name of what has it; floating-point numbers are
/// their bits.
class fields {
 public:
  /// Adds a number, a structure, or a list of either.
  template <class T>
  fields& add(const char* of, const T& x) {
    if constexpr (std::ranges::range<T>) {
      put(of, "size", std::ranges::size(x));
      for (const auto& element : x) {
        add(of, element);
      }
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      put(of, "", x);
    } else {
      add_members(of, x);
    }
    return *this;
  }

  [[nodiscard]] const std::vector<std::uint64_t>& values() const { return values_; }

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
    return longer.names_[k].of + std::string(": ") + longer.names_[k].name + " is " + value(a) +
           ", not " + value(b);
  }

 private:
  struct name_of_field {
    const char* of;
    const char* name;
  };

  template <class T, class... More>
  void put(const char* of, const char* name, const T& x, const More&... more) {
    if constexpr (std::is_same_v<T, float>) {
      put(of, name, std::bit_cast<std::uint32_t>(x));
    } else if constexpr (std::is_same_v<T, range>) {
      put(of, name, x.first, name, x.last);
    } else {
      names_.push_back({of, name});
      values_.push_back(static_cast<std::uint64_t>(x));
    }
    if constexpr (sizeof...(more) > 0) {
      put(of, more...);
    }
  }

  void add_members(const char* of, const placement& x) {
    const auto& [position, token, lookahead_score, log_probability] = x;
    put(of, "position", position, "token", token, "lookahead_score", lookahead_score);
    put(of, "log_probability", log_probability);
  }
  void add_members(const char* of, const sequence_plan& x) {
    const auto& [end,
                 started,
                 query,
                 keys,
                 refresh,
                 evict,
                 attention,
                 shadow,
                 drafts,
                 hides,
                 checks,
                 beam,
                 logits_shift,
                 score,
                 forced,
                 first_block,
                 last_block,
                 freeze,
                 winner] = x;
    put(of, "end", end, "started", started, "query", query, "keys", keys, "refresh", refresh);
    put(of, "evict", evict, "attention", attention, "shadow", shadow, "drafts", drafts);
    put(of, "hides", hides, "checks", checks, "beam", beam, "logits_shift", logits_shift);
    put(of, "score", score, "forced", forced, "first_block", first_block);
    put(of, "last_block", last_block, "freeze", freeze, "winner", winner);
  }
  /// Those that mean something: the tokens of the branches that there are.
  void add_members(const char* of, const plan& x) {
    add_members(of, static_cast<const sequence_plan&>(x));
    put(of, "branches", x.branches);
    add(of, std::span(x.branch, static_cast<std::size_t>(x.placed(x.branches).last)));
  }
  void add_members(const char* of, const segment& x) {
    const auto& [slot,
                 branch,
                 placed,
                 query,
                 rows,
                 first_row,
                 keys,
                 evict,
                 attention,
                 shadow_of,
                 logits_shift] = x;
    put(of, "slot", slot, "branch", branch, "query", query, "rows", rows);
    put(of, "first_row", first_row, "keys", keys, "evict", evict, "attention", attention);
    put(of, "shadow_of", shadow_of, "logits_shift", logits_shift);
    add(of, placed);
  }
  void add_members(const char* of, const commit_entry& x) {
    const auto& [slot, position, token, log_probability, step, block, block_step, rank] = x;
    put(of, "slot", slot, "position", position, "token", token);
    put(of, "log_probability", log_probability, "step", step, "block", block);
    put(of, "block_step", block_step, "rank", rank);
  }
  /// Members beside those of a base have no names that a declaration could list.
  void add_members(const char* of, const candidate_entry& x) {
    static_assert(sizeof(candidate_entry) == sizeof(commit_entry) + 5 * sizeof(float));
    add_members(of, static_cast<const commit_entry&>(x));
    put(of, "committed", x.committed, "outcome", x.outcome, "part", x.part);
    put(of, "confidence", x.confidence, "margin", x.margin, "entropy", x.entropy);
  }
  void add_members(const char* of, const token_probability& x) {
    const auto& [slot, position, token, step, probability, share] = x;
    put(of, "slot", slot, "position", position, "token", token, "step", step);
    put(of, "probability", probability, "share", share);
  }
  void add_members(const char* of, const sequence_report& x) {
    const auto& [end,
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
                 constraint_met] = x;
    put(of, "end", end, "forwards", forwards, "committed", committed);
    put(of, "committed_prefix", committed_prefix, "answer_end", answer_end, "masked", masked);
    put(of, "rewritten", rewritten, "forced", forced, "invalid_rows", invalid_rows);
    put(of, "second_reads", second_reads, "last_commits", last_commits);
    put(of, "last_probabilities", last_probabilities, "last_moved", last_moved);
    put(of, "last_candidates", last_candidates, "refused", refused, "filled", filled);
    put(of, "constraint_met", constraint_met);
  }
  void add_members(const char* of, const forward_request& x) {
    const auto& [segments, rows] = x;
    put(of, "rows", rows);
    add(of, segments);
  }

  std::vector<name_of_field> names_;
  std::vector<std::uint64_t> values_;
};

/// The fields of results, each with its name.
template <class... T>
[[nodiscard]] fields fields_of(const T&... results) {
  fields all;
  (all.add("result", results), ...);
  return all;
}

}  // namespace unmask::testing
