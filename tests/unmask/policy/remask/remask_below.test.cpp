// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::remask_below_test {
namespace {

struct rival {
  index_t position;
  token_id token;
  double confidence;
  bool again;  // committed before
  bool chosen = false;
};

// The rule, from its definition: masked and weak committed positions of the block are candidates.
// Those that `chosen_rule` selects, and the best until there is one more than the committed ones,
// take their token; the other committed ones are remasked.
template <class Rule>
std::vector<commit_entry> expected_commits(const std::vector<rival>& in, const Rule& chosen_rule) {
  std::vector<rival> rivals = in;
  std::vector<std::size_t> order(rivals.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rivals[a].confidence > rivals[b].confidence;
  });
  chosen_rule(rivals, order);
  int wanted = 1;
  for (const rival& r : rivals) {
    wanted += (r.again ? 1 : 0) - (r.chosen ? 1 : 0);
  }
  for (const std::size_t i : order) {
    if (wanted > 0 && !rivals[i].chosen) {
      rivals[i].chosen = true;
      --wanted;
    }
  }
  std::vector<commit_entry> commits;
  for (const rival& r : rivals) {
    if (r.chosen || r.again) {
      commits.push_back({.position = r.position, .token = r.chosen ? r.token : no_token});
    }
  }
  return commits;
}

int remasked = 0;
int replaced = 0;
int held = 0;

template <class Policy, class Rule>
void compare_steps(const Policy& p, const dense_request& q, float below, const Rule& chosen_rule) {
  const index_t prompt = q.geometry.prompt_length;
  const index_t length = q.geometry.block_length;
  const int steps = each_step(p, q, [&](std::span<const commit_entry> got, const auto& before) {
    const auto is_masked = [&](index_t i) {
      return before[static_cast<std::size_t>(i)] == q.model.mask_token;
    };
    index_t first = prompt;
    while (!is_masked(first)) {
      ++first;
    }
    first = prompt + (first - prompt) / length * length;
    std::vector<rival> rivals;
    for (index_t i = first; i < std::min(first + length, q.geometry.length); ++i) {
      std::vector<double> z;
      for (const float x : q.logits.row(before, i)) {
        z.push_back(x);
      }
      z[static_cast<std::size_t>(q.model.mask_token)] = -std::numeric_limits<double>::infinity();
      const seen_row row = dense_statistics(z, i);
      ASSERT_TRUE(row.valid);
      ASSERT_GT(std::abs(row.confidence - below), 1e-6);  // else the seed is a bad one
      if (is_masked(i) || row.confidence < below) {
        rivals.push_back({i, row.token, row.confidence, !is_masked(i)});
      }
    }
    std::vector<commit_entry> expected = expected_commits(rivals, chosen_rule);
    std::erase_if(expected, [&](const commit_entry& e) {
      const bool same = e.token == before[static_cast<std::size_t>(e.position)];
      held += same ? 1 : 0;
      return same;
    });
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      const token_id token = expected[k].token == no_token ? q.model.mask_token : expected[k].token;
      EXPECT_EQ(got[k].position, expected[k].position);
      EXPECT_EQ(got[k].token, token);
      remasked += token == q.model.mask_token ? 1 : 0;
      replaced += token != q.model.mask_token && !is_masked(got[k].position) ? 1 : 0;
    }
  });
  EXPECT_LE(steps, q.geometry.length - prompt);
}

dense_request request_of(chances& c) {
  dense_request q = random_dense_request(c, c.within(6, 20));
  q.geometry.prompt_length = c.within(1, 3);
  q.geometry.length = q.geometry.prompt_length + c.within(4, 24);
  q.geometry.block_length = c.within(1, 12);
  q.model.logits_shift = 0;
  q.logits.sharpness = 5.0;
  return q;
}

TEST(remask_below, lets_weak_committed_positions_compete_with_the_masks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const dense_request q = request_of(c);
    const float below = c.real(0.2, 0.7);
    const float above = c.real(0.3, 0.9);
    compare_steps(policy{by_confidence{}, threshold{above}, remask_below{below}},
                  q,
                  below,
                  [&](std::vector<rival>& rivals, const auto&) {
                    for (rival& r : rivals) {
                      r.chosen = r.confidence > above;
                    }
                  });
    const index_t k = c.within(1, 4);
    compare_steps(policy{by_confidence{}, tokens_per_step{k}, remask_below{below}},
                  q,
                  below,
                  [&](std::vector<rival>& rivals, const std::vector<std::size_t>& order) {
                    for (std::size_t r = 0; r < order.size() && r < static_cast<std::size_t>(k);
                         ++r) {
                      rivals[order[r]].chosen = true;
                    }
                  });
    const float low = c.real(0.05, 0.3);
    compare_steps(policy{by_confidence{}, hierarchical{low, above}, remask_below{below}},
                  q,
                  below,
                  [&](std::vector<rival>& rivals, const auto&) {
                    for (std::size_t i = 0; i < rivals.size();) {
                      std::size_t end = i + 1;  // a run of neighbours, masked or committed
                      while (end < rivals.size() &&
                             rivals[end].position == rivals[end - 1].position + 1) {
                        ++end;
                      }
                      std::size_t best = i;
                      for (std::size_t j = i; j < end; ++j) {
                        best = rivals[j].confidence > rivals[best].confidence ? j : best;
                        rivals[j].chosen = rivals[j].confidence > above;
                      }
                      rivals[best].chosen = rivals[best].chosen || rivals[best].confidence > low;
                      i = end;
                    }
                  });
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(remasked, 200);
  EXPECT_GT(replaced, 200);
  EXPECT_GT(held, 20);
}

