// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rho_eos beside the rule of its released code on lists, in double precision.
#include <unmask/named_policy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::rho_eos_test {
namespace {

using text = std::vector<token_id>;

constexpr index_t vocab = 7;
constexpr token_id mask = 6;
constexpr token_id eos = 1;
constexpr int prompt = 2;
constexpr int most = 26;

struct rule {
  int initial;
  double high;
  int unit;
  float low_density, high_density;
  std::string growth;
};

struct choice {
  token_id token;
  double probability;
};
choice best_of(const std::vector<float>& z, bool with_mask) {
  double sum = 0.0;
  choice c{-1, 0.0};
  for (token_id v = 0; v < vocab; ++v) {
    const auto at = static_cast<std::size_t>(v);
    sum += v == mask && !with_mask ? 0.0 : std::exp(static_cast<double>(z[at]));
    if ((v != mask || with_mask) && (c.token < 0 || z[at] > z[static_cast<std::size_t>(c.token)])) {
      c.token = v;
    }
  }
  c.probability = std::exp(static_cast<double>(z[static_cast<std::size_t>(c.token)])) / sum;
  return c;
}

int positions_for(const rule& r, float distance) {
  const int tenths = std::max(1, static_cast<int>(std::ceil(distance / 0.1F)));
  const int times = r.growth == "constant" ? 1
                    : r.growth == "linear" ? tenths
                                           : 1 << std::min(tenths - 1, 3);
  return std::min(times, 8) * r.unit;
}

/// One step of the released loop. Returns false if a decision is within rounding.
struct naive {
  rule r;
  int block_length;
  text x = {};
  int current = prompt;
  int steps = 0;
  bool full = false;

