// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/beam.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"

namespace unmask::testing::beam_test {
namespace {

constexpr index_t vocab = 7;
constexpr token_id mask = 6;
using text = std::vector<token_id>;

/// Rows that depend on the tokens next to a position.
struct model {
  std::uint64_t seed;
  double sure;           ///< chance of a certain row
  double invalid = 0.0;  ///< chance of one of NaN

  [[nodiscard]] std::vector<float> row(const text& x, index_t p) const {
    std::uint64_t key = seed ^ (static_cast<std::uint64_t>(p) << 20U);
    for (index_t q = std::max(p - 2, 0); q <= std::min(p + 2, index_t(x.size()) - 1); ++q) {
      key = chances(key + static_cast<std::uint64_t>(x[static_cast<std::size_t>(q)])).bits();
    }
    chances c(key);
    std::vector<float> z;
    for (index_t v = 0; v < vocab; ++v) {
      z.push_back(c.real(-1.0, 1.0));
    }
    z[static_cast<std::size_t>(c.within(0, mask - 1))] += c.chance(sure) ? 9.0F : c.real(0.0, 3.0);
    if (c.chance(invalid)) {
      z.assign(z.size(), std::numeric_limits<float>::quiet_NaN());
    }
    return z;
  }
  /// The rows of a request, one after the other.
  [[nodiscard]] std::vector<float> rows(const forward_request& request, const text& tokens) const {
    std::vector<float> logits;
    for (const segment& of : request.segments) {
      text now = tokens;
      for (const placement& p : of.placed) {
        now[static_cast<std::size_t>(p.position)] = p.token;
      }
      for (index_t r = of.rows.first; r < of.rows.last; ++r) {
        const std::vector<float> z = row(now, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
    }
    return logits;
  }
};

struct proposal {
  index_t position;
  token_id token;
  double confidence;
};
struct member {
  text tokens;
  double score = 0.0;
  std::vector<double> logs = std::vector<double>(tokens.size());  ///< of the token at each position
};

/// Of an invalid row: the lowest token, without a probability.
[[nodiscard]] proposal proposal_of(const model& m, const text& x, index_t p) {
  const std::vector<float> z = m.row(x, p);
  if (std::isnan(z[0])) {
    return {p, 0, 0.0};
  }
  const auto best = std::max_element(z.begin(), z.begin() + mask);
  double sum = 0.0;
  for (token_id v = 0; v < mask; ++v) {
    sum += std::exp(double{z[static_cast<std::size_t>(v)]} - double{*best});
  }
  return {p, static_cast<token_id>(best - z.begin()), 1.0 / sum};
}

/// A round of the search as its description says: blocks of `block` positions, certain above
/// `certain`, at most `most` of them.
[[nodiscard]] std::vector<member> round_of(const std::vector<member>& members,
                                           const model& m,
                                           const beam& b,
                                           index_t block,
                                           double certain,
                                           std::size_t most) {
  const auto gain = [&](double c) { return b.log_scores ? std::log(c) : c; };
  std::vector<member> next;
  bool is_sure = false;
  for (const member& from : members) {
    const auto first = static_cast<index_t>(
        std::find(from.tokens.begin(), from.tokens.end(), mask) - from.tokens.begin());
    const index_t start = first / block * block;
    std::vector<proposal> all;
    std::vector<proposal> invalid;
    for (index_t p = start; p < std::min(start + block, index_t(from.tokens.size())); ++p) {
      if (from.tokens[static_cast<std::size_t>(p)] == mask) {
        const proposal own = proposal_of(m, from.tokens, p);
        (own.confidence > 0.0 ? all : invalid).push_back(own);
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const proposal& x, const proposal& y) {
      return x.confidence > y.confidence;
    });
    std::vector<std::vector<proposal>> ways;
    if (all.empty()) {  // the first of them is committed all the same
      is_sure = true;
      ways.push_back({invalid[0]});
    } else if (all[0].confidence > certain) {
      is_sure = true;
      std::size_t n = 1;
      while (n < std::min(most, all.size()) && all[n].confidence > certain) {
        ++n;
      }
      ways.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    } else {
      for (std::size_t k = 0; k < std::min(all.size(), static_cast<std::size_t>(b.width)); ++k) {
        ways.push_back({all[k]});
      }
    }
    for (const auto& way : ways) {
      member to = from;
      for (const proposal& p : way) {
        to.tokens[static_cast<std::size_t>(p.position)] = p.token;
        to.logs[static_cast<std::size_t>(p.position)] = std::log(p.confidence);
        to.score += p.confidence > 0.0 ? gain(p.confidence) : 0.0;
      }
      next.push_back(to);
    }
  }
  std::stable_sort(
      next.begin(), next.end(), [](const member& x, const member& y) { return x.score > y.score; });
  std::vector<member> kept;
  for (const member& n : next) {
    if (std::none_of(
            kept.begin(), kept.end(), [&](const member& k) { return k.tokens == n.tokens; })) {
      kept.push_back(n);
    }
  }
  const bool is_complete =
      std::find(kept[0].tokens.begin(), kept[0].tokens.end(), mask) == kept[0].tokens.end();
  kept.resize(is_sure || is_complete ? 1
                                     : std::min(kept.size(), static_cast<std::size_t>(b.width)));
  return kept;
}

/// The tokens in which members differ, of all of them together.
[[nodiscard]] std::ptrdiff_t placed_by(const std::vector<member>& members) {
  std::ptrdiff_t placed = 0;
  for (std::size_t p = 0; p < members[0].tokens.size(); ++p) {
    const bool is_common = std::all_of(members.begin(), members.end(), [&](const member& x) {
      return x.tokens[p] == members[0].tokens[p];
    });
    placed += std::count_if(members.begin(), members.end(), [&](const member& x) {
      return !is_common && x.tokens[p] != mask;
    });
  }
  return placed;
}

struct outcome {
  int several = 0;  ///< passes of several members
  int dropped = 0;  ///< members that left for want of room
};

/// Decodes and compares the members of each pass with those of the description.
outcome compare(std::uint64_t seed, const beam& b, const std::string& more = "") {
  outcome seen;
  chances c(seed);
  const model m{seed, c.chance(0.5) ? 0.1 : 0.0, c.chance(0.3) ? 0.3 : 0.0};
  const index_t length = c.within(1, 20);
  const index_t block = c.within(1, length);
  const std::string policy = "at_most(2, threshold(0.9)) + beam(" + std::to_string(b.width) +
                             ", log_scores=" + (b.log_scores ? "true" : "false") + ")" + more;
  text tokens(static_cast<std::size_t>(length));
  const sequence_shape shape{.length = length, .block_length = block, .seed = seed};
  const named_policy parts = read_policy(policy);
  named_session s(parts, {.vocab = vocab, .mask_token = mask}, {tokens.data(), length}, shape);
  std::vector<member> members = {{tokens}};
  int forwards = 0;
  while (const auto request = s.next()) {
    SCOPED_TRACE(policy + ", seed " + std::to_string(seed) + ", pass " + std::to_string(forwards));
    EXPECT_EQ(request->segments.size(), members.size());
    if (request->segments.size() != members.size()) {
      return seen;
    }
    seen.several += members.size() > 1 ? 1 : 0;
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * vocab);
    for (std::size_t k = 0; k < members.size(); ++k) {
      const segment& of = request->segments[k];
      EXPECT_EQ(of.branch, static_cast<index_t>(k));
      EXPECT_EQ(of.placed.empty(), members.size() == 1);
      text now = tokens;
      for (const placement& p : of.placed) {
        EXPECT_EQ(now[static_cast<std::size_t>(p.position)], mask);
        now[static_cast<std::size_t>(p.position)] = p.token;
      }
      EXPECT_EQ(now, members[k].tokens) << "member " << k;
      for (index_t r = of.rows.first; r < of.rows.last; ++r) {
        const std::vector<float> row = m.row(now, r);
        std::copy(
            row.begin(), row.end(), logits.begin() + (of.first_row + r - of.rows.first) * vocab);
      }
    }
    EXPECT_LE(s.planned().freeze.last, s.report().committed_prefix);
    const text before = tokens;
    s.supply(host_logits<float>(logits.data(), request->rows, vocab));
    ++forwards;
    members = round_of(members, m, b, block, 0.9F, 2);
    while (placed_by(members) > max_placed) {
      members.pop_back();
      ++seen.dropped;
    }
    if (members.size() == 1) {
      members[0].score = 0.0;
    }
    text after = before;  // what is reported is what was written, in ascending positions
    index_t last = -1;
    for (const commit_entry& e : s.committed()) {
      EXPECT_GT(e.position, last);
      EXPECT_EQ(e.step, forwards - 1);
      EXPECT_EQ(before[static_cast<std::size_t>(e.position)], mask);
      const double log = members[0].logs[static_cast<std::size_t>(e.position)];
      EXPECT_TRUE(double{e.log_probability} == log || std::abs(e.log_probability - log) < 1e-4);
      last = e.position;
      after[static_cast<std::size_t>(e.position)] = e.token;
    }
    EXPECT_EQ(after, tokens);
    EXPECT_EQ(s.report().masked, std::count(tokens.begin(), tokens.end(), mask));
    EXPECT_EQ(s.report().forwards, forwards);
  }
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(members[0].tokens, tokens);
  EXPECT_LE(forwards, most_forwards(parts, shape));
  return seen;
}

TEST(beam, runs_the_members_of_its_description) {
  outcome all;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const outcome one = compare(seed, {.width = static_cast<index_t>(1 + seed % 8)});
    all.several += one.several;
    all.dropped += one.dropped;
  }
  EXPECT_GT(all.several, 400);
  EXPECT_GT(all.dropped, 0);
}

TEST(beam, adds_logarithms) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    several +=
        compare(seed, {.width = static_cast<index_t>(2 + seed % 3), .log_scores = true}).several;
  }
  EXPECT_GT(several, 200);
}

