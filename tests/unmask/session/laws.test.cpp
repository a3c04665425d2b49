// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/thread_pool.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/beside.hpp"
#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::laws_test {
namespace {

using tokens_of = std::vector<token_id>;

/// Result of a decode, every bit of it.
struct trace {
  tokens_of tokens;
  std::vector<std::vector<commit_entry>> steps;
};

bool same_entry(const commit_entry& a, const commit_entry& b) {
  return a.slot == b.slot && a.position == b.position && a.token == b.token &&
         math::bits_of(a.log_probability) == math::bits_of(b.log_probability) && a.step == b.step;
}

bool same_bits(const trace& a, const trace& b) {
  return a.tokens == b.tokens &&
         std::equal(a.steps.begin(),
                    a.steps.end(),
                    b.steps.begin(),
                    b.steps.end(),
                    [](const auto& x, const auto& y) {
                      return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_entry);
                    });
}

/// Fills one row of logits for the tokens as they are.
using row_source = std::function<void(std::span<const token_id>, index_t, std::span<float>)>;

template <class Policy>
trace decode_trace(const Policy& p,
                   const model_info& model,
                   const sequence_shape& g,
                   const row_source& source,
                   const on_host& where = {}) {
  trace t;
  t.tokens.assign(static_cast<std::size_t>(g.length), model.mask_token == 0 ? 1 : 0);
  session s{by_name(p), model, tokens_view<memory::host>(t.tokens), g, where};
  while (const auto request = s.next()) {
    packed_rows<float> rows(request->rows, model.vocab, 1);
    for (index_t r = 0; r < request->rows; ++r) {
      source(t.tokens, request->segments[0].rows.first + r, rows.row(r));
    }
    s.supply(rows.view());
    const auto committed = s.committed();
    t.steps.emplace_back(committed.begin(), committed.end());
  }
  return t;
}

TEST(logits, may_be_shifted_by_a_constant) {
  // Multiples of 2^-10 below 2^5 in magnitude: adding a small integer is exact, so is every
  // difference. The sums are relative to an integer power of two, which does not move along, so
  // log-probabilities may change by their rounding: a row has one chunk, so its sum is good to
  // 41 units of 2^-24 times 1 + the mean distance from the best, at most ln(vocab) + 1 < 7.
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t vocab = d.one_of(std::vector<index_t>{2, 33, 300});
    const model_info model = {.vocab = vocab, .mask_token = vocab - 1};
    const sequence_shape g = {.prompt_length = 1, .length = 14, .block_length = d.within(2, 13)};
    const fake_model fake{.seed = seed, .vocab = vocab};
    const policy p{by_margin{}, unmask::threshold{d.real(0.2, 0.9)} || entropy_bound{0.2F}};
    const auto shifted_by = [&](float shift) {
      return decode_trace(p, model, g, [&, shift](auto x, index_t r, std::span<float> out) {
        fake.row<float>(x, r, out);
        for (float& z : out) {
          z = std::nearbyint(z * 1024.0F) / 1024.0F + shift;
        }
      });
    };
    const trace plain = shifted_by(0.0F);
    for (const float shift : {1.0F, -16.0F, 40.0F, 2000.0F}) {
      SCOPED_TRACE(shift);
      const trace moved = shifted_by(shift);
      ASSERT_EQ(moved.tokens, plain.tokens);
      ASSERT_EQ(moved.steps.size(), plain.steps.size());
      for (std::size_t i = 0; i < plain.steps.size(); ++i) {
        ASSERT_EQ(moved.steps[i].size(), plain.steps[i].size());
        for (std::size_t k = 0; k < plain.steps[i].size(); ++k) {
          ASSERT_EQ(moved.steps[i][k].position, plain.steps[i][k].position);
          ASSERT_EQ(moved.steps[i][k].token, plain.steps[i][k].token);
          const float after = moved.steps[i][k].log_probability;
          const float before = plain.steps[i][k].log_probability;
          ASSERT_TRUE(after == before || std::fabs(after - before) < 2 * 41 * 0x1p-24 * 8)
              << after << " instead of " << before;
        }
      }
    }
  }
}