  [[nodiscard]] bool is_masked(int first, int last) const {
    return std::find(x.begin() + first, x.begin() + last, mask) != x.begin() + last;
  }
  bool step(const made_up_model& model) {
    bool is_sure = true;
    ++steps;
    full = full || std::ssize(x) >= most;
    const int total = static_cast<int>(x.size());
    const text before = x;
    std::vector<choice> seen;
    std::vector<std::vector<float>> rows;
    for (int p = 0; p < total; ++p) {
      rows.emplace_back(static_cast<std::size_t>(vocab));
      model.row(before, p, rows.back());
      seen.push_back(best_of(rows.back(), true));
    }
    const int end = std::min(current + block_length, total);
    int best = -1;
    int barred = -1;
    bool any = false;
    for (int p = current; p < end; ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (before[at] != mask) {
        continue;
      }
      is_sure = is_sure && std::fabs(seen[at].probability - r.high) > 1e-5;
      if (seen[at].token != mask) {
        if (seen[at].probability > r.high) {
          x[at] = seen[at].token;
          any = true;
        }
        if (best < 0 || seen[at].probability > seen[static_cast<std::size_t>(best)].probability) {
          best = p;
        }
      }
      if (barred < 0 || best_of(rows[at], false).probability >
                            best_of(rows[static_cast<std::size_t>(barred)], false).probability) {
        barred = p;
      }
    }
    if (!any) {
      const auto at = static_cast<std::size_t>(best >= 0 ? best : barred);
      x[at] = best_of(rows[at], false).token;
    }
    while (current < total && !is_masked(current, std::min(current + block_length, total))) {
      current = std::min(current + block_length, total);
    }
    int masked = 0;
    int ends = 0;
    for (int p = prompt; p < total; ++p) {
      const bool counts = before[static_cast<std::size_t>(p)] == mask;
      masked += counts ? 1 : 0;
      ends += counts && seen[static_cast<std::size_t>(p)].token == eos ? 1 : 0;
    }
    const float density = static_cast<float>(ends) / static_cast<float>(masked);
    if (full || steps > 64) {
      return is_sure;
    }
    if (density < r.low_density) {
      const int count = std::min(positions_for(r, r.low_density - density), most - total);
      const auto first = std::find(x.begin() + prompt, x.end(), eos);
      current = std::min(current, first == x.end() ? current : static_cast<int>(first - x.begin()));
      x.insert(first, static_cast<std::size_t>(count), mask);
    } else if (density > r.high_density) {
      x.resize(static_cast<std::size_t>(
          std::max(total - positions_for(r, density - r.high_density), prompt)));
      current = std::min(current, static_cast<int>(x.size()));
    }
    return is_sure;
  }
};

TEST(rho_eos, decodes_as_the_released_loop_on_lists) {
  int compared = 0;
  int longer = 0;
  int shorter = 0;
  const rule rules[] = {{4, 0.6, 2, 0.3F, 0.7F, "linear"},
                        {6, 0.9, 1, 0.4F, 0.6F, "doubling"},
                        {20, 0.5, 3, 0.2F, 0.5F, "constant"},
                        {3, 0.5, 1, 0.1F, 0.9F, "doubling"}};
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    const rule& r = rules[seed % 4];
    const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 4.0};
    naive expected{.r = r, .block_length = 5};
    expected.x.assign(static_cast<std::size_t>(prompt + r.initial), mask);
    std::fill_n(expected.x.begin(), prompt, 0);
    const auto number = [](double x) { return std::to_string(x).substr(0, 4); };
    const std::string policy = "rho_eos(" + std::to_string(r.initial) + ", " + number(r.high) +
                               ", " + std::to_string(r.unit) + ", " + number(r.low_density) + ", " +
                               number(r.high_density) + ", growth=" + r.growth + ")";
    SCOPED_TRACE(policy + ", seed " + std::to_string(seed));
    model_info info = model.info();
    info.eos_token = eos;
    info.suppress_mask = false;
    text tokens(most, 0);
    named_session s(info, {.sequences = 1, .length = most, .window = most});
    s.start(0,
            read_policy(policy),
            tokens,
            {.prompt_length = prompt, .length = most, .block_length = 5});
    bool is_sure = true;
    while (const auto request = s.next()) {
      text now(tokens.begin(), tokens.begin() + s.report().answer_end);
      ASSERT_EQ(now, expected.x);
      const auto before = expected.x.size();
      is_sure = expected.step(model);
      const std::vector<float> logits =
          requested_rows(*request, now, [&](const text& x, index_t p) {
            std::vector<float> z(vocab);
            model.row(x, p, z);
            return z;
          });
      s.supply(host_logits<float>{logits.data(), request->rows, vocab});
      if (!is_sure) {
        break;
      }
      ++compared;
      longer += expected.x.size() > before ? 1 : 0;
      shorter += expected.x.size() < before ? 1 : 0;
    }
    if (is_sure) {
      EXPECT_EQ(text(tokens.begin(), tokens.begin() + s.report().answer_end), expected.x);
      EXPECT_EQ(s.report().end, ending::complete);
      EXPECT_TRUE(std::all_of(tokens.begin() + s.report().answer_end, tokens.end(), [](token_id v) {
        return v == eos;
      }));
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(longer, 200);
  EXPECT_GT(shorter, 100);
}

TEST(rho_eos, of_a_unit_beyond_the_answer_fills_and_empties_it) {
  for (const char* policy :
       {"rho_eos(1, unit=2147483647)", "rho_eos(4, 0.5, 2147483647, 0, 0.01, growth=constant)"}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 4.0};
      model_info info = model.info();
      info.eos_token = eos;
      text tokens(most, 0);
      named_session s(info, {.sequences = 1, .length = most, .window = most});
      s.start(0, read_policy(policy), tokens, {.prompt_length = prompt, .length = most});
      while (const auto request = s.next()) {
        supply_one(s, *request, model, tokens);
        EXPECT_GE(s.report().answer_end, prompt);
        EXPECT_LE(s.report().answer_end, most);
      }
      EXPECT_EQ(s.report().end, ending::complete);
    }
  }
}

TEST(rho_eos, needs_an_eos_token_and_bounds_in_order) {
  const auto start = [](const char* policy, token_id end) {
    named_session s({.vocab = vocab, .mask_token = mask, .eos_token = end},
                    {.sequences = 1, .length = 8, .window = 8});
    text tokens(8, 0);
    s.start(0, read_policy(policy), tokens, {.length = 8});
  };
  const auto refused = [](const char* why) {
    return ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr(why));
  };
  EXPECT_NO_THROW(start("rho_eos", eos));
  EXPECT_THAT([&] { start("rho_eos", no_token); }, refused("eos_token"));
  EXPECT_THAT([&] { start("rho_eos(low_density=0.7, high_density=0.6)", eos); },
              refused("low_density"));
}

}  // namespace
}  // namespace unmask::testing::rho_eos_test