TEST(beam, keeps_within_the_bound_with_other_rules_and_schedules) {
  for (const char* rest : {"threshold(0.7) + semi_autoregressive(whole_prefix=true)",
                           "steps_per_block(3)",
                           "independent_timesteps(5)",
                           "timesteps(5) + single_block",
                           "threshold(0.8) + eos_gate + repetition_penalty(1.5)",
                           "any_of(threshold(0.8), at_most(3, finish(0.9, 0.3))) + max_steps(7)"}) {
    const std::string policy = std::string(rest) + " + beam(4)";
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(policy + ", seed " + std::to_string(seed));
      chances c(seed);
      const model m{seed, 0.1};
      const index_t length = c.within(1, 24);
      text tokens(static_cast<std::size_t>(length));
      const sequence_shape shape{
          .length = length, .block_length = c.within(1, length), .seed = seed};
      const named_policy parts = read_policy(policy);
      named_session s(parts,
                      {.vocab = vocab, .mask_token = mask, .eos_token = 0},
                      {tokens.data(), length},
                      shape);
      std::int64_t forwards = 0;
      while (const auto request = s.next()) {
        ASSERT_LE(++forwards, most_forwards(parts, shape));
        const std::vector<float> logits = m.rows(*request, tokens);
        s.supply(host_logits<float>(logits.data(), request->rows, vocab));
      }
      EXPECT_EQ(std::count(tokens.begin(), tokens.end(), mask), 0);
    }
  }
}