TEST(logits, may_have_their_columns_permuted) {
  int excused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    dice d(mixed(9, seed));
    const index_t vocab = d.one_of(std::vector<index_t>{5, 31, 33, 200});
    const std::vector<std::int32_t> to = d.permutation(vocab);
    const unmask::threshold a{d.real(0.0, 1.0)};
    naive_request request;
    request.model = {.vocab = vocab, .mask_token = d.within(0, vocab - 1)};
    request.geometry = {.length = 12, .block_length = d.within(2, 12)};
    request.score = naive(by_confidence{});
    request.rule = naive(a);
    fake_model fake{.seed = seed, .vocab = vocab};
    fake.trouble.repeated_best = 0.0;  // a tie goes to the lowest token, which is another one then

    // The original, beside the naive decoder, which knows how close its decisions were.
    comparisons sum;
    tokens_of plain(12, 0);
    naive_decoder beside(request, plain);
    const auto p = by_name(policy{by_confidence{}, a});
    session s{p, request.model, tokens_view<memory::host>(plain), request.geometry};
    decode_beside<float>(s, plain, beside, fake, {}, unedited{}, sum);
    ASSERT_FALSE(HasFailure());

    model_info model = request.model;
    const auto renamed = [&](token_id v) { return to[static_cast<std::size_t>(v)]; };
    model.mask_token = renamed(model.mask_token);
    const trace permuted =
        decode_trace(p, model, request.geometry, [&](auto x, index_t r, std::span<float> out) {
          tokens_of original;
          for (const token_id v : x) {
            original.push_back(
                static_cast<token_id>(std::find(to.begin(), to.end(), v) - to.begin()));
          }
          std::vector<float> z(out.size());
          fake.row<float>(original, r, z);
          for (std::size_t v = 0; v < z.size(); ++v) {
            out[static_cast<std::size_t>(to[v])] = z[v];
          }
        });
    tokens_of expected;
    std::transform(plain.begin(), plain.end(), std::back_inserter(expected), renamed);
    if (permuted.tokens != expected) {
      ASSERT_LT(sum.smallest_gap, rounding_gap);
      ++excused;
    }
  }
  EXPECT_LE(excused, 4);
}

/// Positions that the first step commits.
template <class Policy>
std::vector<index_t> first_step(const Policy& p, std::uint64_t seed, index_t vocab) {
  tokens_of tokens(16);
  session s{by_name(p),
            {.vocab = vocab, .mask_token = 0},
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 16, .block_length = 16}};
  const fake_model fake{.seed = seed, .vocab = vocab};
  const auto request = s.next();
  packed_rows<float> rows(request->rows, vocab, 0);
  for (index_t r = 0; r < request->rows; ++r) {
    fake.row<float>(tokens, r, rows.row(r));
  }
  s.supply(rows.view());
  std::vector<index_t> positions;
  for (const commit_entry& e : s.committed()) {
    positions.push_back(e.position);
  }
  return positions;
}

/// Knobs in the order from the strictest to the most generous: each first step holds the one
/// before.
template <class Make, class Knob>
void expect_monotone(const Make& make, const std::vector<Knob>& knobs) {
  std::size_t grown = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<index_t> before;
    for (const Knob& knob : knobs) {
      SCOPED_TRACE(knob);
      const std::vector<index_t> now = first_step(make(knob), seed, 40);
      ASSERT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end()));
      grown += now.size() > before.size() && !before.empty() ? 1 : 0;
      before = now;
    }
  }
  EXPECT_GT(grown, 40U) << "the knob has to do something";
}

const std::vector<float> falling = {1.0F, 0.9F, 0.7F, 0.5F, 0.3F, 0.1F, 0.0F};

TEST(threshold, that_is_lower_never_commits_less) {
  expect_monotone([](float t) { return policy{by_confidence{}, unmask::threshold{t}}; }, falling);
  expect_monotone([](float t) { return policy{by_confidence{}, threshold{t, true}}; }, falling);
}

TEST(bound, that_is_higher_never_commits_less) {
  const std::vector<float> rising = {0.0F, 0.1F, 0.5F, 1.0F, 3.0F, 20.0F};
  expect_monotone([](float b) { return policy{by_entropy{}, entropy_bound{b}}; }, rising);
  expect_monotone([](float f) { return policy{by_confidence{}, factor{f}}; }, rising);
  const std::vector<index_t> counts = {0, 1, 2, 5, 16};
  expect_monotone([](index_t k) { return policy{by_margin{}, tokens_per_step{k}}; }, counts);
}

