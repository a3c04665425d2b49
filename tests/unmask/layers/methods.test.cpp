// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whole methods that decide at layers: the published values of their parts, and that their parts
// work together.

#include <unmask/policy/presets/methods.hpp>
#include <unmask/policy/presets/released.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>
#include <vector>

#include "support/by_name.hpp"
#include "support/layered_decode.hpp"
#include "support/part_of.hpp"

namespace unmask::testing::methods_test {
namespace {

template <class P, class... Part>
constexpr bool is_among(unmask::detail::type_list<Part...>) {
  return (std::is_same_v<P, Part> || ...);
}
template <class P, class Policy>
constexpr bool has(const Policy&) {
  return is_among<P>(typename Policy::part_list{});
}

TEST(LayerMethods, DynamicDllmHasThePublishedValues) {
  constexpr auto p = methods::dynamic_dllm();
  static_assert(part_of<cache_budget>(p).budget == 32 && part_of<cache_budget>(p).window == 32);
  static_assert(part_of<cache_budget>(p).scope == budget_scope::all);
  static_assert(part_of<cache_budget>(p).share == sharing::by_change);
  static_assert(!part_of<cache_budget>(p).answer_only && !part_of<cache_budget>(p).latest_only);
  static_assert(part_of<adaptive_threshold>(p).start == 0.9F);
  static_assert(part_of<adaptive_threshold>(p).lower == 0.001F);
  static_assert(part_of<adaptive_threshold>(p).raise == 0.0008F);
  constexpr auto released =
      methods::dynamic_dllm(released::cache_budget_released(), {}, released::dynamic_dllm_cache());
  static_assert(part_of<interval_cache>(released).prompt_period == 5000);
  static_assert(part_of<basic_cache_budget<feature::value>>(released).full_layers == 1);
}

/// The most probable token of a row, and what algorithm 2 takes of it.
struct naive_row {
  std::vector<double> p;
  double best = 0.0;
  double second = 0.0;
};

naive_row softmax(const float* z, index_t vocab) {
  naive_row row;
  double sum = 0.0;
  for (index_t v = 0; v + 1 < vocab; ++v) {  // the last token is the mask token
    row.p.push_back(std::exp(static_cast<double>(z[v])));
    sum += row.p.back();
  }
  for (double& x : row.p) {
    x /= sum;
  }
  std::vector<double> sorted = row.p;
  std::sort(sorted.rbegin(), sorted.rend());
  row.best = sorted[0];
  row.second = sorted[1];
  return row;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (std::size_t v = 0; v < a.size(); ++v) {
    ab += a[v] * b[v];
    aa += a[v] * a[v];
    bb += b[v] * b[v];
  }
  return ab / std::sqrt(aa * bb);
}

/// Counts of expect_thresholds().
struct threshold_step_reduction {
  int steps = 0;
  int moved = 0;    ///< updates of a threshold
  int ahead = 0;    ///< those of positions behind the block that is decoded
  int waiting = 0;  ///< masked positions of the block without logits
};

/// Decodes with `p` and computes every threshold beside it, from the rows that the engine gave: the
/// first row of a position starts its threshold, each later one of a step from `begin` on moves it,
/// compared with the row before, however many passes ago that was. A position without a row stays
/// as it is.
template <class Policy>
threshold_step_reduction expect_thresholds(const Policy& composed, const sequence_shape& shape) {
  const toy_transformer model;
  const token_id mask = model.vocab - 1;
  const auto& rule = part_of<adaptive_threshold>(composed);
  const auto p = by_name(composed);
  threshold_step_reduction seen;
  std::map<index_t, double> threshold;
  std::map<index_t, naive_row> last;
  std::vector<index_t> expected;
  decode_layered(
      model, p, {shape}, 0, [&](auto& session, auto& pass, const auto& logits, const auto& tokens) {
        if (seen.steps > 0) {
          std::vector<index_t> got;
          for (const commit_entry& c : session.committed()) {
            got.push_back(c.position);
          }
          EXPECT_EQ(got, expected) << "step " << seen.steps - 1;
        }
        expected.clear();
        const range block = session.planned().score;
        index_t best = -1;
        double highest = -1.0;
        for (index_t q = block.first; q < block.last; ++q) {
          seen.waiting += tokens[static_cast<std::size_t>(q)] == mask ? 1 : 0;
        }
        for (std::size_t i = 0; i < pass.rows().size(); ++i) {
          const index_t q = pass.positions()[static_cast<std::size_t>(pass.rows()[i])];
          EXPECT_EQ(tokens[static_cast<std::size_t>(q)], mask);
          const naive_row now =
              softmax(&logits[i * static_cast<std::size_t>(model.vocab)], model.vocab);
          if (!last.contains(q)) {
            threshold[q] = static_cast<double>(rule.start);
          } else if (seen.steps >= rule.begin) {
            threshold[q] += -static_cast<double>(rule.lower) * (1.0 - now.second) +
                            static_cast<double>(rule.raise) * (1.0 - cosine(now.p, last[q].p));
            ++seen.moved;
            seen.ahead += block.contains(q) ? 0 : 1;
          }
          last[q] = now;
          if (!block.contains(q)) {
            continue;
          }
          --seen.waiting;
          if (now.best >= threshold[q]) {
            expected.push_back(q);
          }
          if (now.best > highest) {
            highest = now.best;
            best = q;
          }
        }
        if (expected.empty()) {
          expected.push_back(best);
        }
        ++seen.steps;
      });
  return seen;
}

constexpr sequence_shape two_blocks{
    .prompt_length = 6, .length = 46, .block_length = 20, .seed = 8};

/// A start that this model reaches, and steps that are seen.
constexpr adaptive_threshold moving{.start = 0.6F, .lower = 0.02F, .raise = 0.2F};

/// Algorithms 1 and 2 at once: every masked position of the answer has logits in every pass, those
/// that no layer computed included, and its threshold moves from the third prediction on.
TEST(LayerMethods, BudgetsAndThresholdsDecodeTogether) {
  const threshold_step_reduction seen = expect_thresholds(
      methods::dynamic_dllm(cache_budget{.budget = 6, .window = 4}, moving), two_blocks);
  EXPECT_GT(seen.steps, 6);
  EXPECT_GT(seen.moved, 50);
  EXPECT_GT(seen.ahead, 50);
  EXPECT_EQ(seen.waiting, 0);
}

/// A position that left the pass, or that the pass did not run, keeps threshold and row until it
/// has logits again.
TEST(LayerMethods, APositionWithoutLogitsKeepsItsThresholdAndItsRow) {
  const threshold_step_reduction seen =
      expect_thresholds(policy{by_confidence{},
                               moving,
                               early_skip{},
                               block_cache{.prompt_period = 0, .block_period = 5}},
                        two_blocks);
  EXPECT_GT(seen.moved, 50);
  EXPECT_GT(seen.waiting, 50);
  EXPECT_GT(expect_thresholds(policy{by_confidence{}, moving, early_skip{}}, two_blocks).ahead, 0);
}

TEST(LayerMethods, DynamicDllmRunsEverythingAndRefreshesOnce) {
  const toy_transformer model;
  const sequence_shape shape{.prompt_length = 6, .length = 46, .block_length = 10, .seed = 4};
  int passes = 0;
  const auto done = decode_layered(model,
                                   methods::dynamic_dllm(cache_budget{.budget = 5, .window = 4}),
                                   {shape},
                                   0,
                                   [&](auto& session, auto& pass, auto&, auto&) {
                                     EXPECT_EQ(session.planned().refresh, passes == 0);
                                     EXPECT_EQ(pass.positions().size(), 46U);
                                     ++passes;
                                   })[0];
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.report.invalid_rows, 0);
  EXPECT_LT(done.computed, static_cast<long>(passes) * 46 * model.layers);
}

TEST(LayerMethods, EsDllmHasThePublishedValues) {
  constexpr auto p = methods::es_dllm();
  static_assert(part_of<early_skip>(p).weight == 0.5F);
  static_assert(part_of<early_skip>(p).stage_count == 2);
  static_assert(part_of<early_skip>(p).stages[0].depth == 0.125);
  static_assert(part_of<early_skip>(p).stages[0].keep == 0.5);
  static_assert(part_of<early_skip>(p).stages[1].depth == 0.25);
  static_assert(part_of<early_skip>(p).stages[1].keep == 0.25);
  static_assert(!part_of<early_skip>(p).floor && !part_of<early_skip>(p).cap);
  static_assert(part_of<tokens_per_step>(p).count == 1);
  static_assert(part_of<block_cache>(p).prompt_period == 64);
  static_assert(part_of<block_cache>(p).block_period == 16);
  static_assert(!part_of<eos_gate>(p).until_first);
  static_assert(part_of<eos_gate>(methods::es_dllm({}, {}, {.until_first = true})).until_first);
  static_assert(part_of<threshold>(methods::es_dllm_parallel()).value == 0.9F);
  static_assert(has<eos_gate>(methods::es_dllm_parallel()));
  static_assert(!has<key_eviction>(methods::es_dllm_parallel()));
  constexpr auto both = methods::es_dllm_parallel_sparse();
  static_assert(part_of<key_eviction>(both).keep == 0.5);
  static_assert(part_of<key_eviction>(both).delay == 1);
  static_assert(part_of<key_eviction>(both).pool == 3);
  static_assert(has<tokens_per_step>(methods::es_dllm_sparse()) &&
                has<key_eviction>(methods::es_dllm_sparse()));
}

TEST(LayerMethods, TheReleasedEsDllmHoldsEosTokensUntilTheFirst) {
  static_assert(part_of<eos_gate>(released::es_dllm_parallel(0.9F)).until_first);
  static_assert(part_of<eos_gate>(released::es_dllm_fixed(1)).until_first);
}

/// Every EOS token stands right of what was known when it was committed.
template <class Policy>
layered_result expect_ends_in_order(const Policy& p, const sequence_shape& shape) {
  const toy_transformer model;
  model_info info = info_of(model);
  info.eos_token = 3;
  layered_result done;
  done.tokens = prompted(model, shape);
  session session(by_name(p), info, done.tokens, shape);
  toy_memory memory(model.layers, shape.length, toy_transformer::width);
  while (session.next()) {
    auto pass = session.pass(0);
    const std::vector<token_id> before = done.tokens;
    std::vector<float> logits = model.forward(pass, done.tokens.data(), memory);
    for (std::size_t i = 0; i < pass.rows().size(); ++i) {
      logits[i * static_cast<std::size_t>(model.vocab) + 3] += i % 3 == 0 ? 6.0F : 0.0F;
    }
    const auto rows = static_cast<index_t>(pass.rows().size());
    const bool alone = rows == 1;
    session.supply(host_logits<float>(logits.data(), rows, model.vocab));
    const auto committed = session.committed();
    for (const commit_entry& c : committed) {
      const bool held = c.position > shape.prompt_length &&
                        before[static_cast<std::size_t>(c.position - 1)] == info.mask_token;
      EXPECT_TRUE(c.token != 3 || !held || alone || committed.size() == 1);
      done.commits.push_back(c);
    }
  }
  done.computed = memory.computed;
  done.report = session.report();
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.report.committed, shape.length - shape.prompt_length);
  return done;
}

TEST(LayerMethods, EsDllmDecodesInItsFourForms) {
  const sequence_shape shape{.prompt_length = 6, .length = 54, .block_length = 16, .seed = 5};
  const layered_result slow = expect_ends_in_order(methods::es_dllm(), shape);
  const layered_result fast = expect_ends_in_order(methods::es_dllm_parallel(0.4F), shape);
  EXPECT_EQ(slow.report.forwards, 48);
  EXPECT_LT(fast.report.forwards, 48);
  EXPECT_EQ(expect_ends_in_order(methods::es_dllm_sparse(), shape).report.forwards, 48);
  expect_ends_in_order(methods::es_dllm_parallel_sparse(0.4F), shape);
  expect_ends_in_order(methods::es_dllm(released::early_skip_released()), shape);
}

}  // namespace
}  // namespace unmask::testing::methods_test
