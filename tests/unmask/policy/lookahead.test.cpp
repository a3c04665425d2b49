// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/presets/released/lopa.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"
#include "support/scripted_rows.hpp"

namespace unmask::testing::lookahead_test {
namespace {

// Lookahead score given by a row: its best logit.
struct by_logit {
  static constexpr statistics required = stat::none;
  float score(const auto& c) const { return c.logit; }
};
static_assert(ranking<by_logit>);

std::vector<float> row_of_lookahead_score(float lookahead_score) {
  return {lookahead_score, lookahead_score - 5.0F, lookahead_score - 6.0F};
}

const model_info three_tokens{.vocab = 3, .mask_token = 2};

// Five positions: the first step commits position 0 and tries 1, 2 and 3.
template <class Lookahead>
index_t winner_of(const Lookahead& ahead, const std::vector<std::vector<float>>& lookahead_scores) {
  std::vector<token_id> x(5);
  session s{by_name(policy{by_confidence{}, tokens_per_step{0}, ahead}),
            three_tokens,
            x,
            sequence_shape{.length = 5, .block_length = 5}};
  decide_once(s, x, [](const segment&, index_t p) {
    std::vector<float> z = row_of_lookahead_score(-static_cast<float>(p));
    z[1] -= p == 0 ? 3.0F : 0.0F;  // the most confident, so the progress guarantee commits it
    return z;
  });
  EXPECT_EQ(s.report().committed, 1);
  EXPECT_EQ(s.planned().branches, 3);
  for (index_t b = 0; b < 3; ++b) {
    EXPECT_EQ(s.planned().branch[b].position, b + 1);
    EXPECT_EQ(s.planned().branch[b].lookahead_score, -static_cast<float>(b + 1));
  }
  decide_once(s, x, [&](const segment& part, index_t p) {
    index_t k = p - 1;  // among the masked positions of the branch
    k -= part.branch > 0 && part.placed.front().position < p ? 1 : 0;
    return row_of_lookahead_score(
        lookahead_scores[static_cast<std::size_t>(part.branch)][static_cast<std::size_t>(k)]);
  });
  return s.planned().winner;
}

const std::vector<std::vector<float>> vector_19 = {{-0.2F, -0.5F, -0.9F, -1.4F},
                                                   {-0.5F, -0.9F, -1.4F},
                                                   {-0.1F, -0.8F, -1.2F},
                                                   {-0.1F, -0.8F, -1.2F}};
const lookahead_by<by_logit> paper{.branches = 3};

TEST(lookahead, does_not_try_the_mask_token) {
  std::vector<token_id> x(3);
  model_info proposes_mask = three_tokens;
  proposes_mask.suppress_mask = false;
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, paper}),
            proposes_mask,
            x,
            sequence_shape{.length = 3, .block_length = 3}};
  decide_once(s, x, [](const segment&, index_t p) {
    return p == 1 ? std::vector<float>{0.0F, 0.0F, 5.0F}
                  : std::vector<float>{p == 0 ? 9.0F : 4.0F, 0.0F, 0.0F};
  });
  EXPECT_EQ(s.planned().branches, 1);
  EXPECT_EQ(s.planned().branch[0].position, 2);
}

// Means -0.75, -0.9333, -0.7 and -0.7: a tie goes to the branch created first.
TEST(lookahead, test_vector_19) {
  EXPECT_EQ(winner_of(paper, vector_19), 2);
}

TEST(lookahead, the_anchor_is_last_among_equals) {
  EXPECT_EQ(winner_of(paper, {{-1, -1, -1, -1}, {-1, -1, -1}, {-2, -2, -2}, {-3, -3, -3}}), 1);
  EXPECT_EQ(winner_of(paper, {{-1, -1, -1, -1}, {-2, -2, -2}, {-2, -2, -2}, {-1, -1, -1}}), 3);
  EXPECT_EQ(winner_of(paper, {{-1, -1, -1, -1}, {-2, -2, -2}, {-2, -2, -2}, {-2, -2, -2}}), 0);
}

