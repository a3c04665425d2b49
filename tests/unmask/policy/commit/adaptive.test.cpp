// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/presets/released/dynamic_dllm.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>

#include <map>
#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/scripted_rows.hpp"

namespace unmask::testing::adaptive_test {
namespace {

// A row that has the two numbers that the threshold follows.
struct two_numbers {
  float second = 0.0F;
  float turned = 0.0F;

  [[nodiscard]] two_numbers total() const { return *this; }
  [[nodiscard]] float second_probability() const { return second; }
  [[nodiscard]] float drift() const { return turned; }
};

struct own_state {
  adaptive_threshold::position_state& state;
  step_info at = {};
};

TEST(adaptive_threshold, test_vector_16) {
  const adaptive_threshold part{.start = 0.9F, .lower = 0.001F, .raise = 0.0008F, .begin = 1};
  adaptive_threshold::position_state state;
  own_state context{state};
  const std::vector<std::pair<two_numbers, double>> steps = {{{0.30F, 1.0F}, 0.9},
                                                             {{0.20F, 0.10F}, 0.89928},
                                                             {{0.05F, 0.02F}, 0.898346},
                                                             {{0.01F, 0.001F}, 0.8973568}};
  for (const auto& [row, expected] : steps) {
    two_numbers r = row;
    part.process(r, context);
    EXPECT_NEAR(static_cast<double>(part.start + state.shift), expected, 1e-6);
    ++context.at.step;
  }
}

// Algorithm 2 moves at t < T - 1; the steps count from t = T.
TEST(adaptive_threshold, moves_from_the_third_prediction_on) {
  const adaptive_threshold part{.start = 0.9F, .lower = 0.1F, .raise = 0.0F};
  adaptive_threshold::position_state state;
  own_state context{state};
  for (const float expected : {0.9F, 0.9F, 0.85F, 0.8F}) {
    two_numbers r{0.5F, 0.0F};
    part.process(r, context);
    EXPECT_FLOAT_EQ(part.threshold(context), expected) << "step " << context.at.step;
    ++context.at.step;
  }
}

TEST(adaptive_threshold, commits_at_its_threshold) {
  struct sure {
    float p;
    [[nodiscard]] float confidence() const { return p; }
  };
  const adaptive_threshold part{.start = 0.5F};
  adaptive_threshold::position_state state;
  own_state context{state};
  EXPECT_TRUE(part.commits(sure{0.5F}, rank_info{}, context));
  EXPECT_FALSE(part.commits(sure{std::nextafter(0.5F, 0.0F)}, rank_info{}, context));
}

TEST(adaptive_threshold, is_not_bounded_unless_asked_to) {
  const adaptive_threshold part{.start = 0.5F, .lower = 0.4F, .raise = 1.0F, .begin = 1};
  adaptive_threshold::position_state state;
  own_state context{state};
  for (const auto& [row, expected] :
       std::vector<std::pair<two_numbers, float>>{{{0.0F, 0.0F}, 0.5F},
                                                  {{0.0F, 0.0F}, 0.1F},
                                                  {{0.0F, 0.0F}, -0.3F},
                                                  {{0.5F, 1.0F}, 0.5F},
                                                  {{0.5F, 1.0F}, 1.3F}}) {
    two_numbers r = row;
    part.process(r, context);
    EXPECT_NEAR(part.threshold(context), expected, 1e-6F);
    ++context.at.step;
  }
}

TEST(adaptive_threshold, stays_between_its_bounds) {
  adaptive_threshold part{.start = 0.8F, .lower = 0.5F, .raise = 0.0F, .least = 0.5F};
  adaptive_threshold::position_state state;
  own_state context{state, {.step = 9}};
  for (int k = 0; k < 5; ++k) {
    two_numbers r{0.0F, 0.0F};
    part.process(r, context);
  }
  EXPECT_FLOAT_EQ(part.start + state.shift, 0.4F);
  part.lower = 0.0F;
  part.raise = 0.9F;
  for (int k = 0; k < 5; ++k) {
    two_numbers r{0.0F, 1.0F};
    part.process(r, context);
  }
  EXPECT_FLOAT_EQ(part.start + state.shift, 1.0F);
}

// An onlooker at the two comparisons of a row with the one before.
struct compared {
  index_t position = 0;
  float drift = 0.0F;
  float divergence = 0.0F;
};
struct comparing {
  std::vector<compared>* seen = nullptr;
  static constexpr statistics required = stat::drift | stat::divergence;
  [[nodiscard]] std::int64_t extra_forwards(const sequence_shape&) const { return 1'000'000; }
  bool commits(const auto& c, const rank_info&) const {
    seen->push_back({c.position, c.drift(), c.divergence()});
    return false;
  }
};
static_assert(commit_rule<comparing>);

std::vector<double> softmax(const std::vector<float>& row, token_id mask) {
  std::vector<double> p;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < row.size(); ++v) {
    const bool counts = static_cast<token_id>(v) != mask;
    p.push_back(counts ? static_cast<double>(row[v]) : -std::numeric_limits<double>::infinity());
    best = std::max(best, p.back());
  }
  double sum = 0.0;
  for (double& x : p) {
    x = std::exp(x - best);
    sum += x;
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

double naive_drift(const std::vector<double>& p, const std::vector<double>& old) {
  double dot = 0.0;
  double a = 0.0;
  double b = 0.0;
  for (std::size_t v = 0; v < p.size(); ++v) {
    dot += p[v] * old[v];
    a += p[v] * p[v];
    b += old[v] * old[v];
  }
  return 1.0 - dot / std::sqrt(a * b);
}

double naive_divergence(const std::vector<double>& p, const std::vector<double>& old) {
  double sum = 0.0;
  for (std::size_t v = 0; v < p.size(); ++v) {
    sum += p[v] > 0.0 ? p[v] * std::log(p[v] / std::max(old[v], 1e-12)) : 0.0;
  }
  return sum;
}

std::vector<compared> compare_rows_of_one(const std::vector<std::vector<float>>& rows,
                                          const model_info& model) {
  std::vector<compared> seen;
  std::vector<token_id> x(1);
  session s{by_name(policy{by_confidence{}, comparing{&seen}}),
            model,
            x,
            sequence_shape{.length = 1, .block_length = 1}};
  for (const std::vector<float>& z : rows) {
    decide_once(s, x, [&](const segment&, index_t) { return z; });
  }
  return seen;
}

std::vector<float> logs(std::initializer_list<double> p) {
  std::vector<float> z;
  for (const double x : p) {
    z.push_back(static_cast<float>(std::log(x)));
  }
  return z;
}

TEST(comparison, test_vector_18) {
  const auto seen = compare_rows_of_one({logs({0.6, 0.3, 0.1, 1.0}), logs({0.7, 0.2, 0.1, 1.0})},
                                        {.vocab = 4, .mask_token = 3});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_NEAR(static_cast<double>(seen[1].divergence), 0.026812, 1e-6);
  EXPECT_NEAR(static_cast<double>(seen[1].drift), 0.016849, 1e-6);
}

TEST(comparison, without_a_row_before_everything_is_new) {
  const auto seen = compare_rows_of_one({logs({0.5, 0.5, 1.0})}, {.vocab = 3, .mask_token = 2});
  EXPECT_EQ(seen[0].drift, 1.0F);
  EXPECT_NEAR(static_cast<double>(seen[0].divergence), std::log(0.5) - std::log(1e-12), 1e-4);
}

// Rows of one chunk and of many, some columns absent; five steps each.
TEST(comparison, equals_its_definition) {
  int rows_seen = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    chances c(seed);
    const index_t vocab = c.chance(0.1) ? c.within(2000, 9000) : c.within(3, 200);
    const model_info model{.vocab = vocab, .mask_token = c.within(0, vocab - 1)};
    std::vector<std::vector<float>> rows;
    std::vector<float> row;
    for (index_t v = 0; v < vocab; ++v) {
      row.push_back(c.real(-3.0, 3.0));
    }
    for (int k = 0; k < 5; ++k) {
      for (float& z : row) {
        z += c.real(-0.5, 0.5);
      }
      rows.push_back(row);
      rows.back()[static_cast<std::size_t>(c.within(0, vocab - 1))] = c.real(0.0, 8.0);
      if (c.chance(0.3)) {
        const index_t absent = c.within(0, vocab - 1);
        rows.back()[static_cast<std::size_t>(absent)] = -std::numeric_limits<float>::infinity();
      }
    }
    const auto seen = compare_rows_of_one(rows, model);
    ASSERT_EQ(seen.size(), rows.size());
    for (std::size_t k = 1; k < rows.size(); ++k) {
      const auto p = softmax(rows[k], model.mask_token);
      const auto old = softmax(rows[k - 1], model.mask_token);
      EXPECT_NEAR(static_cast<double>(seen[k].drift), naive_drift(p, old), 1e-6) << "seed " << seed;
      // Roundings of log-probabilities up to about 10, and of the sum.
      const double divergence = naive_divergence(p, old);
      const double tolerance = 4e-6 + 0x1p-22 * divergence;
      EXPECT_NEAR(static_cast<double>(seen[k].divergence), divergence, tolerance)
          << "seed " << seed;
      ++rows_seen;
    }
  }
  EXPECT_EQ(rows_seen, 1600);
}

// A part with a threshold that shows it.
template <class Part>
struct with_threshold : Part {
  inline static std::map<index_t, float> seen;
  with_threshold(const Part& part)
      : Part(part) {}
  bool commits(const auto& c, const rank_info& s, auto& context) const {
    seen[c.position] = this->start + context.state.shift;
    return Part::commits(c, s, context);
  }
};

struct naive_threshold {
  double value = 0.0;
  std::vector<double> old;
};

struct counts_of_thresholds {
  int checked = 0;
  int moved = 0;
  int ahead = 0;  ///< moved before their block was decoded
};

// A whole decode of several blocks: thresholds and commits by the definition.
template <class... More>
counts_of_thresholds expect_definition(std::uint64_t seed, const More&... more) {
  int checked = 0;
  int moved = 0;
  int ahead = 0;
  chances c(seed);
  const dense_request q = random_dense_request(c, c.within(4, 40));
  const adaptive_threshold part{.start = c.real(0.3, 0.95),
                                .lower = c.real(0.0, 0.1),
                                .raise = c.real(0.0, 0.3),
                                .least = c.chance(0.5) ? 0.0F : c.real(0.2, 0.9),
                                .scope = c.chance(0.7) ? threshold_scope::answer
                                                       : threshold_scope::block,
                                .begin = c.within(1, 3)};
  std::vector<token_id> x(static_cast<std::size_t>(q.geometry.length), 0);
  using tracked = with_threshold<adaptive_threshold>;
  const auto p = policy{by_confidence{}, tracked{part}, more...};
  session s{p, q.model, x, q.geometry};
  std::map<index_t, naive_threshold> naive;
  std::map<index_t, index_t> opened;  // the step in which a block was first scored
  const script rows = [&](const segment&, index_t at) { return q.logits.row(x, at); };
  for (bool more_steps = true; more_steps;) {
    const plan now = s.planned();
    const index_t step = s.report().forwards;
    const range scored = now.score;
    for (index_t b = now.first_block; b < now.last_block; ++b) {
      opened.try_emplace(b, step);
    }
    // Positions behind the scored range that the pass computes are read, too.
    const index_t read =
        part.scope == threshold_scope::answer ? std::max(scored.last, now.query.last) : scored.last;
    std::map<index_t, double> confidence;
    for (index_t i = scored.first; i < read; ++i) {
      if (x[static_cast<std::size_t>(i)] != q.model.mask_token) {
        continue;
      }
      const std::vector<double> p_now = softmax(rows({}, i), q.model.mask_token);
      auto [entry, is_new] = naive.try_emplace(i, naive_threshold{part.start, {}});
      const index_t block = (i - q.geometry.prompt_length) / q.geometry.block_length;
      const index_t since =
          part.scope == threshold_scope::answer
              ? step
              : step - opened.at(std::clamp(block, now.first_block, now.last_block - 1));
      if (!is_new && since >= part.begin) {
        std::vector<double> sorted = p_now;
        std::sort(sorted.rbegin(), sorted.rend());
        double& t = entry->second.value;
        t += -static_cast<double>(part.lower) * (1.0 - sorted[1]) +
             static_cast<double>(part.raise) * naive_drift(p_now, entry->second.old);
        t = part.least > 0.0F ? std::clamp(t, static_cast<double>(part.least) * part.start, 1.0)
                              : t;
        ++moved;
        ahead += i >= scored.last ? 1 : 0;
      }
      entry->second.old = p_now;
      if (i < scored.last) {
        confidence[i] = *std::max_element(p_now.begin(), p_now.end());
      }
    }
    tracked::seen.clear();
    more_steps = decide_once(s, x, rows);
    double surest = 0.0;
    for (const auto& [i, value] : confidence) {
      surest = std::max(surest, value);
    }
    bool any = false;
    for (const auto& [i, value] : confidence) {
      any = any || value >= naive[i].value;
    }
    EXPECT_EQ(tracked::seen.size(), confidence.size()) << "seed " << seed;
    for (const auto& [i, value] : tracked::seen) {
      EXPECT_NEAR(static_cast<double>(value), naive[i].value, 2e-6) << "seed " << seed;
      const double margin = confidence[i] - naive[i].value;
      const bool commits = x[static_cast<std::size_t>(i)] != q.model.mask_token;
      const bool is_promised = sizeof...(More) > 0 && commits;  // by another of several blocks
      if (std::fabs(margin) > 1e-4 && any && !is_promised) {
        EXPECT_EQ(commits, margin > 0.0) << "seed " << seed << ", position " << i;
      } else if (!any && commits && sizeof...(More) == 0) {
        EXPECT_NEAR(confidence[i], surest, 1e-5);
      }
      ++checked;
    }
  }
  return {checked, moved, ahead};
}

template <class... More>
void expect_definitions(int least_ahead, const More&... more) {
  counts_of_thresholds all;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const counts_of_thresholds one = expect_definition(seed, more...);
    ASSERT_FALSE(::testing::Test::HasFailure());
    all.checked += one.checked;
    all.moved += one.moved;
    all.ahead += one.ahead;
  }
  EXPECT_GT(all.checked, 2000);
  EXPECT_GT(all.moved, 500);
  EXPECT_GE(all.ahead, least_ahead);
}

TEST(adaptive_threshold, equals_its_definition) {
  expect_definitions(1000);
}

TEST(adaptive_threshold, follows_what_a_cache_runs) {
  expect_definitions(1000, prefix_cache{.period = 3});
  expect_definitions(200, dual_cache{.period = 3});
  expect_definitions(0, block_cache{.prompt_period = 5, .block_period = 2});
}

TEST(adaptive_threshold, follows_what_a_schedule_runs) {
  expect_definitions(0, single_block{});
  expect_definitions(0, block_pipeline{.add = 0.3F, .activate = 0.5F, .at_once = 3});
  expect_definitions(100, slow_fast{.exploration = 2});
}

// 0 commits alone in each step of its block; 4 and 5 grow sure meanwhile and the paper's threshold
// meets them.
TEST(adaptive_threshold, has_moved_when_its_block_opens) {
  const auto decode = [](threshold_scope scope) {
    const adaptive_threshold part{.start = 0.9F, .lower = 0.1F, .raise = 0.0F, .scope = scope};
    std::vector<token_id> x(6);
    session s{by_name(policy{by_confidence{}, part}),
              model_info{.vocab = 3, .mask_token = 2},
              x,
              sequence_shape{.length = 6, .block_length = 4}};
    std::vector<index_t> committed;
    const script rows = [](const segment&, index_t p) {
      return p < 4 ? logs({0.5, 0.5, 1.0}) : logs({0.8, 0.2, 1.0});
    };
    while (decide_once(s, x, rows)) {
      committed.push_back(static_cast<index_t>(s.committed().size()));
    }
    return committed;
  };
  // Steps 0 to 3 by the progress guarantee; .9 - 3 * .08 at step 4, in which both commit.
  EXPECT_EQ(decode(threshold_scope::answer), (std::vector<index_t>{1, 1, 1, 1, 2}));
  EXPECT_EQ(decode(threshold_scope::block), (std::vector<index_t>{1, 1, 1, 1, 1, 1}));
}

TEST(adaptive_threshold, needs_a_window_that_holds_the_answer) {
  using kind = policy<by_confidence, adaptive_threshold>;
  session<kind> s{{.vocab = 3, .mask_token = 2}, {.length = 9, .window = 4}};
  std::vector<token_id> x(9);
  const sequence_shape g{.prompt_length = 2, .length = 9, .block_length = 4};
  EXPECT_THROW(s.start(0, kind{{}, {}}, tokens_view<memory::host>(x), g), std::invalid_argument);
  EXPECT_NO_THROW(
      s.start(0, kind{{}, {.scope = threshold_scope::block}}, tokens_view<memory::host>(x), g));
}

template <class Policy>
std::vector<index_t> decode(const Policy& p, const dense_request& q) {
  std::vector<index_t> all;
  each_step(p, q, [&](std::span<const commit_entry> entries, const auto&) {
    all.push_back(-1);
    for (const commit_entry& e : entries) {
      all.insert(all.end(), {e.position, e.token});
    }
  });
  return all;
}

TEST(adaptive_threshold, that_never_moves_is_a_constant_one) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    chances c(seed);
    const dense_request q = random_dense_request(c, c.within(4, 40));
    const float start = c.real(0.2, 1.0);
    const adaptive_threshold still{.start = start, .lower = 0.0F, .raise = 0.0F, .least = 0.0F};
    const auto constant = decode(policy{by_confidence{}, threshold{start, true}}, q);
    EXPECT_EQ(decode(policy{by_confidence{}, still}, q), constant) << "seed " << seed;
    using namespace released;
    EXPECT_EQ(decode(dynamic_dllm_scalar({start, 0.0F, 0.0F}), q), constant) << "seed " << seed;
    EXPECT_EQ(decode(dynamic_dllm_per_token({start, 0.0F, 0.0F}), q), constant) << "seed " << seed;
  }
}

