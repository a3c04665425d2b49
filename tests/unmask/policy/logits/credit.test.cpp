// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

#include <map>
#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/scripted_rows.hpp"

namespace unmask::testing::credit_test {
namespace {

using rows_of_one = std::vector<std::vector<float>>;

// The candidate of the only position in each step, given its rows.
template <class... Parts>
std::vector<shown>
observe_one(const rows_of_one& rows, const model_info& model, const Parts&... parts) {
  std::vector<shown> seen;
  std::vector<token_id> tokens(1);
  session s{by_name(policy{parts..., onlooker{&seen}}),
            model,
            tokens,
            sequence_shape{.length = 1, .block_length = 1}};
  for (const std::vector<float>& z : rows) {
    decide_once(s, tokens, [&](const segment&, index_t) { return z; });
  }
  EXPECT_EQ(seen.size(), rows.size());
  return seen;
}

// Credit that shows its slots.
template <int Slots>
struct open_credit : trace_credit<Slots> {
  inline static typename trace_credit<Slots>::position_state last;
  void process(auto& row, auto& context) const {
    trace_credit<Slots>::process(row, context);
    last = context.state;
  }
};

struct vector_of_credit {
  trace_credit<4> knobs;
  std::vector<double> probability;
  double slot_0 = 0.0;
  double slot_1 = 0.0;
};

TEST(credit, test_vectors_13_and_14) {
  const float never = -std::numeric_limits<float>::infinity();  // the mask token's own column
  const rows_of_one rows = {{2.0F, 1.0F, 0.0F, -1.0F, never},
                            {1.0F, 2.0F, 0.0F, -1.0F, never},
                            {2.5F, 1.0F, 0.0F, -1.0F, never},
                            {3.0F, 1.0F, 0.0F, -1.0F, never},
                            {3.5F, 1.0F, 0.0F, -1.0F, never}};
  const vector_of_credit vectors[] = {
      {{.strength = 0.65F, .decay = 0.7F, .exponent = 0.2F},
       {0.733989, 0.687762, 0.807545, 0.893447, 0.940113},
       2.333872,
       0.314094},
      {credit_released<4>, {0.740287, 0.684775, 0.813125, 0.898248, 0.944089}, 2.727020, 0.468852}};
  const std::vector<token_id> tokens = {0, 1, 0, 0, 0};
  for (const vector_of_credit& v : vectors) {
    open_credit<4> credit;
    static_cast<trace_credit<4>&>(credit) = v.knobs;
    const auto seen = observe_one(rows, {.vocab = 5, .mask_token = 4}, by_confidence{}, credit);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(seen[k].token, tokens[k]) << "row " << k;
      EXPECT_NEAR(static_cast<double>(seen[k].confidence), v.probability[k], 1e-6) << "row " << k;
    }
    const auto& slots = open_credit<4>::last;
    ASSERT_EQ(slots.size, 2);
    EXPECT_EQ(slots.slots[0].token, 0);
    EXPECT_NEAR(static_cast<double>(slots.slots[0].credit), v.slot_0, 1e-5);
    EXPECT_EQ(slots.slots[1].token, 1);
    EXPECT_NEAR(static_cast<double>(slots.slots[1].credit), v.slot_1, 1e-5);
  }
}

TEST(credit, softens_the_first_step_too) {
  const rows_of_one rows = {{1.0F, 0.0F, 0.0F}};
  const model_info model{.vocab = 3, .mask_token = 2};
  const float plain = observe_one(rows, model, by_confidence{})[0].confidence;
  const float fused = observe_one(rows, model, by_confidence{}, trace_credit<>{})[0].confidence;
  EXPECT_GT(fused, plain);
  const trace_credit<> off{.strength = 0.0F};
  EXPECT_EQ(observe_one(rows, model, by_confidence{}, off)[0].confidence, plain);
}

// The bias takes the best logit of the second row out of the range of float.
TEST(credit, stays_as_it_is_at_an_invalid_row) {
  std::vector<shown> seen;
  std::vector<token_id> tokens(1);
  session s{by_name(policy{by_confidence{},
                           logit_bias<1>{{{0, 3e38F}}},
                           open_credit<4>{{.decay = 0.5F}},
                           onlooker{&seen}}),
            model_info{.vocab = 3, .mask_token = 2},
            tokens,
            sequence_shape{.length = 1, .block_length = 1}};
  const auto credit_after = [&](float best) {
    decide_once(
        s, tokens, [&](const segment&, index_t) { return std::vector<float>{best, 0.0F, 0.0F}; });
    EXPECT_EQ(open_credit<4>::last.size, 1);
    return open_credit<4>::last.slots[0].credit;
  };
  EXPECT_EQ(credit_after(1.0F), 1.0F);
  EXPECT_EQ(credit_after(3e38F), 1.0F);
  EXPECT_EQ(credit_after(1.0F), 1.5F);
}

// The definition: one number for every token, `slots` of which may be other than 0.
class dense_trace {
 public:
  dense_trace(std::size_t vocab, std::size_t slots)
      : credit_(vocab)
      , slots_(slots) {}

