// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Two parts of one's own. A program that is compiled with -DUNMASK_OWN_PARTS='"my_parts.hpp"'
/// knows them by name, too.

#include <unmask/core/policy.hpp>

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
/// Commits a token that leads its position for the second time in a row, at a lower confidence than
/// a newcomer needs.
struct seen_again {
  float threshold = 0.6F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"seen_again", "tokens that lead a second time"};
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

// [named]
namespace unmask {
using own_parts = part_list<leaning_left, seen_again>;
}
// [/named]