TEST(lookahead, ablations) {
  lookahead_by<by_logit> forced = paper;
  forced.anchor_wins = true;
  EXPECT_EQ(winner_of(forced, vector_19), 0);
  lookahead_by<by_logit> absent = paper;
  absent.anchor_competes = false;
  EXPECT_EQ(winner_of(absent, {{0, 0, 0, 0}, {-2, -2, -2}, {-1, -1, -1}, {-3, -3, -3}}), 2);
}

// Half of 4 and of 3 are 2 and 1: means -1.15, -1.4, -1.2, -1.2.
TEST(lookahead, lowest_share_rounds_down_to_at_least_one) {
  lookahead_by<by_logit> half = paper;
  half.lowest_share = 0.5F;
  EXPECT_EQ(winner_of(half, vector_19), 0);
  half.lowest_share = 0.1F;  // one of each: -1.4, -1.4, -1.2, -1.2
  EXPECT_EQ(winner_of(half, vector_19), 2);
}

// With a weight the anchor's creation counts 1, a branch's the score of its token: -1, -2, -3.
TEST(lookahead, creation_weight_favours_the_anchor) {
  lookahead_by<by_logit> mixed = paper;
  mixed.creation_weight = 0.5F;
  EXPECT_EQ(winner_of(mixed, vector_19), 0);
  mixed.creation_weight = 0.01F;
  EXPECT_EQ(winner_of(mixed, vector_19), 2);
}

// The first of two positions commits, the second is tried with score -1; then its row scores
// `now`.
index_t
winner_at_the_end_of_a_block(const lookahead_by<by_logit>& ahead, index_t length, float now) {
  std::vector<token_id> x(static_cast<std::size_t>(length));
  session s{by_name(policy{by_confidence{}, tokens_per_step{0}, ahead}),
            three_tokens,
            x,
            sequence_shape{.length = length, .block_length = 2}};
  decide_once(s, x, [](const segment&, index_t p) {
    std::vector<float> z = row_of_lookahead_score(-static_cast<float>(p));
    z[1] -= p == 0 ? 3.0F : 0.0F;
    return z;
  });
  EXPECT_EQ(s.planned().branches, 1);
  EXPECT_EQ(s.planned().branch[0].lookahead_score, -1.0F);
  decide_once(s, x, [&](const segment&, index_t) { return row_of_lookahead_score(now); });
  return s.planned().winner;
}

TEST(lookahead, a_complete_window_is_lookahead_score_what_its_branch_was_created_with) {
  EXPECT_EQ(winner_at_the_end_of_a_block(paper, 4, -0.5F), 0);
  EXPECT_EQ(winner_at_the_end_of_a_block(paper, 4, -1.5F), 1);
  EXPECT_EQ(winner_at_the_end_of_a_block(paper, 4, -1.0F), 1);  // a tie
  lookahead_by<by_logit> mixed = paper;
  mixed.creation_weight = 0.5F;  // -1 against .5 - .25 and .5 - 4
  EXPECT_EQ(winner_at_the_end_of_a_block(mixed, 4, -0.5F), 0);
  EXPECT_EQ(winner_at_the_end_of_a_block(mixed, 4, -8.0F), 1);
}

TEST(lookahead, a_complete_answer_scores_one) {
  EXPECT_EQ(winner_at_the_end_of_a_block(paper, 2, -0.5F), 1);
  EXPECT_EQ(winner_at_the_end_of_a_block(paper, 2, 1.5F), 0);
}

TEST(lookahead, in_the_release_a_complete_window_scores_one) {
  lookahead_by<by_logit> release = paper;
  release.complete_wins = true;
  EXPECT_EQ(winner_at_the_end_of_a_block(release, 4, -0.5F), 1);
  EXPECT_EQ(winner_at_the_end_of_a_block(release, 4, 1.5F), 0);
  const auto preset = released::lopa({.branches = 2}, 0.9F);
  EXPECT_TRUE(preset.part_at<2>().complete_wins);
}

