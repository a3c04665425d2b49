// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/replay.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/replay_table.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_writer.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "support/bound_session.hpp"
#include "support/dice.hpp"
#include "support/lent.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::replay_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr sequence_shape shape{.prompt_length = 3, .length = 35, .block_length = 8, .seed = 11};
constexpr index_t vocab = 7;

/// Decodes with a session that was started, and calls observe() after each step.
template <class Session>
void decode(Session& s,
            const made_up_model& model,
            std::vector<token_id>& tokens,
            const std::function<void(const forward_request&)>& before,
            const std::function<void()>& observe) {
  while (const auto request = s.next()) {
    before(*request);
    const std::vector<float> logits =
        requested_rows(*request, tokens, [&](const auto& x, index_t p) {
          std::vector<float> z(static_cast<std::size_t>(model.vocab));
          model.row(x, p, z);
          return z;
        });
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    observe();
  }
}

/// A commit, remask or replacement, with the bits of its log-probability and its block.
using written = std::tuple<index_t, index_t, token_id, std::uint32_t, index_t>;
written of(const commit_entry& e, index_t step) {
  return {step, e.position, e.token, std::bit_cast<std::uint32_t>(e.log_probability), e.block};
}

struct recording {
  std::string text;
  std::set<written> commits;
  std::vector<token_id> tokens;
  sequence_report report;
};

model_info info_of(const made_up_model& model) {
  model_info info = model.info();
  info.eos_token = 0;
  info.layers = 2;
  return info;
}

/// The commits of a step; the token of a branch counts for the step before.
void add_commits(std::set<written>& all, auto& session) {
  for (const candidate_entry& e : session.candidates(0)) {
    if (e.committed) {
      const bool is_branch = e.outcome == candidate_outcome::from_branch;
      all.insert(of(e, is_branch ? e.step - 1 : e.step));
    } else if (e.outcome == candidate_outcome::remasked) {
      all.insert({e.step, e.position, -1, 0, e.block});
    }
  }
}

recording record(const char* policy, const made_up_model& model) {
  recording r;
  const auto s = make_bound(read_policy(policy),
                            info_of(model),
                            {.length = 35, .window = 32, .branches = 3, .trace = true});
  trace_writer trace(
      [&r](std::string_view line) {
        r.text += line;
        return true;
      },
      {.model = "m", .info = info_of(model), .policy = policy, .parts = part_texts(policy)});
  r.tokens.assign(35, 2);
  {
    lent<std::uint8_t> editable(std::vector<std::uint8_t>(35, 1));
    editable.span()[14] = 0;
    editable.span()[20] = editable.span()[21] = 2;
    s->start(0, r.tokens.data(), 35, shape, {.editable = editable.span()});
    trace.start(
        {.slot = 0, .shape = shape, .tokens = r.tokens, .options = {.editable = editable.span()}},
        *s);
  }
  decode(
      *s,
      model,
      r.tokens,
      [&](const forward_request& request) { trace.request(request, *s); },
      [&] {
        trace.step(*s);
        add_commits(r.commits, *s);
      });
  r.report = s->report(0);
  return r;
}

/// The same decode again, from its trace and with another seed of the draws.
recording replayed(const recording& from, const made_up_model& model) {
  recording r;
  const trace t = read_trace(from.text);
  const replay_table table(t);
  const auto s = make_bound(read_policy(t.policy).replaying(table.view()),
                            info_of(model),
                            {.length = 35, .window = 32, .trace = true});
  r.tokens = table.tokens();
  sequence_shape other = t.sequences[0].shape;
  other.seed += 100;
  s->start(0, r.tokens.data(), 35, other, {.editable = table.editable()});
  decode(*s, model, r.tokens, [](const forward_request&) {}, [&] { add_commits(r.commits, *s); });
  r.report = s->report(0);
  return r;
}