// Two steps below the bound in a row, a confidence, or else the best.
TEST(stable_and_confident, waits_for_two_quiet_steps) {
  const stable_and_confident part{.confidence = 0.8F, .divergence = 0.01F};
  std::vector<token_id> x(3);
  session s{by_name(policy{by_confidence{}, part}),
            model_info{.vocab = 3, .mask_token = 2},
            x,
            sequence_shape{.length = 3, .block_length = 3}};
  // 0 is sure and still, 1 is sure and turns, 2 is the least sure.
  int step = 0;
  const script rows = [&](const segment&, index_t p) {
    return p == 0 ? logs({0.9, 0.1, 1.0})
                  : (p == 1 ? logs({step % 2 == 0 ? 0.99 : 0.85, step % 2 == 0 ? 0.01 : 0.15, 1.0})
                            : logs({0.6, 0.4, 1.0}));
  };
  const std::vector<std::vector<index_t>> expected = {{1}, {0}, {2}};  // the fallback, thrice
  for (const auto& positions : expected) {
    decide_once(s, x, rows);
    std::vector<index_t> got;
    for (const commit_entry& e : s.committed()) {
      got.push_back(e.position);
    }
    EXPECT_EQ(got, positions) << "step " << step;
    ++step;
  }
}

/// A candidate of a confidence, for calls of the rule alone.
struct confident {
  float value = 0.0F;
  [[nodiscard]] float confidence() const { return value; }
};

