// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/trace_file.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/trace/trace_writer.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "support/bound_session.hpp"
#include "support/json_schema.hpp"
#include "support/lent.hpp"
#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::trace_writer_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string folder = UNMASK_TEST_DATA "/../../include/unmask/trace/";

std::string contents(const std::string& name) {
  std::ifstream file(name);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lines of a text; the last one only if it has its line end.
std::vector<json> lines_of(const std::string& text) {
  std::vector<json> all;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    all.push_back(json::parse(text.substr(at, end - at)));
  }
  return all;
}

trace_sink into(std::string& text) {
  return [&text](std::string_view line) {
    EXPECT_TRUE(line.ends_with('\n'));
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    text += line;
    return true;
  };
}

/// A recorded decode, with what the session reported.
struct recording {
  std::string text;
  std::vector<std::vector<candidate_entry>> steps;  ///< by line of a step
  std::vector<plan> plans;
  std::vector<std::vector<token_id>> tokens;  ///< at the end, by slot
};

/// Decodes three sequences in two slots: the third one joins when a slot is free. What a call is
/// given is gone behind it, the tokens of a sequence behind its end.
recording record(const char* policy, std::uint64_t seed, bool has_text = false) {
  recording all;
  const made_up_model model{.seed = seed, .vocab = 9, .sharpness = 5.0};
  model_info info = model.info();
  info.eos_token = 0;
  const auto s =
      make_bound(read_policy(policy),
                 info,
                 {.sequences = 2, .length = 24, .window = 24, .branches = 3, .trace = true});
  trace_head head{.model = "a \"made-up\" </script> model",
                  .info = info,
                  .policy = policy,
                  .parts = part_texts(policy)};
  if (has_text) {
    head.text = [](token_id token) { return std::string(1, static_cast<char>('a' + token)); };
  }
  trace_writer trace(into(all.text), head);
  all.tokens.resize(3);
  std::vector<std::optional<lent<token_id>>> tokens(3);
  index_t started = 0;
  const auto start = [&](index_t slot) {
    const auto i = static_cast<std::size_t>(started++);
    tokens[i].emplace(std::vector<token_id>(16 + 4 * i, 3));
    const std::span<token_id> own = tokens[i]->span();
    const sequence_shape shape{.prompt_length = 2 + static_cast<index_t>(i),
                               .length = 16 + 4 * static_cast<index_t>(i),
                               .block_length = 8,
                               .seed = 5,
                               .sequence = static_cast<std::uint32_t>(i)};
    std::vector<std::uint8_t> given(own.size(), 1);
    given[10] = 0;
    lent<std::uint8_t> editable(given);
    s->start(slot, own.data(), shape.length, shape, {.editable = editable.span()});
    const auto sequence = std::make_unique<trace_sequence>(trace_sequence{
        .slot = slot, .shape = shape, .tokens = own, .options = {.editable = editable.span()}});
    trace.start(*sequence, *s);
  };
  start(0);
  start(1);
  std::vector<std::size_t> sequence_in = {0, 1};
  while (const auto request = s->next()) {
    std::vector<segment> segments(request->segments.begin(), request->segments.end());
    trace.request(*request, *s);
    std::vector<float> logits;
    for (const segment& part : segments) {
      struct alone {
        std::span<const segment> segments;
      };
      const auto rows =
          requested_rows(alone{{&part, 1}},
                         tokens[sequence_in[static_cast<std::size_t>(part.slot)]]->copy(),
                         [&](const auto& x, index_t p) {
                           std::vector<float> z(static_cast<std::size_t>(model.vocab));
                           model.row(x, p, z);
                           return z;
                         });
      logits.insert(logits.end(), rows.begin(), rows.end());
      if (part.branch == 0) {
        all.plans.push_back(s->planned(part.slot));
      }
    }
    s->supply(host_logits<float>{logits.data(), request->rows, model.vocab});
    trace.layer(0, 7);
    EXPECT_TRUE(trace.step(*s, 1.5));
    for (index_t slot = 0; slot < 2; ++slot) {
      const bool is_due = std::any_of(
          segments.begin(), segments.end(), [&](const segment& part) { return part.slot == slot; });
      if (is_due) {
        const auto from = s->candidates(slot);
        all.steps.emplace_back(from.begin(), from.end());
      }
      if (is_due && s->report(slot).end != ending::running) {
        std::size_t& sequence = sequence_in[static_cast<std::size_t>(slot)];
        all.tokens[sequence] = tokens[sequence]->copy();
        tokens[sequence].reset();
        if (started < 3) {
          sequence = 2;
          start(slot);
        }
      }
    }
  }
  return all;
}

