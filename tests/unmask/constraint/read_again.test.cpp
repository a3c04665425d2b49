// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refused candidates that are read again: rules with a fixed number of passes, and a canvas.
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/by_name.hpp"
#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/fields.hpp"
#include "support/languages.hpp"

namespace unmask::testing::read_again_test {
namespace {

constexpr constraint_limits small{.bytes = 1 << 18};

struct one_request {
  language l;
  std::optional<constraint> c;
  constrained_request r;
  random_rows rows;
  sequence_shape shape;

  explicit one_request(std::uint64_t seed, const constraint_limits& limits = small) {
    dice d(seed);
    l = random_language(d, d.within(3, 6));
    c = constraint_of(l, limits);
    r = random_constrained_request(d, l);
    rows = {seed, 4.0, d.chance(0.3)};
    shape = {.prompt_length = r.prompt,
             .length = r.prompt + r.answer,
             .block_length = r.block,
             .seed = r.seed};
  }
  [[nodiscard]] start_options options(std::span<const constrained_field> fields) const {
    return {.editable = r.editable, .suppressed = r.suppressed, .constraints = fields};
  }
};

/// Passes of a decode, or nothing if no answer is possible.
template <class Policy>
std::optional<sequence_report>
passes(const Policy& p, const one_request& q, std::span<const constrained_field> fields) {
  session s(by_name(p), q.l.model, {.length = q.shape.length, .window = q.r.answer});
  std::vector<token_id> tokens = q.r.tokens;
  try {
    s.start(0, {tokens.data(), q.shape.length}, q.shape, q.options(fields));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  for (int pass = 0; const auto request = s.next(); ++pass) {
    const std::vector<float> logits = q.rows.of(*request, pass, q.l.model.vocab);
    s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
  }
  if (!fields.empty()) {
    EXPECT_TRUE(s.report().constraint_met);
    EXPECT_TRUE(q.l.has(std::span(tokens).subspan(static_cast<std::size_t>(q.r.prompt))));
  }
  return s.report();
}

struct fixed_counts {
  int decodes = 0;
  int more_without = 0;  // decodes that take more passes without a second read
  int second_reads = 0;
};

template <class Policy>
void expect_fixed_passes(const Policy& p, std::uint64_t first, fixed_counts& n) {
  for (std::uint64_t seed = first; seed < first + 700; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    q.rows.hostile = false;  // a row without a finite logit under its mask may have one without
    if (!q.c) {
      continue;
    }
    const constrained_field again{.language = &*q.c, .fill = false, .read_again = true};
    const constrained_field waits{.language = &*q.c, .fill = false};
    const constrained_field fills{.language = &*q.c, .read_again = true};
    const auto with = passes(p, q, {&again, 1});
    if (!with) {
      continue;
    }
    const auto free = passes(p, q, {});
    ASSERT_EQ(with->forwards, free->forwards);
    ASSERT_EQ(with->refused, 0);
    ASSERT_LE(passes(p, q, {&fills, 1})->forwards, free->forwards);
    const auto without = passes(p, q, {&waits, 1});
    ASSERT_GE(without->forwards, free->forwards);
    ++n.decodes;
    n.more_without += without->forwards > free->forwards ? 1 : 0;
    n.second_reads += with->second_reads;
  }
}

TEST(constraint_read_again, keeps_the_number_of_passes) {
  fixed_counts n;
  expect_fixed_passes(policy{by_confidence{}, tokens_per_step{2}}, 0, n);
  expect_fixed_passes(policy{by_margin{}, steps_per_block{2}}, 1000, n);
  expect_fixed_passes(policy{by_confidence{}, timesteps{2}}, 2000, n);
  expect_fixed_passes(policy{at_random{}, tokens_per_step{3}, sampling{1.0F}}, 3000, n);
  expect_fixed_passes(
      policy{by_confidence{}, tokens_per_step{3}, sampling{1.0F}, top_k{2}}, 4000, n);
  expect_fixed_passes(policy{by_confidence{}, tokens_per_step{2}, trace_credit<4>{}}, 5000, n);
  EXPECT_GT(n.decodes, 1000);
  EXPECT_GT(n.more_without, 100);
  EXPECT_GT(n.second_reads, 200);
}

TEST(constraint_read_again, is_obeyed_by_every_kind_of_policy) {
  decode_counts n;
  const auto decode_with = [&](const auto& p, std::uint64_t seed, bool restricted = false) {
    SCOPED_TRACE(seed);
    one_request q(seed, seed % 2 == 0 ? small : constraint_limits{.bytes = 1 << 14, .entries = 16});
    if (!q.c) {
      return;
    }
    session s(
        by_name(p), q.l.model, {.length = q.shape.length, .window = q.r.answer, .trace = true});
    const constrained_field field{.language = &*q.c, .fill = q.r.fill, .read_again = true};
    decode_constrained(
        s,
        [&](std::vector<token_id>& tokens) {
          s.start(0, {tokens.data(), q.shape.length}, q.shape, q.options({&field, 1}));
        },
        q.l,
        q.r,
        most_forwards(p, q.shape),
        q.rows,
        restricted,
        n);
  };
  for (std::uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed) {
    decode_with(policy{by_confidence{}, threshold{dice(seed).real(0.0, 0.9)}}, seed);
    decode_with(policy{by_confidence{}, threshold{0.2F}, edit_committed{.threshold = 0.3F}}, seed);
    decode_with(policy{by_confidence{}, tokens_per_step{3}, sampling{1.0F}}, seed);
    decode_with(policy{by_confidence{}, threshold{0.3F}, min_new_tokens{2}}, seed, true);
    decode_with(policy{by_confidence{}, adaptive_threshold{}}, seed);
    decode_with(policy{by_confidence{}, threshold{0.3F}, block_pipeline{}}, seed);
    // Each of its blocks has to commit, so that one may be refused for the sake of another.
    decode_with(
        policy{by_confidence{}, threshold{0.99F}, block_pipeline{.add = 0.0F, .activate = 0.0F}},
        seed);
    decode_with(policy{by_confidence{}, tokens_per_step{3}, trace_credit<4>{}}, seed);
  }
  EXPECT_GT(n.decodes, 1500);
}

/// The best token of a row among those that are possible; the lowest of equals.
token_id best_of(std::span<const float> row, const std::vector<bool>& possible) {
  token_id best = no_token;
  for (token_id v = 0; v < static_cast<token_id>(row.size()); ++v) {
    const auto i = static_cast<std::size_t>(v);
    if (possible[i] && (best == no_token || row[i] > row[static_cast<std::size_t>(best)])) {
      best = v;
    }
  }
  return best;
}

// By an enumeration: the candidates of a step pass by rank with their best possible tokens, and
// those that are refused get, by rank, the best token that is possible by then.
TEST(constraint_read_again, gives_the_best_token_that_is_possible_by_then) {
  int read_again = 0;
  int decodes = 0;
  int several = 0;  // steps with more than one, whose order matters
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    q.rows.hostile = false;
    if (!q.c) {
      continue;
    }
    const policy p{by_confidence{}, tokens_per_step{5}};
    const constrained_field field{.language = &*q.c, .fill = false, .read_again = true};
    session s(
        by_name(p), q.l.model, {.length = q.shape.length, .window = q.r.answer, .trace = true});
    std::vector<token_id> tokens = q.r.tokens;
    std::vector<token_id> x;
    for (index_t at = 0; at < q.shape.length; ++at) {
      x.push_back(q.r.is_masked(at) ? no_token : tokens[static_cast<std::size_t>(at)]);
    }
    try {
      s.start(0, {tokens.data(), q.shape.length}, q.shape, q.options({&field, 1}));
    } catch (const std::invalid_argument&) {
      continue;
    }
    ++decodes;
    const int before_decode = read_again;
    const strings all(q.l, q.r.answer);
    const auto possible = [&](index_t at) {
      std::vector<bool> out = possible_tokens(all, q.l, q.r, x)[static_cast<std::size_t>(at)];
      for (const token_id v : q.r.suppressed) {
        out[static_cast<std::size_t>(v)] = false;
      }
      return out;
    };
    for (int pass = 0; const auto request = s.next(); ++pass) {
      const std::vector<float> logits = q.rows.of(*request, pass, q.l.model.vocab);
      const auto row = [&](index_t at) {
        const auto vocab = static_cast<std::size_t>(q.l.model.vocab);
        const index_t r = at - request->segments[0].rows.first;
        return std::span(logits).subspan(static_cast<std::size_t>(r) * vocab, vocab);
      };
      std::vector<std::vector<bool>> before;
      for (index_t at = 0; at < q.shape.length; ++at) {
        before.push_back(possible(at));
      }
      s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
      std::vector<candidate_entry> by_rank;
      for (const candidate_entry& c : s.candidates(0)) {
        if (c.committed) {
          by_rank.push_back(c);
        }
      }
      std::sort(by_rank.begin(), by_rank.end(), [](const auto& a, const auto& b) {
        return a.rank < b.rank;
      });
      std::vector<index_t> refused;
      for (const candidate_entry& c : by_rank) {
        const auto at = static_cast<std::size_t>(c.position);
        const token_id first = best_of(row(c.position), before[at]);
        if (possible(c.position)[static_cast<std::size_t>(first)]) {
          x[at] = first;
        } else {
          refused.push_back(c.position);
        }
      }
      for (const index_t at : refused) {
        x[static_cast<std::size_t>(at)] = best_of(row(at), possible(at));
        ++read_again;
      }
      for (const candidate_entry& c : by_rank) {
        ASSERT_EQ(c.token, x[static_cast<std::size_t>(c.position)]) << "position " << c.position;
        ASSERT_NE(c.outcome, candidate_outcome::refused);
      }
      ASSERT_EQ(s.report().second_reads, read_again - before_decode);
      several += refused.size() > 1 ? 1 : 0;
      if (HasFailure()) {
        return;
      }
    }
  }
  EXPECT_GT(decodes, 400);
  EXPECT_GT(read_again, 50);
  EXPECT_GT(several, 20);
}

TEST(constraint_read_again, keeps_rows_and_says_so) {
  one_request q(0);
  q.l.bytes = {std::vector<std::uint32_t>(256, 0), {1}, 0};
  q.l.words.assign(q.l.words.size(), "a");
  constraint c(q.l.bytes.view(), q.l.lifted_to(), small);
  const constrained_field field{.language = &c, .read_again = true};
  const policy p{by_confidence{}, tokens_per_step{2}};
  session s(by_name(p), q.l.model, {.length = 3, .window = 3});
  std::vector<token_id> tokens(3, 0);
  s.start(0, {tokens.data(), 3}, {.length = 3}, {.constraints = {&field, 1}});
  ASSERT_TRUE(s.next());
  const std::vector<float> logits(static_cast<std::size_t>(3 * q.l.model.vocab), 0.0F);
  const host_logits<float> rows(logits.data(), 3, q.l.model.vocab);
  EXPECT_THROW(s.read(0, rows), std::logic_error);
  s.supply(rows);
  EXPECT_EQ(s.report().committed, 2);
}

struct canvas_counts {
  int decodes = 0;
  int second_reads = 0;
};

// A canvas is read under the tokens that are possible in any string, and ends in one.
TEST(constraint_read_again, gives_a_canvas_an_end_in_the_language) {
  canvas_counts n;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    if (!q.c) {
      continue;
    }
    q.l.model.suppress_mask = dice(seed).chance(0.5);
    const policy p{by_entropy{},
                   entropy_bound{0.5F},
                   canvas{.vocab = q.l.model.vocab, .steps = 1 + static_cast<index_t>(seed % 5)}};
    const constrained_field field{.language = &*q.c, .fill = q.r.fill};
    session s(
        by_name(p), q.l.model, {.length = q.shape.length, .window = q.r.answer, .trace = true});
    std::vector<token_id> tokens = q.r.tokens;
    try {
      s.start(0, {tokens.data(), q.shape.length}, q.shape, q.options({&field, 1}));
    } catch (const std::invalid_argument&) {
      continue;
    }
    const strings all(q.l, q.r.answer);
    std::vector<token_id> x;
    for (index_t at = 0; at < q.shape.length; ++at) {
      x.push_back(q.r.is_masked(at) ? no_token : q.r.tokens[static_cast<std::size_t>(at)]);
    }
    for (const commit_entry& e : s.committed(0)) {
      x[static_cast<std::size_t>(e.position)] = e.token;
    }
    const auto possible = possible_tokens(all, q.l, q.r, x);
    int pass = 0;
    while (const auto request = s.next()) {
      const std::vector<float> logits = q.rows.of(*request, pass++, q.l.model.vocab);
      s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
      for (const candidate_entry& e : s.candidates(0)) {
        ASSERT_TRUE(
            possible[static_cast<std::size_t>(e.position)][static_cast<std::size_t>(e.token)]);
      }
    }
    ASSERT_LE(pass, 1 + static_cast<int>(seed % 5));
    ASSERT_EQ(s.report().masked, 0);
    ASSERT_TRUE(s.report().constraint_met);
    ASSERT_TRUE(q.l.has(std::span(tokens).subspan(static_cast<std::size_t>(q.r.prompt))));
    ++n.decodes;
    n.second_reads += s.report().second_reads;
  }
  EXPECT_GT(n.decodes, 700);
  EXPECT_GT(n.second_reads, 200);
}

TEST(constraint_read_again, changes_no_bit_of_a_canvas_where_everything_is_possible) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    q.l.model.eos_token = no_token;
    q.l.also_eos.clear();
    q.r.suppressed.clear();
    for (std::string& word : q.l.words) {
      word = word.empty() ? "a" : word;
    }
    for (token_id& v : q.r.tokens) {  // a given mask token is no text
      v = v == q.l.model.mask_token ? (v + 1) % q.l.model.vocab : v;
    }
    const byte_table any{std::vector<std::uint32_t>(256, 0), {1}, 0};
    constraint c(any.view(), q.l.lifted_to(), small);
    const policy p{by_entropy{}, entropy_bound{0.5F}, canvas{.vocab = q.l.model.vocab, .steps = 4}};
    const constrained_field field{.language = &c, .fill = q.l.model.vocab > 2};
    std::vector<token_id> ends[2];
    std::vector<commit_entry> commits[2];
    for (int constrained = 0; constrained < 2; ++constrained) {
      session s(by_name(p), q.l.model, {.length = q.shape.length, .window = q.r.answer});
      std::vector<token_id>& tokens = ends[constrained];
      tokens = q.r.tokens;
      s.start(0,
              {tokens.data(), q.shape.length},
              q.shape,
              q.options({&field, static_cast<std::size_t>(constrained)}));
      for (int pass = 0; const auto request = s.next(); ++pass) {
        const std::vector<float> logits = q.rows.of(*request, pass, q.l.model.vocab);
        s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
      }
      const auto committed = s.committed(0);
      commits[constrained].assign(committed.begin(), committed.end());
    }
    ASSERT_EQ(ends[0], ends[1]);
    ASSERT_EQ(difference(fields_of(commits[0]), fields_of(commits[1])), "");
  }
}

}  // namespace
}  // namespace unmask::testing::read_again_test
