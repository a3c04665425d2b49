// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/knob.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace unmask::knob_test {
namespace {

template <class Part>
std::string problem_of(const Part& part) {
  try {
    check_part(part, sequence_shape{});
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

struct own_rule {
  enum class way : std::uint8_t { left, right };
  float share = 0.5F;
  double weight = 1.0;
  index_t count = 3;
  bool strict = false;
  way goes = way::left;
  token_id end = no_token;

  static constexpr statistics required = stat::none;
  static constexpr knob<own_rule> knobs[] = {{"share", &own_rule::share, at_least(0).below(1)},
                                             {"weight", &own_rule::weight, above(0).finite()},
                                             {"count", &own_rule::count, within(1, 8).in("tokens")},
                                             {"strict", &own_rule::strict},
                                             word_knob<&own_rule::goes>("goes", "left|right"),
                                             {"end", &own_rule::end, a_token}};
  UNMASK_HD bool commits(const auto&, const rank_info& s) const { return s.rank < count; }
};
static_assert(commit_rule<own_rule> && described<own_rule>);

constexpr float infinite = std::numeric_limits<float>::infinity();

TEST(knob, is_checked_with_argument_value_and_rule) {
  EXPECT_EQ(problem_of(own_rule{}), "none");
  EXPECT_EQ(problem_of(own_rule{.share = 1.0F}), "share must be in [0, 1), got 1");
  EXPECT_EQ(problem_of(own_rule{.share = std::nanf("")}), "share must be in [0, 1), got nan");
  EXPECT_EQ(problem_of(own_rule{.weight = 0.0}), "weight must be positive and finite, got 0");
  EXPECT_EQ(problem_of(own_rule{.weight = double{infinite}}),
            "weight must be positive and finite, got inf");
  EXPECT_EQ(problem_of(own_rule{.count = 2000000000}),
            "count must be in [1, 8] tokens, got 2000000000");
  EXPECT_EQ(problem_of(own_rule{.end = -1}), "end must be a token or no_token, got -1");
}

TEST(knob, of_a_part_is_named_after_it) {
  EXPECT_EQ(problem_of(threshold{2.0F}), "threshold::value must be in [0, 1], got 2");
  EXPECT_EQ(problem_of(entropy_bound{-1.0F}),
            "entropy_bound::bound must be at least 0 nats, got -1");
  EXPECT_EQ(problem_of(temperature{0.0F}), "temperature::value must be at least 1e-06, got 0");
  EXPECT_EQ(problem_of(eos_penalty{infinite}),
            "eos_penalty::penalty must be a finite number, got inf");
  EXPECT_EQ(problem_of(lookahead{.lowest_share = 0.0F}),
            "lookahead::lowest_share must be in (0, 1], got 0");
  EXPECT_EQ(problem_of(cache_budget{.window = -1}),
            "cache_budget::window must be at least 0, got -1");
  // Infinity is in a range without an upper end that does not say finite().
  EXPECT_EQ(problem_of(factor{infinite}), "none");
  struct derived : threshold {};
  EXPECT_EQ(problem_of(derived{{-1.0F}}), "threshold::value must be in [0, 1], got -1");
}

struct part_with_a_list {
  token_id tokens[4] = {};
  index_t count = 0;
  static constexpr knob<part_with_a_list> knobs[] = {
      {"tokens", knob_kind::tokens, 4, &detail::fill_tokens<part_with_a_list>},
      {"shares", knob_kind::reals, 4, &detail::fill_tokens<part_with_a_list>}};
};

TEST(knob, of_a_list_takes_its_entries) {
  part_with_a_list part;
  const double values[] = {7, 3, 9};
  detail::fill_tokens(part, values, 3);
  EXPECT_EQ(part.count, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(part.tokens[i], values[i]);
  }
  const knob<part_with_a_list>& tokens = part_with_a_list::knobs[0];
  const knob<part_with_a_list>& shares = part_with_a_list::knobs[1];
  EXPECT_TRUE(tokens.is_list() && shares.is_list());
  EXPECT_EQ(tokens.value(part), 0.0);  // it is no number
  for (const auto& k : own_rule::knobs) {
    EXPECT_FALSE(k.is_list());
  }
}

TEST(knob, range_in_words) {
  EXPECT_EQ(range_text(within(0, 1)), "in [0, 1]");
  EXPECT_EQ(range_text(at_least(0).below(1)), "in [0, 1)");
  EXPECT_EQ(range_text(above(0).up_to(1)), "in (0, 1]");
  EXPECT_EQ(range_text(above(0).below(1)), "in (0, 1)");
  EXPECT_EQ(range_text(within(1, 8).in("tokens")), "in [1, 8] tokens");
  EXPECT_EQ(range_text(at_least(0).in("nats")), "at least 0 nats");
  EXPECT_EQ(range_text(at_least(2).finite()), "at least 2 and finite");
  EXPECT_EQ(range_text(above(2)), "more than 2");
  EXPECT_EQ(range_text(above(0)), "positive");
  EXPECT_EQ(range_text(above(0).finite()), "positive and finite");
  EXPECT_EQ(range_text(any_finite()), "a finite number");
  EXPECT_EQ(range_text(knob_range{}.up_to(3)), "at most 3");
  EXPECT_EQ(range_text(knob_range{}.below(0).in("nats")), "less than 0 nats");
  EXPECT_EQ(range_text(any_finite().up_to(-1)), "at most -1 and finite");
  EXPECT_EQ(range_text(knob_range{}.up_to(3).finite()), "at most 3 and finite");
}

TEST(knob, range_has_the_ends_that_it_names) {
  const knob_range closed = within(1, 2);
  const knob_range open = above(1).below(2);
  EXPECT_TRUE(closed.holds(1) && closed.holds(2) && open.holds(1.5));
  EXPECT_FALSE(closed.holds(0.9) || closed.holds(2.1) || open.holds(1) || open.holds(2));
  const double infinity = double{infinite};
  EXPECT_TRUE(at_least(0).holds(infinity) && above(0).holds(infinity));
  EXPECT_FALSE(at_least(0).finite().holds(infinity) || any_finite().holds(-infinity));
  EXPECT_TRUE(at_least(0).finite().holds(0) && above(1).up_to(2).holds(2));
  EXPECT_FALSE(closed.holds(std::nan("")) || any_finite().holds(std::nan("")));
}

TEST(knob, gets_and_sets_its_member) {
  own_rule r;
  const double values[] = {0.25, 0.1, 7, 1, 1, 12};
  for (std::size_t i = 0; i < std::size(own_rule::knobs); ++i) {
    own_rule::knobs[i].set(r, values[i]);
    EXPECT_EQ(own_rule::knobs[i].value(r), values[i]);
  }
  EXPECT_EQ(r.share, 0.25F);
  EXPECT_EQ(r.weight, 0.1);
  EXPECT_EQ(r.count, 7);
  EXPECT_TRUE(r.strict);
  EXPECT_EQ(r.goes, own_rule::way::right);
  EXPECT_EQ(r.end, 12);
}

}  // namespace
}  // namespace unmask::knob_test