TEST(lookahead, a_branch_without_a_number_is_out) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(winner_of(paper, {{-2, -2, -2, -2}, {-3, -3, -3}, {nan, 0, 0}, {-2.5, -2.5, -2.5}}), 0);
}

struct decode_of {
  std::vector<std::vector<commit_entry>> steps;
  std::vector<token_id> text;
  index_t most_segments = 0;
};

bool operator==(const decode_of& a, const decode_of& b) {
  const auto same = [](const commit_entry& x, const commit_entry& y) {
    return x.position == y.position && x.token == y.token && x.log_probability == y.log_probability;
  };
  bool equal = a.text == b.text && a.steps.size() == b.steps.size();
  for (std::size_t k = 0; equal && k < a.steps.size(); ++k) {
    equal = std::equal(
        a.steps[k].begin(), a.steps[k].end(), b.steps[k].begin(), b.steps[k].end(), same);
  }
  return equal;
}

// The rows of a segment, from its own tokens, as far as it is fed.
script rows_of(const dense_request& q, const std::vector<token_id>& text) {
  return [&q, &text](const segment& part, index_t p) {
    std::vector<token_id> x(text.begin(), text.begin() + part.query.last);
    for (const auto& placed : part.placed) {
      x[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    return q.logits.row(x, std::max(p - q.model.logits_shift, 0));
  };
}

template <class Policy>
session<Policy> session_for(const dense_request& q) {
  const sequence_shape& g = q.geometry;
  return {q.model, {.length = g.length, .window = g.length, .branches = q.branches}};
}

template <class Policy>
decode_of decode(const Policy& p, const dense_request& q, bool in_pieces = false) {
  auto s = session_for<Policy>(q);
  decode_of all;
  all.text.assign(static_cast<std::size_t>(q.geometry.length), 0);
  s.start(0, p, tokens_view<memory::host>(all.text), q.geometry);
  while (const auto request = s.next()) {
    const auto count = static_cast<index_t>(request->segments.size());
    all.most_segments = std::max(all.most_segments, count);
    for (const segment& part : request->segments) {  // no cache: a branch runs what it reads
      EXPECT_EQ(part.keys, part.query);
    }
    const std::vector<float> logits = logits_of(s, *request, all.text, rows_of(q, all.text));
    const host_logits<float> whole{logits.data(), request->rows, q.model.vocab};
    if (in_pieces) {
      for (index_t k = count - 1; k >= 0; --k) {  // one buffer after the other, in any order
        const segment& part = request->segments[static_cast<std::size_t>(k)];
        const auto rows = whole.subrows({part.first_row, part.first_row + part.rows.size()});
        s.read(static_cast<std::size_t>(k), rows);
      }
      s.decide();
    } else {
      s.supply(whole);
    }
    all.steps.emplace_back(s.committed().begin(), s.committed().end());
    if (all.steps.size() > 1000) {
      ADD_FAILURE() << "the decode does not end";
      break;
    }
  }
  EXPECT_EQ(s.report().masked, 0);
  return all;
}

dense_request request_of(std::uint64_t seed, index_t branches) {
  chances c(seed);
  dense_request q = random_dense_request(c, c.within(6, 24));
  q.geometry.length = q.geometry.prompt_length + c.within(4, 24);
  q.geometry.block_length = c.within(2, 9);
  q.model.logits_shift = c.within(0, 1);
  q.branches = branches;
  return q;
}

TEST(lookahead, without_branches_changes_nothing) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const dense_request q = request_of(seed, 0);
    const block_pipeline blocks{.add = 0.3F, .activate = 0.8F};
    EXPECT_EQ(
        decode(by_name(policy{by_entropy{}, threshold{0.6F}, blocks, lookahead{.branches = 0}}), q),
        decode(by_name(policy{by_entropy{}, threshold{0.6F}, blocks}), q));
    EXPECT_EQ(
        decode(by_name(policy{by_entropy{}, tokens_per_step{1}, lookahead{.branches = 0}}), q),
        decode(by_name(policy{by_entropy{}, tokens_per_step{1}}), q));
  }
}

