// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A grammar that reads from left to right, masks at the frontier, and nothing committed beyond it:
// whatever the model would rather say, every decoded string is in the language.
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::frontier_test {
namespace {

// The language: balanced brackets around digits, such as 7(3(04))1; no other letter, no empty pair.
constexpr char letters[] = "()0123456789abcdefghijklmnopqrstuvwxyz";
constexpr index_t vocab = 39;  // the mask token is the last
constexpr token_id mask = vocab - 1;

bool is_in_the_language(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    const bool empty = text[i] == ')' && i > 0 && text[i - 1] == '(';
    if (depth < 0 || empty || std::string("()0123456789").find(text[i]) == std::string::npos) {
      return false;
    }
  }
  return depth == 0;
}

// Letters that may follow `text` so that `left` more letters, this one included, can end it: a
// grammar engine.
std::vector<std::uint32_t> allowed_behind(const std::string& text, index_t left) {
  std::vector<std::uint32_t> words((vocab + 31) / 32, 0U);
  const auto depth = static_cast<index_t>(std::count(text.begin(), text.end(), '(') -
                                          std::count(text.begin(), text.end(), ')'));
  const auto allow = [&words](token_id v) {
    words[static_cast<std::size_t>(v / 32)] |= 1U << static_cast<unsigned>(v % 32);
  };
  const bool just_opened = !text.empty() && text.back() == '(';
  if (depth + 3 <= left) {  // a digit and two brackets at the least
    allow(0);
  }
  if (depth > 0 && !just_opened) {
    allow(1);
  }
  if (depth + 1 <= left) {
    for (token_id v = 2; v < 12; ++v) {
      allow(v);
    }
  }
  return words;
}

struct sequence {
  index_t prompt_length = 0;
  index_t length = 0;
  index_t block_length = 0;
  range constrained;  ///< offsets of the answer
  std::vector<token_id> tokens;

  [[nodiscard]] std::string text(index_t from, index_t to) const {
    std::string s;
    for (index_t p = from; p < to; ++p) {
      s += letters[tokens[static_cast<std::size_t>(p)]];
    }
    return s;
  }
  [[nodiscard]] std::string field() const {
    return text(prompt_length + constrained.first, prompt_length + constrained.last);
  }
};

struct result {
  std::vector<std::string> fields;
  std::vector<sequence_report> reports;
};

// Decodes with masks at the frontier of each constrained field. `look` gets every step's commits.
template <class Policy>
result decode_grammar(
    const Policy& p,
    std::vector<sequence> all,
    std::uint64_t seed,
    index_t shift = 0,
    const std::function<void(const sequence&, std::span<const commit_entry>, index_t)>& look = {}) {
  session_capacity capacity{
      .sequences = static_cast<index_t>(all.size()), .length = 64, .window = 64};
  session<by_name_type<Policy>> s({.vocab = vocab, .mask_token = mask, .logits_shift = shift},
                                  capacity);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].tokens.assign(static_cast<std::size_t>(all[i].length), 5);
    s.start(static_cast<index_t>(i),
            by_name(p),
            tokens_view<memory::host>(all[i].tokens),
            {.prompt_length = all[i].prompt_length,
             .length = all[i].length,
             .block_length = all[i].block_length,
             .seed = seed,
             .sequence = static_cast<std::uint32_t>(i)});
  }
  const hashed_model model{.seed = seed, .vocab = vocab};
  while (const auto request = s.next()) {
    std::vector<float> logits;
    std::vector<std::uint32_t> words;
    std::vector<index_t> frontiers;
    for (const segment& part : request->segments) {
      const sequence& q = all[static_cast<std::size_t>(part.slot)];
      const range field{q.prompt_length + q.constrained.first,
                        q.prompt_length + q.constrained.last};
      index_t frontier = field.first;
      while (frontier < field.last && q.tokens[static_cast<std::size_t>(frontier)] != mask) {
        ++frontier;
      }
      frontiers.push_back(frontier);
      for (index_t r = part.rows.first; r < part.rows.last; ++r) {
        auto z = model.row(q.tokens, r);
        for (float& x : z) {
          x = std::max(x, -9.0F);  // no token is impossible, or a mask could leave none
        }
        logits.insert(logits.end(), z.begin(), z.end());
        std::vector<std::uint32_t> allowed((vocab + 31) / 32, ~0U);
        if (std::max(frontier - shift, 0) == r && frontier < field.last) {
          allowed = allowed_behind(q.text(field.first, frontier), field.last - frontier);
        }
        words.insert(words.end(), allowed.begin(), allowed.end());
      }
    }
    row_modifiers<float> modifiers;
    modifiers.allowed = words.data();
    modifiers.allowed_stride = (vocab + 31) / 32;
    s.supply(host_logits<float>(logits.data(), request->rows, vocab), modifiers);
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const index_t slot = request->segments[i].slot;
      if (look) {
        look(all[static_cast<std::size_t>(slot)], s.committed(slot), frontiers[i]);
      }
    }
  }
  result r;
  for (std::size_t i = 0; i < all.size(); ++i) {
    r.fields.push_back(all[i].field());
    r.reports.push_back(s.report(static_cast<index_t>(i)));
  }
  return r;
}

std::vector<sequence> random_sequences(chances& c, bool whole) {
  std::vector<sequence> all;
  for (index_t i = c.within(1, 3); i > 0; --i) {
    sequence q;
    q.prompt_length = c.within(1, 4);
    const index_t answer = c.within(4, 24);
    q.length = q.prompt_length + answer;
    q.block_length = c.within(2, 12);
    q.constrained = {whole ? 0 : c.within(0, answer - 1), answer};
    all.push_back(q);
  }
  return all;
}

