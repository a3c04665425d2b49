// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/named/families.hpp>
#include <unmask/named/replay_by_address.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/ascending_step_size.hpp>
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/early_commit.hpp>
#include <unmask/policy/commit/entropy_below.hpp>
#include <unmask/policy/commit/finish.hpp>
#include <unmask/policy/commit/frechet.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/commit/local_leap.hpp>
#include <unmask/policy/commit/moving_threshold.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/commit/steady_leader.hpp>
#include <unmask/policy/remask/core.hpp>
#include <unmask/policy/remask/remdm.hpp>
#include <unmask/policy/remask/running_confidence.hpp>
#include <unmask/policy/remask/wino.hpp>

namespace UNMASK_NAMESPACE {

/// Commit rules that are not composed of others, at most one of each that keeps a state.
using commit_rule_family = family_of_stage<part_stage::commit_rule,
                                           8,
                                           family_states::shared,
                                           threshold,
                                           tokens_per_step,
                                           steps_per_block,
                                           block_deadline,
                                           ascending_step_size,
                                           factor,
                                           entropy_bound,
                                           frechet,
                                           entropy_below,
                                           moving_threshold,
                                           finish,
                                           hierarchical,
                                           timesteps,
                                           independent_timesteps,
                                           at_frontier,
                                           early_commit,
                                           steady_leader,
                                           local_leap,
                                           adaptive_threshold,
                                           stable_and_confident,
                                           running_confidence,
                                           remdm_loop,
                                           remdm_conf,
                                           wino,
                                           core,
                                           calibrated_threshold<>,
                                           replayed_commits,
                                           callback_rule>;

/// A commit rule expression as a value: parts combined by all_of, any_of and at_most.
///
/// Built in postfix order: `push(part)` for each part in written order, `join(both)` to combine two
/// operands, `limit(count)` after the operand of an at_most. At most `capacity` parts, at most
/// `counters` at_most, at most one calibrated_threshold and at most one part of each type that
/// keeps a state. Without parts it commits nothing.
class commit_rule_expression : public commit_rule_family {
 public:
  static constexpr index_t counters = 4;  ///< Most at_most.
  static constexpr statistics required = named_statistics | commit_rule_family::required;

  /// `text_index` is the part's place in the policy as written, -1 if not known.
  void push(const auto& operand, index_t text_index = -1) {
    commit_rule_family::push(operand, text_index);
    postfix_[length_++] = operation::operand;
  }
  void join(bool both) { postfix_[length_++] = both ? operation::both : operation::either; }
  void limit(const commit_limit& most, index_t text_index = -1) {
    limits_[limit_count_++] = {most, text_index};
    postfix_[length_++] = operation::limit;
  }
  [[nodiscard]] index_t size() const { return count; }
  /// Number of at_most.
  [[nodiscard]] index_t limits() const { return limit_count_; }
  /// The profile used by the part calibrated_threshold; unused without that part.
  [[nodiscard]] const calibrated_threshold<>& profile() const {
    return large<calibrated_threshold<>>();
  }
  /// True if that part is there and has no profile yet: a threshold_calibrator makes it of the
  /// first sequence.
  [[nodiscard]] bool needs_profile() const {
    return holds<calibrated_threshold<>>() && !profile().calibrated();
  }
  /// Gives that part its profile.
  void set_profile(const calibrated_threshold<>& profile) {
    large<calibrated_threshold<>>() = profile;
  }

  /// Whether the expression is true where bit i of `results` is the value of part i, and which part
  /// decides it. `first_counter` is that of the first at_most.
  UNMASK_HD decided<bool>
  decide(std::uint32_t results, auto& counts, index_t first_counter, bool wants_part) const {
    const evaluated found = evaluate(results, counts, first_counter);
    return {found.commits, wants_part ? deciding_part(results, found.held_back) : -1};
  }

 private:
  enum class operation : std::uint8_t { operand, both, either, limit };

  // The value of an expression, and which at_most have held a candidate back: bit k for the k-th.
  struct evaluated {
    bool commits = false;
    std::uint32_t held_back = 0;
  };

  // Evaluates the expression; bit i of `results` is the value of part i. `first` is the counter of
  // the first at_most.
  [[nodiscard]] UNMASK_HD evaluated evaluate(std::uint32_t results,
                                             auto& counts,
                                             index_t first) const {
    std::uint32_t stack = 0;  // its top is the lowest bit
    std::uint32_t held_back = 0;
    index_t limit = 0;
    for (index_t i = 0; i < length_; ++i) {
      if (postfix_[i] == operation::operand) {
        stack = stack << 1U | (results & 1U);
        results >>= 1U;
      } else if (postfix_[i] == operation::limit) {
        const std::uint32_t wants = stack & 1U;
        const std::uint32_t is_in =
            counts.admit(first + limit, limits_[limit].count, wants != 0) ? 1U : 0U;
        held_back |= (wants ^ is_in) << static_cast<std::uint32_t>(limit++);
        stack = (stack & ~1U) | is_in;
      } else {
        const std::uint32_t right = stack & 1U;
        const std::uint32_t left = stack >> 1U & 1U;
        const std::uint32_t joined = postfix_[i] == operation::both ? left & right : left | right;
        stack = (stack >> 2U) << 1U | joined;
      }
    }
    return {(stack & 1U) != 0, held_back};
  }

  // The part that decides the value (candidate_entry::part), by its text index.
  [[nodiscard]] UNMASK_HD index_t deciding_part(std::uint32_t results,
                                                std::uint32_t held_back) const {
    index_t part[capacity] = {};
    std::uint32_t value = 0;  // bit k: entry k of the stack
    index_t height = 0;
    index_t operand = 0;
    index_t limit = 0;
    for (index_t i = 0; i < length_; ++i) {
      if (postfix_[i] == operation::operand) {
        const std::uint32_t bit = results >> static_cast<std::uint32_t>(operand) & 1U;
        value = (value & ~(1U << static_cast<std::uint32_t>(height))) |
                bit << static_cast<std::uint32_t>(height);
        part[height++] = text_indices[operand++];
      } else if (postfix_[i] == operation::limit) {
        if ((held_back >> static_cast<std::uint32_t>(limit) & 1U) != 0) {
          value &= ~(1U << static_cast<std::uint32_t>(height - 1));
          part[height - 1] = limits_[limit].text_index;
        }
        ++limit;
      } else {
        --height;
        const auto left = static_cast<std::uint32_t>(height - 1);
        const bool is_decided = ((value >> left & 1U) == 0) == (postfix_[i] == operation::both);
        if (!is_decided) {  // then the value is that of the right side
          value = (value & ~(1U << left)) | (value >> (left + 1U) & 1U) << left;
          part[left] = part[left + 1];
        }
      }
    }
    return height > 0 ? part[0] : -1;
  }

  placed<commit_limit> limits_[counters] = {};
  operation postfix_[2 * capacity + counters] = {};
  index_t limit_count_ = 0;
  index_t length_ = 0;
};

}  // namespace unmask