constexpr const char* policies[] = {
    "tokens_per_step(1)",
    "left_to_right + tokens_per_step(3)",
    "at_random + tokens_per_step(2)",
    "by_margin + any_of(threshold(0.9), tokens_per_step(2)) + stop_at_eos",
    "steps_per_block(4)",
    "threshold(0.9)",
    "factor(1)",
    "by_entropy + entropy_bound(0.1)",
    "hierarchical(0.4, 0.9) + remask_below(0.5)",
    "adaptive_threshold(0.9, 0.001, 0.0008)",
    "stable_and_confident(0.6, 0.01, 1)",
    "threshold(0.6) + sampling(1)",
    "threshold(0.9) + temperature(1.5) + sampling + top_p(0.9) + top_k(4) + min_p(0.01) + "
    "confidence_after_truncation",
    "threshold(0.7, inclusive=true) + slow_fast(6, 0.3, 1)",
    "threshold(0.5) + remask_current_below(0.4, 3)",
    "threshold(0.9) + trace_credit + repetition_penalty(1.2)",
    "threshold(0.9) + adaptive_credit",
    "threshold(0.6) + lookahead(3)",
    "threshold(0.6) + trace_credit + lookahead(3)",
    "threshold(0.8) + block_pipeline(0.1, 0.95)",
    "threshold(0.8) + block_pipeline(0.1, 0.95) + lookahead(3)",
    "threshold(0.7) + edit_committed(0.5) + edited_blocks(4)",
    "by_entropy + timesteps(12, 0.001) + single_block",
    "threshold(0.8) + eos_gate + no_equal_neighbours + dual_cache",
    "tokens_per_step(1) + max_steps(5)",
};

// A replay has the blocks of the sequence, where the policy may have had one.
std::set<written> of_blocks(std::string_view policy, const std::set<written>& all) {
  if (policy.find("single_block") == std::string_view::npos) {
    return all;
  }
  std::set<written> without;
  for (written e : all) {
    std::get<4>(e) = 0;
    without.insert(e);
  }
  return without;
}

TEST(replay, commits_the_same_tokens_in_the_same_steps_with_the_same_bits) {
  std::set<candidate_outcome> outcomes;
  for (const char* policy : policies) {
    SCOPED_TRACE(policy);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 5.0};
      const recording first = record(policy, model);
      const recording again = replayed(first, model);
      EXPECT_EQ(again.tokens, first.tokens);
      EXPECT_EQ(of_blocks(policy, again.commits), of_blocks(policy, first.commits));
      EXPECT_EQ(again.report.end, first.report.end);
      EXPECT_EQ(again.report.forwards, first.report.forwards);
      EXPECT_EQ(again.report.committed, first.report.committed);
      EXPECT_EQ(again.report.forced, 0);
      const trace t = read_trace(first.text);
      for (const traced_step& step : t.sequences[0].steps) {
        for (const candidate_entry& e : step.candidates) {
          outcomes.insert(e.outcome);
        }
      }
    }
  }
  for (const auto outcome : {candidate_outcome::committed,
                             candidate_outcome::forced,
                             candidate_outcome::held,
                             candidate_outcome::replaced,
                             candidate_outcome::remasked,
                             candidate_outcome::kept,
                             candidate_outcome::from_branch}) {
    EXPECT_TRUE(outcomes.contains(outcome)) << static_cast<int>(outcome) << " does not occur";
  }
}

