// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/by_name.hpp"
#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/fields.hpp"
#include "support/languages.hpp"

namespace unmask::testing::laws_test {
namespace {

constexpr constraint_limits small{.bytes = 1 << 18};

/// Everything that a decode shows.
struct decoded {
  std::vector<token_id> tokens = {};
  std::vector<std::vector<commit_entry>> steps = {};
  std::vector<std::vector<candidate_entry>> candidates = {};
  sequence_report report = {};
  std::uint32_t state = 0;
};

void expect_same(const decoded& a, const decoded& b) {
  ASSERT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    ASSERT_EQ(
        difference(fields_of(a.steps[i], a.candidates[i]), fields_of(b.steps[i], b.candidates[i])),
        "")
        << "step " << i;
  }
  ASSERT_EQ(difference(fields_of(a.report), fields_of(b.report)), "");
}

/// Decodes in `slot` of a session while the other slots decode something else.
template <class Policy>
decoded decode_in(const Policy& p,
                  const language& l,
                  const constrained_request& r,
                  const random_rows& rows,
                  std::span<const constrained_field> fields,
                  index_t slots = 1,
                  index_t slot = 0,
                  const on_host& where = {}) {
  const index_t length = r.prompt + r.answer;
  const sequence_shape shape{
      .prompt_length = r.prompt, .length = length, .block_length = r.block, .seed = r.seed};
  session s(by_name(p),
            l.model,
            {.sequences = slots, .length = length, .window = r.answer, .trace = true},
            where);
  decoded out{.tokens = r.tokens};
  std::vector<std::vector<token_id>> others(static_cast<std::size_t>(slots), r.tokens);
  for (index_t k = 0; k < slots; ++k) {
    auto& tokens = k == slot ? out.tokens : others[static_cast<std::size_t>(k)];
    const bool is_constrained = k == slot || k % 2 == 0;
    s.start(k,
            {tokens.data(), length},
            shape,
            {.editable = r.editable,
             .suppressed = r.suppressed,
             .constraints = is_constrained ? fields : std::span<const constrained_field>()});
  }
  const auto keep = [&] {
    const auto committed = s.committed(slot);
    const auto candidates = s.candidates(slot);
    out.steps.emplace_back(committed.begin(), committed.end());
    out.candidates.emplace_back(candidates.begin(), candidates.end());
    for (commit_entry& e : out.steps.back()) {
      e.slot = 0;
    }
    for (candidate_entry& e : out.candidates.back()) {
      e.slot = 0;
    }
    out.report = s.report(slot);
  };
  keep();
  std::vector<int> passes(static_cast<std::size_t>(slots), 0);
  while (const auto request = s.next()) {
    const auto vocab = static_cast<std::size_t>(l.model.vocab);
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * vocab);
    bool runs = false;
    for (const segment& g : request->segments) {
      random_rows own = rows;
      own.seed += g.slot == slot ? 0 : static_cast<std::uint64_t>(1 + g.slot);
      for (index_t q = g.rows.first; q < g.rows.last; ++q) {
        const auto at = static_cast<std::size_t>(g.first_row + q - g.rows.first) * vocab;
        own.write(
            passes[static_cast<std::size_t>(g.slot)], q, std::span(logits).subspan(at, vocab));
      }
      ++passes[static_cast<std::size_t>(g.slot)];
      runs = runs || g.slot == slot;
    }
    s.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab));
    if (runs) {
      keep();
    }
  }
  out.state = fields.empty() ? 0 : s.constraint_state(slot);
  return out;
}

struct one_request {
  language l;
  std::optional<constraint> c;
  constrained_request r;
  random_rows rows;

