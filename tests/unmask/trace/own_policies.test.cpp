// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A trace of sequences with policies of their own.
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_writer.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <memory>
#include <set>
#include <tuple>

#include "support/json_schema.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::own_policies_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

constexpr index_t length = 27;
constexpr sequence_shape shape{.prompt_length = 3, .length = length, .block_length = 8};
constexpr const char* of_session = "threshold(0.9)";
constexpr const char* policies[] = {
    of_session,
    "left_to_right + tokens_per_step(3)",
    "by_margin + any_of(threshold(0.7), tokens_per_step(2)) + trace_credit"};

/// Step, position, token and bits of the log-probability of each commit.
using written = std::set<std::tuple<index_t, index_t, token_id, std::uint32_t>>;

void add_commits(written& all, const auto& candidates) {
  for (const candidate_entry& e : candidates) {
    if (e.committed) {
      all.insert({e.step, e.position, e.token, std::bit_cast<std::uint32_t>(e.log_probability)});
    }
  }
}

model_info info_of(const made_up_model& model) {
  model_info info = model.info();
  info.eos_token = 0;
  return info;
}

std::vector<float> rows_of(const made_up_model& model,
                           const forward_request& request,
                           const std::vector<std::vector<token_id>>& tokens) {
  struct alone {
    std::span<const segment> segments;
  };
  std::vector<float> logits;
  for (const segment& s : request.segments) {
    const auto rows = requested_rows(
        alone{{&s, 1}}, tokens[static_cast<std::size_t>(s.slot)], [&](const auto& x, index_t p) {
          std::vector<float> z(static_cast<std::size_t>(model.vocab));
          model.row(x, p, z);
          return z;
        });
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

struct recording {
  std::string text;
  std::vector<std::vector<token_id>> tokens;
  std::vector<written> commits;
};

recording record(const made_up_model& model, bool reserves) {
  recording r{.text = {},
              .tokens = std::vector(3, std::vector<token_id>(length, 2)),
              .commits = {{}, {}, {}}};
  named_session s(read_policy(of_session),
                  info_of(model),
                  {.sequences = 3, .length = length, .window = length, .trace = true});
  trace_writer trace(
      [&r](std::string_view line) {
        r.text += line;
        return true;
      },
      {.model = "m",
       .info = info_of(model),
       .policy = of_session,
       .parts = part_texts(of_session)});
  for (index_t slot = 0; slot < 3; ++slot) {
    auto& tokens = r.tokens[static_cast<std::size_t>(slot)];
    const char* const text = policies[slot];
    trace_sequence sequence{.slot = slot, .shape = shape, .tokens = tokens};
    if (slot > 0) {
      sequence.policy = std::make_shared<const trace_policy>(trace_policy{text, part_texts(text)});
    }
    if (reserves) {
      trace.reserve(sequence);
    }
    s.start(slot, read_policy(text), tokens, shape);
    trace.start(sequence, s);
  }
  while (const auto request = s.next()) {
    trace.request(*request, s);
    const auto logits = rows_of(model, *request, r.tokens);
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    trace.step(s);
    for (const segment& part : request->segments) {
      const auto at = static_cast<std::size_t>(part.slot);
      add_commits(r.commits[at], s.candidates(part.slot));
    }
  }
  return r;
}

TEST(trace_with_own_policies, names_the_policy_of_each_sequence) {
  const made_up_model model{.seed = 3, .vocab = 9, .sharpness = 5.0};
  const recording r = record(model, false);
  const trace t = read_trace(r.text);
  ASSERT_EQ(t.sequences.size(), 3U);
  EXPECT_EQ(t.policy, of_session);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(t.sequences[i].policy, policies[i]);
    EXPECT_EQ(t.sequences[i].parts, part_texts(std::string_view(policies[i])));
  }
  EXPECT_THAT(t.sequences[2].parts,
              ElementsAre("by_margin", "threshold(0.7)", "tokens_per_step(2)", "trace_credit"));
  std::ifstream file(UNMASK_TEST_DATA "/../../include/unmask/trace/unmask-trace-1.schema.json");
  const json_schema schema(json::parse(file));
  // `by` of a step is an index into the parts of its own sequence.
  std::set<index_t> parts;
  for (std::size_t at = 0, end = 0; (end = r.text.find('\n', at)) != r.text.npos; at = end + 1) {
    const json line = json::parse(r.text.substr(at, end - at));
    EXPECT_EQ(schema.complaint(line), "");
    if (line.contains("by") && line["slot"] == 2) {
      const auto by = line["by"].get<std::vector<index_t>>();
      parts.insert(by.begin(), by.end());
    }
  }
  EXPECT_THAT(parts, IsSupersetOf({1, 2}));
  EXPECT_LT(*parts.rbegin(), 4);
  const json head = json::parse(r.text.substr(0, r.text.find('\n')));
  EXPECT_FALSE(head["sequences"][0].contains("policy"));
  EXPECT_EQ(head["sequences"][1]["policy"], policies[1]);
}

TEST(trace_with_own_policies, replays_each_sequence_by_its_policy) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const made_up_model model{.seed = seed, .vocab = 9, .sharpness = 5.0};
    const recording r = record(model, true);
    const trace t = read_trace(r.text);
    for (std::size_t i = 0; i < 3; ++i) {
      const loaded_replay again(t, i);
      std::vector<std::vector<token_id>> tokens = {again.table().tokens()};
      named_session s(
          again.policy(), info_of(model), {.length = length, .window = length, .trace = true});
      s.start(0, again.policy(), tokens[0], shape);
      written commits;
      while (const auto request = s.next()) {
        const auto logits = rows_of(model, *request, tokens);
        s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
        add_commits(commits, s.candidates(0));
      }
      EXPECT_EQ(commits, r.commits[i]);  // trace_credit edits the logits of the third
      EXPECT_EQ(tokens[0], r.tokens[i]);
      EXPECT_EQ(s.report(0).forwards, static_cast<index_t>(t.sequences[i].steps.size()));
    }
  }
}

}  // namespace
}  // namespace unmask::testing::own_policies_test
