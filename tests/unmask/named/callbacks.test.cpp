// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts for which a function of the host decides: each beside the part of the library with the same
// rule, on random requests. Both decode the same tokens in the same passes, with the same records
// of every candidate.
#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/fields.hpp"
#include "support/languages.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::callbacks_test {
namespace {

// Writes rule(candidate, step) for each candidate.
template <auto Rule>
void each(void*, const callback_step& step, float* answers) {
  for (const callback_candidate& c : step.candidates) {
    *answers++ = static_cast<float>(Rule(c, step));
  }
}

void entropies_within(void*, const callback_step& step, float* answers) {
  float sum = 0.0F;
  float largest = -std::numeric_limits<float>::infinity();
  for (const callback_candidate& c : step.candidates) {
    const float rest = c.entropy >= largest ? sum : sum - largest + c.entropy;
    const bool may = c.rank == 0 || std::isfinite(c.entropy);  // not if it is ranked last
    *answers++ = may && rest <= step.arguments[0] ? 1.0F : 0.0F;
    sum += c.entropy;
    largest = std::max(largest, c.entropy);
  }
}

bool is_masked(const callback_step& s, index_t p) {
  return s.view.marks[p] == mark::masked;
}

void stop_at_eos_token(void*, const callback_step& s, float* answer) {
  for (index_t p = s.view.prompt_length; p < s.view.committed_prefix; ++p) {
    *answer = s.view.tokens[p] == s.view.eos_token && p >= s.view.ends_from ? 2.0F : *answer;
  }
}

// Registers the parts once.
void give_names() {
  using c = const callback_candidate&;
  using s = const callback_step&;
  const function_argument value[] = {{"value", 0.9, within(0, 8)}};
  const function_argument count[] = {{"count", 2, at_least(0), true}};
  const function_argument range[] = {{"start", 0.9}, {"end", 0.7}};
  using enum callback_stage;
  const part_function all[] = {
      {rule,
       "above",
       "a line",
       value,
       &each<[](c x, s q) { return q.arguments[0] < x.confidence; }>},
      {rule, "first", "", count, &each<[](c x, s q) { return float(x.rank) < q.arguments[0]; }>},
      {rule, "within", "", value, &entropies_within},
      {rule,
       "best_and_certain",
       "",
       value,
       &each<[](c x, s q) { return x.rank == 0 || x.entropy <= q.arguments[0]; }>},
      {rule, "in_steps", "", count, &each<[](c x, s q) {
         const auto steps = index_t(q.arguments[0]);
         const index_t all_of_block = x.block_masked_at_first;
         const index_t step = x.block_step;
         return x.rank < (step >= steps ? 0 : all_of_block / steps + (step < all_of_block % steps));
       }>},
      {rule, "moving", "", range, &each<[](c x, s q) {
         const float done = float(x.block_length - x.block_masked) / float(x.block_length);
         return std::fma(done, q.arguments[1] - q.arguments[0], q.arguments[0]) < x.confidence;
       }>},
      {rule, "none", "", {}, &each<[](c, s) { return false; }>},
      {ranking, "margins", "", {}, &each<[](c x, s) { return x.margin; }>},
      {ranking, "entropies", "", {}, &each<[](c x, s) { return -x.entropy; }>},
      {ranking, "leftmost", "", {}, &each<[](c x, s) { return -float(x.position); }>},
      {filter, "ends_last", "", {}, &each<[](c x, s q) { return x.token == q.view.eos_token; }>},
      {filter, "ends_after_neighbour", "", {}, &each<[](c x, s q) {
         return x.token == q.view.eos_token && q.view.prompt_length < x.position &&
                        is_masked(q, x.position - 1)
                    ? 2
                    : 0;
       }>},
      {stop, "ends", "", {}, &stop_at_eos_token},
      {stop,
       "after",
       "",
       count,
       [](void*, s q, float* answer) {
         *answer = float(q.view.step) >= q.arguments[0] && q.view.masked_count > 0 ? 4.0F : 0.0F;
       }},
  };
  static const bool once = [&all] {
    for (const part_function& p : all) {
      register_part(p);
    }
    return true;
  }();
  static_cast<void>(once);
}

// A text twice: with parts of the library, and with functions.
struct twins {
  std::string library;
  std::string functions;