/// The tokens that each step commits in a session whose steps read at most `window` positions, and
/// which names no number of branches.
[[nodiscard]] std::vector<std::vector<commit_entry>>
commits_with(const std::string& policy, std::uint64_t seed, index_t block, index_t window) {
  const model m{seed, 0.1};
  constexpr index_t length = 12;
  text tokens(length);
  const named_policy parts = read_policy(policy);
  named_session s({.vocab = vocab, .mask_token = mask, .eos_token = 0},
                  {.length = length, .window = window, .trace = true});
  s.start(0, parts, {tokens.data(), length}, {.length = length, .block_length = block});
  std::vector<std::vector<commit_entry>> all;
  while (const auto request = s.next()) {
    const std::vector<float> logits = m.rows(*request, tokens);
    s.supply(host_logits<float>(logits.data(), request->rows, vocab));
    all.emplace_back(s.committed().begin(), s.committed().end());
    EXPECT_GE(s.candidates().size(), s.committed().size());
  }
  return all;
}

TEST(beam, reports_more_tokens_in_a_step_than_its_window_has_positions) {
  std::size_t most = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const auto narrow = commits_with("threshold(0.9) + beam(2)", seed, 3, 3);
    const auto wide = commits_with("threshold(0.9) + beam(2)", seed, 3, 12);
    ASSERT_EQ(narrow.size(), wide.size());
    for (std::size_t k = 0; k < narrow.size(); ++k) {
      most = std::max(most, narrow[k].size());
      ASSERT_EQ(narrow[k].size(), wide[k].size());
      for (std::size_t e = 0; e < narrow[k].size(); ++e) {
        ASSERT_EQ(narrow[k][e].position, wide[k][e].position);
        ASSERT_EQ(narrow[k][e].token, wide[k][e].token);
      }
    }
  }
  EXPECT_GT(most, 4U);
}

}  // namespace
}  // namespace unmask::testing::beam_test
