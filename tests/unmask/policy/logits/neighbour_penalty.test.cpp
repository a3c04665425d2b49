// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::neighbour_penalty_test {
namespace {

dense_rule dense(const neighbour_penalty& n) {
  return {[n](std::vector<double>& z, const dense_view& at) {
    for (const index_t side : {-1, 1}) {
      if ((side < 0 || n.both_sides) && at.stands(at.position + side)) {
        z[static_cast<std::size_t>(at.token(at.position + side))] -= static_cast<double>(n.penalty);
      }
    }
  }};
}

TEST(neighbour_penalty, edits_rows_as_its_definition_does) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed);
    const neighbour_penalty guard{.penalty = c.real(0.0, 5.0), .both_sides = c.chance(0.5)};
    rows +=
        compare_rows(policy{by_margin{}, tokens_per_step{c.within(1, 3)} || reads_entropy, guard},
                     {dense(guard)},
                     random_dense_request(c, c.within(6, 12)));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 3000);
}

TEST(neighbour_penalty, goes_with_credit_and_lookahead) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 1000);
    const neighbour_penalty guard{.penalty = c.real(0.0, 5.0), .both_sides = c.chance(0.5)};
    const trace_credit<32> credit;
    const auto earns = [&] { return dense_credit(credit.strength, credit.decay, credit.exponent); };
    dense_request q = random_dense_request(c, 8);
    rows += compare_rows(policy{by_margin{}, tokens_per_step{1} || reads_entropy, guard, credit},
                         {dense(guard), earns()},
                         q);
    q.branches = 3;
    rows += compare_rows(policy{by_margin{},
                                tokens_per_step{1} || reads_entropy,
                                credit,
                                guard,
                                lookahead{.branches = 3}},
                         {earns(), dense(guard)},
                         q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 6000);
}

TEST(neighbour_penalty, refuses_a_negative_penalty) {
  EXPECT_NO_THROW(check_part(neighbour_penalty{}, sequence_shape{}));
  EXPECT_THROW(check_part(neighbour_penalty{.penalty = -0.1F}, sequence_shape{}),
               std::invalid_argument);
  EXPECT_THROW(check_part(neighbour_penalty{.penalty = std::nanf("")}, sequence_shape{}),
               std::invalid_argument);
}

struct repeating {
  int pairs = 0;
  token_id end = no_token;
  void operator()(std::span<const commit_entry> commits, const std::vector<token_id>&) {
    for (std::size_t i = 1; i < commits.size(); ++i) {
      pairs += commits[i].position == commits[i - 1].position + 1 &&
                       commits[i].token == commits[i - 1].token && commits[i].token != end
                   ? 1
                   : 0;
    }
  }
};

TEST(no_equal_neighbours, never_commit_in_one_step) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 2000);
    dense_request q = random_dense_request(c, 8);
    q.logits.love = 0.6;
    q.logits.loved = c.within(0, 7);
    const bool eos_too = c.chance(0.5);
    repeating guarded{.end = eos_too ? no_token : q.model.eos_token};
    repeating plain = guarded;
    const no_equal_neighbours rule{eos_too};
    each_step(policy{by_confidence{}, tokens_per_step{10}, rule}, q, guarded);
    each_step(policy{by_margin{}, threshold{0.2F}, rule, trace_credit<8>{}}, q, guarded);
    each_step(policy{by_entropy{}, entropy_bound{3.0F}, rule, single_block{}}, q, guarded);
    ASSERT_EQ(guarded.pairs, 0) << "seed " << seed;
    each_step(policy{by_confidence{}, tokens_per_step{10}}, q, plain);
    without += plain.pairs;
  }
  EXPECT_GT(without, 200) << "the model repeats itself";
}

TEST(no_equal_neighbours, keep_the_more_confident_one) {
  const model_info model{.vocab = 3, .mask_token = 2};
  const auto decode = [&](const std::vector<float>& best) {
    std::vector<token_id> text(best.size(), 0);
    session s{by_name(policy{by_confidence{}, tokens_per_step{9}, no_equal_neighbours{}}),
              model,
              tokens_view<memory::host>(text),
              sequence_shape{.length = static_cast<index_t>(best.size()), .block_length = 9}};
    static_cast<void>(s.next());
    std::vector<float> logits;
    for (const float z : best) {
      logits.insert(logits.end(), {z, 0.0F, 0.0F});
    }
    s.supply(host_logits<float>(logits.data(), static_cast<index_t>(best.size()), 3));
    std::vector<index_t> positions;
    for (const commit_entry& e : s.committed()) {
      positions.push_back(e.position);
    }
    return positions;
  };
  using positions = std::vector<index_t>;
  EXPECT_EQ(decode({1.0F, 2.0F}), (positions{1}));
  EXPECT_EQ(decode({2.0F, 1.0F}), (positions{0}));
  EXPECT_EQ(decode({1.0F, 1.0F}), (positions{0})) << "the right one of equals waits";
  EXPECT_EQ(decode({3.0F, 1.0F, 2.0F}), (positions{0, 2}));
  EXPECT_EQ(decode({1.0F, 2.0F, 3.0F, 4.0F}), (positions{3}));
  EXPECT_EQ(decode({4.0F, 3.0F, -2.0F, 1.0F}), (positions{0, 2, 3})) << "-2 makes it another token";
}

TEST(no_equal_neighbours, end_with_lookahead_and_pipelined_blocks) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 3000);
    dense_request q = random_dense_request(c, 6);
    q.logits.love = 0.8;
    q.branches = 3;
    const int steps = each_step(policy{by_confidence{},
                                       threshold{0.3F},
                                       no_equal_neighbours{true},
                                       lookahead{.branches = 3},
                                       block_pipeline{.at_once = 3}},
                                q,
                                [](auto&&...) {});
    EXPECT_LE(steps, q.geometry.length - q.geometry.prompt_length + 1);
  }
}

}  // namespace
}  // namespace unmask::testing::neighbour_penalty_test