template <class Policy>
void expect_in_the_language(const Policy& p, const char* name) {
  SCOPED_TRACE(name);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const auto all = random_sequences(c, true);
    const result r = decode_grammar(p, all, seed, c.within(0, 1));
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(is_in_the_language(r.fields[i])) << r.fields[i];
      EXPECT_EQ(r.reports[i].forwards, all[i].length - all[i].prompt_length) << "one token a step";
      EXPECT_EQ(r.reports[i].invalid_rows, 0);
    }
  }
}

TEST(at_frontier, keeps_every_answer_in_the_language) {
  expect_in_the_language(policy{by_confidence{}, at_frontier{}}, "alone");
  expect_in_the_language(policy{by_margin{}, threshold{0.9F} && at_frontier{}}, "threshold");
  expect_in_the_language(policy{by_confidence{}, threshold{0.1F} || at_frontier{}}, "or");
  expect_in_the_language(policy{by_entropy{}, at_frontier{} && entropy_bound{0.1F}, single_block{}},
                         "entropy");
  expect_in_the_language(
      policy{at_random{}, tokens_per_step{9} && at_frontier{}, trace_credit<24>{}}, "credit");
  expect_in_the_language(policy{by_confidence{},
                                threshold{0.5F} && at_frontier{},
                                sampling{2.0F},
                                top_p{0.9F},
                                presence_frequency_penalty<8>{.presence = 1.0F}},
                         "sampled");
}

// Blocks that are forced behind the frontier's have nothing to commit, and commit nothing.
TEST(at_frontier, holds_where_several_blocks_are_forced) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const auto all = random_sequences(c, true);
    const policy p{by_confidence{},
                   threshold{0.3F} && at_frontier{},
                   block_pipeline{.add = 0.0F, .activate = 0.0F, .at_once = 3}};
    const result r = decode_grammar(p, all, seed);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(is_in_the_language(r.fields[i])) << r.fields[i];
    }
  }
}

// The same masks without the rule lead outside.
TEST(at_frontier, is_what_keeps_it_there) {
  int outside = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    chances c(seed);
    const auto all = random_sequences(c, true);
    const result r = decode_grammar(policy{by_confidence{}, threshold{0.9F}}, all, seed);
    outside +=
        static_cast<int>(std::count_if(r.fields.begin(), r.fields.end(), [](const std::string& s) {
          return !is_in_the_language(s);
        }));
  }
  EXPECT_GT(outside, 20);
}

TEST(at_frontier, leaves_text_outside_the_field_free) {
  int saved = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 300);
    const auto all = random_sequences(c, false);
    for (const sequence& q : all) {
      const policy p{by_confidence{},
                     threshold{0.2F} && at_frontier{.first = q.constrained.first},
                     single_block{}};
      const result r = decode_grammar(p, {q}, seed);
      EXPECT_TRUE(is_in_the_language(r.fields[0])) << r.fields[0];
      saved += q.length - q.prompt_length - r.reports[0].forwards;
    }
  }
  EXPECT_GT(saved, 100);
}

TEST(at_frontier, commits_nothing_beyond_its_reach) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed + 600);
    const auto all = random_sequences(c, true);
    const index_t reach = c.within(0, 4);
    const policy p{by_confidence{}, threshold{0.2F} && at_frontier{.reach = reach}, single_block{}};
    decode_grammar(p,
                   all,
                   seed,
                   0,
                   [&](const sequence&, std::span<const commit_entry> commits, index_t frontier) {
                     several += commits.size() > 1 ? 1 : 0;
                     for (const commit_entry& e : commits) {
                       EXPECT_LE(e.position, frontier + reach);
                     }
                   });
  }
  EXPECT_GT(several, 50);
}

// Offsets 1 and 2 of an answer behind two tokens: 3 and then 0 are free, and 2 waits for 1, which
// does not wait for 0.
TEST(at_frontier, counts_its_field_from_the_end_of_the_prompt) {
  const policy p{by_confidence{},
                 tokens_per_step{1} && at_frontier{.reach = 0, .first = 1, .last = 3},
                 single_block{}};
  EXPECT_EQ(decode_confidences(p, {0.4, 0.5, 0.9, 0.95}, 2).order(),
            (std::vector<index_t>{5, 3, 4, 2}));
}

// A mask of zeros is a grammar's dead end: the frontier commits all the same, and nothing else
// does.
TEST(at_frontier, without_a_token_goes_on_from_the_frontier) {
  std::vector<token_id> text(4, 1);
  session s{by_name(policy{by_confidence{}, at_frontier{}}),
            model_info{.vocab = 3, .mask_token = 0},
            tokens_view<memory::host>(text),
            sequence_shape{.length = 4, .block_length = 4}};
  for (index_t step = 0; step < 4; ++step) {
    const auto request = s.next();
    ASSERT_TRUE(request);
    const std::vector<float> logits(12, 1.0F);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(request->rows), 7U);
    words[0] = 0;
    row_modifiers<float> modifiers;
    modifiers.allowed = words.data();
    modifiers.allowed_stride = 1;
    s.supply(host_logits<float>(logits.data(), request->rows, 3), modifiers);
    ASSERT_EQ(s.committed().size(), 1U);
    EXPECT_EQ(s.committed()[0].position, step);
  }
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(at_frontier, refuses_knobs_outside_their_range) {
  const sequence_shape g{.length = 4};
  EXPECT_NO_THROW(check_part(at_frontier{}, g));
  EXPECT_THROW(check_part(at_frontier{.reach = -1}, g), std::invalid_argument);
  EXPECT_THROW(check_part(at_frontier{.first = -1}, g), std::invalid_argument);
  EXPECT_THROW((check_part(at_frontier{.first = 3, .last = 2}, g)), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::frontier_test