TEST(lookahead, with_a_forced_anchor_decides_as_without_branches) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    dense_request q = request_of(seed, 4);
    const lookahead forced{.branches = 4, .anchor_wins = true};
    const decode_of got = decode(by_name(policy{by_entropy{}, threshold{0.6F}, forced}), q);
    q.branches = 0;
    EXPECT_EQ(got, decode(by_name(policy{by_entropy{}, threshold{0.6F}}), q)) << "seed " << seed;
  }
}

TEST(lookahead, takes_its_branches_one_by_one_or_all_at_once) {
  index_t most = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const dense_request q = request_of(seed, 5);
    const block_pipeline blocks{.add = 0.3F, .activate = 0.8F, .at_once = 3};
    const auto p = by_name(
        policy{by_margin{}, threshold{0.7F}, blocks, lookahead_by<by_margin>{.branches = 5}});
    const decode_of batch = decode(p, q);
    EXPECT_EQ(batch, decode(p, q, true)) << "seed " << seed;
    most = std::max(most, batch.most_segments);
    const released::d2f_blocks alone{.add = 0.4F, .activate = 0.7F};
    const auto released = released::lopa({.branches = 5}, 0.7F, alone);
    EXPECT_EQ(decode(released, q), decode(released, q, true)) << "seed " << seed;
  }
  EXPECT_EQ(most, 6);
}

double naive_lookahead_score(by_entropy, const seen_row& r) {
  return -r.entropy;
}
double naive_lookahead_score(by_confidence, const seen_row& r) {
  return r.confidence;
}

// The scores of the positions that a branch reads, which are masked in the sequence.
template <class Ranking>
std::map<index_t, double> scores_in(const dense_request& q,
                                    const std::vector<token_id>& text,
                                    const segment& branch,
                                    const plan& now) {
  std::map<index_t, double> scores;
  for (index_t p = now.score.first; p < now.branch_last[branch.branch]; ++p) {
    if (text[static_cast<std::size_t>(p)] == q.model.mask_token) {
      std::vector<double> z;
      for (const float x : rows_of(q, text)(branch, p)) {
        z.push_back(x);
      }
      z[static_cast<std::size_t>(q.model.mask_token)] = -std::numeric_limits<double>::infinity();
      scores[p] = naive_lookahead_score(Ranking{}, dense_statistics(z, p));
    }
  }
  return scores;
}

// Score of a branch from those of its positions, in double precision.
template <class Ranking>
double naive_score(const lookahead_by<Ranking>& part,
                   const dense_request& q,
                   const std::vector<token_id>& text,
                   const segment& s,
                   const std::map<index_t, double>& read) {
  std::vector<double> lookahead_scores;
  for (const auto& [position, score] : read) {
    if (s.branch == 0 || s.placed.front().position != position) {
      lookahead_scores.push_back(score);
    }
  }
  std::sort(lookahead_scores.begin(), lookahead_scores.end());
  const auto n = static_cast<double>(lookahead_scores.size());
  const auto counted =
      static_cast<std::size_t>(std::max(n * static_cast<double>(part.lowest_share), 1.0));
  const double creation =
      s.branch > 0 ? static_cast<double>(s.placed.front().lookahead_score) : 1.0;
  const auto masks =
      std::count(text.begin() + q.geometry.prompt_length, text.end(), q.model.mask_token);
  const bool is_complete = s.branch > 0 && masks == 1;  // the answer
  double future = 0.0;
  if (lookahead_scores.empty()) {
    future = is_complete || part.complete_wins ? 1.0 : creation;
  }
  for (std::size_t k = 0; k < std::min(counted, lookahead_scores.size()); ++k) {
    future += lookahead_scores[k] / static_cast<double>(counted);
  }
  return part.creation_weight * creation + (1.0 - part.creation_weight) * future;
}

