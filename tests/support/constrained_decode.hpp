// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes with constraints, each step of which is checked against an enumeration of the language.

#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing {

/// The strings of a language with some length.
struct strings {
  std::vector<std::vector<token_id>> all;

  strings(const language& l, int length) {
    l.for_each_string(length, [&](std::span<const token_id> s) {
      if (l.has(s)) {
        all.emplace_back(s.begin(), s.end());
      }
    });
  }
};

/// A random request: what a sequence is started with.
struct constrained_request {
  index_t prompt = 0;
  index_t answer = 0;
  index_t block = 1;
  std::vector<token_id> tokens = {};        // prompt and answer, as given
  std::vector<std::uint8_t> editable = {};  // empty: all
  std::vector<token_id> suppressed = {};
  std::uint64_t seed = 0;
  bool fill = true;

  [[nodiscard]] bool is_masked(index_t p) const {
    return p >= prompt && (editable.empty() || editable[static_cast<std::size_t>(p)] != 0);
  }
  [[nodiscard]] bool is_usable(token_id v) const {
    return std::find(suppressed.begin(), suppressed.end(), v) == suppressed.end();
  }
};

[[nodiscard]] inline constrained_request random_constrained_request(dice& d, const language& l) {
  constrained_request r;
  r.prompt = d.within(0, 2);
  r.answer = d.within(1, 5);
  r.block = d.chance(0.5) ? r.answer : d.within(1, r.answer);
  r.seed = d.bits();
  r.fill = d.chance(0.7);
  r.tokens.assign(static_cast<std::size_t>(r.prompt + r.answer), 0);
  for (token_id& v : r.tokens) {
    v = d.within(0, l.model.vocab - 1);
  }
  if (d.chance(0.2)) {
    for (std::size_t i = 0; i < r.tokens.size(); ++i) {
      r.editable.push_back(d.chance(0.8) ? 1 : 0);
    }
  }
  if (d.chance(0.2)) {
    r.suppressed.push_back(d.within(0, l.model.vocab - 1));
  }
  return r;
}

/// Random logits: of one of several scales, with ties, and, `hostile`, with NaN and rows of -inf.
struct random_rows {
  std::uint64_t seed = 0;
  double scale = 3.0;
  bool hostile = false;

  void write(int pass, index_t position, std::span<float> out) const {
    dice d(mixed(seed, static_cast<std::uint64_t>(pass), static_cast<std::uint64_t>(position)));
    const bool is_dead = hostile && d.chance(0.15);
    for (float& z : out) {
      z = std::nearbyint(d.real(-scale, scale) * 4.0F) / 4.0F;
      z = is_dead ? -std::numeric_limits<float>::infinity() : z;
      z = hostile && d.chance(0.03) ? std::numeric_limits<float>::quiet_NaN() : z;
      z = hostile && d.chance(0.1) ? -std::numeric_limits<float>::infinity() : z;
    }
  }
  /// The rows of a request, one after the other; those of a branch are its own.
  [[nodiscard]] std::vector<float>
  of(const forward_request& request, int pass, index_t vocab) const {
    const auto width = static_cast<std::size_t>(vocab);
    std::vector<float> out(static_cast<std::size_t>(request.rows) * width);
    for (const segment& s : request.segments) {
      for (index_t p = s.rows.first; p < s.rows.last; ++p) {
        const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * width;
        write(pass, p + 100 * s.branch, std::span(out).subspan(at, width));
      }
    }
    return out;
  }
};

/// Counts over many decodes.
struct decode_counts {
  int decodes = 0;
  int impossible = 0;
  int passes = 0;
  int refused = 0;
  int filled = 0;
  int greedy = 0;    // proposals that were looked at
  int together = 0;  // decodes in which some step committed more than one token
};