  seen_row step(std::vector<double> z, double strength, double decay, double exponent) {
    const seen_row raw = dense_statistics(z, 0);
    for (double& c : credit_) {
      c *= decay;
    }
    const auto lead = static_cast<std::size_t>(raw.token);
    if (led_.contains(lead) || led_.size() < slots_) {
      led_[lead] = true;
      credit_[lead] += std::pow(raw.confidence, exponent);
    }
    for (std::size_t v = 0; v < z.size(); ++v) {
      z[v] += strength * std::log1p(credit_[v]);
    }
    return dense_statistics(z, 0);
  }

 private:
  std::vector<double> credit_;
  std::size_t slots_;
  std::map<std::size_t, bool> led_;
};

struct random_trace {
  model_info model;
  rows_of_one rows;
  trace_credit<64> knobs;
};

// Few tokens lead, and take turns.
random_trace make_trace(std::uint64_t seed) {
  chances c(seed);
  random_trace t;
  t.model.vocab = c.within(4, 40);
  t.model.mask_token = c.within(0, t.model.vocab - 1);
  const index_t leaders = c.within(1, 5);
  std::vector<float> base;
  for (index_t v = 0; v < t.model.vocab; ++v) {
    base.push_back(c.real(-2.0, 2.0));
  }
  for (index_t k = c.within(2, 16); k > 0; --k) {
    std::vector<float> z = base;
    for (float& x : z) {
      x += c.real(-0.5, 0.5);
    }
    z[static_cast<std::size_t>((c.within(1, leaders) * 7) % t.model.vocab)] += c.real(0.0, 4.0);
    if (c.chance(0.2)) {
      z[static_cast<std::size_t>(c.within(0, t.model.vocab - 1))] =
          -std::numeric_limits<float>::infinity();
    }
    t.rows.push_back(z);
  }
  t.knobs = {.strength = c.real(0.0, 1.5), .decay = c.real(0.0, 1.0), .exponent = c.real(0.0, 1.0)};
  return t;
}

// Compares a sparse decode with the definition and returns the number of rows.
template <int Slots, class... Parts>
int compare(const random_trace& t, float inverse_temperature, const Parts&... parts) {
  const trace_credit<Slots> knobs{t.knobs.strength, t.knobs.decay, t.knobs.exponent};
  const auto seen = observe_one(t.rows, t.model, knobs, parts...);
  dense_trace dense(static_cast<std::size_t>(t.model.vocab), Slots);
  for (std::size_t k = 0; k < t.rows.size(); ++k) {
    std::vector<double> z;
    for (const float x : t.rows[k]) {
      z.push_back(static_cast<double>(x * inverse_temperature));
    }
    z[static_cast<std::size_t>(t.model.mask_token)] = -std::numeric_limits<double>::infinity();
    const seen_row e = dense.step(z,
                                  static_cast<double>(knobs.strength),
                                  static_cast<double>(knobs.decay),
                                  static_cast<double>(knobs.exponent));
    if (e.gap > 1e-5) {
      EXPECT_EQ(seen[k].token, e.token) << "row " << k;
    }
    EXPECT_NEAR(static_cast<double>(seen[k].confidence), e.confidence, 1e-6) << "row " << k;
    EXPECT_NEAR(static_cast<double>(seen[k].margin), e.margin, 1e-6) << "row " << k;
    EXPECT_NEAR(static_cast<double>(seen[k].entropy), e.entropy, 3e-6) << "row " << k;
  }
  return static_cast<int>(t.rows.size());
}

TEST(credit, equals_its_dense_definition) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const random_trace t = make_trace(seed);
    switch (seed % 4) {
    case 0:
      rows += compare<64>(t, 1.0F, by_confidence{});
      break;
    case 1:
      rows += compare<64>(t, 1.0F, by_margin{});
      break;
    case 2:
      rows += compare<64>(t, 1.0F, by_entropy{});
      break;
    default:
      rows += compare<64>(t, 0.5F, by_margin{}, temperature{2.0F});
      break;
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 20000);
}