constexpr const char* policies[] = {
    "threshold(0.9)",
    "by_entropy + any_of(entropy_bound(0.3), tokens_per_step(2)) + trace_credit + stop_at_eos",
    "hierarchical(0.4, 0.9) + remask_below(0.5)",
    "threshold(0.5) + remask_current_below(0.4) + edit_committed(0.8) + edited_blocks",
    "threshold(0.8) + lookahead(3)",
    "threshold(0.8) + sampling(1) + eos_gate + no_equal_neighbours",
    "tokens_per_step(1) + max_steps(5)",
};

// Bit by bit; null stands for what is not finite.
void expect_column(const json& column, const auto& entries, float candidate_entry::* member) {
  ASSERT_EQ(column.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const float x = entries[i].*member;
    EXPECT_EQ(column[i].is_null(), !std::isfinite(x));
    if (std::isfinite(x)) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(column[i].get<float>()),
                std::bit_cast<std::uint32_t>(x));
    }
  }
}

TEST(trace_writer, writes_what_the_session_reports) {
  const json_schema schema(json::parse(contents(folder + "unmask-trace-1.schema.json")));
  std::string outcomes;
  for (const char* policy : policies) {
    SCOPED_TRACE(policy);
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const recording r = record(policy, seed, seed % 2 == 1);
      const std::vector<json> lines = lines_of(r.text);
      EXPECT_EQ(lines[0]["policy"], policy);
      EXPECT_EQ(lines[0]["sequences"].size(), 2U);
      EXPECT_EQ(lines[0]["model"]["name"], "a \"made-up\" </script> model");
      EXPECT_EQ(lines[0]["sequences"][0]["fixed"], json({10}));
      EXPECT_EQ(r.text.find("</"), std::string::npos);
      std::size_t steps = 0;
      std::size_t ends = 0;
      std::size_t starts = 0;
      std::vector<std::size_t> sequence_in = {0, 1};
      json texts = json::object();
      for (const json& line : lines) {
        EXPECT_THAT(schema.complaint(line), IsEmpty());
        if (line.contains("text")) {
          texts.update(line["text"]);
        }
        if (line.contains("start")) {
          sequence_in[line["start"]["slot"].get<std::size_t>()] = 2;
          EXPECT_EQ(line["start"]["shape"]["length"], 24);
          ++starts;
        } else if (line.contains("end")) {
          const std::size_t which = sequence_in[line["slot"].get<std::size_t>()];
          EXPECT_EQ(line["tokens"].get<std::vector<token_id>>(), r.tokens[which]);
          ++ends;
        } else if (line.contains("step")) {
          ASSERT_LT(steps, r.steps.size());
          const auto& entries = r.steps[steps];
          const plan& planned = r.plans[steps++];
          EXPECT_EQ(line["score"], json({planned.score.first, planned.score.last}));
          EXPECT_EQ(line["compute"], json({planned.query.first, planned.query.last}));
          EXPECT_EQ(line["keys"], json({planned.keys.first, planned.keys.last}));
          ASSERT_EQ(line["position"].size(), entries.size());
          for (std::size_t i = 0; i < entries.size(); ++i) {
            EXPECT_EQ(line["slot"], entries[i].slot);
            EXPECT_EQ(line["step"], entries[i].step);
            EXPECT_EQ(line["position"][i], entries[i].position);
            EXPECT_EQ(line["token"][i], entries[i].token);
            EXPECT_EQ(line["by"][i], entries[i].part);
            const auto letter = line["outcome"].get<std::string>()[i];
            EXPECT_EQ(trace_outcomes.find(letter), static_cast<std::size_t>(entries[i].outcome));
            outcomes += letter;
          }
          expect_column(line["log_probability"], entries, &candidate_entry::log_probability);
          expect_column(line["confidence"], entries, &candidate_entry::confidence);
          if (line.contains("margin")) {
            expect_column(line["margin"], entries, &candidate_entry::margin);
            expect_column(line["entropy"], entries, &candidate_entry::entropy);
          }
          EXPECT_EQ(line.contains("branches"), planned.branches > 0);
          if (line.contains("winner")) {
            EXPECT_NE(line["outcome"].get<std::string>().find('w'), std::string::npos);
            const json& placed = line["branches"][line["winner"].get<std::size_t>()];
            const auto at = line["outcome"].get<std::string>().find('w');
            EXPECT_EQ(line["position"][at], placed["position"]);
            EXPECT_EQ(line["token"][at], placed["token"]);
          }
          EXPECT_EQ(line["milliseconds"], 1.5);
        }
      }
      EXPECT_EQ(steps, r.steps.size());
      EXPECT_EQ(starts, 1U);
      EXPECT_EQ(ends, 3U);
      if (seed % 2 == 1) {
        EXPECT_EQ(texts["3"], "d");
        for (const auto& tokens : r.tokens) {
          for (const token_id token : tokens) {
            EXPECT_TRUE(texts.contains(std::to_string(token)));
          }
        }
      }
    }
  }
  for (const char letter : std::string("cfherkw")) {
    EXPECT_NE(outcomes.find(letter), std::string::npos) << letter << " does not occur";
  }
}