TEST(stable_and_confident, wants_more_than_its_confidence_and_less_than_its_divergence) {
  const stable_and_confident rule{.confidence = 0.5F, .divergence = 0.25F};
  const auto commits = [&](float confidence, float last, float before) {
    struct {
      stable_and_confident::position_state state;
      stable_and_confident::step_reduction step_reduction{1};
    } context{{last, before}};
    return rule.commits(confident{confidence}, rank_info{.rank = 5, .candidates = 9}, context);
  };
  EXPECT_TRUE(commits(0.75F, 0.125F, 0.125F));
  EXPECT_FALSE(commits(0.5F, 0.125F, 0.125F));
  EXPECT_FALSE(commits(0.75F, 0.25F, 0.125F));
  EXPECT_FALSE(commits(0.75F, 0.125F, 0.25F));
}

TEST(stable_and_confident, commits_all_that_are_left_where_all_are_sure_and_quiet) {
  std::vector<token_id> x(4);
  session s{by_name(policy{by_confidence{}, stable_and_confident{}}),
            model_info{.vocab = 3, .mask_token = 2},
            x,
            sequence_shape{.length = 4, .block_length = 4}};
  for (const std::size_t count : {1U, 1U, 2U}) {  // the fallback, twice
    decide_once(s, x, [](const segment&, index_t) { return logs({0.95, 0.05, 1.0}); });
    EXPECT_EQ(s.committed().size(), count);
  }
}

