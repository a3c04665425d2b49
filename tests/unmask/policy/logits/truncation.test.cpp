// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Truncated sampling: what is kept and what is drawn are those of the definition, whether one read
// was enough or not, and a read that was not is counted.
#include <unmask/host/backend.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "oracles/naive_truncation.hpp"
#include "support/by_name.hpp"
#include "support/dice.hpp"
#include "support/draws.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::truncation_test {
namespace {

constexpr double rounding = 1e-5;  // float sums are good to about 1e-6

/// A ranking that records its candidates; with stat::truncated in `More` what is kept of them, too.
struct seen_candidates {
  struct seen {
    index_t position;
    token_id token;
    double confidence;
    double margin;
    double entropy;
    double top3_mass;
    index_t kept_tokens = 0;
    double kept_mass = 0.0;
    double least_kept = 0.0;
  };
  inline static std::vector<seen> all;
};
template <statistics More>
struct onlooker_of : seen_candidates {
  static constexpr statistics required = stat::margin | stat::entropy | stat::top3_mass | More;
  float score(const auto& c) const {
    all.push_back({c.position,
                   c.token,
                   static_cast<double>(c.confidence()),
                   static_cast<double>(c.margin()),
                   static_cast<double>(c.entropy()),
                   static_cast<double>(c.top3_mass())});
    if constexpr (provides_v<More, stat::truncated>) {
      all.back().kept_tokens = c.kept_tokens();
      all.back().kept_mass = static_cast<double>(c.kept_mass());
      all.back().least_kept = static_cast<double>(c.least_kept_probability());
    }
    return -static_cast<float>(c.position);
  }
};
using onlooker = onlooker_of<stat::none>;
using onlooker_of_kept = onlooker_of<stat::truncated>;

/// One step of a sequence, all rows at once. The mask token is the last of the vocabulary.
struct one_step {
  std::vector<token_id> tokens;
  std::vector<onlooker::seen> seen;
  sequence_report report;
};

template <class Policy>
one_step decode_once(const Policy& composed,
                     const std::vector<std::vector<float>>& rows,
                     std::uint64_t seed,
                     const on_host& where = {}) {
  one_step r;
  const auto count = static_cast<index_t>(rows.size());
  const auto vocab = static_cast<index_t>(rows[0].size());
  r.tokens.assign(rows.size(), 0);
  std::vector<float> logits;
  for (const auto& row : rows) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const auto p = by_name(composed);
  session<by_name_type<Policy>> s({.vocab = vocab, .mask_token = vocab - 1},
                                  {.sequences = 1, .length = count, .window = count},
                                  where);
  s.start(0,
          p,
          tokens_view<memory::host>(r.tokens),
          {.length = count, .block_length = count, .seed = seed});
  static_cast<void>(s.next());
  onlooker::all.clear();
  s.supply(host_logits<float>(logits.data(), count, vocab));
  r.seen = onlooker::all;
  r.report = s.report();
  return r;
}

std::vector<double> as_doubles(const std::vector<float>& row) {
  std::vector<double> z(row.begin(), row.end());
  z.back() = -infinity;
  return z;
}

/// Rows of many shapes: peaked, flat, with ties, with absent columns.
std::vector<float> random_row(dice& d, index_t vocab) {
  const double spread = d.one_of(std::vector<double>{0.0, 0.5, 2.0, 6.0});
  const double absent = d.one_of(std::vector<double>{0.0, 0.0, 0.5, 0.99});
  const bool coarse = d.chance(0.4);
  std::vector<float> z;
  for (index_t v = 0; v < vocab; ++v) {
    const double x = static_cast<double>(d.real(-spread, spread));
    z.push_back(v > 0 && d.chance(absent)
                    ? static_cast<float>(-infinity)
                    : static_cast<float>(coarse ? std::round(2.0 * x) / 2.0 : x));
  }
  z.back() = 50.0F;
  return z;
}

truncation random_rules(dice& d, index_t vocab) {
  truncation t;
  if (d.chance(0.5)) {
    t.tokens = d.within(1, d.chance(0.5) ? 20 : vocab + 3);
  }
  if (d.chance(0.6)) {
    t.mass = d.chance(0.1) ? 0.0F : static_cast<float>(d.real(0.0, 1.0));
  }
  if (d.chance(0.3)) {
    t.ratio = d.chance(0.1) ? 1.0F : static_cast<float>(d.real(0.0, 0.3));
  }
  return t;
}

policy<onlooker_of_kept,
       tokens_per_step,
       sampling,
       top_k,
       top_p,
       min_p,
       confidence_after_truncation>
renormalised(const truncation& t, float temperature) {
  return {onlooker_of_kept{},
          tokens_per_step{1 << 20},
          sampling{temperature},
          top_k{t.tokens},
          top_p{t.mass},
          min_p{t.ratio},
          confidence_after_truncation{}};
}

TEST(truncation, draws_the_token_of_the_definition) {
  int compared = 0;
  int read_again = 0;
  int read_once = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    dice d(round);
    const index_t vocab = d.one_of(std::vector<index_t>{2, 3, 40, 65, 66, 300, 2049, 5000});
    const truncation rules = random_rules(d, vocab);
    const float temperature = d.chance(0.5) ? 1.0F : static_cast<float>(d.real(0.3, 2.0));
    const std::vector<std::vector<float>> rows = {
        random_row(d, vocab), random_row(d, vocab), random_row(d, vocab)};
    const one_step got = decode_once(renormalised(rules, temperature), rows, round);
    const policy plain{onlooker_of_kept{},
                       tokens_per_step{3},
                       top_p{rules.mass},
                       sampling{temperature},
                       min_p{rules.ratio},
                       top_k{rules.tokens}};
    const one_step whole = decode_once(plain, rows, round);
    if (rules.keeps_all(vocab)) {
      continue;  // as without the parts: another test
    }
    read_again += got.report.second_reads;
    read_once += 3 - got.report.second_reads;
    EXPECT_EQ(whole.report.second_reads, got.report.second_reads);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> z = as_doubles(rows[i]);
      const naive_truncation expected =
          naive_truncate(z,
                         rules,
                         static_cast<double>(temperature),
                         {.seed = round, .position = static_cast<index_t>(i)});
      if (expected.gap < rounding) {
        continue;
      }
      ++compared;
      ASSERT_EQ(got.tokens[i], expected.drawn) << "row " << i;
      ASSERT_EQ(got.seen[i].token, expected.drawn);
      EXPECT_NEAR(got.seen[i].confidence, expected.confidence(expected.drawn), rounding);
      EXPECT_NEAR(got.seen[i].margin, expected.margin(), rounding);
      EXPECT_NEAR(got.seen[i].entropy, expected.entropy(), rounding * (1.0 + expected.entropy()));
      EXPECT_NEAR(got.seen[i].top3_mass, expected.top3_mass(), rounding);
      for (const seen_candidates::seen& c : {got.seen[i], whole.seen[i]}) {
        EXPECT_EQ(c.kept_tokens, static_cast<index_t>(expected.kept.size()));
        EXPECT_NEAR(c.kept_mass, expected.mass, rounding);
        EXPECT_NEAR(c.least_kept, expected.least, rounding);
      }
      ASSERT_EQ(whole.tokens[i], expected.drawn) << "row " << i;
      EXPECT_NEAR(whole.seen[i].confidence,
                  softmax(z, 1.0)[static_cast<std::size_t>(expected.drawn)],
                  rounding);
    }
  }
  EXPECT_GT(compared, 900);
  EXPECT_GT(read_again, 100);
  EXPECT_GT(read_once, 400);
}