// On other logits: the trace's tokens, with the probabilities that these logits give them.
TEST(replay, gives_each_token_the_probability_of_other_logits) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 5.0};
    const made_up_model other{.seed = seed + 1000, .vocab = vocab, .sharpness = 5.0};
    const recording first = record("threshold(0.7)", model);
    const trace t = read_trace(first.text);
    const replay_table table(t);
    const policy p{replay{table.view()}};
    session<std::remove_const_t<decltype(p)>> s{info_of(other),
                                                {.length = 35, .window = 32, .trace = true}};
    std::vector<token_id> tokens = table.tokens();
    s.start(0, p, tokens, shape, {.editable = table.editable()});
    std::vector<token_id> before;
    decode(
        s,
        other,
        tokens,
        [&](const forward_request&) { before = tokens; },
        [&] {
          for (const candidate_entry& e : s.candidates()) {
            std::vector<float> z(static_cast<std::size_t>(vocab));
            other.row(before, e.position, z);
            double sum = 0.0;
            for (token_id v = 0; v < vocab - 1; ++v) {
              sum += std::exp(static_cast<double>(z[static_cast<std::size_t>(v)]));
            }
            const double logit = static_cast<double>(z[static_cast<std::size_t>(e.token)]);
            EXPECT_NEAR(e.log_probability, logit - std::log(sum), 1e-4);
            ++compared;
          }
        });
    EXPECT_EQ(tokens, first.tokens);
  }
  EXPECT_GT(compared, 1000);
}

// The rows of other engines may exclude the trace's token, or be invalid.
TEST(replay, commits_a_token_without_a_probability) {
  const made_up_model model{.seed = 3, .vocab = vocab, .sharpness = 5.0};
  const recording first = record("threshold(0.7)", model);
  const trace t = read_trace(first.text);
  const replay_table table(t);
  const policy p{replay{table.view()}};
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // The logit of token 2, and of all others; where they are equal numbers, a bitmask of token 2.
  for (const auto& [of_2, bad] : {std::pair{0.0F, -inf}, {0.0F, nan}, {0.0F, 0.0F}, {-inf, -inf}}) {
    session<std::remove_const_t<decltype(p)>> s{info_of(model),
                                                {.length = 35, .window = 32, .trace = true}};
    std::vector<token_id> tokens = table.tokens();
    s.start(0, p, tokens, shape, {.editable = table.editable()});
    while (const auto request = s.next()) {
      std::vector<float> z(static_cast<std::size_t>(request->rows * vocab), 0.0F);
      for (std::size_t i = 0; i < z.size(); ++i) {
        const auto token = static_cast<token_id>(i % static_cast<std::size_t>(vocab));
        z[i] = token == 2 ? of_2 : bad;
      }
      const std::vector<std::uint32_t> allowed(static_cast<std::size_t>(request->rows), 1U << 2U);
      row_modifiers<float> modifiers;
      modifiers.allowed = bad == 0.0F ? allowed.data() : nullptr;
      s.supply(host_logits<float>{z.data(), request->rows, vocab}, modifiers);
      for (const commit_entry& e : s.committed()) {
        const bool is_possible = e.token == 2 && of_2 == 0.0F && !std::isnan(bad);
        EXPECT_EQ(e.log_probability, is_possible ? 0.0F : -math::infinity());
      }
    }
    EXPECT_EQ(tokens, first.tokens);
  }
}

// A chunk of a wide row that holds no finite logit does not even have the trace's token.
TEST(replay, commits_a_token_of_columns_that_the_rows_exclude_altogether) {
  constexpr index_t wide = 3 * 2048;
  const made_up_model model{.seed = 3, .vocab = wide, .sharpness = 5.0};
  const recording first = record("threshold(0.7)", model);
  const trace t = read_trace(first.text);
  const replay_table table(t);
  const policy p{replay{table.view()}};
  const float inf = std::numeric_limits<float>::infinity();
  session<std::remove_const_t<decltype(p)>> s{info_of(model), {.length = 35, .window = 32}};
  std::vector<token_id> tokens = table.tokens();
  s.start(0, p, tokens, shape, {.editable = table.editable()});
  int excluded = 0;
  while (const auto request = s.next()) {
    std::vector<float> z(static_cast<std::size_t>(request->rows) * std::size_t{wide}, -inf);
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = i % std::size_t{wide} < 2048 ? 0.0F : -inf;
    }
    s.supply(host_logits<float>{z.data(), request->rows, wide});
    for (const commit_entry& e : s.committed()) {
      if (e.token >= 2048) {
        EXPECT_EQ(e.log_probability, -inf);
        ++excluded;
      } else {
        EXPECT_NEAR(e.log_probability, -std::log(2048.0), 1e-5);
      }
    }
  }
  EXPECT_EQ(tokens, first.tokens);
  EXPECT_EQ(s.report().invalid_rows, 0);
  EXPECT_GT(excluded, 5);
}