/// By position and token, those that strings of the language have where the tokens of x are.
[[nodiscard]] inline std::vector<std::vector<bool>>
possible_tokens(const strings& of,
                const language& l,
                const constrained_request& r,
                const std::vector<token_id>& x) {
  std::vector<std::vector<bool>> out(x.size(),
                                     std::vector<bool>(static_cast<std::size_t>(l.model.vocab)));
  const auto first = static_cast<std::size_t>(r.prompt);
  for (const std::vector<token_id>& s : of.all) {
    std::size_t differ = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
      const token_id given = x[first + i];
      const bool fits = given == no_token ? r.is_usable(s[i]) : given == s[i];
      differ += fits ? 0 : 1;
      where = fits ? where : i;
    }
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (differ == 0 || (differ == 1 && where == i)) {
        out[first + i][static_cast<std::size_t>(s[i])] = true;
      }
    }
  }
  return out;
}

/// Decodes one request in a slot of a session with trace, and checks every step.
/// `bound` is most_forwards(); `restricted`: whether parts of the policy exclude tokens; `greedy`:
/// whether the policy proposes the most probable tokens that are possible; `masks_least`: whether a
/// part masks the least certain tokens, which may be certain by the constraint.
template <class Session, class Start>
void decode_constrained(Session& session,
                        const Start& start,
                        const language& l,
                        const constrained_request& r,
                        std::int64_t bound,
                        const random_rows& rows,
                        bool restricted,
                        decode_counts& n,
                        bool greedy = false,
                        bool masks_least = false) {
  const strings all(l, r.answer);
  std::vector<token_id> tokens = r.tokens;
  std::vector<token_id> x;  // no_token: masked
  for (index_t p = 0; p < r.prompt + r.answer; ++p) {
    x.push_back(r.is_masked(p) ? no_token : tokens[static_cast<std::size_t>(p)]);
  }
  const auto is_possible = [&](const std::vector<std::vector<bool>>& by,
                               std::size_t p,
                               token_id v) { return by[p][static_cast<std::size_t>(v)]; };
  const auto any_string = [&] {
    bool any = false;
    for (const auto& s : all.all) {
      bool fits = true;
      for (std::size_t i = 0; i < s.size(); ++i) {
        const token_id given = x[static_cast<std::size_t>(r.prompt) + i];
        fits = fits && (given == no_token ? r.is_usable(s[i]) : given == s[i]);
      }
      any = any || fits;
    }
    return any;
  };
  try {
    start(tokens);
  } catch (const std::invalid_argument& e) {
    if (!restricted) {
      ASSERT_FALSE(any_string()) << e.what();
    }
    ASSERT_EQ(tokens, r.tokens);
    ++n.impossible;
    return;
  }
  ASSERT_TRUE(any_string());
  ++n.decodes;
  index_t refused = 0;
  index_t filled = 0;
  index_t forced = 0;
  bool together = false;
  range active;  // blocks of the last plan
  // Compares the commits that the session reports with the tokens.
  const auto follow = [&] {
    index_t last = -1;
    int committed = 0;
    std::vector<token_id> edited = x;  // with what is not remasked yet
    for (const commit_entry& e : session.committed(0)) {
      ASSERT_GT(e.position, last);
      last = e.position;
      for (const commit_entry& other : session.committed(0)) {  // law: decided and filled alike
        ASSERT_TRUE(other.block != e.block || other.block_step == e.block_step);
      }
      committed += e.token == l.model.mask_token ? 0 : 1;
      x[static_cast<std::size_t>(e.position)] = e.token == l.model.mask_token ? no_token : e.token;
      if (e.token != l.model.mask_token) {
        edited[static_cast<std::size_t>(e.position)] = e.token;
      }
    }
    together = together || committed > 1;
    const ending end = session.report(0).end;
    for (std::size_t p = 0; p < x.size(); ++p) {
      if (x[p] == no_token && end == ending::eos_token && l.is_eos(tokens[p])) {
        x[p] = tokens[p];  // after the end of the answer
      }
      ASSERT_EQ(tokens[p], x[p] == no_token ? l.model.mask_token : x[p]) << "position " << p;
    }
    for (const candidate_entry& c : session.candidates(0)) {
      refused += c.outcome == candidate_outcome::refused ? 1 : 0;
      filled += c.outcome == candidate_outcome::filled ? 1 : 0;
      forced += c.outcome == candidate_outcome::forced ? 1 : 0;
      const auto possible_there = [&](std::vector<token_id> without) {
        without[static_cast<std::size_t>(c.position)] = no_token;
        const auto by = possible_tokens(all, l, r, without);
        int usable = 0;
        for (token_id v = 0; v < l.model.vocab; ++v) {
          usable +=
              is_possible(by, static_cast<std::size_t>(c.position), v) && r.is_usable(v) ? 1 : 0;
        }
        return usable;
      };
      if (c.outcome == candidate_outcome::remasked) {  // law: what is certain stays
        ASSERT_TRUE(possible_there(edited) > 1 || !r.fill || masks_least)
            << "position " << c.position;
        edited[static_cast<std::size_t>(c.position)] = no_token;
      }
      if (c.outcome == candidate_outcome::filled) {  // law: no other token is possible there
        const int usable = possible_there(x);
        ASSERT_TRUE(usable == 1 || restricted) << "position " << c.position;
        ASSERT_EQ(c.log_probability, 0.0F);
        ASSERT_EQ(c.confidence, 1.0F);
        ASSERT_TRUE(std::isnan(c.margin) && std::isnan(c.entropy));
        ASSERT_TRUE(active.contains(c.block) || c.block_step == 0);
      }
    }
    ASSERT_TRUE(any_string()) << [&] {
      std::string text;
      for (const token_id v : x) {
        text += " " + (v == no_token ? std::string("_") : std::to_string(v));
      }
      text += " suppressed";
      for (const token_id v : r.suppressed) {
        text += " " + std::to_string(v);
      }
      text += ", eos " + std::to_string(l.model.eos_token) + ", written";
      for (const commit_entry& e : session.committed(0)) {
        text += " " + std::to_string(e.position);
      }
      return text;
    }();
    ASSERT_EQ(session.report(0).refused, refused);
    ASSERT_EQ(session.report(0).filled, filled);
    ASSERT_EQ(session.report(0).forced, forced);
  };
  follow();
  if (::testing::Test::HasFatalFailure()) {
    return;
  }
  int pass = 0;
  while (const auto request = session.next()) {
    const std::vector<float> logits = rows.of(*request, pass, l.model.vocab);
    const auto before = possible_tokens(all, l, r, x);
    active = {session.planned(0).first_block, session.planned(0).last_block};
    session.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab));
    ++pass;
    ASSERT_LE(session.report(0).forwards, bound);
    for (const candidate_entry& c : session.candidates(0)) {
      const bool is_read =
          c.outcome != candidate_outcome::filled && c.outcome != candidate_outcome::forced;
      if (is_read && !restricted) {  // law: every row is read under the mask of what is possible
        ASSERT_TRUE(is_possible(before, static_cast<std::size_t>(c.position), c.token))
            << "token " << c.token << " at " << c.position << " outcome "
            << static_cast<int>(c.outcome) << " possible " <<
            [&] {
              std::string text;
              for (token_id v = 0; v < l.model.vocab; ++v) {
                text += is_possible(before, static_cast<std::size_t>(c.position), v) ? '1' : '0';
              }
              return text;
            }()
            << " mask " << l.model.mask_token << " suppressed " << r.suppressed.size();
      }
      if (greedy && c.outcome == candidate_outcome::held) {  // law: and nothing else is excluded
        const segment& s = request->segments[0];
        const float* const read =
            logits.data() + std::ptrdiff_t{s.first_row + c.position - s.rows.first} * l.model.vocab;
        for (token_id v = 0; v < l.model.vocab; ++v) {
          ASSERT_TRUE(!is_possible(before, static_cast<std::size_t>(c.position), v) ||
                      !r.is_usable(v) || !(read[v] > read[c.token]))
              << "token " << c.token << " at " << c.position << ", not " << v;
        }
        ++n.greedy;
      }
    }
    follow();
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
  n.passes += pass;
  n.refused += refused;
  n.filled += filled;
  n.together += together ? 1 : 0;
  const sequence_report& report = session.report(0);
  ASSERT_EQ(report.masked, 0);
  ASSERT_TRUE(l.has(std::span(tokens).subspan(static_cast<std::size_t>(r.prompt))));
  ASSERT_TRUE(report.constraint_met);
}

}  // namespace unmask::testing