TEST(truncation, is_distributed_as_the_softmax_over_what_is_kept) {
  std::vector<float> row(300, -0.5F);
  for (std::size_t v = 0; v < 8; ++v) {
    row[37 * v] = 0.3F * static_cast<float>(v);
  }
  row.back() = 9.0F;
  const model_info model{.vocab = 300, .mask_token = 299};
  const std::vector<double> z = as_doubles(row);
  for (const float temperature : {1.0F, 0.5F}) {
    // One read is enough for the first three; the last keeps 92 equal tokens.
    const std::vector<std::pair<truncation, bool>> cases = {{{.tokens = 5}, false},
                                                            {{.mass = 0.2F}, false},
                                                            {{.ratio = 0.6F}, false},
                                                            {{.tokens = 100}, true}};
    for (const auto& [rules, again] : cases) {
      const naive_truncation kept = naive_truncate(z, rules, 1.0, {});
      std::vector<double> cut(z.size(), -infinity);
      for (const token_id v : kept.kept) {
        cut[static_cast<std::size_t>(v)] = z[static_cast<std::size_t>(v)];
      }
      const policy p{by_confidence{},
                     tokens_per_step{1},
                     sampling{temperature},
                     top_k{rules.tokens},
                     top_p{rules.mass},
                     min_p{rules.ratio}};
      const int draws = again ? 20000 : 8000;
      expect_draws(draw_frequencies(p, model, row, {}, draws),
                   softmax(cut, static_cast<double>(temperature)),
                   draws);
    }
  }
}