struct elections {
  int held = 0;
  int won_by_a_lookahead = 0;
  int won_at_the_end_of_a_block = 0;  ///< by the anchor
  int farther = 0;                    ///< branches that are scored farther than their anchor
};

// Every step of random decodes: the winner has the best score, and the tried tokens are the best
// left. `policy_with` makes the policy; `complete_wins` is the chance of it.
template <class Ranking>
elections expect_the_best_branch(const auto& policy_with, double complete_wins = 0.2) {
  elections n;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const dense_request q = request_of(seed, 4);
    chances c(seed + 1000);
    const lookahead_by<Ranking> part{.branches = c.within(1, 4),
                                     .lowest_share = c.chance(0.5) ? 1.0F : 0.5F,
                                     .creation_weight = c.chance(0.5) ? 0.0F : 0.25F,
                                     .complete_wins = c.chance(complete_wins)};
    const auto p = policy_with(part);
    auto s = session_for<std::remove_const_t<decltype(p)>>(q);
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
    s.start(0, p, tokens_view<memory::host>(text), q.geometry);
    while (const auto request = s.next()) {
      const plan now = s.planned();
      const std::vector<segment> parts(request->segments.begin(), request->segments.end());
      EXPECT_TRUE(parts[0].placed.empty());
      EXPECT_EQ(*std::max_element(now.branch_last, now.branch_last + now.branches + 1),
                now.branches > 0 ? now.score.last : now.branch_last[0]);
      std::vector<double> scores;
      std::vector<std::map<index_t, double>> read;
      for (const segment& branch : parts) {
        read.push_back(scores_in<Ranking>(q, text, branch, now));
        scores.push_back(naive_score(part, q, text, branch, read.back()));
      }
      const std::vector<float> logits = logits_of(s, *request, text, rows_of(q, text));
      const std::vector<token_id> before = text;
      s.supply(host_logits<float>{logits.data(), request->rows, q.model.vocab});
      const auto winner = static_cast<std::size_t>(s.planned().winner);
      if (winner >= parts.size()) {
        ADD_FAILURE() << "branch " << winner << " wins, seed " << seed;
        return n;
      }
      const double best = *std::max_element(scores.begin(), scores.end());
      EXPECT_NEAR(scores[winner], best, 1e-5) << "seed " << seed;
      n.held += now.branches > 0 ? 1 : 0;
      const auto open = std::count(
          before.begin() + now.score.first, before.begin() + now.score.last, q.model.mask_token);
      n.won_at_the_end_of_a_block += now.branches > 0 && winner == 0 && open == 1 ? 1 : 0;
      n.won_by_a_lookahead += winner > 0 ? 1 : 0;
      if (winner > 0) {
        const placement& placed = now.branch[winner - 1];
        EXPECT_TRUE(std::ranges::any_of(s.committed(), [&](const commit_entry& e) {
          return e.position == placed.position && e.token == placed.token;
        }));
        EXPECT_EQ(text[static_cast<std::size_t>(placed.position)], placed.token);
      }
      const plan& next = s.planned();
      std::vector<double> left;
      for (const auto& [position, score] : read[winner]) {
        if (text[static_cast<std::size_t>(position)] == q.model.mask_token &&
            next.score.contains(position)) {
          left.push_back(score);
        }
      }
      std::sort(left.begin(), left.end(), std::greater<>{});
      EXPECT_EQ(next.branches, std::min(part.branches, static_cast<index_t>(left.size())));
      for (index_t b = 0; b < next.branches; ++b) {
        const placement& tried = next.branch[b];
        const auto own = read[winner].find(tried.position);
        if (own == read[winner].end()) {
          ADD_FAILURE() << "position " << tried.position << " was not read, seed " << seed;
          return n;
        }
        EXPECT_NEAR(own->second, double(tried.lookahead_score), 1e-5);
        EXPECT_NEAR(own->second, left[static_cast<std::size_t>(b)], 1e-5);
        n.farther += next.branch_last[b + 1] > next.branch_last[0] ? 1 : 0;
      }
    }
  }
  return n;
}