TEST(stable_and_confident, commits_as_many_as_the_fallback_says_where_none_is_quiet) {
  std::vector<token_id> x(5);
  session s{by_name(policy{by_confidence{}, stable_and_confident{.fallback = 2}}),
            model_info{.vocab = 3, .mask_token = 2},
            x,
            sequence_shape{.length = 5, .block_length = 5}};
  for (const std::size_t count : {2U, 2U, 1U}) {
    decide_once(s, x, [](const segment&, index_t) { return logs({0.6, 0.4, 1.0}); });
    EXPECT_EQ(s.committed().size(), count);
  }
  EXPECT_EQ(s.report().forced, 0);
}

TEST(stable_and_confident, commits_what_is_sure_and_quiet_together) {
  const stable_and_confident part{.confidence = 0.8F, .divergence = 0.01F, .fallback = 0};
  std::vector<token_id> x(6);
  session s{by_name(policy{by_confidence{}, part}),
            model_info{.vocab = 3, .mask_token = 2},
            x,
            sequence_shape{.length = 6, .block_length = 6}};
  const script rows = [](const segment&, index_t p) {
    return p == 5 ? logs({0.95, 0.05, 1.0})
                  : (p < 3 ? logs({0.9, 0.1, 1.0}) : logs({0.7, 0.3, 1.0}));
  };
  decide_once(s, x, rows);  // no previous row: the progress guarantee commits the best
  EXPECT_EQ(s.report().forced, 1);
  EXPECT_EQ(s.committed()[0].position, 5);
  decide_once(s, x, rows);  // one quiet step
  EXPECT_EQ(s.report().forced, 2);
  decide_once(s, x, rows);  // two: both that are left of the sure ones
  EXPECT_EQ(s.report().forced, 2);
  EXPECT_EQ(s.report().committed, 4);
  EXPECT_EQ(s.report().masked, 2);
}