// The list of one read and the second read are two ways to the same token and the same tokens kept,
// however little was held.
template <index_t Held>
void expect_same_as_the_second_read(const std::vector<float>& z,
                                    const truncation& rules,
                                    const draw_request& draw,
                                    int& proved,
                                    int& open) {
  constexpr statistics contents =
      stat::margin | stat::entropy | stat::top3_mass | stat::sampled | stat::truncated;
  row_input<float> in;
  in.logits = z.data();
  in.columns = static_cast<index_t>(z.size());
  in.draw = draw;
  held_tokens unused;
  in.held = &unused;
  const record<contents> whole =
      host::read_row<contents>(in, identity{}, host::best_instruction_set());
  canonical::head_cut<Held> cut;
  for (std::size_t v = 0; v < z.size(); ++v) {
    cut.head.push(z[v], static_cast<token_id>(v));
  }
  const auto limits = canonical::row_limits::of(rules, whole.best, whole.total());
  if (cut.measure(serial{}, cut.head, limits) < 0) {
    ++open;
    return;
  }
  ++proved;
  record<contents> first = whole;
  record<contents> second = whole;
  cut.finish(serial{}, first, draw, rules.renormalises);
  host::read_again(second, in, identity{}, {}, rules, unused, host::best_instruction_set());
  ASSERT_EQ(first.drawn, second.drawn);
  ASSERT_EQ(first.drawn_logit, second.drawn_logit);
  ASSERT_EQ(first.key, second.key);
  ASSERT_EQ(first.token, second.token);
  ASSERT_EQ(first.second, second.second);
  ASSERT_EQ(first.next[0], second.next[0]);
  ASSERT_EQ(first.next[1], second.next[1]);
  ASSERT_EQ(first.kept_tokens(), second.kept_tokens());
  ASSERT_EQ(first.kept_mass(), second.kept_mass());
  ASSERT_EQ(first.least_kept_probability(), second.least_kept_probability());
  ASSERT_NEAR(first.rest, second.rest, 1e-5 * (1.0 + static_cast<double>(first.rest)));
  ASSERT_NEAR(first.weighted, second.weighted, 1e-5 * (1.0 - static_cast<double>(first.weighted)));
}

