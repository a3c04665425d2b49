// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/schedule/pipeline.hpp>

#include <map>
#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::penalties_test {
namespace {

// The first `distinct` different tokens by distance, left before right, and how often each stands.
std::map<token_id, int>
naive_counts(const dense_view& at, index_t window, bool prompt, std::size_t distinct) {
  std::map<token_id, int> counts;
  std::vector<token_id> stand;
  for (index_t d = 1; d <= window; ++d) {
    for (const index_t p : {at.position - d, at.position + d}) {
      if (at.stands(p) && (prompt || p >= at.geometry.prompt_length)) {
        stand.push_back(at.token(p));
      }
    }
  }
  for (const token_id v : stand) {
    if (counts.size() < distinct) {
      counts[v] = 0;
    }
  }
  for (const token_id v : stand) {
    if (counts.contains(v)) {
      ++counts[v];
    }
  }
  return counts;
}

template <int N>
dense_rule dense(const repetition_penalty<N>& r) {
  return {[r](std::vector<double>& z, const dense_view& at) {
    for (const auto& [token, count] : naive_counts(at, r.window, r.prompt, N)) {
      double& x = z[static_cast<std::size_t>(token)];
      x = x > 0.0 ? x / static_cast<double>(r.penalty) : x * static_cast<double>(r.penalty);
    }
  }};
}

template <int N>
dense_rule dense(const presence_frequency_penalty<N>& r) {
  return {[r](std::vector<double>& z, const dense_view& at) {
    for (const auto& [token, count] : naive_counts(at, r.window, r.prompt, N)) {
      z[static_cast<std::size_t>(token)] -=
          static_cast<double>(r.presence) + static_cast<double>(r.frequency) * count;
    }
  }};
}

template <int N>
repetition_penalty<N> random_repetition(chances& c) {
  return {.penalty = c.real(0.5, 2.5), .window = c.within(1, 30), .prompt = c.chance(0.5)};
}
template <int N>
presence_frequency_penalty<N> random_count(chances& c) {
  return {.presence = c.real(-2.0, 3.0),
          .frequency = c.real(-1.0, 2.0),
          .window = c.within(1, 30),
          .prompt = c.chance(0.5)};
}

// Few tokens, so that they repeat; room for fewer than there are in one of the two.
TEST(penalties, edit_rows_as_their_definitions_do) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed);
    const auto few = random_repetition<3>(c);
    const auto many = random_count<16>(c);
    const dense_request q = random_dense_request(c, c.within(6, 12));
    rows += compare_rows<false>(
        policy{by_margin{}, tokens_per_step{c.within(1, 3)} || reads_entropy, few, many},
        {dense(few), dense(many)},
        q);
    rows += compare_rows<false>(policy{by_margin{}, tokens_per_step{1} || reads_entropy, many, few},
                                {dense(many), dense(few)},
                                q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 8000);
}

TEST(penalties, reach_from_the_last_position_to_the_first) {
  // Token 1 stands at position 0 alone, as far as `window` reaches.
  std::vector<token_id> text = {1, 2, 2, 0};
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, repetition_penalty<4>{2.0F, 3}}),
            model_info{.vocab = 4, .mask_token = 3},
            tokens_view<memory::host>(text),
            sequence_shape{.prompt_length = 3, .length = 4}};
  static_cast<void>(s.next());
  const std::vector<float> row = {1.5F, 2.0F, 0.0F, 0.0F};
  s.supply(host_logits<float>(row.data(), 1, 4));
  EXPECT_EQ(text[3], 0);
}

TEST(penalties, go_with_credit) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 1000);
    const auto repetition = random_repetition<8>(c);
    const auto counts = random_count<2>(c);
    const trace_credit<32> credit;
    rows += compare_rows<false>(
        policy{by_margin{}, tokens_per_step{1} || reads_entropy, repetition, credit, counts},
        {dense(repetition),
         dense_credit(credit.strength, credit.decay, credit.exponent),
         dense(counts)},
        random_dense_request(c, 9));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 2000);
}