TEST(lookahead, goes_on_with_the_best_branch) {
  const auto policy_with = [](const auto& part) {
    return by_name(policy{by_entropy{}, threshold{0.7F}, part});
  };
  for (const elections& n : {expect_the_best_branch<by_confidence>(policy_with),
                             expect_the_best_branch<by_entropy>(policy_with)}) {
    EXPECT_GT(n.held, 800);
    EXPECT_GT(n.won_by_a_lookahead, 200);
    EXPECT_GT(n.won_at_the_end_of_a_block, 20);
    EXPECT_EQ(n.farther, 0);
  }
}

// There each branch has a schedule of its own, and a complete one wins.
TEST(lookahead, in_the_release_goes_on_with_the_best_branch) {
  const auto policy_with = [](const auto& part) {
    return released::lopa(part, 0.7F, {.add = 0.4F, .activate = 0.7F});
  };
  const elections n = expect_the_best_branch<by_entropy>(policy_with, 1.0);
  EXPECT_GT(n.held, 800);
  EXPECT_GT(n.won_by_a_lookahead, 200);
  EXPECT_GT(n.farther, 100);
}

/// A schedule that counts how often it has planned a branch, in the state of the sequence.
struct counts_plans {
  std::vector<int>* seen = nullptr;
  struct sequence_state {
    int plans = 0;
  };
  static constexpr statistics required = stat::none;
  void schedule(sequence_view& q, plan& next, auto& context) const {
    seen->push_back(context.sequence.plans);
    struct {
      semi_autoregressive::sequence_state sequence;
    } inner;
    semi_autoregressive{}.schedule(q, next, inner);
  }
  void replan(sequence_view&, plan&, auto& context) const { ++context.sequence.plans; }
};
static_assert(scheduling<counts_plans> && replanning<counts_plans>);

// The notes of a schedule that plans a branch stay if the branch wins, and only then.
TEST(lookahead, keeps_the_state_of_the_branch_that_wins) {
  int won = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const dense_request q = request_of(seed, 4);
    std::vector<int> seen;
    const policy p{by_entropy{},
                   threshold{0.7F},
                   lookahead_by<by_entropy>{.branches = 3},
                   counts_plans{&seen}};
    auto s = session_for<std::remove_const_t<decltype(p)>>(q);
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
    s.start(0, p, tokens_view<memory::host>(text), q.geometry);
    int winners = 0;
    while (const auto request = s.next()) {
      EXPECT_EQ(seen.back(), winners) << "seed " << seed;
      const std::vector<float> logits = logits_of(s, *request, text, rows_of(q, text));
      s.supply(host_logits<float>{logits.data(), request->rows, q.model.vocab});
      winners += s.planned().winner > 0 ? 1 : 0;
    }
    won += winners;
  }
  EXPECT_GT(won, 50);
}

TEST(lookahead, is_the_same_in_any_batch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    using kind = policy<by_entropy, threshold, lookahead, block_pipeline>;
    std::vector<kind> policies;
    std::vector<dense_request> requests;
    chances c(seed);
    for (std::uint64_t k = 0; k < 4; ++k) {
      policies.push_back({by_entropy{},
                          threshold{c.real(0.4, 0.9)},
                          lookahead{.branches = c.within(0, 4)},
                          block_pipeline{.add = c.real(0.0, 0.6), .at_once = c.within(1, 3)}});
      requests.push_back(request_of(seed * 4 + k, 4));
      requests.back().model = requests.front().model;
      requests.back().model.logits_shift = 0;
      requests.back().logits.vocab = requests.front().model.vocab;
      requests.back().suppressed.clear();
    }
    requests.front().model.logits_shift = 0;
    expect_batch_changes_nothing(policies, requests);
  }
}