TEST(truncation, does_not_depend_on_how_much_was_held) {
  int proved = 0;
  int open = 0;
  for (std::uint64_t round = 0; round < 600 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    dice d(round + 7000);
    const std::vector<float> z = random_row(d, d.one_of(std::vector<index_t>{2, 40, 300, 3000}));
    truncation rules = random_rules(d, 300);
    rules.renormalises = true;
    const draw_request draw{{.seed = round}, d.chance(0.5) ? 1.0F : 0.6F};
    expect_same_as_the_second_read<2>(z, rules, draw, proved, open);
    expect_same_as_the_second_read<5>(z, rules, draw, proved, open);
    expect_same_as_the_second_read<64>(z, rules, draw, proved, open);
    expect_same_as_the_second_read<4096>(z, rules, draw, proved, open);
  }
  EXPECT_GT(proved, 1000);
  EXPECT_GT(open, 300);
}

// A flat row keeps more than a read holds: each such row is read again, and counted.
TEST(truncation, counts_the_rows_it_had_to_read_again) {
  const std::vector<float> flat(3000, 1.0F);
  std::vector<float> peaked(3000, -8.0F);
  for (std::size_t v = 100; v < 120; ++v) {
    peaked[v] = 5.0F;
  }
  const policy nucleus{left_to_right{}, tokens_per_step{9}, sampling{}, top_p{0.9F}};
  const auto reads = [](const auto& p, const std::vector<std::vector<float>>& rows) {
    return decode_once(p, rows, 1).report.second_reads;
  };
  EXPECT_EQ(reads(nucleus, {peaked, peaked}), 0);
  EXPECT_EQ(reads(nucleus, {peaked, flat, peaked, flat, flat}), 3);
  EXPECT_EQ(
      reads(policy{left_to_right{}, tokens_per_step{9}, sampling{}, top_k{64}}, {flat, peaked}), 0);
  EXPECT_EQ(
      reads(policy{left_to_right{}, tokens_per_step{9}, sampling{}, top_k{65}}, {flat, peaked}), 2);
  EXPECT_EQ(
      reads(policy{left_to_right{}, tokens_per_step{9}, sampling{}, min_p{0.5F}}, {flat, peaked}),
      1);
  EXPECT_EQ(reads(policy{left_to_right{}, tokens_per_step{9}, sampling{}}, {flat, flat}), 0);
}

TEST(truncation, that_keeps_all_is_the_plain_draw) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    dice d(round);
    const index_t vocab = d.one_of(std::vector<index_t>{2, 65, 300, 5000});
    const std::vector<std::vector<float>> rows = {random_row(d, vocab), random_row(d, vocab)};
    const one_step plain =
        decode_once(policy{onlooker{}, tokens_per_step{9}, sampling{0.8F}}, rows, round);
    const one_step all = decode_once(renormalised({.tokens = vocab}, 0.8F), rows, round);
    EXPECT_EQ(all.tokens, plain.tokens);
    EXPECT_EQ(all.report.second_reads, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(all.seen[i].confidence, plain.seen[i].confidence);
      EXPECT_EQ(all.seen[i].kept_tokens, vocab);
      EXPECT_EQ(all.seen[i].kept_mass, 1.0);
      EXPECT_EQ(all.seen[i].least_kept, 0.0);
    }
  }
}

// Greedy decoding with a rule of one's own: commits where the three most probable tokens have
// nearly all the mass, or the third is improbable.
struct few_alternatives {
  static constexpr statistics required = stat::truncated;
  bool commits(const auto& c, const rank_info&) const {
    return c.kept_mass() >= 0.8F && c.least_kept_probability() < 0.05F;
  }
};
static_assert(commit_rule<few_alternatives>);