// The blocks of a plan are those of the positions that the step decided: all of them, or one where
// they are more than a plan can name.
TEST(replay, plans_the_ranges_and_blocks_of_its_steps) {
  dice d(21);
  int whole = 0;
  for (int trial = 0; trial < 600; ++trial) {
    sequence_view q;
    q.prompt_length = d.within(0, 5);
    const bool is_all = trial % 3 == 0;  // about as many blocks of one position as a plan can name
    q.block_length = is_all ? 1 : d.within(1, 4);
    q.length = q.prompt_length + (is_all ? d.within(62, 67) : d.within(1, 90));
    replay_step step;
    step.score.first = is_all ? q.prompt_length : d.within(q.prompt_length, q.length - 1);
    step.score.last = is_all ? q.length : d.within(step.score.first, q.length);
    step.pass = d.within(step.score.last, q.length);
    step.freeze = d.within(0, step.score.first);
    std::vector<replay_entry> entries;
    std::set<index_t> decided{std::max(step.score.last - 1, q.prompt_length)};
    for (index_t p = step.score.first; p < step.score.last; ++p) {
      decided.insert(p);
      if (d.within(0, 2) > 0) {
        entries.push_back({p, 1, static_cast<replay_action>(d.within(0, 3))});
      }
    }
    const auto block_of = [&](index_t p) { return (p - q.prompt_length) / q.block_length; };
    range active{block_of(*decided.begin()), block_of(*decided.rbegin()) + 1};
    const bool is_one = active.size() > 64;
    active = is_one ? range{0, 1} : active;
    whole += is_one ? 1 : 0;
    std::uint64_t forced = 0;
    for (const replay_entry& e : entries) {
      if (e.action == replay_action::commit) {
        forced |= std::uint64_t{1} << (is_one ? 0 : block_of(e.position) - active.first);
      }
    }
    step.last = static_cast<index_t>(entries.size());
    replay rule;
    rule.trace.steps = &step;
    rule.trace.entries = entries.data();
    rule.trace.count = 1;
    plan next;
    rule.schedule(q, next, rule);
    EXPECT_EQ(next.end, ending::running);
    EXPECT_EQ(next.query, (range{0, step.pass}));
    EXPECT_EQ(next.score, step.score);
    EXPECT_EQ(next.freeze, (range{0, step.freeze}));
    EXPECT_EQ((range{next.first_block, next.last_block}), active);
    EXPECT_EQ(next.forced, forced);
    ASSERT_FALSE(HasFailure()) << "trial " << trial;
  }
  EXPECT_GT(whole, 30);
  EXPECT_LT(whole, 200);
}

TEST(replay, ends_as_the_trace_did) {
  const auto end_of = [](index_t masked, ending end) {
    sequence_view q;
    q.step = 3;
    q.masked_count = masked;
    plan next;
    replay rule;
    rule.trace.count = 3;
    rule.trace.end = end;
    rule.schedule(q, next, rule);
    return next.end;
  };
  EXPECT_EQ(end_of(0, ending::max_steps), ending::complete);
  EXPECT_EQ(end_of(0, ending::running), ending::complete);
  EXPECT_EQ(end_of(2, ending::eos_token), ending::eos_token);
  EXPECT_EQ(end_of(1, ending::max_steps), ending::max_steps);
  EXPECT_EQ(end_of(1, ending::running), ending::max_steps);  // a trace that was cut
}