  explicit one_request(std::uint64_t seed, const constraint_limits& limits = small) {
    dice d(seed);
    l = random_language(d, d.within(3, 6));
    c = constraint_of(l, limits);
    r = random_constrained_request(d, l);
    rows = {seed, 4.0, d.chance(0.3)};
  }
  [[nodiscard]] bool is_possible() {
    if (!c) {
      return false;
    }
    try {
      const constrained_field field{.language = &*c};
      static_cast<void>(
          decode_in(policy{by_confidence{}, threshold{0.3F}}, l, r, rows, {&field, 1}));
    } catch (const std::invalid_argument&) {
      return false;
    }
    return true;
  }
};

TEST(constraint, that_allows_everything_changes_no_bit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    q.l.model.eos_token = no_token;
    q.l.also_eos.clear();
    for (std::string& word : q.l.words) {
      word = word.empty() ? "a" : word;
    }
    for (token_id& v : q.r.tokens) {  // a given mask token is no text
      v = v == q.l.model.mask_token ? (v + 1) % q.l.model.vocab : v;
    }
    q.r.suppressed.clear();
    const byte_table any{std::vector<std::uint32_t>(256, 0), {1}, 0};
    constraint all(any.view(), q.l.lifted_to(), small);
    const constrained_field field{.language = &all, .fill = q.l.model.vocab > 2};
    const auto compare = [&](const auto& p) {
      decoded with = decode_in(p, q.l, q.r, q.rows, {&field, 1});
      const decoded without = decode_in(p, q.l, q.r, q.rows, {});
      ASSERT_EQ(with.report.refused, 0);
      ASSERT_EQ(with.report.filled, 0);
      ASSERT_TRUE(with.report.constraint_met);
      with.report.constraint_met = false;
      expect_same(with, without);
    };
    compare(policy{by_margin{}, threshold{0.4F}, sampling{1.0F}});
    compare(policy{by_confidence{}, tokens_per_step{2}, edit_committed{.threshold = 0.4F}});
  }
}

TEST(constraint, decides_the_same_in_any_slot_batch_and_memory) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed, {.bytes = 1 << 20});
    if (!q.is_possible()) {
      continue;
    }
    ++compared;
    const policy p{by_confidence{}, threshold{0.3F}, sampling{1.0F}};
    const constrained_field field{.language = &*q.c, .fill = q.r.fill};
    const decoded alone = decode_in(p, q.l, q.r, q.rows, {&field, 1});
    expect_same(decode_in(p, q.l, q.r, q.rows, {&field, 1}), alone);  // with a warm memory
    expect_same(decode_in(p, q.l, q.r, q.rows, {&field, 1}, 4, 3), alone);
    std::optional<constraint> tiny = constraint_of(q.l, {.bytes = 1 << 14, .entries = 16});
    const constrained_field narrow{.language = &*tiny, .fill = q.r.fill};
    expect_same(decode_in(p, q.l, q.r, q.rows, {&narrow, 1}), alone);
    constraint other = q.c->another();
    const constrained_field elsewhere{.language = &other, .fill = q.r.fill};
    expect_same(decode_in(p, q.l, q.r, q.rows, {&elsewhere, 1}), alone);
    on_host portable;
    portable.instruction_set = host::instruction_set::portable;
    expect_same(decode_in(p, q.l, q.r, q.rows, {&field, 1}, 1, 0, portable), alone);
  }
  EXPECT_GT(compared, 80);
}