TEST(truncation, is_read_by_a_rule_without_a_draw) {
  const float gone = static_cast<float>(-infinity);
  const auto row_of = [&](float a, float b, float c, float d) {
    return std::vector<float>{std::log(a), std::log(b), std::log(c), std::log(d), gone, 9.0F};
  };
  const std::vector<std::vector<float>> rows = {row_of(0.7F, 0.2F, 0.04F, 0.06F),   // third: 0.06
                                                row_of(0.9F, 0.04F, 0.03F, 0.03F),  // commits
                                                row_of(0.4F, 0.2F, 0.2F, 0.2F),
                                                row_of(0.04F, 0.03F, 0.9F, 0.03F)};  // commits
  const one_step got = decode_once(policy{by_confidence{}, few_alternatives{}, top_k{3}}, rows, 0);
  EXPECT_EQ(got.tokens, (std::vector<token_id>{5, 0, 5, 2}));
}

TEST(truncation, of_one_token_is_the_best_one_the_lowest_of_equals) {
  std::vector<float> row(200, 0.0F);
  row[7] = row[9] = row[130] = 3.0F;
  for (const auto& rules : {truncation{.tokens = 1}, truncation{.mass = 0.0F}}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      EXPECT_EQ(decode_once(renormalised(rules, 5.0F), {row}, seed).tokens[0], 7);
    }
  }
  // min-p of 1 keeps the three that are equal, in turn.
  std::vector<int> hits(200, 0);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    ++hits[static_cast<std::size_t>(
        decode_once(renormalised({.ratio = 1.0F}, 5.0F), {row}, seed).tokens[0])];
  }
  EXPECT_EQ(hits[7] + hits[9] + hits[130], 300);
  EXPECT_GT(std::min({hits[7], hits[9], hits[130]}), 60);
}

TEST(truncation, cuts_equal_tokens_at_exactly_k) {
  const std::vector<float> flat(500, 2.0F);
  for (const index_t k : {2, 64, 65, 100, 498}) {
    std::vector<int> hits(500, 0);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      ++hits[static_cast<std::size_t>(
          decode_once(renormalised({.tokens = k}, 1.0F), {flat}, seed).tokens[0])];
    }
    for (index_t v = k; v < 500; ++v) {
      ASSERT_EQ(hits[static_cast<std::size_t>(v)], 0) << k;
    }
    EXPECT_GT(hits[static_cast<std::size_t>(k > 300 ? 0 : k - 1)] + hits[1], 0);
  }
}

// Invalid rows stay invalid; the progress guarantee holds.
TEST(truncation, leaves_rows_alone_that_cannot_be_decided_on) {
  const std::vector<float> none(100, -math::infinity());
  std::vector<float> broken(100, 0.0F);
  broken[70] = math::from_bits(0x7fc00000U);
  std::vector<float> infinite(100, 0.0F);
  infinite[3] = math::infinity();
  for (const auto& row : {none, broken, infinite}) {
    const one_step r = decode_once(renormalised({.tokens = 3, .mass = 0.5F}, 1.0F), {row}, 1);
    EXPECT_EQ(r.report.invalid_rows, 1);
    EXPECT_EQ(r.report.second_reads, 0);
    EXPECT_EQ(r.report.end, ending::complete);
  }
  const one_step one = decode_once(renormalised({.tokens = 3}, 1.0F), {{1.0F, 4.0F}}, 1);
  EXPECT_EQ(one.tokens[0], 0) << "the only token that is not the mask";
}

TEST(truncation, gives_the_same_for_every_instruction_set_and_thread_count) {
  dice d(5);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 5; ++i) {
    rows.push_back(random_row(d, 150000));  // enough for pieces of rows
  }
  rows[1].assign(150000, 0.0F);
  for (const truncation& rules :
       {truncation{.mass = 0.8F}, truncation{.tokens = 40}, truncation{.tokens = 3000}}) {
    const auto p = renormalised(rules, 0.9F);
    const one_step expected = decode_once(p, rows, 3);
    for (const host::instruction_set level : instruction_sets()) {
      for (const index_t threads : {1, 2, 5}) {
        host::thread_pool pool(threads);
        const one_step got = decode_once(p, rows, 3, {.executor = pool, .instruction_set = level});
        EXPECT_EQ(got.tokens, expected.tokens);
        EXPECT_EQ(got.report.second_reads, expected.report.second_reads);
        ASSERT_EQ(got.seen.size(), expected.seen.size());
        for (std::size_t i = 0; i < got.seen.size(); ++i) {
          EXPECT_EQ(got.seen[i].confidence, expected.seen[i].confidence);
          EXPECT_EQ(got.seen[i].entropy, expected.seen[i].entropy);
        }
      }
    }
  }
}