// A number that a trace does not have is NaN, but -inf as a log-probability.
void expect_read(float read, float written, float missing) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(read),
            std::bit_cast<std::uint32_t>(std::isfinite(written) ? written : missing));
}

TEST(read_trace, reads_every_member_of_a_step) {
  for (const char* policy : policies) {
    SCOPED_TRACE(policy);
    const recording r = record(policy, 3);
    const std::vector<json> lines = lines_of(r.text);
    const trace read = read_trace(r.text);
    std::map<index_t, const traced_step*> steps;  // by line
    for (const traced_sequence& q : read.sequences) {
      for (const traced_step& step : q.steps) {
        steps[step.line] = &step;
      }
    }
    ASSERT_EQ(steps.size(), r.steps.size());
    std::size_t i = 0;
    for (const auto& [line, step] : steps) {
      const json& written = lines[static_cast<std::size_t>(line - 1)];
      EXPECT_EQ(step->forward, written["forward"]);
      EXPECT_EQ(step->segment, written["segment"]);
      EXPECT_EQ(json({step->compute.first, step->compute.last}), written["compute"]);
      EXPECT_EQ(json(step->layers), written.value("layers", json::array()));
      EXPECT_EQ(step->branches.size(), written.value("branches", json::array()).size());
      EXPECT_EQ(step->milliseconds, 1.5);
      const std::vector<candidate_entry>& entries = r.steps[i++];
      ASSERT_EQ(step->candidates.size(), entries.size());
      for (std::size_t k = 0; k < entries.size(); ++k) {
        const candidate_entry& a = step->candidates[k];
        const candidate_entry& b = entries[k];
        EXPECT_EQ(std::tuple(a.slot, a.step, a.position, a.token, a.outcome, a.part, a.rank),
                  std::tuple(b.slot, b.step, b.position, b.token, b.outcome, b.part, b.rank));
        constexpr float none = std::numeric_limits<float>::quiet_NaN();
        expect_read(a.log_probability, b.log_probability, -std::numeric_limits<float>::infinity());
        expect_read(a.confidence, b.confidence, none);
        expect_read(a.margin, b.margin, none);
        expect_read(a.entropy, b.entropy, none);
      }
    }
  }
}

