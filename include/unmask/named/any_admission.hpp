// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/any_ranking.hpp>
#include <unmask/named/choice.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/commit/early_commit.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/commit/local_leap.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/commit/profile.hpp>
#include <unmask/policy/commit/steady_leader.hpp>

namespace UNMASK_NAMESPACE {

/// Placeholder of a profile_threshold in an expression, which stores the profile itself: a profile
/// is larger than all other leaves.
struct profile_place {
  static constexpr statistics required = profile_threshold<>::required;
};

/// One commit rule that is not composed of others.
using admission_leaf = choice_of<confidence_above,
                                 confidence_at_least,
                                 top_k,
                                 scheduled,
                                 factor,
                                 entropy_bound,
                                 hierarchical,
                                 timesteps,
                                 independent_timesteps,
                                 at_frontier,
                                 early_commit,
                                 steady_leader,
                                 local_leap,
                                 adaptive_threshold,
                                 stable_and_confident,
                                 profile_place>;

/// A commit rule expression as a value: leaves combined by all_of and any_of.
///
/// Built in postfix order: `push(leaf)` for each leaf in written order, `join(both)` to combine two
/// operands. At most `capacity` leaves, at most one profile_threshold and at most one leaf of each
/// type that keeps a state. Without leaves it commits nothing.
class admission_expression {
 public:
  static constexpr index_t capacity = 8;

  void push(const admission_leaf& leaf) {
    leaves_[size_++] = leaf;
    postfix_[length_++] = operation::leaf;
  }
  void push(const profile_threshold<>& profile) {
    profile_ = profile;
    push(profile_place{});
  }
  void join(bool both) { postfix_[length_++] = both ? operation::both : operation::either; }
  [[nodiscard]] index_t size() const { return size_; }
  /// The profile used by the leaf profile_threshold; unused without that leaf.
  [[nodiscard]] const profile_threshold<>& profile() const { return profile_; }

  void check(const layout& g) const {
    profile_.check(g);
    for (index_t i = 0; i < size_; ++i) {
      leaves_[i].visit_on_host([&g](const auto& leaf) { check_part(leaf, g); });
    }
  }

  /// The maximum that a leaf declares.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const layout& g) const {
    std::int64_t most = 0;
    for (index_t i = 0; i < size_; ++i) {
      const std::int64_t own = leaves_[i].visit(
          [&g](const auto& leaf) { return detail::extra_forwards_of(leaf, g); });
      most = own > most ? own : most;
    }
    return most;
  }

  /// True if one of the leaves is a `Leaf`.
  template <class Leaf>
  [[nodiscard]] bool holds() const {
    bool any = false;
    for (index_t i = 0; i < size_; ++i) {
      any = any || leaves_[i].template holds<Leaf>();
    }
    return any;
  }

 protected:
  enum class operation : std::uint8_t { leaf, both, either };

  // Evaluates the expression with holds(leaf i) as the value of leaf i.
  UNMASK_HD bool evaluate(const auto& holds) const {
    std::uint32_t stack = 0;  // its top is the lowest bit
    index_t leaf = 0;
    for (index_t i = 0; i < length_; ++i) {
      if (postfix_[i] == operation::leaf) {
        stack = stack << 1U | (holds(leaves_[leaf++]) ? 1U : 0U);
      } else {
        const std::uint32_t right = stack & 1U;
        const std::uint32_t left = stack >> 1U & 1U;
        const std::uint32_t joined = postfix_[i] == operation::both ? left & right : left | right;
        stack = (stack >> 2U) << 1U | joined;
      }
    }
    return (stack & 1U) != 0;
  }

  admission_leaf leaves_[capacity] = {};
  operation postfix_[2 * capacity] = {};
  index_t size_ = 0;
  index_t length_ = 0;
  profile_threshold<> profile_ = {};
};

/// The commit rule of such an expression. With `Compares` it may contain leaves that compare rows
/// with those of the previous step; without, those leaves commit nothing.
template <bool Compares>
class any_admission : public admission_expression {
 public:
  using position_state = admission_leaf::position_states;
  using tally = admission_leaf::tallies;