// Penalties come before the cut: a token may be pushed out of what is kept, or drawn into it.
TEST(truncation, cuts_off_the_row_as_penalties_have_edited_it) {
  int compared = 0;
  int again = 0;
  for (std::uint64_t round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    dice d(round + 100);
    const index_t vocab = d.one_of(std::vector<index_t>{4, 70, 300, 2100});
    const std::vector<float> row = random_row(d, vocab);
    const truncation rules = random_rules(d, vocab);
    logit_bias<4> bias;
    std::vector<double> z = as_doubles(row);
    for (token_bias& b : bias.pairs) {
      b = {d.within(0, vocab - 2),
           d.chance(0.2) ? static_cast<float>(-infinity) : static_cast<float>(d.real(-4.0, 4.0))};
      z[static_cast<std::size_t>(b.token)] += static_cast<double>(b.bias);
    }
    const policy p{onlooker_of_kept{},
                   tokens_per_step{1},
                   sampling{},
                   top_k{rules.tokens},
                   top_p{rules.mass},
                   min_p{rules.ratio},
                   confidence_after_truncation{},
                   bias};
    const one_step got = decode_once(p, {row}, round);
    const naive_truncation expected = naive_truncate(z, rules, 1.0, {.seed = round});
    if (rules.keeps_all(vocab) || expected.gap < rounding || expected.kept.empty()) {
      continue;
    }
    ++compared;
    again += got.report.second_reads;
    ASSERT_EQ(got.tokens[0], expected.drawn);
    EXPECT_NEAR(got.seen[0].confidence, expected.confidence(expected.drawn), rounding);
    EXPECT_NEAR(got.seen[0].entropy, expected.entropy(), rounding * (1.0 + expected.entropy()));
  }
  EXPECT_GT(compared, 150);
  EXPECT_GT(again, 20);
}

// Tokens that a list excludes are not kept either, however large their logits are.
TEST(truncation, cuts_off_what_allowed_tokens_leaves) {
  int compared = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    dice d(round + 900);
    const index_t vocab = d.one_of(std::vector<index_t>{9, 70, 300, 2100});
    const std::vector<float> row = random_row(d, vocab);
    const truncation rules = random_rules(d, 5);
    allowed_tokens<6> list;
    std::vector<double> z(row.size(), -infinity);
    for (listed_token& v : list.tokens) {
      v = d.within(0, vocab - 2);
      z[static_cast<std::size_t>(v)] = static_cast<double>(row[static_cast<std::size_t>(v)]);
    }
    const policy p{onlooker_of_kept{},
                   tokens_per_step{1},
                   top_k{rules.tokens},
                   top_p{rules.mass},
                   min_p{rules.ratio},
                   confidence_after_truncation{},
                   sampling{0.7F},
                   list};
    const one_step got = decode_once(p, {row}, round);
    EXPECT_EQ(got.report.second_reads, 0);
    const naive_truncation expected =
        naive_truncate(z, rules, static_cast<double>(0.7F), {.seed = round});
    if (rules.keeps_all(vocab) || expected.gap < rounding || expected.kept.empty()) {
      continue;
    }
    ++compared;
    ASSERT_EQ(got.tokens[0], expected.drawn);
    EXPECT_NEAR(got.seen[0].confidence, expected.confidence(expected.drawn), rounding);
  }
  EXPECT_GT(compared, 80);
}