TEST(trace_writer, writes_the_soft_tokens_of_a_session_that_has_some) {
  const json_schema schema(json::parse(contents(folder + "unmask-trace-1.schema.json")));
  const made_up_model model{.seed = 3, .vocab = 9, .sharpness = 2.0};
  const sequence_shape shape{.prompt_length = 2, .length = 14, .block_length = 6};
  for (const index_t count : {0, 1, 3}) {
    named_session s(read_policy("threshold(0.6)"),
                    model.info(),
                    {.length = shape.length, .window = 6, .trace = true});
    std::string text;
    trace_writer writer(
        [&text](std::string_view line) {
          text += line;
          return true;
        },
        {.model = "m",
         .info = model.info(),
         .policy = "threshold(0.6)",
         .parts = part_texts("threshold(0.6)")});
    std::vector<token_id> tokens(static_cast<std::size_t>(shape.length), model.info().mask_token);
    s.start(0, {tokens.data(), shape.length}, shape, {.soft_tokens = count});
    writer.start({.slot = 0, .shape = shape, .tokens = tokens, .options = {.soft_tokens = count}},
                 s);
    std::vector<std::vector<token_probability>> expected;
    while (const auto request = s.next()) {
      writer.request(*request, s);
      const std::vector<float> logits =
          requested_rows(*request, tokens, [&](const auto& x, index_t p) {
            std::vector<float> z(static_cast<std::size_t>(model.vocab));
            model.row(x, p, z);
            return z;
          });
      s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
      EXPECT_TRUE(writer.step(s));
      const auto soft = s.soft_tokens();
      expected.emplace_back(soft.begin(), soft.end());
    }
    for (const json& line : lines_of(text)) {
      EXPECT_THAT(schema.complaint(line), IsEmpty());
    }
    const trace read = read_trace(text);
    const std::vector<traced_step>& steps = read.sequences[0].steps;
    ASSERT_EQ(steps.size(), expected.size());
    std::size_t written = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_EQ(steps[i].soft.size(), expected[i].size());
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        const token_probability& a = steps[i].soft[k];
        const token_probability& b = expected[i][k];
        EXPECT_EQ(std::tuple(a.slot, a.position, a.token, a.step, a.probability, a.share),
                  std::tuple(b.slot, b.position, b.token, b.step, b.probability, b.share));
        ++written;
      }
    }
    EXPECT_EQ(written > 0, count > 0);
  }
  EXPECT_THAT(
      [] {
        static_cast<void>(read_trace(
            R"({"format":"unmask-trace/1","sequences":[{"slot":0,"shape":{},"tokens":[]}]})"
            "\n"
            R"({"slot":0,"step":0,"soft":{"position":[1,2],"token":[3]}})"
            "\n"));
      },
      ThrowsMessage<std::invalid_argument>(
          HasSubstr("columns must have the same number of values")));
}

TEST(trace_writer, the_schema_refuses_other_lines) {
  const json_schema schema(json::parse(contents(folder + "unmask-trace-1.schema.json")));
  const std::vector<json> lines = lines_of(record("threshold(0.9)", 1).text);
  ASSERT_GT(lines.size(), 3U);
  const auto refuses = [&](json line, const char* path, const json& value) {
    line[json::json_pointer(path)] = value;
    EXPECT_FALSE(schema.complaint(line).empty()) << path;
  };
  refuses(lines[0], "/format", "unmask-trace/2");
  refuses(lines[0], "/model/vocab", "9");
  refuses(lines[0], "/sequences/0/fixed", {-1});
  refuses(lines[1], "/outcome", "cz");
  refuses(lines[1], "/score", {1});
  refuses(lines[1], "/confidence", {"0.5"});
  refuses(lines.back(), "/end", "eos");
  json step = lines[1];
  step.erase("by");
  EXPECT_FALSE(schema.complaint(step).empty());
}