TEST(credit, a_token_without_a_slot_earns_nothing_and_none_is_evicted) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const random_trace t = make_trace(seed);
    compare<1>(t, 1.0F, by_entropy{});
    compare<2>(t, 1.0F, by_entropy{});
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Whole decodes: state follows positions through blocks, commits and, with lookahead, branches.
TEST(credit, equals_its_dense_definition_in_whole_decodes) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed);
    const trace_credit<64> knobs{c.real(0.0, 1.5), c.real(0.0, 1.0), c.real(0.0, 1.0)};
    const std::vector<dense_rule> rules = {
        dense_credit(knobs.strength, knobs.decay, knobs.exponent)};
    dense_request q = random_dense_request(c, c.within(6, 30));
    const tokens_per_step some{c.within(1, 3)};
    rows += compare_rows(policy{by_margin{}, some || reads_entropy, knobs}, rules, q);
    q.branches = 3;
    const std::vector<dense_rule> anew = {
        dense_credit(knobs.strength, knobs.decay, knobs.exponent)};
    rows += compare_rows(
        policy{by_margin{}, some || reads_entropy, knobs, lookahead{.branches = 3}}, anew, q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 5000);
}

// Text, confidences and all, of one slot.
template <class Policy>
std::vector<float> decoded(session<Policy>& s, const Policy& p, const dense_request& q) {
  std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
  s.start(0, p, tokens_view<memory::host>(text), q.geometry);
  std::vector<float> all;
  while (decide_once(s, text, [&](const segment&, index_t p2) { return q.logits.row(text, p2); })) {
    for (const commit_entry& e : s.committed()) {
      all.insert(all.end(),
                 {static_cast<float>(e.position), static_cast<float>(e.token), e.log_probability});
    }
  }
  return all;
}

TEST(credit, starts_anew_at_commits_at_blocks_and_at_starts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    chances c(seed);
    const dense_request q = random_dense_request(c, 12);
    const auto p = policy{by_confidence{}, tokens_per_step{1}, trace_credit<>{}};
    using kind = std::remove_const_t<decltype(p)>;
    const sequence_shape& g = q.geometry;
    // Cells that positions share, one block after the other, and cells of their own.
    session<kind> shared(q.model, {.length = g.length, .window = g.block_length});
    session<kind> own(q.model, {.length = g.length, .window = g.length});
    const std::vector<float> first = decoded(shared, p, q);
    EXPECT_EQ(first, decoded(own, p, q)) << "seed " << seed;
    EXPECT_EQ(first, decoded(shared, p, q)) << "seed " << seed;  // the slot once more
    static_cast<void>(shared.next());
  }
}

