// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Three user-defined parts. Policy texts of a program that is compiled with
/// -DUNMASK_OWN_PARTS='"my_parts.hpp"' can name them.

#include <unmask/unmask.hpp>

// [ranking]
/// Ranks by confidence, but among nearly equal positions the left one first.
struct leaning_left {
  float pull = 0.005F;  // confidence that one position to the left is worth
  static constexpr unmask::statistics required = unmask::stat::confidence;

  static constexpr unmask::part_label label{"leaning_left", "confidence, and the left one first"};
  static constexpr unmask::knob<leaning_left> knobs[] = {
      {"pull", &leaning_left::pull, unmask::within(0, 1)}};

  UNMASK_HD float score(const auto& candidate) const {
    return candidate.confidence() - pull * static_cast<float>(candidate.position);
  }
};
// [/ranking]

// [rule]
/// Commits a token that is the best of its position for the second time in a row.
struct seen_again {
  float threshold = 0.6F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"seen_again",
                                            "tokens that are the best for the second time"};
  static constexpr unmask::knob<seen_again> knobs[] = {
      {"threshold", &seen_again::threshold, unmask::within(0, 1)}};

  struct position_state {
    unmask::token_id leader = unmask::no_token;
  };

  UNMASK_HD bool commits(const auto& candidate, const unmask::rank_info&, auto& context) const {
    const bool again = candidate.token == context.state.leader;
    context.state.leader = candidate.token;
    return again && candidate.confidence() > threshold;
  }
};
// [/rule]

// [reduction]
/// Commits the candidate with the largest margin among those whose left neighbour is not masked.
struct next_to_known {
  static constexpr unmask::statistics required = unmask::stat::margin;
  static constexpr unmask::part_label label{"next_to_known", "the clearest right of a known token"};

  struct step_reduction {
    float largest = -1.0F;
    UNMASK_HD void merge(const step_reduction& other) {
      largest = largest < other.largest ? other.largest : largest;
    }
  };

  UNMASK_HD step_reduction reduce(const auto& candidate, auto& context) const {
    const auto left = candidate.position - 1;
    const bool known = left >= 0 && !context.at.view->is_masked(left);
    return known ? step_reduction{candidate.margin()} : step_reduction{};
  }
  UNMASK_HD bool commits(const auto& candidate, const unmask::rank_info&, auto& context) const {
    const float margin = reduce(candidate, context).largest;
    return margin >= 0.0F && margin == context.step_reduction.largest;
  }
};
// [/reduction]

// [named]
namespace unmask {
using own_parts = part_list<leaning_left, seen_again, next_to_known>;
}
// [/named]
