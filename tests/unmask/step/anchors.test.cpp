// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gtest/gtest.h>

#include "support/observed_decode.hpp"

namespace unmask::testing::anchors_test {
namespace {

// Says of the positions in `at` that they are anchors, and commits what is `distance` from one.
struct at_a_distance {
  std::uint32_t at = 0;
  index_t radius = 0;
  index_t distance = 0;

  static constexpr statistics required = stat::none;
  UNMASK_HD bool anchors(const auto& c) const { return (at >> c.position & 1U) != 0; }
  UNMASK_HD index_t anchor_radius() const { return radius; }
  UNMASK_HD bool commits(const auto&, const rank_info_by_anchors& s) const {
    return s.anchor_distance == distance;
  }
};
static_assert(commit_rule<at_a_distance> && anchoring<at_a_distance>);
static_assert(!anchoring<by_confidence>);

constexpr index_t length = 24;

// Which positions a first step commits when those of `open` are masked.
std::uint32_t first_commits(const at_a_distance& part, std::uint32_t open) {
  const made_up_model model;
  std::vector<token_id> tokens(length, 1);
  std::vector<std::uint8_t> editable(length, 0);
  for (std::size_t i = 0; i < editable.size(); ++i) {
    editable[i] = open >> i & 1U;
  }
  const policy p{left_to_right{}, part, single_block{}};
  session<std::remove_const_t<decltype(p)>> s{model.info(),
                                              {.sequences = 1, .length = length, .window = length}};
  s.start(0, p, tokens, {.length = length}, {.editable = editable, .suppressed = {}});
  supply_one(s, s.next().value(), model, tokens);
  std::uint32_t committed = 0;
  for (const commit_entry& e : s.committed()) {
    committed |= 1U << e.position;
  }
  return committed;
}

TEST(anchors, are_candidates_and_known_by_their_distance_up_to_the_radius) {
  int committed = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    auto draw = [&, k = std::uint64_t{0}]() mutable {
      return static_cast<std::uint32_t>(made_up_model::hash(seed, ++k));
    };
    const std::uint32_t open = ((draw() | draw()) & 0xFFFFFFU) | 1U << draw() % length;
    const index_t radius = static_cast<index_t>(draw() % 9) - 1;
    const index_t distance = draw() % 4 == 0 ? no_anchor : static_cast<index_t>(draw() % 8);
    const at_a_distance part{draw() & draw() & draw(), radius, distance};
    std::uint32_t expected = 0;
    for (index_t i = 0; i < length; ++i) {
      index_t nearest = no_anchor;
      for (index_t j = 0; j < length; ++j) {
        const bool is_anchor = (open & part.at) >> j & 1U;
        nearest = is_anchor ? std::min(nearest, std::abs(i - j)) : nearest;
      }
      nearest = nearest <= radius ? nearest : no_anchor;
      expected |= (open >> i & 1U) != 0 && nearest == distance ? 1U << i : 0U;
    }
    committed += expected != 0 && distance != no_anchor ? 1 : 0;
    expected = expected != 0 ? expected : open & (0U - open);  // forced: the leftmost
    EXPECT_EQ(first_commits(part, open), expected) << "seed " << seed;
  }
  EXPECT_GT(committed, 50);
}

TEST(anchors, take_a_byte_a_position_of_policies_that_have_them) {
  constexpr session_capacity capacity{.sequences = 1, .length = 4096, .window = 4096, .vocab = 100};
  using with = policy<left_to_right, at_a_distance>;
  using without = policy<left_to_right, tokens_per_step>;
  EXPECT_EQ(step::slot_bytes<with>(capacity) - step::slot_bytes<without>(capacity), 4096U);
}

}  // namespace
}  // namespace unmask::testing::anchors_test
