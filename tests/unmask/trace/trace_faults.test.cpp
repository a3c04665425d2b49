// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recordings whose callers free what they may, and whose texts and sinks fail.
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/trace/trace_writer.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

#include "support/lent.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::trace_faults_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr model_info model{.vocab = 12, .mask_token = 11, .eos_token = 0};

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> all;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    all.push_back(json::parse(text.substr(at, end - at)));
  }
  return all;
}

/// A session of two slots that is recorded in a string.
class recorded {
 public:
  explicit recorded(const char* policy, std::function<std::string(token_id)> token_text = {})
      : session(
            read_policy(policy), model, {.sequences = 2, .length = 20, .window = 20, .trace = true})
      , trace(
            [this](std::string_view line) {
              text += line;
              return true;
            },
            {.model = "m",
             .info = model,
             .policy = policy,
             .parts = part_texts(policy),
             .text = std::move(token_text)}) {}

  /// Starts a sequence. `editable` is gone behind it.
  void start(index_t slot,
             lent<token_id>& tokens,
             const sequence_shape& shape,
             const std::vector<std::uint8_t>& editable) {
    lent<std::uint8_t> given(editable);
    session.start(slot, tokens.span(), shape, {.editable = given.span()});
    trace.start({.slot = slot,
                 .shape = shape,
                 .tokens = tokens.span(),
                 .options = {.editable = given.span()}},
                session);
  }
  /// Runs a step. Returns false if there is none.
  bool step() {
    const auto request = session.next();
    if (request) {
      trace.request(*request, session);
      supply(request->rows);
      trace.step(session);
    }
    return request.has_value();
  }
  void supply(index_t rows) {
    std::vector<float> z(static_cast<std::size_t>(rows * model.vocab));
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = static_cast<float>(i * 7 % 23);
    }
    session.supply(host_logits<float>(z.data(), rows, model.vocab));
  }

  std::string text;
  named_session session;
  trace_writer trace;
};

constexpr sequence_shape shape_of(index_t prompt_length) {
  return {.prompt_length = prompt_length, .length = 20, .block_length = 10};
}

TEST(trace_writer, reads_the_fixed_positions_at_the_start_alone) {
  recorded r("tokens_per_step(4)");
  lent<token_id> first(std::vector<token_id>(20, 5));
  lent<token_id> second(std::vector<token_id>(20, 6));
  std::vector<std::uint8_t> editable(20, 1);
  editable[7] = 0;
  r.start(0, first, shape_of(4), editable);
  ASSERT_TRUE(r.step());
  editable[7] = 1;
  editable[15] = editable[16] = 0;
  r.start(1, second, shape_of(4), editable);
  while (r.step()) {
  }
  const trace read = read_trace(r.text);
  ASSERT_EQ(read.sequences.size(), 2U);
  EXPECT_THAT(read.sequences[0].fixed, ElementsAre(7));
  EXPECT_THAT(read.sequences[1].fixed, ElementsAre(15, 16));
  EXPECT_EQ(read.sequences[1].final_tokens, second.copy());
}

// The end of a sequence with nothing to decode is written when it is started, and its tokens are
// not read again.
TEST(trace_writer, ends_a_sequence_that_has_nothing_to_decode) {
  for (const bool is_first : {true, false}) {
    SCOPED_TRACE(is_first);
    recorded r("tokens_per_step(4) + stop_at_eos", [](token_id t) { return std::to_string(t); });
    lent<token_id> whole(std::vector<token_id>(20, 5));
    const auto start_whole = [&] {
      r.start(0, whole, shape_of(4), std::vector<std::uint8_t>(20, 1));
    };
    if (!is_first) {
      start_whole();
      ASSERT_TRUE(r.step());
    }
    {
      lent<token_id> nothing(std::vector<token_id>(20, 7));
      r.start(1, nothing, shape_of(20), std::vector<std::uint8_t>(20, 1));
      EXPECT_EQ(r.session.report(1).end, ending::complete);
    }
    EXPECT_EQ(lines_of(r.text).back()["end"], "complete");
    if (is_first) {
      EXPECT_EQ(lines_of(r.text).size(), 2U);  // the head, the end
      start_whole();
    }
    {  // an EOS token that is given behind the prompt ends this one, the masks behind it are filled
      std::vector<token_id> tokens(20, 7);
      tokens[4] = model.eos_token;
      lent<token_id> stopped(tokens);
      std::vector<std::uint8_t> editable(20, 1);
      editable[4] = 0;
      r.start(1, stopped, shape_of(4), editable);
      EXPECT_EQ(r.session.report(1).end, ending::eos_token);
    }
    EXPECT_EQ(lines_of(r.text).back()["end"], "eos_token");
    while (r.step()) {
    }
    const trace read = read_trace(r.text);
    ASSERT_EQ(read.sequences.size(), 3U);
    for (const traced_sequence& s : read.sequences) {
      EXPECT_NE(s.end, ending::running);
      EXPECT_EQ(s.final_tokens.size(), 20U);
      EXPECT_EQ(s.steps.empty(), s.slot == 1);
    }
    EXPECT_EQ(read.sequences[is_first ? 0 : 1].final_tokens, std::vector<token_id>(20, 7));
    EXPECT_EQ(read.sequences[2].final_tokens[19], model.eos_token);
    json texts = json::object();
    for (const json& line : lines_of(r.text)) {
      texts.update(line.value("text", json::object()));
    }
    EXPECT_TRUE(texts.contains("7") && texts.contains("5") && texts.contains("0"));
  }
}