TEST(replay, says_what_its_trace_does) {
  replay rule;
  EXPECT_FALSE(rule.edits_tokens_now());
  rule.trace.edits = true;
  EXPECT_TRUE(rule.edits_tokens_now());
  rule.trace.reach = 7;
  EXPECT_EQ(rule.reach({.length = 20}), 7);
}

TEST(replay, refuses_a_sequence_of_another_shape) {
  const made_up_model model{.seed = 3, .vocab = vocab};
  const trace t = read_trace(record("threshold(0.7)", model).text);
  const replay_table table(t);
  const policy p{replay{table.view()}};
  using session_type = session<std::remove_const_t<decltype(p)>>;
  std::vector<token_id> tokens(40, 2);
  const auto starts = [&](sequence_shape g, model_info info = info_of({.vocab = vocab})) {
    session_type s{info, {.length = 40, .window = 40}};
    s.start(0, p, std::span(tokens).first(static_cast<std::size_t>(g.length)), g);
  };
  const auto refused = [](const char* name, const char* rule) {
    return ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr(rule)));
  };
  sequence_shape g = shape;
  EXPECT_NO_THROW(starts(g));
  g.length = 34;
  EXPECT_THAT([&] { starts(g); }, refused("length", "that of the trace, 35"));
  g = shape;
  g.prompt_length = 4;
  EXPECT_THAT([&] { starts(g); }, refused("prompt_length", "that of the trace, 3"));
  EXPECT_THAT([&] { starts(shape, info_of({.vocab = 9})); }, refused("vocab", "trace, 7"));
  model_info other = info_of({.vocab = vocab});
  other.mask_token = 1;
  EXPECT_THAT([&] { starts(shape, other); }, refused("mask_token", "that of the trace, "));
  EXPECT_THAT(([&] {
                const policy empty{replay{}};
                session s{empty, info_of(model), std::span(tokens).first(35), shape};
              }),
              refused("replay::trace", "replay_table"));
  EXPECT_THAT(([&] {
                replay_view moving = table.view();
                moving.moves_text = true;
                const policy of_moving{replay{moving}};
                session s{of_moving, info_of(model), std::span(tokens).first(35), shape};
              }),
              refused("replay::trace", "named_policy::replaying()"));
  EXPECT_THAT([&] { static_cast<void>(replay_table(t, 1)); }, refused("1 sequences", "index 1"));
}

/// The head of a trace of 4 positions, the prompt of which is 1 and the mask token 9.
const std::string head =
    R"({"format":"unmask-trace/1","model":{"vocab":10,"mask":9},"policy":"","parts":[],)"
    R"("sequences":[{"slot":0,"shape":{"prompt_length":1,"length":4,"block_length":3},)"
    R"("tokens":[1,9,9,5],"fixed":[3]}]})"
    "\n";
std::string step(int number, const char* position, const char* token, const char* outcome) {
  const std::string zeros = std::string(position).find(',') == std::string::npos ? "0" : "0,0";
  return R"({"slot":0,"step":)" + std::to_string(number) + R"(,"score":[1,4],"position":[)" +
         position + R"(],"token":[)" + token + R"(],"log_probability":[)" + zeros +
         R"(],"outcome":")" + outcome + '"' + (*outcome == 'w' ? R"(,"winner":0)" : "") + "}\n";
}