// The page has a row for each member of the schema.
TEST(trace_writer, the_page_names_every_member) {
  const std::string page = contents(folder + "README.md");
  const json schema = json::parse(contents(folder + "unmask-trace-1.schema.json"));
  const auto check = [&page](const auto& self, const json& value) -> void {
    if (value.is_object() && value.contains("properties")) {
      for (const auto& [name, inner] : value["properties"].items()) {
        EXPECT_THAT(page, HasSubstr("`" + name + "`"));
        self(self, inner);
      }
    }
    for (const auto& inner : value) {
      if (inner.is_structured()) {
        self(self, inner);
      }
    }
  };
  check(check, schema);
  for (const char letter : trace_outcomes) {
    EXPECT_THAT(page, HasSubstr(std::string("`") + letter + "`"));
  }
  for (const std::string_view word : trace_endings) {
    EXPECT_TRUE(word == "running" || page.find('`' + std::string(word) + '`') != page.npos) << word;
  }
}

TEST(trace_writer, stops_with_the_line_that_the_sink_refuses) {
  const recording whole = record("threshold(0.9)", 2);
  const std::size_t lines = lines_of(whole.text).size();
  for (std::size_t most = 0; most < 4; ++most) {
    std::string text;
    std::size_t calls = 0;
    const made_up_model model{.seed = 2};
    std::vector<token_id> tokens(20, 0);
    const policy p{by_confidence{}, threshold{0.9F}};
    session<std::remove_const_t<decltype(p)>> s{model.info(),
                                                {.length = 20, .window = 20, .trace = true}};
    trace_writer trace(
        [&](std::string_view line) {
          ++calls;
          text += calls <= most ? line : line.substr(0, line.size() / 2);
          return calls <= most;
        },
        {.model = "m", .info = model.info(), .policy = "", .parts = part_texts(p)});
    const sequence_shape shape{.prompt_length = 2, .length = 20, .block_length = 9};
    s.start(0, p, tokens, shape);
    trace.start({.slot = 0, .shape = shape, .tokens = tokens}, s);
    while (const auto request = s.next()) {
      trace.request(*request, s);
      supply_one(s, *request, model, tokens);
      trace.step(s);
    }
    EXPECT_FALSE(trace.ok());
    EXPECT_EQ(calls, most + 1);
    EXPECT_EQ(lines_of(text).size(), most);
  }
  EXPECT_GT(lines, 4U);
}

TEST(trace_writer, writes_the_end_of_a_cancelled_sequence) {
  std::string text;
  const made_up_model model{.seed = 2};
  std::vector<token_id> tokens(20, 0);
  const policy p{by_margin{}, threshold{0.9F} || tokens_per_step{1}};
  session<std::remove_const_t<decltype(p)>> s{model.info(),
                                              {.length = 20, .window = 20, .trace = true}};
  trace_writer trace(into(text),
                     {.model = "m", .info = model.info(), .policy = "", .parts = part_texts(p)});
  const sequence_shape shape{.length = 20, .block_length = 9};
  s.start(0, p, tokens, shape);
  trace.start({.slot = 0, .shape = shape, .tokens = tokens}, s);
  s.cancel(0);
  EXPECT_TRUE(trace.end(0, s.report(0)));
  EXPECT_TRUE(trace.end(0, s.report(0)));  // once
  const std::vector<json> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1]["end"], "cancelled");
  EXPECT_EQ(lines[1]["forwards"], 0);
  EXPECT_EQ(lines[0]["parts"], json({"by_margin", "threshold", "tokens_per_step"}));
}

