// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wino against its formula, and what holds for every model: no pass gains nothing in the long run,
// and the shadow is of committed positions only. tests/cases has its ties and limits.
#include <unmask/core/walk.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/wino.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/attending_engine.hpp"

namespace unmask::testing::wino_test {
namespace {

struct revokable {
  attending_engine engine;
  std::vector<token_id> tokens;
  sequence_shape shape;
  wino part;
};

revokable random_revokable(dice& d) {
  revokable r;
  r.engine = {.seed = d.bits(),
              .vocab = d.within(4, 30),
              .mask = d.within(0, 3),
              .spread = static_cast<double>(d.within(6, 14)),
              .right = static_cast<std::uint64_t>(d.within(0, 256))};
  r.shape.prompt_length = d.within(0, 4);
  r.shape.block_length = d.within(1, 40);
  r.shape.length = r.shape.prompt_length + d.within(1, 60);
  r.part = {.threshold = d.real(0.1, 0.9), .threshold_back = d.real(0.0, 1.0)};
  for (index_t p = 0; p < r.shape.length; ++p) {
    r.tokens.push_back((r.engine.mask + 1 + d.within(0, r.engine.vocab - 2)) % r.engine.vocab);
  }
  return r;
}

// Probability of each token of a row in which the mask token is impossible.
std::vector<double> softmax(std::vector<float> row, token_id mask) {
  row[static_cast<std::size_t>(mask)] = -std::numeric_limits<float>::infinity();
  const double most = *std::max_element(row.begin(), row.end());
  std::vector<double> p;
  double sum = 0;
  for (const float z : row) {
    p.push_back(std::exp(double{z} - most));
    sum += p.back();
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

// One pass of the rule over a block, from its description. Returns whether no number of it is so
// close to another, or to a threshold, that rounding could decide.
bool decide(const revokable& r, range block, std::vector<token_id>& x, index_t& last) {
  const auto at = [&](index_t p) -> token_id& { return x[static_cast<std::size_t>(p)]; };
  bool is_clear = true;
  const auto compare = [&](double a, double b) { is_clear = is_clear && std::abs(a - b) > 1e-5; };
  std::vector<std::pair<double, index_t>> masked;     // confidence
  std::vector<std::pair<double, index_t>> committed;  // probability in the shadow
  std::vector<token_id> best(x.size());
  for (index_t p = block.first; p < block.last; ++p) {
    const bool is_masked = at(p) == r.engine.mask;
    const auto row = softmax(
        r.engine.row(p, x, is_masked ? attention_kind::bidirectional : attention_kind::shadow),
        r.engine.mask);
    if (is_masked) {
      const auto most = std::max_element(row.begin(), row.end());
      best[static_cast<std::size_t>(p)] = static_cast<token_id>(most - row.begin());
      masked.push_back({*most, p});
    } else {
      committed.push_back({row[static_cast<std::size_t>(at(p))], p});
    }
  }
  std::sort(masked.begin(), masked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::sort(committed.begin(), committed.end());
  for (const auto* list : {&masked, &committed}) {
    for (std::size_t k = 0; k < list->size(); ++k) {
      compare((*list)[k].first, list == &masked ? r.part.threshold : r.part.threshold_back);
      compare((*list)[k].first, k > 0 ? (*list)[k - 1].first : 2.0);
    }
  }
  const auto cap = std::clamp<std::size_t>(masked.size() * 7 / 10, 5, 20);
  index_t accepted = 0;
  for (const auto& [c, p] : masked) {
    if (accepted == 0 || (c > r.part.threshold && accepted < static_cast<index_t>(cap))) {
      at(p) = best[static_cast<std::size_t>(p)];
      ++accepted;
    }
  }
  index_t revoked = 0;
  for (const auto& [b, p] : committed) {
    if (accepted > 1 && revoked < last - 1 && b < r.part.threshold_back) {
      at(p) = r.engine.mask;
      ++revoked;
    }
  }
  last = accepted;
  return is_clear;
}

int passes = 0;
int revoked = 0;

void expect_rule(const revokable& r) {
  const policy rule{by_confidence{}, r.part};
  std::vector<token_id> x = r.tokens;
  session decode(rule,
                 {.vocab = r.engine.vocab, .mask_token = r.engine.mask, .shadow_attention = true},
                 {x.data(), r.shape.length},
                 r.shape);
  EXPECT_EQ(most_forwards(rule, r.shape), r.shape.length - r.shape.prompt_length);
  std::vector<token_id> expected = x;
  index_t last = 30;
  index_t begin = -1;
  bool is_clear = true;
  while (const auto request = decode.next()) {
    const range block = decode.planned().score;
    last = begin == block.first ? last : 30;
    begin = block.first;
    const auto is_masked = [&](index_t p) {
      return x[static_cast<std::size_t>(p)] == r.engine.mask;
    };
    ASSERT_TRUE(is_masked(request->segments[0].rows.first));
    ASSERT_TRUE(is_masked(request->segments[0].rows.last - 1));
    bool any = false;
    for (index_t p = block.first; p < block.last; ++p) {
      any = any || !is_masked(p);
    }
    ASSERT_EQ(request->segments.size(), any && r.part.threshold_back > 0 ? 2U : 1U);
    if (request->segments.size() > 1) {
      const segment& shadow = request->segments[1];
      EXPECT_EQ(shadow.attention, attention_kind::shadow);
      EXPECT_EQ(shadow.shadow_of, 0);
      EXPECT_EQ(shadow.query, block);
      EXPECT_EQ(shadow.keys, request->segments[0].keys);
      EXPECT_FALSE(is_masked(shadow.rows.first) || is_masked(shadow.rows.last - 1));
    }
    const std::vector<float> logits = r.engine.rows(*request, x);
    is_clear = decide(r, block, expected, last) && is_clear;
    decode.supply(host_logits<float>(logits.data(), request->rows, r.engine.vocab));
    for (const commit_entry& e : decode.committed()) {
      revoked += e.token == r.engine.mask ? 1 : 0;
    }
    ++passes;
    if (!is_clear) {
      expected = x;  // another order of the same
      last = 0;
      for (const commit_entry& e : decode.committed()) {
        last += e.token != r.engine.mask ? 1 : 0;
      }
      is_clear = true;
    }
    ASSERT_EQ(x, expected);
  }
  EXPECT_EQ(decode.report().end, ending::complete);
  EXPECT_EQ(std::count(x.begin() + r.shape.prompt_length, x.end(), r.engine.mask), 0);
  EXPECT_LE(decode.report().forwards, r.shape.length - r.shape.prompt_length);
}

TEST(wino, decides_as_described) {
  dice d(0x31);
  for (int n = 0; n < 600; ++n) {
    SCOPED_TRACE(n);
    expect_rule(random_revokable(d));
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(revoked, 1000);
  EXPECT_GT(passes, 3000);
}

TEST(wino, is_refused_where_the_engine_has_no_shadow_attention) {
  std::vector<token_id> x(4);
  const auto made = [&](const wino& part, const model_info& model) {
    session decode(policy{by_confidence{}, part}, model, {.length = 4, .window = 4});
    return std::string("made");
  };
  const auto message = [&](const wino& part, const model_info& model) {
    try {
      return made(part, model);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message({}, {.vocab = 8, .mask_token = 7}),
            "model_info::shadow_attention must be true for wino, which has segments with shadow "
            "attention, got false");
  EXPECT_EQ(message({.threshold_back = 0.0F}, {.vocab = 8, .mask_token = 7}), "made");
  EXPECT_EQ(message({}, {.vocab = 8, .mask_token = 7, .logits_shift = 1, .shadow_attention = true}),
            "model_info::logits_shift must be 0 for wino: a row of the position before sees the "
            "token that a shadow hides, got 1");
}

}  // namespace
}  // namespace unmask::testing::wino_test
