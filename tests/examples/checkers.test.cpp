// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Checkers of answers of which several are right.
#include "demo/checkers.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "demo/problems.hpp"

namespace demo {
namespace {

TEST(shortest_paths, accepts_each_shortest_path) {
  //   b
  //  / \    (undirected)
  // a   d - e
  //  \ /
  //   c
  const std::string prompt = "path:ab,ac,bd,cd,de:", given = "a__e,e__a,a_d";
  EXPECT_TRUE(shortest_paths(prompt, given, "abde,edca,abd"));
  EXPECT_TRUE(shortest_paths(prompt, given, "acde,edba,acd"));
  EXPECT_FALSE(shortest_paths(prompt, given, "abde,edca,aed"));     // no edge a-e
  EXPECT_FALSE(shortest_paths(prompt, given, "abce,edca,abd"));     // no edge b-c
  EXPECT_FALSE(shortest_paths(prompt, given, "abde,edcb,abd"));     // another end
  EXPECT_FALSE(shortest_paths(prompt, given, "bdde,edca,abd"));     // another start
  EXPECT_FALSE(shortest_paths(prompt, given, "abde,edca"));         // one is missing
  EXPECT_FALSE(shortest_paths(prompt, given, "abde,edca,abd,ab"));  // one too many
  EXPECT_FALSE(shortest_paths(prompt, given, ""));
  EXPECT_FALSE(shortest_paths(prompt, "a____e", "abdcde"));  // not shortest
  EXPECT_TRUE(shortest_paths(prompt, "a__e", "acde"));
}

TEST(shortest_paths, refuses_a_pair_without_a_path_and_a_prompt_without_a_graph) {
  EXPECT_FALSE(shortest_paths("path:ab,cd:", "a_c", "abc"));
  EXPECT_FALSE(shortest_paths("path:abc:", "a_c", "abc"));
  EXPECT_FALSE(shortest_paths("", "", ""));
  EXPECT_FALSE(shortest_paths(":", "", ""));
  EXPECT_FALSE(shortest_paths("path:ab:", "a_,", "ab,"));
  EXPECT_TRUE(shortest_paths("path:ab:", "a_", "ab"));
}

TEST(countdown, accepts_any_two_operations_that_make_the_target) {
  EXPECT_TRUE(
      countdown("259>16:___=_;___=16,123>9:_____;_____", "259>16:2+5=7;7+9=16,123>9:1+2=3;3*3=9"));
  EXPECT_FALSE(countdown("259>16:___=__;___=16", "259>16:5+9=14;14+2=16"));  // longer than given
  EXPECT_TRUE(countdown("259>16:___=__;____=16", "259>16:5+9=14;14+2=16"));
  EXPECT_TRUE(countdown("259>16:___=__;____=16", "259>16:9+5=14;2+14=16"));
  EXPECT_TRUE(countdown("226>6:___=_;___=_", "226>6:2-2=0;0+6=6"));
}

TEST(countdown, refuses_every_changed_character) {
  const std::string answer = "457>39:5*7=35;35+4=39";
  const std::string given = "457>39:___=__;____=39";
  ASSERT_TRUE(countdown(given, answer));
  EXPECT_FALSE(countdown(given, "457>39:4*5=20;20+9=39"));
  for (std::size_t i = 0; i < answer.size(); ++i) {
    for (const char c : std::string("0123456789+-*=;:,>_ ")) {
      std::string changed = answer;
      changed[i] = c;
      EXPECT_EQ(countdown(given, changed), changed == answer) << changed;
    }
  }
}

TEST(countdown, refuses_numbers_used_twice_left_out_or_out_of_bounds) {
  const auto is_right = [](const std::string& answer) { return countdown(answer, answer); };
  EXPECT_TRUE(is_right("335>14:3*3=9;9+5=14"));
  EXPECT_FALSE(is_right("335>9:3*3=9;5+4=9"));
  EXPECT_FALSE(is_right("335>9:3*3=9"));
  EXPECT_FALSE(is_right("335>9:3*3=9;9*1=9"));
  EXPECT_FALSE(is_right("335>9:5-3=2;3*3=9"));
  EXPECT_FALSE(is_right("123>2:1-2=-1;3-1=2"));
  EXPECT_FALSE(is_right("123>9:1+2=99999999999;3*3=9"));
  EXPECT_FALSE(is_right("12>3:1+2=3"));
  EXPECT_FALSE(is_right(""));
}

TEST(accepted_words, takes_one_of_the_words_in_each_place) {
  EXPECT_TRUE(accepted_words("care|core tea", "core tea"));
  EXPECT_TRUE(accepted_words("care|core tea", "care tea"));
  EXPECT_FALSE(accepted_words("care|core tea", "cure tea"));
  EXPECT_FALSE(accepted_words("care|core tea", "tea care"));
  EXPECT_FALSE(accepted_words("care|core tea", "care"));
  EXPECT_FALSE(accepted_words("care|core tea", "care tea "));
  EXPECT_FALSE(accepted_words("care|core tea", "care|core tea"));
}

TEST(other_order, takes_any_permutation_that_is_not_the_list) {
  EXPECT_TRUE(other_order("shuffle:abc:", "cab"));
  EXPECT_TRUE(other_order("shuffle:abc:", "acb"));
  EXPECT_FALSE(other_order("shuffle:abc:", "abc"));
  EXPECT_FALSE(other_order("shuffle:abc:", "aab"));
  EXPECT_FALSE(other_order("shuffle:abc:", "ab"));
  EXPECT_FALSE(other_order("shuffle:abc:", "abcc"));
}

TEST(find_checker, hands_over_the_field_that_a_checker_reads) {
  const auto is_right = [](const std::string& name, const problem& p, const std::string& answer) {
    return find_checker(name)(p, answer);
  };
  problem p{.task = "t", .prompt = "shuffle:ab:", .answer = "no"};
  EXPECT_TRUE(is_right("other_order", p, "ba"));
  p.prompt = "path:ab:";
  p.given = "a_";
  EXPECT_TRUE(is_right("shortest_paths", p, "ab"));
  p.given = "123>9:___=_;___=9";
  EXPECT_TRUE(is_right("countdown", p, "123>9:1+2=3;3*3=9"));
  EXPECT_TRUE(is_right("accepted_words", p, "no"));
  p.given = std::string(36, '_');
  EXPECT_TRUE(is_right("sudoku_6x6", p, "123456456123231564564231312645645312"));
  try {
    static_cast<void>(find_checker("chess"));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "checker must be sudoku_6x6, shortest_paths, countdown, accepted_words or "
                 "other_order, got 'chess'");
  }
}

}  // namespace
}  // namespace demo