TEST(trace_writer, writes_the_step_of_the_request_that_was_decided) {
  std::string text;
  const made_up_model model{.seed = 2};
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(20, 0));
  const policy p{by_margin{}, tokens_per_step{1}};
  session<std::remove_const_t<decltype(p)>> s{
      model.info(), {.sequences = 2, .length = 20, .window = 20, .trace = true}};
  trace_writer trace(into(text),
                     {.model = "m", .info = model.info(), .policy = "", .parts = part_texts(p)});
  const sequence_shape shape{.length = 20, .block_length = 9};
  for (const index_t slot : {0, 1, 1}) {  // the second time before a step
    std::vector<token_id>& t = tokens[static_cast<std::size_t>(slot)];
    s.start(slot, p, t, shape);
    trace.start({.slot = slot, .shape = shape, .tokens = t}, s);
  }
  trace.request(*s.next(), s);
  s.abandon();
  const auto request = s.next(std::vector<index_t>{1});
  trace.request(*request, s);
  supply_one(s, *request, model, tokens[1]);
  trace.step(s);
  const std::vector<json> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2U);  // the head, and one step
  EXPECT_EQ(lines[0]["sequences"].size(), 2U);
  EXPECT_EQ(lines[1]["slot"], 1);
  EXPECT_EQ(lines[1]["forward"], 2);
}

TEST(json_text, reads_back_as_what_it_was) {
  json_text out;
  const std::string hostile = "<script>alert(\"1\\2\")</script>&\n\t\x01\x7F \xC3\xA9 \xE2\x80\xA8 "
                              "\xF0\x9F\x99\x82";
  out.open('[');
  out.string(hostile);
  out.number(0.1F);
  out.number(-std::numeric_limits<float>::denorm_min());
  out.number(std::numeric_limits<float>::max());
  out.number(std::numeric_limits<std::uint64_t>::max());
  out.number(std::numeric_limits<float>::infinity());
  out.number(-0.0F);
  out.string("\xFF\xC0\xAF\xED\xA0\x80z");  // no UTF-8
  out.close(']');
  const std::string line(out.line());
  EXPECT_EQ(line.find_first_of("<>&\x01"), std::string::npos);
  EXPECT_EQ(line.find("\xE2\x80\xA8"), std::string::npos);
  const json back = json::parse(line);
  EXPECT_EQ(back[0], hostile);
  EXPECT_EQ(back[1].get<float>(), 0.1F);
  EXPECT_EQ(back[2].get<float>(), -std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(back[3].get<float>(), std::numeric_limits<float>::max());
  EXPECT_EQ(back[4].get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(back[5].is_null());
  EXPECT_TRUE(std::signbit(back[6].get<float>()));
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(back[7], bad + bad + bad + bad + bad + bad + "z");
}

TEST(part_texts, are_in_the_order_of_the_candidates_part) {
  EXPECT_THAT(part_texts("by_margin + any_of(threshold(0.9), all_of(tokens_per_step(2), "
                         "threshold(value = 0.5))) + stop_at_eos"),
              ElementsAre("by_margin",
                          "threshold(0.9)",
                          "tokens_per_step(2)",
                          "threshold(value=0.5)",
                          "stop_at_eos"));
  for (const known_method& method : known_methods()) {
    EXPECT_EQ(part_texts(method.name), part_texts(method.text));
    EXPECT_EQ(static_cast<index_t>(part_texts(method.name).size()), read_policy(method.name).count);
  }
  EXPECT_THAT(part_texts("lopa_d2f(0.8, branches=7)"),
              ElementsAre("threshold(value=0.8)", "lookahead(branches=7)", "block_pipeline"));
}

TEST(trace_file, says_when_it_is_full) {
  EXPECT_THROW(trace_file("/no/such/folder/a.jsonl"), std::runtime_error);
  const std::string name = ::testing::TempDir() + "unmask_trace_file.jsonl";
  {
    trace_file file(name);
    trace_sink sink = file;
    EXPECT_TRUE(sink("{}\n"));
    EXPECT_EQ(contents(name), "{}\n");  // already
    EXPECT_TRUE(sink("{\"a\":1}\n"));
    EXPECT_EQ(file.error(), "");
  }
  EXPECT_EQ(lines_of(contents(name)).size(), 2U);
  std::filesystem::remove(name);
  if (std::filesystem::exists("/dev/full")) {
    trace_file full("/dev/full");
    EXPECT_FALSE(full("{}\n"));
    EXPECT_FALSE(full("{}\n"));
    EXPECT_THAT(full.error(), HasSubstr("last whole line is number 0"));
  }
}

}  // namespace
}  // namespace unmask::testing::trace_writer_test