// The branch that wins has no row at the position of its own token: a part that reads committed
// positions reads nothing there, and not what another sequence left.
TEST(lookahead, reads_no_row_at_the_token_of_its_branch) {
  const model_info model{.vocab = 12, .mask_token = 11};
  const sequence_shape shape{.length = 9, .block_length = 9};
  const named_policy parts =
      read_policy("tokens_per_step(1) + linear_position([3], [0.9], 0.5, rest=0.01) + lookahead");
  using found = std::vector<std::pair<index_t, index_t>>;  // positions and ranks, step by step
  const auto decode = [&](auto& s, std::uint64_t seed, double widest) {
    chances c(seed);
    std::vector<token_id> tokens(9);
    s.start(0, parts, {tokens.data(), shape.length}, shape);
    found all;
    std::vector<float> logits;
    while (const auto request = s.next()) {
      logits.resize(static_cast<std::size_t>(request->rows) * 12);
      for (float& z : logits) {
        z = static_cast<float>(widest) * c.real(0.0, 1.0);
      }
      s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
      for (const auto& e : s.candidates()) {
        all.emplace_back(e.position, e.rank);
      }
    }
    return all;
  };
  const session_capacity capacity{
      .sequences = 1, .length = 9, .window = 9, .branches = 3, .trace = true};
  session<named_policy, on_host> used(parts, model, capacity);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    session<named_policy, on_host> fresh(parts, model, capacity);
    static_cast<void>(decode(used, seed + 1000, seed % 2 == 0 ? 0.0 : 60.0));
    EXPECT_EQ(decode(used, seed, 2.0), decode(fresh, seed, 2.0)) << seed;
  }
}

TEST(lookahead, names_the_knob_that_is_wrong) {
  const auto starting = [](const lookahead& part) {
    std::vector<token_id> x(4);
    session s{by_name(policy{by_entropy{}, tokens_per_step{}, part}),
              three_tokens,
              x,
              sequence_shape{.length = 4}};
  };
  EXPECT_THROW(starting({.branches = -1}), std::invalid_argument);
  EXPECT_THROW(starting({.branches = max_branches + 1}), std::invalid_argument);
  EXPECT_THROW(starting({.lowest_share = 0.0F}), std::invalid_argument);
  EXPECT_THROW(starting({.creation_weight = 1.5F}), std::invalid_argument);
  EXPECT_NO_THROW(starting({.branches = max_branches}));
}

// A branch that is scored farther than the one that wins does not count as computed so far.
TEST(lookahead, leaves_a_cache_its_refreshes) {
  const auto p = by_name(policy{by_entropy{},
                                threshold{0.4F},
                                lookahead_by<by_entropy>{.branches = 2},
                                released::d2f_blocks{},
                                prefix_cache{}});
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const made_up_model model{.seed = seed};
    std::vector<token_id> tokens(24);
    session<std::remove_const_t<decltype(p)>> s{model.info(),
                                                {.length = 24, .window = 24, .branches = 2}};
    s.start(0, p, tokens, {.length = 24, .block_length = 4});
    index_t block = -1;
    while (const auto request = s.next()) {
      EXPECT_EQ(s.planned().refresh, s.planned().score.first != block);
      kept += s.planned().refresh ? 0 : 1;
      block = s.planned().score.first;
      const std::vector<float> logits =
          requested_rows(*request, tokens, [&](const auto& x, index_t i) {
            std::vector<float> z(12);
            model.row(x, i, z);
            return z;
          });
      s.supply(host_logits<float>{logits.data(), request->rows, 12});
    }
  }
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace unmask::testing::lookahead_test
