// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::replay_constraint_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr index_t prompt = 2;
constexpr constraint_limits small{.bytes = 1 << 16};

/// Step, position, token and bits of the log-probability of each token that a step wrote.
using written = std::vector<std::tuple<index_t, index_t, token_id, std::uint32_t, char>>;

struct recording {
  std::string trace;
  written tokens_of_steps;
  std::vector<token_id> tokens;
  sequence_report report;
};

/// Decodes with logits that depend on pass and position; records if `policy` is the text of one.
recording decode(const named_policy& parts,
                 const char* policy,
                 const model_info& model,
                 std::vector<token_id> tokens,
                 const sequence_shape& shape,
                 const start_options& options,
                 std::uint64_t seed) {
  recording r;
  named_session s(
      parts, model, {.length = shape.length, .window = shape.length - prompt, .trace = true});
  r.tokens = std::move(tokens);
  std::optional<trace_writer> trace;
  s.start(0, {r.tokens.data(), shape.length}, shape, options);
  if (policy != nullptr) {
    trace.emplace(
        [&r](std::string_view line) {
          r.trace += line;
          return true;
        },
        trace_head{.model = "m", .info = model, .policy = policy, .parts = part_texts(policy)});
    trace->start({.slot = 0, .shape = shape, .tokens = r.tokens, .options = options}, s);
  }
  for (std::uint64_t pass = 0;; ++pass) {
    const auto request = s.next();
    if (!request) {
      break;
    }
    if (trace) {
      trace->request(*request, s);
    }
    const std::vector<float> logits =
        requested_rows(*request, r.tokens, [&](const auto&, index_t position) {
          dice d(mixed(seed, pass, position));
          std::vector<float> row;
          for (index_t v = 0; v < model.vocab; ++v) {
            row.push_back(static_cast<float>(d.real(-4, 4)));
          }
          return row;
        });
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    if (trace) {
      trace->step(s);
    }
    for (const candidate_entry& e : s.candidates(0)) {
      if (e.committed || e.outcome == candidate_outcome::filled) {
        r.tokens_of_steps.emplace_back(e.step,
                                       e.position,
                                       e.token,
                                       std::bit_cast<std::uint32_t>(e.log_probability),
                                       e.outcome == candidate_outcome::filled ? 'l' : 'c');
      }
    }
  }
  r.report = s.report(0);
  return r;
}

TEST(replay_of_a_constraint, fills_the_same_positions_with_the_same_bits) {
  constexpr const char* policies[] = {"threshold(0.5)",
                                      "tokens_per_step(2)",
                                      "by_margin + steps_per_block(3)",
                                      "threshold(0.3) + sampling(1.0)",
                                      "trace_credit + threshold(0.6) + stop_at_eos",
                                      "threshold(0.4) + edit_committed(0.5)",
                                      "at_random + tokens_per_step(3)"};
  int filled = 0;
  int refused = 0;
  int decodes = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d);
    std::optional<constraint> c = constraint_of(l, small);
    if (!c) {
      continue;
    }
    const char* const policy = policies[d.within(0, 6)];
    const sequence_shape shape{.prompt_length = prompt,
                               .length = prompt + d.within(1, 9),
                               .block_length = d.within(1, 9),
                               .seed = seed};
    const constrained_field field{.language = &*c};
    const std::vector<std::uint8_t> editable(static_cast<std::size_t>(shape.length), 1);
    std::vector<token_id> tokens(static_cast<std::size_t>(shape.length), l.model.mask_token);
    tokens[0] = tokens[1] = (l.model.mask_token + 1) % l.model.vocab;
    recording first;
    try {
      first = decode(read_policy(policy),
                     policy,
                     l.model,
                     tokens,
                     shape,
                     {.editable = editable, .constraints = {&field, 1}},
                     seed);
    } catch (const std::invalid_argument&) {
      continue;  // no answer of that length
    }
    if (first.trace.empty() || first.report.forwards == 0) {
      continue;
    }
    const loaded_replay again(read_trace(first.trace));
    const start_options options{.editable = again.table().editable(), .constraints = {&field, 1}};
    again.check_start(options, shape);
    const recording second =
        decode(again.policy(), nullptr, l.model, again.table().tokens(), shape, options, seed);
    ASSERT_EQ(second.tokens, first.tokens) << policy << "\n" << first.trace;
    ASSERT_EQ(second.tokens_of_steps, first.tokens_of_steps) << policy << "\n" << first.trace;
    EXPECT_EQ(second.report.forwards, first.report.forwards);
    EXPECT_EQ(second.report.end, first.report.end);
    EXPECT_EQ(second.report.constraint_met, first.report.constraint_met);
    if (again.table().has_filled()) {
      EXPECT_THAT([&] { again.check_start({.editable = again.table().editable()}, shape); },
                  ThrowsMessage<std::invalid_argument>(HasSubstr("with the same constraint")));
      ++filled;
    }
    refused += first.report.refused > 0 ? 1 : 0;
    ++decodes;
  }
  EXPECT_GT(decodes, 400);
  EXPECT_GT(filled, 100);
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace unmask::testing::replay_constraint_test