TEST(credit, of_an_abandoned_sequence_is_forgotten) {
  chances c(5);
  dense_request q = random_dense_request(c, 12);
  q.geometry = {.length = 12, .block_length = 12};
  const auto p = policy{by_confidence{}, tokens_per_step{1}, trace_credit<>{.strength = 2.0F}};
  using kind = std::remove_const_t<decltype(p)>;
  session<kind> s(q.model, {.length = 12, .window = 12});
  const std::vector<float> fresh = decoded(s, p, q);
  std::vector<token_id> text(12, 0);
  s.start(0, p, tokens_view<memory::host>(text), q.geometry);
  for (int k = 0; k < 5; ++k) {
    decide_once(s, text, [&](const segment&, index_t at) { return q.logits.row(text, at); });
  }
  EXPECT_EQ(decoded(s, p, q), fresh);
}

TEST(credit, is_the_same_in_any_batch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    chances c(seed);
    using kind = policy<by_confidence, threshold, trace_credit<16>>;
    std::vector<kind> policies;
    std::vector<dense_request> requests;
    for (int k = 0; k < 5; ++k) {
      policies.push_back({by_confidence{},
                          threshold{c.real(0.3, 0.9)},
                          trace_credit<16>{c.real(0.0, 1.0), c.real(0.0, 1.0), c.real(0.0, 1.0)}});
      requests.push_back(random_dense_request(c, 12));
      requests.back().model = requests.front().model;
      requests.back().suppressed.clear();
    }
    expect_batch_changes_nothing(policies, requests);
  }
}

// Strength and decay are the committed share, of the block or of the answer, before the step.
TEST(adaptive_credit, takes_the_share_of_the_answer_unless_told_otherwise) {
  EXPECT_EQ(adaptive_credit<>{}.of, committed_share::answer);
}

class adaptive_credit_of : public ::testing::TestWithParam<committed_share> {};
INSTANTIATE_TEST_SUITE_P(either,
                         adaptive_credit_of,
                         ::testing::Values(committed_share::block, committed_share::answer));

TEST_P(adaptive_credit_of, follows_the_committed_share) {
  const committed_share of = GetParam();
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed);
    auto credit = std::make_shared<std::map<index_t, std::vector<double>>>();
    const dense_rule rule{[=](std::vector<double>& z, const dense_view& at) {
                            const bool whole = of == committed_share::answer;
                            const index_t length =
                                whole ? at.geometry.length : at.geometry.block_length;
                            const index_t b = (at.position - at.geometry.prompt_length) / length;
                            const index_t first = at.geometry.prompt_length + b * length;
                            const index_t last = std::min(first + length, at.geometry.length);
                            double share = 0.0;
                            for (index_t p = first; p < last; ++p) {
                              share += at.stands(p) ? 1.0 : 0.0;
                            }
                            share /= last - first;
                            std::vector<double>& own = (*credit)[at.position];
                            own.resize(z.size());
                            const seen_row raw = dense_statistics(z, at.position);
                            for (double& x : own) {
                              x *= share;
                            }
                            own[static_cast<std::size_t>(raw.token)] += raw.confidence;
                            for (std::size_t v = 0; v < z.size(); ++v) {
                              z[v] += share * std::log1p(own[v]);
                            }
                          },
                          [=](index_t p) { credit->erase(p); }};
    const dense_request q = random_dense_request(c, c.within(6, 30));
    rows += compare_rows(policy{by_margin{},
                                tokens_per_step{c.within(1, 2)} || reads_entropy,
                                adaptive_credit<>{of}},
                         {rule},
                         q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 1000);
}

TEST(credit, names_the_knob_that_is_wrong) {
  const auto starting = [](const trace_credit<>& credit) {
    std::vector<token_id> tokens(4);
    session s{by_name(policy{by_confidence{}, tokens_per_step{}, credit}),
              model_info{.vocab = 4, .mask_token = 3},
              tokens,
              sequence_shape{.length = 4}};
  };
  EXPECT_THROW(starting({.strength = -1.0F}), std::invalid_argument);
  EXPECT_THROW(starting({.decay = 1.5F}), std::invalid_argument);
  EXPECT_THROW(starting({.exponent = -0.5F}), std::invalid_argument);
  EXPECT_NO_THROW(starting({.strength = 0.0F, .decay = 1.0F, .exponent = 0.0F}));
}

}  // namespace
}  // namespace unmask::testing::credit_test