TEST(replay, names_step_and_position_of_what_cannot_be) {
  const auto table = [](const std::string& lines) {
    static_cast<void>(replay_table(read_trace(head + lines)));
  };
  const auto refused = [](const char* where, const char* why) {
    return ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(where), HasSubstr(why)));
  };
  EXPECT_NO_THROW(table(step(0, "1,2", "4,4", "ch")));
  EXPECT_THAT([&] { table(step(1, "1,2", "4,4", "ch")); }, refused("line 2: step 1", "must be 0"));
  EXPECT_THAT([&] { table(step(0, "2,1", "4,4", "ch")); }, refused("position 1", "ascend"));
  EXPECT_THAT([&] { table(step(0, "4", "4", "c")); }, refused("position 4", "scored range"));
  EXPECT_THAT([&] { table(step(0, "3", "4", "c")); }, refused("position 3", "fixed"));
  EXPECT_THAT([&] { table(step(0, "1", "10", "c")); }, refused("position 1", "token 10"));
  for (const char* letter : {"c", "f"}) {
    EXPECT_THAT([&] { table(step(0, "1", "9", letter)); },
                refused("position 1", "token 9 is the mask token"));
  }
  EXPECT_THAT([&] { table(step(0, "1", "4", "c") + step(1, "1", "9", "e")); },
              refused("line 3", "token 9 is the mask token"));
  EXPECT_THAT([&] { table(step(0, "1,2", "4,4", "ch") + step(1, "2", "9", "w")); },
              refused("line 3", "token 9 is the mask token"));
  EXPECT_NO_THROW(table(step(0, "1", "9", "h")));  // proposed, as released decoders let it be
  EXPECT_THAT([&] { table(step(0, "1", "4", "r")); }, refused("step 0, position 1", "masked"));
  EXPECT_THAT([&] { table(step(0, "1", "4", "w")); }, refused("position 1", "branch"));
  EXPECT_THAT([&] { table(step(0, "1", "4", "c") + step(1, "1", "3", "c")); },
              refused("line 3: step 1, position 1", "committed already; a canvas"));
}

TEST(replay, of_a_policy_whose_tokens_are_not_in_a_trace_is_refused) {
  for (const std::string text : {"canvas + entropy_bound"}) {
    const named_policy parts = read_policy(text);
    EXPECT_THAT([&] { static_cast<void>(parts.replaying({})); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("cannot be replayed")))
        << text;
  }
}

TEST(read_trace, reads_what_was_written_up_to_the_last_whole_line) {
  const made_up_model model{.seed = 4, .vocab = vocab};
  const std::string text = record("threshold(0.8) + trace_credit", model).text;
  const trace whole = read_trace(text);
  EXPECT_EQ(whole.policy, "threshold(0.8) + trace_credit");
  EXPECT_EQ(whole.parts, (std::vector<std::string>{"threshold(0.8)", "trace_credit"}));
  EXPECT_EQ(whole.info.vocab, vocab);
  EXPECT_EQ(whole.info.eos_token, 0);
  ASSERT_EQ(whole.sequences.size(), 1U);
  EXPECT_EQ(whole.sequences[0].end, ending::complete);
  EXPECT_EQ(whole.sequences[0].fixed, (std::vector<index_t>{14}));
  const std::size_t steps = whole.sequences[0].steps.size();
  std::size_t before = 0;
  for (std::size_t size = text.find('\n') + 1; size <= text.size(); ++size) {
    const trace cut = read_trace(std::string_view(text).substr(0, size));
    const std::size_t now = cut.sequences[0].steps.size();
    EXPECT_TRUE(now == before || now == before + 1);
    EXPECT_EQ(cut.sequences[0].end == ending::running, size < text.size());
    before = now;
    EXPECT_NO_THROW(replay_table{cut});
  }
  EXPECT_EQ(before, steps);
}

// The sequence of `head`, of a trace with this policy.
std::string trace_of(const std::string& policy) {
  std::string text = head;
  return text.insert(text.find("\",\"parts\""), policy);
}

std::string problem_of(const std::string& text, const file_source& files) {
  try {
    static_cast<void>(read_replay(text, files));
  } catch (const policy_text_error& e) {
    return e.what();
  }
  return "none";
}