// The winner's placement stands when the rows are processed, but not when they were read.
TEST(penalties, know_the_token_that_lookahead_placed) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 2000);
    const auto repetition = random_repetition<3>(c);
    const auto counts = random_count<8>(c);
    dense_request q = random_dense_request(c, 9);
    q.branches = 4;
    rows += compare_rows<false>(policy{by_margin{},
                                       tokens_per_step{1} || reads_entropy,
                                       repetition,
                                       counts,
                                       lookahead{.branches = 4}},
                                {dense(repetition), dense(counts)},
                                q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 2000);
}

TEST(penalties, go_with_pipelined_blocks) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 3000);
    const auto repetition = random_repetition<8>(c);
    dense_request q = random_dense_request(c, 9);
    q.branches = 2;
    rows += compare_rows<false>(policy{by_margin{},
                                       threshold{0.6F} || reads_entropy,
                                       repetition,
                                       block_pipeline{.at_once = 3},
                                       lookahead{.branches = 2}},
                                {dense(repetition)},
                                q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 500);
}

TEST(penalties, do_not_depend_on_the_batch) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    chances c(seed + 4000);
    const auto make = [&c] {
      return policy{by_margin{},
                    tokens_per_step{c.within(1, 3)} || reads_entropy,
                    random_repetition<4>(c),
                    random_count<4>(c),
                    trace_credit<16>{}};
    };
    std::vector<decltype(make())> policies;
    std::vector<dense_request> requests;
    const model_info model = random_dense_request(c, 9).model;
    for (int i = 0; i < 4; ++i) {
      policies.push_back(make());
      requests.push_back(random_dense_request(c, 9));
      requests.back().model = model;
    }
    expect_batch_changes_nothing(policies, requests);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Rows of committed positions are edited, too: their own token is not around them.
TEST(penalties, leave_out_the_token_of_the_position_itself) {
  const std::vector<token_id> text = {5, 6, 7, 8};
  const std::vector<mark> marks(4, mark::committed);
  sequence_view view;
  view.tokens = text.data();
  view.marks = marks.data();
  view.length = 4;
  struct {
    step_info at;
  } context;
  context.at.view = &view;
  context.at.position = 1;
  struct {
    std::vector<token_id> tokens;
    void add(token_id token) { tokens.push_back(token); }
  } list;
  repetition_penalty<4>{.window = 1}.track(list, context);
  EXPECT_EQ(list.tokens, (std::vector<token_id>{5, 7}));
}

TEST(penalties, ignore_a_token_without_room) {
  unmask::detail::token_counts<2> seen;
  for (const token_id token : {5, 6, 5, 7}) {
    seen.see(token);
    EXPECT_LE(seen.size, 2) << token;
    EXPECT_EQ(seen.tokens[0], 5);
  }
  EXPECT_EQ(seen.counts[0], 2);
  EXPECT_EQ(seen.counts[1], 1);
}

TEST(penalties, refuse_knobs_outside_their_range) {
  const sequence_shape g{.length = 4};
  EXPECT_NO_THROW(check_part(repetition_penalty<>{}, g));
  EXPECT_THROW(check_part(repetition_penalty<>{.penalty = 0.0F}, g), std::invalid_argument);
  EXPECT_THROW(check_part(repetition_penalty<>{.penalty = std::nanf("")}, g),
               std::invalid_argument);
  EXPECT_THROW(check_part(repetition_penalty<>{.window = 0}, g), std::invalid_argument);
  EXPECT_NO_THROW(
      (check_part(presence_frequency_penalty<>{.presence = -1.0F, .frequency = 2.0F}, g)));
  EXPECT_THROW(check_part(presence_frequency_penalty<>{.presence = std::nanf("")}, g),
               std::invalid_argument);
  EXPECT_THROW(check_part(presence_frequency_penalty<>{.frequency = std::nanf("")}, g),
               std::invalid_argument);
  EXPECT_THROW(check_part(presence_frequency_penalty<>{.window = 0}, g), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::penalties_test