  void add(const std::string& before, const std::string& a, const std::string& b) {
    library += before + a;
    functions += before + b;
  }
};

std::string number(chances& c, double low, double high) {
  std::ostringstream text;
  text << c.real(low, high);
  return text.str();
}

// A commit rule twice.
twins random_rule(chances& c, int depth) {
  if (depth > 0 && c.chance(0.4)) {
    const char* const joint[] = {"any_of(", "all_of(", "at_most(3, "};
    const int k = c.within(0, 2);
    twins t{joint[k], joint[k]};
    for (int operand = 0; operand < (k == 2 ? 1 : 2); ++operand) {
      const twins rule = random_rule(c, depth - 1);
      t.add(operand > 0 ? ", " : "", rule.library, rule.functions);
    }
    t.add(")", "", "");
    return t;
  }
  const std::string share = number(c, 0.3, 1.0);
  const std::string few = std::to_string(c.within(1, 4));
  const twins rules[] = {
      {"threshold(" + share + ")", "above(" + share + ")"},
      {"threshold", "above"},
      {"tokens_per_step(" + few + ")", "first(count=" + few + ")"},
      {"entropy_below(" + share + ")", "best_and_certain(" + share + ")"},
      {"steps_per_block(" + few + ")", "in_steps(" + few + ")"},
      {"moving_threshold(" + share + ", 0.5)", "moving(" + share + ", end=0.5)"}};
  return rules[c.within(0, 5)];
}

twins random_policy(chances& c, bool constrained) {
  const twins rankings[] = {{"by_margin", "margins"},
                            {"by_entropy", "entropies"},
                            {"left_to_right", "leftmost"},
                            {"by_confidence", "by_confidence"}};
  twins t = rankings[c.within(0, 3)];
  if (c.chance(0.2)) {
    const std::string bound = number(c, 0.1, 2.0);
    t.add(" + ", "entropy_bound(" + bound + ")", "within(" + bound + ")");
  } else {
    const twins rule = random_rule(c, 2);
    t.add(" + ", rule.library, rule.functions);
  }
  if (c.chance(0.3)) {
    t.add(" + ", "eos_last", "ends_last");
  }
  if (c.chance(0.3) && t.functions.find("ends_last") == std::string::npos) {
    t.add(" + ", "eos_gate", "ends_after_neighbour");
  }
  if (c.chance(0.4)) {
    t.add(" + ", "stop_at_eos", "ends");
  }
  if (c.chance(0.2)) {
    t.add(" + ", "max_steps(3)", "after(3)");
  }
  const char* const more[] = {"dual_cache",
                              "single_block",
                              "trace_credit",
                              "sampling(1)",
                              "no_equal_neighbours",
                              "lookahead(2)",
                              "drafts(2)",
                              "beam(2)",
                              "edit_committed(0.4)",
                              "remask_current_below(0.5, 4)",
                              "remask_below(0.3)",
                              "slow_fast"};
  for (int k = c.within(0, 2); k > 0; --k) {
    const char* const part = more[c.within(0, constrained ? 4 : 11)];
    if (t.library.find(part) == std::string::npos) {
      t.add(" + ", part, part);
    }
  }
  return t;
}

constexpr index_t slots = 3;

// Sequences of one session.
struct decode {
  named_session session;
  std::vector<token_id> text[slots] = {};