  static constexpr statistics required =
      Compares ? named_statistics | admission_leaf::required : named_statistics;
  static constexpr bool needs_runs = true;

  any_admission() = default;
  explicit any_admission(const admission_expression& e)
      : admission_expression(e) {}

  UNMASK_HD float cost(const auto& c) const { return c.entropy(); }

  UNMASK_HD bool admits(const auto& c, const standing_by_anchors& s, auto& own) const {
    return evaluate([&](const admission_leaf& l) {
      return l.visit_with(own, [&](const auto& leaf, auto& inner) -> bool {
        using part = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (std::is_same_v<part, profile_place>) {
          return this->profile_.admits(c, s, own);
        } else if constexpr (!can_hold<part>) {
          return false;
        } else if constexpr (requires { leaf.admits(c, s, inner); }) {
          return leaf.admits(c, s, inner);
        } else {
          return leaf.admits(c, s);
        }
      });
    });
  }

  UNMASK_HD bool anchors(const auto& c) const {
    bool any = false;
    for (index_t i = 0; i < size_; ++i) {
      any = any || leaves_[i].visit([&c](const auto& leaf) {
        if constexpr (anchoring<std::remove_cvref_t<decltype(leaf)>>) {
          return leaf.anchors(c);
        } else {
          return false;
        }
      });
    }
    return any;
  }
  UNMASK_HD index_t anchor_radius() const {
    index_t most = -1;
    for (index_t i = 0; i < size_; ++i) {
      most = math::max(most, leaves_[i].visit([](const auto& leaf) {
        if constexpr (anchoring<std::remove_cvref_t<decltype(leaf)>>) {
          return leaf.anchor_radius();
        } else {
          return index_t{-1};
        }
      }));
    }
    return most;
  }

  UNMASK_HD delay delays(const auto& c, auto& own) const {
    delay strictest = delay::none;
    for_each(own, [&](const auto& leaf, auto& inner) {
      if constexpr (delaying<std::remove_cvref_t<decltype(leaf)>>) {
        const delay wanted = leaf.delays(c, inner);
        strictest = wanted > strictest ? wanted : strictest;
      }
    });
    return strictest;
  }

  UNMASK_HD void revise(auto& row, auto& own) const {
    for_each(own, [&row](const auto& leaf, auto& inner) {
      if constexpr (revision<std::remove_cvref_t<decltype(leaf)>>) {
        leaf.revise(row, inner);
      }
    });
  }

  UNMASK_HD tally survey(const auto& c, auto& own) const {
    tally sum{};
    for_each(own, [&](const auto& leaf, auto& inner) {
      using part = std::remove_cvref_t<decltype(leaf)>;
      if constexpr (surveying<part>) {
        admission_leaf::in<part>(sum).merge(leaf.survey(c, inner));
      }
    });
    return sum;
  }

  [[nodiscard]] UNMASK_HD bool reads_ahead() const
      requires Compares
  {
    bool any = false;
    for (index_t i = 0; i < size_; ++i) {
      any = any || leaves_[i].visit([](const auto& leaf) {
        if constexpr (reading_ahead<std::remove_cvref_t<decltype(leaf)>>) {
          return leaf.reads_ahead();
        } else {
          return false;
        }
      });
    }
    return any;
  }

 private:
  template <class Leaf>
  static constexpr bool can_hold = Compares || !traits_of<Leaf>.compares;

  // Calls use(leaf, its context) for the leaves that process the row.
  UNMASK_HD void for_each(auto& own, const auto& use) const {
    for (index_t i = 0; i < size_; ++i) {
      leaves_[i].visit_with(own, [&use](const auto& leaf, auto& inner) {
        using part = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (can_hold<part> && !std::is_same_v<part, profile_place>) {
          use(leaf, inner);
        }
      });
    }
  }
};
static_assert(admission<any_admission<false>> && delaying<any_admission<false>> &&
              revision<any_admission<false>> && !reading_ahead<any_admission<false>>);
static_assert(admission<any_admission<true>> && surveying<any_admission<true>> &&
              reading_ahead<any_admission<true>>);

}  // namespace unmask