TEST(read_replay, reads_every_file_by_the_function_that_it_is_given) {
  std::vector<std::string> asked;
  const file_source files = [&](const std::string& name) {
    asked.push_back(name);
    return name == "t.jsonl" ? trace_of("calibrated_threshold('p.json')")
                             : to_json(calibrated_threshold<>{.block_length = 32});
  };
  EXPECT_EQ(problem_of("replay('t.jsonl')", files), "none");
  EXPECT_EQ(asked, (std::vector<std::string>{"t.jsonl", "p.json"}));
  EXPECT_THAT(problem_of("replay('t.jsonl')", no_files),
              HasSubstr("names a file, which it may not"));
  // The policy inside a trace is a text from others, too.
  const file_source trace_only = [&](const std::string& name) {
    return name == "t.jsonl" ? trace_of("calibrated_threshold('p.json')") : no_files(name);
  };
  EXPECT_THAT(problem_of("replay('t.jsonl')", trace_only),
              AllOf(HasSubstr("p.json"), HasSubstr("names a file, which it may not")));
}

TEST(read_replay, does_not_quote_a_file_that_is_no_trace) {
  for (const char* text : {"hunter2",
                           "hunter2\n",
                           R"({"format":"hunter2"})"
                           "\n"}) {
    const file_source files = [&](const std::string&) { return std::string(text); };
    EXPECT_THAT(problem_of("replay('t.jsonl')", files),
                AllOf(HasSubstr("trace"), Not(HasSubstr("hunter2"))));
  }
  EXPECT_THAT(problem_of("replay('/')", contents_of_trace), HasSubstr("must be a regular file"));
}

TEST(json_reader, reads_a_half_of_a_surrogate_pair_as_the_replacement_character) {
  const auto read = [](const char* text) { return json_reader(text, "trace").string(); };
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(read(R"("\ud83d\ude00")"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(read(R"("a\ud83db")"), "a" + replaced + "b");
  EXPECT_EQ(read(R"("\ude00")"), replaced);
  EXPECT_EQ(read(R"("\ud83d\u0041")"), replaced + "A");
  EXPECT_EQ(read(R"("\ud83d\ud83d\ude00")"), replaced + "\xF0\x9F\x98\x80");
}

TEST(read_trace, names_line_and_column_of_what_is_not_a_trace) {
  const auto refused = [](const char* text, const char* where, const char* why) {
    EXPECT_THAT([&] { static_cast<void>(read_trace(text)); },
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(where), HasSubstr(why))))
        << text;
  };
  refused("", "trace", "no whole line");
  refused("{\"format\":\"unmask-trace/1\"}", "trace", "no whole line");
  refused("[]\n", "line 1, column 1", "expected {");
  refused("{\"format\":\"unmask-trace/2\"}\n", "line 1", "must be unmask-trace/1");
  refused("{\"format\":1}\n", "column 11", "expected \"");
  refused("{\"format\":\"a\\x\"}\n", "line 1", "unknown escape");
  refused("{\"model\":{\"vocab\":1.5}}\n", "line 1", "whole number");
  refused("{\"model\":{\"vocab\":99999999999}}\n", "line 1", "whole number");
  refused("{\"parts\":[\"a\" \"b\"]}\n", "line 1", "expected ]");
  refused("{\"a\":nan}\n", "line 1", "a number");
  refused("{} x\n", "line 1", "unmask-trace/1");
  std::string deep = "{\"a\":";
  deep.append(100, '[');
  refused((deep + "\n").c_str(), "line 1", "deep");
  refused((head + "{\"slot\":1,\"step\":0,\"score\":[1,4]}\n").c_str(), "line 2", "slot 1");
  refused((head + "{\"slot\":0,\"step\":0,\"score\":[1]}\n").c_str(), "line 2", "two numbers");
  refused((head + step(0, "1", "4,4", "c")).c_str(), "line 2", "the same number of values");
  refused((head + "{\"slot\":0,\"step\":0}\n").c_str(), "line 2", "must have 'score'");
  refused(
      (head + "{\"slot\":0,\"end\":\"soon\"}\n").c_str(), "line 2", "expected one of \"complete\"");
}

}  // namespace
}  // namespace unmask::testing::replay_test