TEST(adaptive_threshold, is_the_same_in_any_batch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    chances c(seed);
    using kind = policy<by_confidence, adaptive_threshold>;
    std::vector<kind> policies;
    std::vector<dense_request> requests;
    for (int k = 0; k < 4; ++k) {
      policies.push_back(
          {by_confidence{}, adaptive_threshold{.start = c.real(0.3, 0.9), .lower = 0.02F}});
      requests.push_back(random_dense_request(c, 12));
      requests.back().model = requests.front().model;
    }
    expect_batch_changes_nothing(policies, requests);
  }
}

TEST(adaptive_threshold, names_the_knob_that_is_wrong) {
  const auto starting = [](const auto& part) {
    std::vector<token_id> x(4);
    session s{by_name(policy{by_confidence{}, part}),
              model_info{.vocab = 3, .mask_token = 2},
              x,
              sequence_shape{.length = 4}};
  };
  EXPECT_THROW(starting(adaptive_threshold{.start = 1.5F}), std::invalid_argument);
  EXPECT_THROW(starting(adaptive_threshold{.lower = -1.0F}), std::invalid_argument);
  EXPECT_THROW(starting(adaptive_threshold{.raise = -1.0F}), std::invalid_argument);
  EXPECT_THROW(starting(adaptive_threshold{.least = 2.0F}), std::invalid_argument);
  EXPECT_THROW(starting(adaptive_threshold{.begin = 0}), std::invalid_argument);
  EXPECT_THROW(starting(stable_and_confident{.confidence = 2.0F}), std::invalid_argument);
  EXPECT_THROW(starting(stable_and_confident{.divergence = -1.0F}), std::invalid_argument);
  EXPECT_THROW(starting(stable_and_confident{.fallback = -1}), std::invalid_argument);
  EXPECT_THROW(starting(released::falling_threshold{.start = 2.0F}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::adaptive_test