TEST(trace_writer, writes_the_ends_of_a_request_that_was_cancelled) {
  recorded r("tokens_per_step(4)");
  {
    lent<token_id> first(std::vector<token_id>(20, 5));
    lent<token_id> second(std::vector<token_id>(20, 6));
    r.start(0, first, shape_of(4), std::vector<std::uint8_t>(20, 1));
    r.start(1, second, shape_of(6), std::vector<std::uint8_t>(20, 1));
    ASSERT_TRUE(r.step());
    r.trace.request(*r.session.next(), r.session);
    r.session.cancel_request();
    EXPECT_TRUE(r.trace.end(r.session));
  }
  EXPECT_TRUE(r.trace.end(r.session));  // once, and their tokens are not read again
  EXPECT_EQ(lines_of(r.text).size(), 5U);
  for (const traced_sequence& s : read_trace(r.text).sequences) {
    EXPECT_EQ(s.end, ending::cancelled);
  }
}

// Whichever call of the text throws: it comes out once, and every line is there with all that it
// has without texts. The token gets its text where it occurs again.
TEST(trace_writer, goes_on_behind_a_text_that_throws) {
  const auto record = [](long failing, std::string* lines, int* failures) {
    long calls = 0;
    recorded r("tokens_per_step(2)", [&](token_id token) {
      if (calls++ == failing) {
        throw std::runtime_error("no text");
      }
      return "<" + std::to_string(token) + ">";
    });
    const auto counted = [&](const auto& call) {
      try {
        call();
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "no text");
        ++*failures;
      }
    };
    lent<token_id> first(std::vector<token_id>(20, 5));
    lent<token_id> second(std::vector<token_id>(20, 6));
    lent<token_id> third(std::vector<token_id>(20, 7));
    const std::vector<std::uint8_t> editable(20, 1);
    r.start(0, first, shape_of(14), editable);
    r.start(1, second, shape_of(4), editable);
    bool has_third = false;
    while (auto request = r.session.next()) {
      const int before = *failures;
      counted([&] { r.trace.request(*request, r.session); });
      if (*failures > before) {  // in the head: the call is made again, as next() would be
        r.trace.request(*request, r.session);
      }
      r.supply(request->rows);
      counted([&] { r.trace.step(r.session); });
      if (!has_third && r.session.report(0).end != ending::running) {
        has_third = true;
        r.start(0, third, shape_of(16), editable);  // what a text throws here, the next call throws
      }
    }
    *lines = r.text;
    return calls;
  };
  const auto stripped = [](const std::string& text, json* texts) {
    std::string all;
    for (json line : lines_of(text)) {
      texts->update(line.value("text", json::object()));
      line.erase("text");
      all += line.dump() + '\n';
    }
    return all;
  };
  std::string undisturbed;
  int failures = 0;
  const long calls = record(-1, &undisturbed, &failures);
  EXPECT_EQ(failures, 0);
  EXPECT_GT(calls, 10);
  json texts = json::object();
  const std::string expected = stripped(undisturbed, &texts);
  for (long failing = 0; failing < calls; ++failing) {
    SCOPED_TRACE(failing);
    std::string lines;
    failures = 0;
    record(failing, &lines, &failures);
    EXPECT_EQ(failures, 1);
    json some = json::object();
    EXPECT_EQ(stripped(lines, &some), expected);
    EXPECT_EQ(some, texts);  // each token occurs again in the end
  }
}

TEST(trace_writer, ends_with_the_line_at_which_the_sink_throws) {
  for (int failing = 0; failing < 5; ++failing) {
    int lines = 0;
    const policy p{by_confidence{}, tokens_per_step{4}};
    session<std::remove_const_t<decltype(p)>> s{model, {.length = 20, .window = 20, .trace = true}};
    trace_writer trace(
        [&](std::string_view) {
          if (lines == failing) {
            throw std::runtime_error("no sink");
          }
          return ++lines > 0;
        },
        {.model = "m", .info = model, .policy = "", .parts = part_texts(p)});
    std::optional<lent<token_id>> tokens(std::in_place, std::vector<token_id>(20, 5));
    const sequence_shape shape = shape_of(4);
    s.start(0, p, tokens->span(), shape);
    trace.start({.slot = 0, .shape = shape, .tokens = tokens->span()}, s);
    int thrown = 0;
    const auto counted = [&](const auto& call) {
      try {
        call();
      } catch (const std::runtime_error&) {
        ++thrown;
      }
    };
    while (const auto request = s.next()) {
      counted([&] { trace.request(*request, s); });
      const std::vector<float> z(static_cast<std::size_t>(request->rows * model.vocab));
      s.supply(host_logits<float>(z.data(), request->rows, model.vocab));
      counted([&] { trace.step(s); });
    }
    EXPECT_EQ(thrown, 1);
    EXPECT_EQ(lines, failing);
    EXPECT_FALSE(trace.ok());
    tokens.reset();
    EXPECT_FALSE(trace.end(s));  // reads no tokens
  }
}

}  // namespace
}  // namespace unmask::testing::trace_faults_test