TEST(compositions, commit_no_more_with_and_no_less_with_or) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const unmask::threshold a{0.5F};
    const entropy_bound b{0.8F};
    const auto of = [&](const auto& commits) {
      return first_step(policy{by_confidence{}, commits}, seed, 40);
    };
    const auto one = of(a);
    const auto both = of(a && b);
    const auto either = of(a || b);
    ASSERT_TRUE(std::includes(one.begin(), one.end(), both.begin(), both.end()));
    ASSERT_TRUE(std::includes(either.begin(), either.end(), one.begin(), one.end()));
    ASSERT_EQ(of(b && a), both);
    ASSERT_EQ(of(b || a), either);
    ASSERT_EQ(of((a || b) && a), one) << "absorption";
  }
}

/// Every step of every policy that does not wait commits, whatever the rows hold.
template <class Policy>
void expect_progress(const Policy& p) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    dice d(mixed(3, seed));
    const index_t vocab = d.one_of(std::vector<index_t>{2, 3, 33});
    fake_model fake{.seed = seed, .vocab = vocab};
    fake.trouble.nan_rows = d.real(0, 1);
    fake.trouble.empty_rows = d.real(0, 1);
    fake.trouble.infinite_rows = d.real(0, 1);
    const sequence_shape g = {
        .prompt_length = d.within(0, 2), .length = 15, .block_length = d.within(1, 15)};
    const trace t =
        decode_trace(p,
                     {.vocab = vocab, .mask_token = d.within(0, vocab - 1)},
                     g,
                     [&](auto x, index_t r, std::span<float> out) { fake.row<float>(x, r, out); });
    std::size_t committed = 0;
    for (const auto& step : t.steps) {
      ASSERT_FALSE(step.empty());
      committed += step.size();
    }
    ASSERT_EQ(committed, static_cast<std::size_t>(g.length - g.prompt_length));
  }
}

TEST(progress, is_made_in_every_step) {
  expect_progress(policy{by_confidence{}, unmask::threshold{1.0F}});
  expect_progress(policy{by_margin{}, tokens_per_step{0}});
  expect_progress(policy{by_entropy{}, entropy_bound{0.0F}, single_block{}});
  expect_progress(policy{left_to_right{}, unmask::threshold{1.0F} && tokens_per_step{3}});
  expect_progress(policy{at_random{}, steps_per_block{1000}});
  expect_progress(policy{by_confidence{}, factor{0.0F}, single_block{}});
}

// 16 rows of 40,000 columns are more logits than one thread would read alone.
trace decode_large(const on_host& where) {
  const index_t vocab = 40'001;
  const fake_model fake{.seed = 4, .vocab = vocab};
  return decode_trace(
      policy{by_margin{}, unmask::threshold{0.6F} || entropy_bound{0.5F}},
      {.vocab = vocab, .mask_token = 7},
      {.prompt_length = 1, .length = 17, .block_length = 16},
      [&](auto x, index_t r, std::span<float> out) { fake.row<float>(x, r, out); },
      where);
}

TEST(threads, change_no_bit_of_a_decode) {
  const trace serial = decode_large({});
  EXPECT_GT(serial.steps.size(), 1U);
  for (const index_t threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    host::thread_pool pool(threads);
    const trace shared = decode_large({.executor = pool});
    EXPECT_TRUE(same_bits(shared, serial));
  }
}

TEST(instruction_sets, change_no_bit_of_a_decode) {
  const trace best = decode_large({});
  for (const host::instruction_set instruction_set : {host::instruction_set::portable,
                                                      host::instruction_set::avx2,
                                                      host::instruction_set::avx512,
                                                      host::instruction_set::neon}) {
    if (!host::available(instruction_set)) {
      continue;
    }
    SCOPED_TRACE(static_cast<int>(instruction_set));
    const trace other = decode_large({.instruction_set = instruction_set});
    EXPECT_TRUE(same_bits(other, best));
  }
}

}  // namespace
}  // namespace unmask::testing::laws_test