TEST(constraint, of_one_string_takes_no_forward_pass) {
  language l;
  l.words = {"a", "b", "", "$"};
  l.model = {.vocab = 4, .mask_token = 2, .eos_token = 3};
  l.bytes = {std::vector<std::uint32_t>(4 * 256, dead_state), {0, 0, 0, 1}, 0};
  l.bytes.next['a'] = 1;  // "aba"
  l.bytes.next[256 + 'b'] = 2;
  l.bytes.next[512 + 'a'] = 3;
  constraint c(l.bytes.view(), l.lifted_to(), small);
  const constrained_field field{.language = &c};
  constrained_request r{.prompt = 1, .answer = 5, .block = 2, .tokens = {1, 0, 0, 0, 0, 0}};
  const decoded d = decode_in(policy{by_confidence{}, tokens_per_step{1}}, l, r, {}, {&field, 1});
  EXPECT_EQ(d.tokens, (std::vector<token_id>{1, 0, 1, 0, 3, 3}));
  EXPECT_EQ(d.report.forwards, 0);
  EXPECT_EQ(d.report.filled, 5);
  EXPECT_EQ(d.report.committed, 5);
  EXPECT_EQ(d.report.end, ending::complete);
  EXPECT_TRUE(d.report.constraint_met);
  ASSERT_EQ(d.steps[0].size(), 5U);
  EXPECT_EQ(d.steps[0][0].step, -1);
  EXPECT_EQ(d.steps[0][4].block, 2);
  const constrained_field waits{.language = &c, .fill = false};
  const decoded w = decode_in(policy{by_confidence{}, tokens_per_step{1}}, l, r, {}, {&waits, 1});
  EXPECT_EQ(w.tokens, d.tokens);
  EXPECT_EQ(w.report.forwards, 5);
}

TEST(constraint, of_the_whole_answer_is_a_field_of_it) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    if (!q.is_possible()) {
      continue;
    }
    const policy p{by_confidence{}, threshold{0.3F}};
    const constrained_field field{.language = &*q.c};
    const constrained_field whole{.language = &*q.c, .first = 0, .last = q.r.answer};
    expect_same(decode_in(p, q.l, q.r, q.rows, {&field, 1}),
                decode_in(p, q.l, q.r, q.rows, {&whole, 1}));
  }
}

TEST(constraint, is_obeyed_block_by_block_in_sequences_of_their_own) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    q.r.editable.clear();
    q.r.suppressed.clear();
    q.r.answer = 4;
    q.r.tokens.resize(static_cast<std::size_t>(q.r.prompt + q.r.answer), 0);
    q.r.block = 2;
    q.rows.hostile = false;
    if (!q.is_possible()) {
      continue;
    }
    ++compared;
    // In one sequence: blocks of two, without filling ahead of them.
    const policy p{by_confidence{}, tokens_per_step{1}};
    const constrained_field field{.language = &*q.c, .fill = false};
    const decoded whole = decode_in(p, q.l, q.r, q.rows, {&field, 1});
    // Each block as a sequence: the tokens before it are its prompt.
    std::vector<token_id> tokens = q.r.tokens;
    std::uint32_t state = from_start;
    for (index_t b = 0; b < 2; ++b) {
      constrained_request r = q.r;
      r.prompt = q.r.prompt + 2 * b;
      r.answer = 2;
      r.tokens.assign(tokens.begin(), tokens.begin() + r.prompt + 2);
      const constrained_field own{
          .language = &*q.c, .tokens_after = 2 - 2 * b, .state = state, .fill = false};
      random_rows rows = q.rows;
      const index_t before = 2 * b;  // passes of the first block
      const decoded d = [&] {
        struct shifted : random_rows {
          index_t by = 0;
        };
        const sequence_shape shape{
            .prompt_length = r.prompt, .length = r.prompt + 2, .block_length = 2, .seed = r.seed};
        session s(by_name(p), q.l.model, {.length = shape.length, .window = 2, .trace = true});
        decoded out{.tokens = r.tokens};
        s.start(0, {out.tokens.data(), shape.length}, shape, {.constraints = {&own, 1}});
        index_t pass = before;
        while (const auto request = s.next()) {
          std::vector<float> logits(static_cast<std::size_t>(request->rows) *
                                    static_cast<std::size_t>(q.l.model.vocab));
          const segment& g = request->segments[0];
          for (index_t k = g.rows.first; k < g.rows.last; ++k) {
            rows.write(pass,
                       k,
                       std::span(logits).subspan(static_cast<std::size_t>(k - g.rows.first) *
                                                     static_cast<std::size_t>(q.l.model.vocab),
                                                 static_cast<std::size_t>(q.l.model.vocab)));
          }
          s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
          ++pass;
        }
        out.state = s.constraint_state(0);
        out.report = s.report(0);
        return out;
      }();
      EXPECT_TRUE(d.report.constraint_met);
      state = d.state;
      std::copy(d.tokens.begin(), d.tokens.end(), tokens.begin());
    }
    EXPECT_EQ(tokens, whole.tokens);
    EXPECT_TRUE(q.l.has(std::span(tokens).subspan(static_cast<std::size_t>(q.r.prompt))));
  }
  EXPECT_GT(compared, 100);
}