TEST(remask_below, of_zero_remasks_nothing) {
  chances c(7);
  const dense_request q = request_of(c);
  std::vector<commit_entry> plain;
  std::vector<commit_entry> remasking;
  each_step(policy{by_confidence{}, tokens_per_step{2}},
            q,
            [&](std::span<const commit_entry> e, const auto&) {
              plain.insert(plain.end(), e.begin(), e.end());
            });
  each_step(policy{by_confidence{}, tokens_per_step{2}, remask_below{0.0F}},
            q,
            [&](std::span<const commit_entry> e, const auto&) {
              remasking.insert(remasking.end(), e.begin(), e.end());
            });
  ASSERT_EQ(plain.size(), remasking.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].position, remasking[i].position);
    EXPECT_EQ(plain[i].token, remasking[i].token);
  }
}

// Forced commits are counted, but not a committed token that keeps its own position.
TEST(remask_below, counts_what_the_progress_guarantee_writes) {
  const std::vector<row> table = {row_with_confidence(0.8, 1), row_with_confidence(0.5, 2)};
  // Step 1 keeps position 0, which is committed again, and commits position 1 beside it.
  const history net = decode_rows(policy{by_confidence{}, threshold{0.7F}, remask_below{0.9F}},
                                  table,
                                  {.length = 2, .block_length = 2});
  EXPECT_EQ(net.tokens, (std::vector<token_id>{1, 2}));
  EXPECT_EQ(net.report.forwards, 2);
  EXPECT_EQ(net.report.committed, 2);
  EXPECT_EQ(net.report.forced, 1);
  // The pass on the complete block commits position 0 only by the progress guarantee, and writes
  // nothing.
  const history idle = decode_rows(policy{by_confidence{},
                                          threshold{0.95F},
                                          remask_below{0.9F},
                                          edit_committed{1.0F},
                                          edited_blocks{}},
                                   {table[0]},
                                   {.length = 1, .block_length = 1});
  EXPECT_EQ(idle.report.forwards, 2);
  EXPECT_EQ(idle.report.committed, 1);
  EXPECT_EQ(idle.report.forced, 1);
}

// A part of a user that is told whether it may remask one more.
struct spare_witness {
  bool* may_remask = nullptr;
  static constexpr statistics required = stat::none;
  verdict edit_token(const auto&, const auto& context) const {
    *may_remask = context.at.may_remask;
    return verdict::keep;
  }
};

// Of the commits of a step, one is progress and one makes up for each position that is remasked;
// the others are to spare.
TEST(remask_below, leaves_fewer_remasks_to_another_part) {
  const auto may_remask = [](const std::vector<double>& second) {
    bool told = false;
    const policy p{by_confidence{}, threshold{0.7F}, remask_below{0.5F}, spare_witness{&told}};
    std::vector<token_id> tokens(second.size(), 0);
    const auto length = static_cast<index_t>(second.size());
    session s{p,
              small_model,
              tokens_view<memory::host>(tokens),
              sequence_shape{.length = length, .block_length = length}};
    std::vector<double> first(second.size(), 0.6);
    first[0] = first[1] = 0.9;
    // Commits 0 and 1; then remasks 0, keeps 1, which `told` is about, and commits the others that
    // are sure.
    for (const std::vector<double>& confidences : {first, second}) {
      std::vector<row> table;
      for (const double c : confidences) {
        table.push_back(row_with_confidence(c));
      }
      const auto request = s.next();
      const range rows = request.value().segments[0].rows;
      const row logits = packed(table, rows);
      s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    }
    for (std::size_t i = 0; i < second.size(); ++i) {
      EXPECT_EQ(tokens[i], second[i] > 0.7 ? 0 : 4);
    }
    return told;
  };
  EXPECT_FALSE(may_remask({0.4, 0.9, 0.9, 0.9}));
  EXPECT_FALSE(may_remask({0.4, 0.9, 0.9, 0.9, 0.6}));
  EXPECT_TRUE(may_remask({0.4, 0.9, 0.9, 0.9, 0.9}));
}

TEST(remask_below, commits_the_first_invalid_row_where_only_committed_tokens_are_candidates) {
  const row broken(small_vocab, std::numeric_limits<float>::quiet_NaN());
  std::vector<token_id> tokens(4);
  session s{policy{by_confidence{}, threshold{0.7F}, remask_below{0.5F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 4, .block_length = 4}};
  // Position 0 commits; then it is the only candidate, and keeps its token.
  for (const double first : {0.9, 0.4}) {
    const range rows = s.next().value().segments[0].rows;
    const row logits = packed({row_with_confidence(first), broken, broken, broken}, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
  }
  ASSERT_EQ(s.committed().size(), 1U);
  EXPECT_EQ(s.committed()[0].position, 1);
  EXPECT_EQ(s.report().rewritten, 0);
}

TEST(remask_below, refuses_what_is_no_probability) {
  chances c(1);
  const dense_request q = request_of(c);
  const auto nothing = [](const auto&, const auto&) {};
  EXPECT_THROW(
      each_step(policy{by_confidence{}, tokens_per_step{1}, remask_below{1.5F}}, q, nothing),
      std::invalid_argument);
  EXPECT_THROW(
      each_step(policy{by_confidence{}, tokens_per_step{1}, remask_below{-0.1F}}, q, nothing),
      std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::remask_below_test