TEST(truncation, is_the_same_for_any_batch) {
  for (std::uint64_t round = 0; round < 30 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    chances c(round);
    const index_t vocab = c.within(70, 200);
    std::vector<dense_request> requests;
    for (int i = 0; i < 3; ++i) {
      requests.push_back(random_dense_request(c, vocab));
      requests.back().model = requests[0].model;
      requests.back().geometry.seed = c.bits();
    }
    const auto penalised = [&c] {
      return policy{by_confidence{},
                    tokens_per_step{2},
                    sampling{},
                    top_p{c.real(0.1, 0.99)},
                    confidence_after_truncation{},
                    presence_frequency_penalty<4>{.presence = c.real(0.0, 1.0)}};
    };
    expect_batch_changes_nothing(std::vector{penalised(), penalised(), penalised()}, requests);
    for (dense_request& r : requests) {
      r.branches = 2;
    }
    const auto branching = [&c] {
      return by_name(policy{by_entropy{},
                            tokens_per_step{2},
                            sampling{},
                            top_k{c.within(1, 99)},
                            min_p{c.real(0.0, 0.2)},
                            lookahead{.branches = 2}});
    };
    expect_batch_changes_nothing(std::vector{branching(), branching(), branching()}, requests);
  }
}

// Dream at temperature 0: the best token, by its probability among the kept.
TEST(truncation, without_a_draw_changes_the_confidence_only) {
  const std::vector<float> row = {1.0F, 3.0F, 2.5F, 0.0F, -1.0F, 9.0F};
  const policy p{onlooker_of_kept{},
                 tokens_per_step{1},
                 temperature{0.5F},
                 top_k{2},
                 confidence_after_truncation{}};
  const one_step r = decode_once(p, {row}, 1);
  EXPECT_EQ(r.tokens[0], 1);
  EXPECT_NEAR(r.seen[0].confidence, 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(r.seen[0].margin, 2.0 / (1.0 + std::exp(-1.0)) - 1.0, 1e-6);
}

// A canvas draws, too; its rows are sharpened before the cut.
TEST(truncation, goes_with_a_canvas) {
  const std::vector<float> row = {1.0F, 0.5F, 0.0F, -3.0F, -4.0F};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<token_id> text(3, 0);
    session s{by_name(policy{by_entropy{},
                             entropy_bound{9.0F},
                             canvas{.vocab = 5, .steps = 4, .certain = 0.0F},
                             top_k{2}}),
              model_info{.vocab = 5, .mask_token = 0, .suppress_mask = false},
              tokens_view<memory::host>(text),
              sequence_shape{.length = 3, .seed = seed}};
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(s.next());
      std::vector<float> logits;
      for (int i = 0; i < 3; ++i) {
        logits.insert(logits.end(), row.begin(), row.end());
      }
      s.supply(host_logits<float>(logits.data(), 3, 5));
      for (const token_id v : text) {  // every position is committed and holds what was drawn
        EXPECT_LE(v, 1);
      }
    }
  }
}

TEST(truncation, refuses_knobs_outside_their_range) {
  const sequence_shape g{.length = 4};
  EXPECT_NO_THROW(check_part(top_k{1}, g));
  EXPECT_THROW(check_part(top_k{0}, g), std::invalid_argument);
  EXPECT_THROW(check_part(top_k{-3}, g), std::invalid_argument);
  for (const float bad : {-0.1F, 1.1F, std::nanf("")}) {
    EXPECT_THROW(check_part(top_p{bad}, g), std::invalid_argument);
    EXPECT_THROW(check_part(min_p{bad}, g), std::invalid_argument);
  }
  for (const float good : {0.0F, 1.0F}) {
    EXPECT_NO_THROW(check_part(top_p{good}, g));
    EXPECT_NO_THROW(check_part(min_p{good}, g));
  }
}

}  // namespace
}  // namespace unmask::testing::truncation_test