TEST(constraint, of_two_fields_is_obeyed_in_both) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d, d.within(3, 6));
    std::optional<constraint> c = constraint_of(l, small);
    if (!c) {
      continue;
    }
    const constrained_request r{
        .prompt = 1, .answer = 6, .block = 3, .tokens = std::vector<token_id>(7, 0), .seed = seed};
    const constrained_field fields[] = {{.language = &*c, .first = 0, .last = 2},
                                        {.language = &*c, .first = 3, .last = 6}};
    decoded out;
    try {
      out = decode_in(policy{by_confidence{}, threshold{0.2F}}, l, r, {seed, 3.0, false}, fields);
    } catch (const std::invalid_argument&) {
      continue;
    }
    ++compared;
    EXPECT_TRUE(out.report.constraint_met);
    EXPECT_TRUE(l.has(std::span(out.tokens).subspan(1, 2)));
    EXPECT_TRUE(l.has(std::span(out.tokens).subspan(4, 3)));
  }
  EXPECT_GT(compared, 60);
}

TEST(constraint, promises_nothing_more_behind_a_stop) {
  int met = 0;
  int unmet = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    if (!q.is_possible()) {
      continue;
    }
    const constrained_field field{.language = &*q.c, .fill = q.r.fill};
    const decoded d = decode_in(
        policy{by_confidence{}, tokens_per_step{1}, max_steps{1}}, q.l, q.r, q.rows, {&field, 1});
    const bool is_whole = d.report.masked == 0 || q.l.model.eos_token != no_token;
    const bool is_in =
        is_whole && q.l.has(std::span(d.tokens).subspan(static_cast<std::size_t>(q.r.prompt)));
    ASSERT_EQ(d.report.constraint_met, is_in);
    ++(is_in ? met : unmet);
  }
  EXPECT_GT(met, 30);
  EXPECT_GT(unmet, 30);
}