  void start(index_t slot, const named_policy& p, const dense_request& q, start_options options) {
    text[slot].assign(static_cast<std::size_t>(q.geometry.length), 1);
    session.start(slot, p, {text[slot].data(), q.geometry.length}, q.geometry, options);
  }
  void supply(const dense_request& q, const forward_request& request) {
    std::vector<float> logits;
    for (const segment& s : request.segments) {
      const forward_request one{{&s, 1}, s.rows.size()};
      const std::vector<float> rows = requested_rows(
          one, text[s.slot], [&](const auto& x, index_t i) { return q.logits.row(x, i); });
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    session.supply(host_logits<float>(logits.data(), request.rows, q.model.vocab));
  }
  [[nodiscard]] fields seen(index_t slot) {
    fields all;
    all.add("report", session.report(slot));
    all.add("committed", session.committed(slot));
    all.add("candidates", session.candidates(slot));
    all.add("plan", session.planned(slot));
    return all;
  }
};

dense_request random_request(chances& c) {
  dense_request q = random_dense_request(c, 12);
  q.model = {.vocab = 12, .mask_token = 11, .eos_token = 10};
  q.logits.loved = 10;
  q.logits.love = c.chance(0.5) ? 0.3 : 0.0;
  return q;
}

session_capacity capacity_for(const dense_request& q) {
  return {.sequences = slots,
          .length = q.geometry.length,
          .window = q.geometry.length,
          .branches = 4,
          .trace = true};
}

// Decodes with both in step, each sequence with a policy of its own; returns the passes.
int expect_same(const twins (&texts)[slots], const dense_request& q) {
  decode a{named_session(q.model, capacity_for(q))};
  decode b{named_session(q.model, capacity_for(q))};
  for (index_t slot = 0; slot < slots; ++slot) {
    a.start(slot, read_policy(texts[slot].library), q, {});
    b.start(slot, read_policy(texts[slot].functions), q, {});
  }
  int forwards = 0;
  for (; forwards < 500; ++forwards) {
    const auto from = a.session.next();
    const auto to = b.session.next();
    EXPECT_EQ(from.has_value(), to.has_value());
    if (!from || !to) {
      break;
    }
    EXPECT_EQ(difference(fields().add("request", *from), fields().add("request", *to)), "");
    if (::testing::Test::HasFailure()) {
      break;
    }
    a.supply(q, *from);
    b.supply(q, *to);
    for (index_t slot = 0; slot < slots; ++slot) {
      EXPECT_EQ(a.text[slot], b.text[slot]);
      EXPECT_EQ(difference(a.seen(slot), b.seen(slot)), "") << texts[slot].functions;
    }
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  EXPECT_LT(forwards, 500);
  return forwards;
}

TEST(callbacks, decide_as_the_parts_with_their_rules) {
  give_names();
  int forwards = 0;
  int decodes = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    chances c(seed);
    const dense_request q = random_request(c);
    twins texts[slots];
    bool is_possible = true;
    for (twins& t : texts) {
      t = random_policy(c, false);
      try {
        static_cast<void>(read_policy(t.library));
      } catch (const std::invalid_argument& e) {
        is_possible = false;  // parts that do not go together, with functions neither
        EXPECT_THROW(static_cast<void>(read_policy(t.functions)), std::invalid_argument)
            << t.functions << ": " << e.what();
      }
    }
    if (is_possible) {
      forwards += expect_same(texts, q);
      ++decodes;
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << texts[0].functions;
  }
  EXPECT_GT(decodes, 200);
  EXPECT_GT(forwards, 2000);
}

TEST(callbacks, decide_as_the_parts_with_constraints) {
  give_names();
  int decodes = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d, d.within(3, 6));
    std::optional<constraint> automaton = constraint_of(l, {.bytes = 1 << 18});
    chances c(seed);
    const twins t = random_policy(c, true);
    if (!automaton) {
      continue;
    }
    const constrained_request r = random_constrained_request(d, l);
    const sequence_shape shape{.prompt_length = r.prompt,
                               .length = r.prompt + r.answer,
                               .block_length = r.block,
                               .seed = r.seed};
    const constrained_field field{
        .language = &*automaton, .fill = r.fill, .read_again = d.chance(0.5)};
    std::vector<fields> seen[2];
    for (int k = 0; k < 2; ++k) {
      std::optional<named_session> s;
      std::vector<token_id> tokens = r.tokens;
      try {
        const named_policy p = read_policy(k == 0 ? t.library : t.functions);
        s.emplace(l.model,
                  session_capacity{.length = shape.length, .window = r.answer, .trace = true});
        s->start(0,
                 p,
                 {tokens.data(), shape.length},
                 shape,
                 {.editable = r.editable, .suppressed = r.suppressed, .constraints = {&field, 1}});
      } catch (const std::invalid_argument&) {
        break;  // by the part of the library, which is first: a model without an EOS token
      }
      while (const auto request = s->next()) {
        std::vector<float> logits;
        for (index_t row = 0; row < request->rows; ++row) {
          chances z(seed * 1000 + seen[k].size() * 50 + static_cast<std::uint64_t>(row));
          for (index_t v = 0; v < l.model.vocab; ++v) {
            logits.push_back(z.real(-4.0, 4.0));
          }
        }
        s->supply(host_logits<float>(logits.data(), request->rows, l.model.vocab));
        seen[k].emplace_back();
        seen[k].back().add("report", s->report(0));
        seen[k].back().add("candidates", s->candidates(0)).add("tokens", tokens);
      }
      ++decodes;
    }
    if (seen[1].empty()) {
      EXPECT_TRUE(seen[0].empty()) << t.functions;
      continue;
    }
    ASSERT_EQ(seen[0].size(), seen[1].size()) << t.functions;
    for (std::size_t i = 0; i < seen[0].size(); ++i) {
      ASSERT_EQ(difference(seen[0][i], seen[1][i]), "") << t.functions;
    }
  }
  EXPECT_GT(decodes, 200);
}

TEST(callbacks, decodes_replay_without_them) {
  give_names();
  chances c(5);
  for (int round = 0; round < 20; ++round) {
    const dense_request q = random_request(c);
    const std::string text = "margins + any_of(above(0.8), first) + ends_last + ends";
    std::string lines;
    decode a{named_session(q.model, capacity_for(q))};
    trace_writer writer(
        [&](std::string_view line) { return lines += line, true; },
        {.model = "hashed", .info = q.model, .policy = text, .parts = part_texts(text)});
    a.start(0, read_policy(text), q, {});
    const trace_sequence about{.slot = 0, .shape = q.geometry, .tokens = a.text[0]};
    writer.start(about, a.session);
    while (const auto request = a.session.next()) {
      writer.request(*request, a.session);
      a.supply(q, *request);
      writer.step(a.session);
    }
    EXPECT_NE(lines.find("above(0.8)"), std::string::npos);
    const loaded_replay again(read_trace(lines));
    decode b{named_session(q.model, capacity_for(q))};
    b.start(0, again.policy(), q, {});
    while (const auto request = b.session.next()) {
      b.supply(q, *request);
    }
    EXPECT_EQ(a.text[0], b.text[0]);
    EXPECT_EQ(a.session.report(0).forwards, b.session.report(0).forwards);
  }
}

TEST(callbacks, that_answer_nothing_end_within_the_bound) {
  give_names();
  chances c(9);
  for (int round = 0; round < 30; ++round) {
    const dense_request q = random_request(c);
    decode a{named_session(q.model, capacity_for(q))};
    const named_policy p = read_policy("none");
    a.start(0, p, q, {});
    std::int64_t forwards = 0;
    while (const auto request = a.session.next()) {
      a.supply(q, *request);
      ++forwards;
    }
    EXPECT_LE(forwards, most_forwards(p, q.geometry));
    EXPECT_EQ(a.session.report(0).forced, q.geometry.length - q.geometry.prompt_length);
  }
}

TEST(callbacks, see_candidates_in_the_order_of_the_ranking) {
  static int seen = 0;
  register_part(
      {callback_stage::rule, "looks", "", {}, [](void*, const callback_step& s, float* answers) {
         EXPECT_EQ(s.slot, 2);
         EXPECT_EQ(s.seed, 7U);
         float before = std::numeric_limits<float>::infinity();
         index_t rank = 0;
         for (const callback_candidate& c : s.candidates) {
           EXPECT_EQ(c.rank, rank++);
           EXPECT_LE(c.score, before);
           EXPECT_EQ(c.score, c.margin);
           EXPECT_NEAR(std::exp(c.log_probability), c.confidence, 1e-5);
           EXPECT_TRUE(is_masked(s, c.position));
           before = c.score;
           *answers++ = c.rank == 0 ? 1.0F : 0.0F;
           ++seen;
         }
       }});
  chances c(3);
  dense_request q = random_request(c);
  q.geometry = {.prompt_length = 2, .length = 14, .block_length = 6, .seed = 7};
  decode a{named_session(q.model, capacity_for(q))};
  a.start(2, read_policy("by_margin + looks"), q, {});
  while (const auto request = a.session.next()) {
    a.supply(q, *request);
  }
  EXPECT_GE(seen, 12);
}

TEST(callbacks, that_fail_cancel_their_sequence_alone) {
  give_names();
  register_part({callback_stage::rule, "fails", "", {}, [](void*, const callback_step& s, float*) {
                   if (s.view.step == 1) {
                     throw std::out_of_range("no such thing");
                   }
                 }});
  chances c(3);
  dense_request q = random_request(c);
  q.geometry = {.prompt_length = 2, .length = 14, .block_length = 6, .seed = 7};
  decode a{named_session(q.model, capacity_for(q))};
  decode b{named_session(q.model, capacity_for(q))};
  a.start(1, read_policy("fails"), q, {});
  a.start(2, read_policy("threshold(0.6)"), q, {});
  b.start(2, read_policy("threshold(0.6)"), q, {});
  int failures = 0;
  while (const auto request = a.session.next()) {
    try {
      a.supply(q, *request);
    } catch (const callback_error& e) {
      ++failures;
      EXPECT_EQ(e.slot, 1);
      EXPECT_STREQ(e.what(),
                   "the rule 'fails' failed in slot 1, whose sequence is cancelled: no such thing");
      EXPECT_THROW(std::rethrow_exception(e.cause), std::out_of_range);
      EXPECT_EQ(a.session.report(1).end, ending::cancelled);
    }
  }
  while (const auto request = b.session.next()) {
    b.supply(q, *request);
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(a.text[2], b.text[2]);
  EXPECT_EQ(a.session.report(2).end, ending::complete);
  a.start(1, read_policy("first"), q, {});  // the slot can be used again
  while (const auto request = a.session.next()) {
    a.supply(q, *request);
  }
  EXPECT_EQ(a.session.report(1).end, ending::complete);
}

TEST(callbacks, that_fail_at_the_start_leave_no_sequence) {
  register_part(
      {callback_stage::stop, "fails_at_once", "", {}, [](void*, const callback_step&, float*) {
         throw std::runtime_error("at once");
       }});
  chances c(3);
  const dense_request q = random_request(c);
  decode a{named_session(q.model, capacity_for(q))};
  EXPECT_THROW(a.start(0, read_policy("threshold + fails_at_once"), q, {}), callback_error);
  EXPECT_FALSE(a.session.next().has_value());
  EXPECT_EQ(a.session.report(0).end, ending::cancelled);
}

TEST(callbacks, with_wrong_answers_are_refused) {
  struct wrong {
    const char* name;
    callback_stage stage;
    callback_function answer;
    const char* message;
  };
  using enum callback_stage;
  const wrong all[] = {
      {"two", rule, &each<[](const auto&, const auto&) { return 2; }>, "must be 0 or 1, got 2"},
      {"not_a_number",
       rule,
       &each<[](const auto&, const auto&) { return std::nanf(""); }>,
       "must be 0 or 1, got nan"},
      {"half",
       filter,
       &each<[](const auto&, const auto&) { return 0.5F; }>,
       "must be 0, 1, 2 or 3, got 0.5"},
      {"complete",
       stop,
       [](void*, const callback_step&, float* answer) { *answer = 1.0F; },
       "must be 0, 2, 3 or 4, got 1"},
  };
  chances c(3);
  const dense_request q = random_request(c);
  for (const wrong& w : all) {
    register_part({w.stage, w.name, "", {}, w.answer});
    decode a{named_session(q.model, capacity_for(q))};
    const std::string text = w.stage == rule ? w.name : "threshold + " + std::string(w.name);
    try {
      a.start(0, read_policy(text), q, {});
      a.supply(q, *a.session.next());
      ADD_FAILURE() << text;
    } catch (const callback_error& e) {
      EXPECT_NE(std::string(e.what()).find(w.message), std::string::npos) << e.what();
    }
  }
}

// A function that decodes in another session, whose policy has functions, too.
TEST(callbacks, may_decode_in_another_session) {
  give_names();
  static chances c(4);
  static const dense_request q = random_request(c);
  register_part({callback_stage::ranking,
                 "nested",
                 "",
                 {},
                 [](void*, const callback_step& s, float* answers) {
                   decode inner{named_session(q.model, capacity_for(q))};
                   inner.start(0, read_policy("leftmost + first(3) + ends"), q, {});
                   while (const auto request = inner.session.next()) {
                     inner.supply(q, *request);
                   }
                   for (const callback_candidate& x : s.candidates) {
                     *answers++ = x.margin;
                   }
                 }});
  const twins t{"by_margin + threshold(0.7) + eos_last", "nested + above(0.7) + ends_last"};
  const twins texts[slots] = {t, t, t};
  EXPECT_GT(expect_same(texts, q), 0);
}

TEST(callbacks, have_names_in_texts) {
  give_names();
  const std::string help = describe_parts();
  EXPECT_NE(help.find("above(value=0.9)\n    commit rule: a line\n    value: in [0, 8]\n"),
            std::string::npos);
  const auto message = [](const char* text) -> std::string {
    try {
      static_cast<void>(read_policy(text));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("abov(0.9)"),
            "policy 'abov(0.9)', column 1: there is no part 'abov': did you mean above?");
  EXPECT_EQ(message("above(limit=0.9)"),
            "policy 'above(limit=0.9)', column 13: above has no argument 'limit': it has value");
  EXPECT_EQ(message("above(inf)"),
            "policy 'above(inf)', column 7: value of above must be a number in [0, 8], got inf");
  EXPECT_EQ(message("above + first"),
            "policy 'above + first', column 9: a policy has at most one commit rule, got above and "
            "first: join them by any_of(...) or all_of(...)");
  EXPECT_EQ(
      message("first + margins + by_margin"),
      "policy 'first + margins + by_margin', column 19: a policy has at most one ranking, got "
      "margins and by_margin");
  EXPECT_EQ(message("threshold + any_of(ends)").find("policy 'threshold + any_of(ends)'"), 0U);
}

TEST(callbacks, with_impossible_names_are_refused) {
  const callback_function f = &each<[](const auto&, const auto&) { return 0; }>;
  const auto message = [&](const part_function& p) -> std::string {
    try {
      register_part(p);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const std::string spelling = "letters, digits and underscores, without a digit in front";
  using enum callback_stage;
  EXPECT_EQ(message({rule, "a b", "", {}, f}),
            "the name of a part must be " + spelling + ", got 'a b'");
  EXPECT_EQ(message({rule, "", "", {}, f}), "the name of a part must be " + spelling + ", got ''");
  for (const char* const taken :
       {"threshold", "by_margin", "any_of", "at_most", "replay", "es_dllm", "model"}) {
    EXPECT_EQ(message({rule, taken, "", {}, f}),
              "the name of a part must be one that the library does not have, got '" +
                  std::string(taken) + "'");
  }
  EXPECT_EQ(message({rule, "fine", "", {}, nullptr}),
            "the function of a part must be a function, got null");
  EXPECT_EQ(message({static_cast<callback_stage>(4), "fine", "", {}, f}),
            "the stage of a part must be one of callback_stage, got 4");
  const function_argument twice[] = {{"x", 1.0}, {"x", 2.0}};
  EXPECT_EQ(message({rule, "fine", "", twice, f}),
            "the name of an argument of 'fine' must be another one than that of an argument before "
            "it, got 'x'");
  const function_argument infinite[] = {{"x", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(message({rule, "fine", "", infinite, f}),
            "the default of x of 'fine' must be a finite number, got inf");
  const function_argument beyond[] = {{"x", 2.0, within(0, 1)}};
  EXPECT_EQ(message({rule, "fine", "", beyond, f}),
            "the default of x of 'fine' must be in [0, 1], got 2");
  const function_argument broken[] = {{"x", 0.5, at_least(0), true}};
  EXPECT_EQ(message({rule, "fine", "", broken, f}),
            "the default of x of 'fine' must be a whole number, at least 0, got 0.5");
  const std::vector<function_argument> many(5, {"x", 1.0});
  EXPECT_EQ(message({rule, "fine", "", many, f}),
            "the number of arguments of a part must be at most 4, got 5");
  for (const known_part& p : known_parts()) {
    EXPECT_NE(p.name, "fine");
  }
}

TEST(callbacks, of_one_name_replace_each_other_in_later_texts) {
  const auto rule = [](callback_function f) {
    register_part({callback_stage::rule, "again", "", {}, f});
  };
  rule(&each<[](const auto& x, const auto&) { return x.rank < 1; }>);
  const named_policy before = read_policy("again");
  rule(&each<[](const auto&, const auto&) { return true; }>);
  const named_policy after = read_policy("again");
  chances c(3);
  dense_request q = random_request(c);
  q.geometry = {.prompt_length = 0, .length = 8, .block_length = 8};
  decode a{named_session(q.model, capacity_for(q))};
  a.start(0, before, q, {});
  a.start(1, after, q, {});
  while (const auto request = a.session.next()) {
    a.supply(q, *request);
  }
  EXPECT_EQ(a.session.report(0).forwards, 8);
  EXPECT_EQ(a.session.report(1).forwards, 1);
  int found = 0;
  for (const known_part& p : known_parts()) {
    found += p.name == "again" ? 1 : 0;
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace unmask::testing::callbacks_test