std::string refusal(const auto& work) {
  try {
    work();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(constraint, refuses_what_it_does_not_go_with) {
  one_request q(0);
  q.l.bytes = {std::vector<std::uint32_t>(256, 0), {1}, 0};
  q.l.words.assign(q.l.words.size(), "a");
  constraint c(q.l.bytes.view(), q.l.lifted_to(), small);
  const constrained_field field{.language = &c};
  const constrained_request r{
      .prompt = 1, .answer = 3, .block = 3, .tokens = std::vector<token_id>(4, 0)};
  const auto of = [&](const auto& p, std::span<const constrained_field> fields) {
    return refusal([&] {
      std::vector<token_id> tokens = r.tokens;
      session s(by_name(p), q.l.model, {.length = 4, .window = 3, .branches = 2, .trace = true});
      s.start(0, {tokens.data(), 4}, {.prompt_length = 1, .length = 4}, {.constraints = fields});
    });
  };
  const policy plain{by_confidence{}, threshold{0.9F}};
  EXPECT_EQ(of(plain, {&field, 1}), "");
  EXPECT_EQ(of(policy{by_confidence{}, threshold{0.9F}, lookahead{.branches = 2}}, {&field, 1}),
            "constraint does not combine with lookahead yet, nor with drafts: a branch places "
            "tokens without "
            "testing them");
  EXPECT_EQ(
      of(policy{by_confidence{}, threshold{0.9F}, remask_below{.confidence = 0.2F}}, {&field, 1}),
      "constraint does not combine with remask_below yet: committed positions that compete would "
      "have to be tested as masked");
  const constrained_field none{};
  EXPECT_EQ(of(plain, {&none, 1}), "constrained_field::language must be a constraint, got null");
  const constrained_field overlap[] = {{.language = &c, .first = 0, .last = 2},
                                       {.language = &c, .first = 1, .last = 3}};
  EXPECT_EQ(of(plain, overlap),
            "constrained_field::first must be after the field before it, in [2, length of the "
            "answer = 3], got 1");
  const constrained_field backwards{.language = &c, .first = 2, .last = 1};
  EXPECT_NE(of(plain, {&backwards, 1}).find("constrained_field::last"), std::string::npos);
  const constrained_field elsewhere{.language = &c, .state = 1000};
  EXPECT_NE(of(plain, {&elsewhere, 1}).find("constrained_field::state"), std::string::npos);
  language other = q.l;
  other.model.mask_token = (q.l.model.mask_token + 1) % q.l.model.vocab;
  other.model.eos_token = no_token;
  other.also_eos.clear();
  constraint strange(other.bytes.view(), other.lifted_to(), small);
  const constrained_field wrong{.language = &strange};
  EXPECT_NE(of(plain, {&wrong, 1}).find("constraint was made for a model with vocab"),
            std::string::npos);
}

TEST(constraint, of_a_cancelled_sequence_reads_no_token) {
  int met = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    one_request q(seed);
    if (!q.is_possible() || q.r.answer < 2) {
      continue;
    }
    // The first position obeys the language, the others are free.
    const constrained_field field{.language = &*q.c, .last = 1};
    auto tokens = std::make_unique<std::vector<token_id>>(q.r.tokens);
    const auto length = static_cast<index_t>(tokens->size());
    session s(by_name(policy{by_confidence{}, tokens_per_step{1}}),
              q.l.model,
              {.length = length, .window = length});
    try {
      s.start(0,
              {tokens->data(), length},
              {.prompt_length = q.r.prompt, .length = length},
              {.constraints = {&field, 1}});
    } catch (const std::invalid_argument&) {
      continue;
    }
    if (s.report(0).end != ending::running) {
      continue;
    }
    const bool is_filled = s.report(0).masked < q.r.answer;
    tokens.reset();
    s.cancel(0);
    EXPECT_EQ(s.report(0).constraint_met, is_filled);
    met += is_filled ? 1 : 0;
  }
  EXPECT_GT(met, 0);
}

TEST(constraint, may_end_before_its_sequences) {
  one_request q(3);
  for (std::uint64_t seed = 3; !q.is_possible(); ++seed) {
    q = one_request(seed);
  }
  std::vector<token_id> tokens = q.r.tokens;
  const auto length = static_cast<index_t>(tokens.size());
  const policy p{by_confidence{}, threshold{0.3F}};
  session s(by_name(p), q.l.model, {.length = length, .window = length});
  {
    constraint gone = q.c->another();
    const constrained_field field{.language = &gone};
    s.start(0,
            {tokens.data(), length},
            {.prompt_length = q.r.prompt, .length = length, .block_length = q.r.block},
            {.editable = q.r.editable, .suppressed = q.r.suppressed, .constraints = {&field, 1}});
  }
  while (const auto request = s.next()) {
    const std::vector<float> logits(static_cast<std::size_t>(request->rows) *
                                    static_cast<std::size_t>(q.l.model.vocab));
    s.supply(host_logits<float>(logits.data(), request->rows, q.l.model.vocab));
  }
  EXPECT_TRUE(q.l.has(std::span(tokens).subspan(static_cast<std::size_t>(q.r.prompt))));
}

}  // namespace
}  // namespace unmask::testing::laws_test
