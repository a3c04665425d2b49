// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The C interface decodes as the session behind it, and explains errors of a call.

#include <unmask/c_layers.h>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"
#include "support/c_calls.hpp"
#include "support/fake_logits.hpp"
#include "support/layered_decode.hpp"

namespace c_api_test {
namespace {

using ::testing::HasSubstr;
using unmask::testing::c_logits;
using unmask::testing::expect_fails;
using unmask::testing::lent;
using unmask::testing::made;
using unmask::testing::record_lent;
using unmask::testing::session_pointer;
using unmask::testing::start_lent;
using unmask::testing::supply_lent;

unmask_options small_options() {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.vocab = 4;
  o.mask_token = 3;
  o.length = 6;
  o.window = 6;
  return o;
}
unmask_sequence small_sequence() {
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.block_length = 6;
  return q;
}
TEST(c_api, decodes_a_real_model_as_the_session_does) {
  const example::gguf_file file(example::testing::weights_path());
  const example::char_tokenizer text(file);
  example::llada_model engine(file);
  const auto vocab = static_cast<std::int32_t>(text.vocabulary());
  const std::vector<std::int32_t> canvas =
      text.canvas("Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?", 40);
  const auto length = static_cast<std::int32_t>(canvas.size());

  std::vector<std::int32_t> expected = canvas;
  const unmask::policy composed{unmask::by_confidence{},
                                unmask::threshold{0.6F},
                                unmask::trace_credit<>{},
                                unmask::stop_at_eos{}};
  unmask::session session(composed,
                          {.vocab = vocab, .mask_token = text.mask(), .eos_token = text.end()},
                          unmask::tokens_view<unmask::memory::host>(expected),
                          {.prompt_length = length - 40, .length = length, .block_length = 20});
  while (const auto request = session.next()) {
    const auto [first, last] = request->segments[0].rows;
    const auto z = engine.forward(expected, std::size_t(first), std::size_t(last));
    session.supply(unmask::host_logits<float>(z.data, request->rows, vocab));
  }

  std::vector<std::int32_t> tokens = canvas;
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = vocab;
  options.mask_token = text.mask();
  options.eos_token = text.end();
  options.length = length;
  options.window = 20;
  options.threads = 2;
  options.shared_threads = 1;
  const session_pointer other = made("threshold", options);  // has the same threads
  const session_pointer s = made("trace_credit + threshold(0.6) + stop_at_eos", options);
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = length - 40;
  sequence.length = length;
  sequence.block_length = 20;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), length, &sequence), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  std::int32_t written = 0;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    ASSERT_EQ(request.count, 1);
    const unmask_segment g = request.segments[0];
    const auto z = engine.forward(tokens, std::size_t(g.row_first), std::size_t(g.row_last));
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = request.rows;
    logits.columns = vocab;
    logits.data = z.data;
    ASSERT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK) << unmask_last_error();
    const unmask_commit* commits = nullptr;
    std::int32_t count = 0;
    ASSERT_EQ(unmask_committed(s.get(), 0, sizeof(unmask_commit), &commits, &count), UNMASK_OK);
    for (std::int32_t i = 0; i < count; ++i) {
      EXPECT_EQ(tokens[std::size_t(commits[i].position)], commits[i].token);
      EXPECT_LE(commits[i].log_probability, 0.0F);
    }
    written += count;
  }
  EXPECT_EQ(tokens, expected);
  unmask_report report = UNMASK_REPORT_INIT;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.forwards, session.report().forwards);
  EXPECT_EQ(report.committed, written);
  EXPECT_EQ(report.end, static_cast<int>(session.report().end));
}

TEST(c_api, plans_what_the_session_plans) {
  const unmask::testing::fake_model model{.seed = 17, .vocab = 32};
  const unmask::policy composed{unmask::by_confidence{},
                                unmask::threshold{0.9F},
                                unmask::lookahead{.branches = 2},
                                unmask::block_pipeline{.add = 0.3F, .activate = 0.6F}};
  std::vector<std::int32_t> expected(24), tokens(24);
  unmask::session session(composed,
                          {.vocab = 32, .mask_token = 31},
                          unmask::tokens_view<unmask::memory::host>(expected),
                          {.prompt_length = 1, .length = 24, .block_length = 4});
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = 32;
  options.mask_token = 31;
  options.length = 24;
  options.window = 24;
  const session_pointer s =
      made("threshold(0.9) + lookahead(2) + block_pipeline(0.3, 0.6)", options);
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = 1;
  sequence.length = 24;
  sequence.block_length = 4;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 24, &sequence), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  int winners = 0, frozen = 0;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    ASSERT_TRUE(session.next());
    std::vector<float> z(std::size_t(request.rows) * 32);
    for (std::int32_t k = 0; k < request.count; ++k) {
      const unmask_segment& g = request.segments[k];
      std::vector<std::int32_t> seen = tokens;
      for (const unmask_placement& p : std::span(g.placed, std::size_t(g.placed_count))) {
        seen[std::size_t(p.position)] = p.token;
      }
      for (std::int32_t r = g.row_first; r < g.row_last; ++r) {
        const auto at = std::size_t(g.first_row + r - g.row_first) * 32;
        model.row<float>(seen, r, std::span(z).subspan(at, 32));
      }
    }
    const unmask_logits logits = c_logits(z, 32);
    ASSERT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK) << unmask_last_error();
    session.supply(unmask::host_logits<float>(z.data(), request.rows, 32));
    unmask_plan plan = UNMASK_PLAN_INIT;
    ASSERT_EQ(unmask_get_plan(s.get(), 0, &plan), UNMASK_OK) << unmask_last_error();
    EXPECT_EQ(plan.winner, session.planned().winner);
    EXPECT_EQ(plan.freeze_first, session.planned().freeze.first);
    EXPECT_EQ(plan.freeze_last, session.planned().freeze.last);
    EXPECT_EQ(plan.refresh, session.planned().refresh ? 1 : 0);
    winners += plan.winner > 0 ? 1 : 0;
    frozen += plan.freeze_last > plan.freeze_first ? 1 : 0;
  }
  EXPECT_EQ(tokens, expected);
  EXPECT_GT(winners, 0);
  EXPECT_GT(frozen, 0);
}

/// The pass in the form of the toy engine.
struct pass_in_c {
  unmask::feature reads;
  unmask::skipping skipped;
  unmask_session* session;
  const unmask_segment& segment;

  using list = std::span<const std::int32_t>;
  [[nodiscard]] list positions() const {
    const std::int32_t* entries = nullptr;
    std::int32_t count = 0;
    EXPECT_EQ(unmask_positions(session, 0, &entries, &count), UNMASK_OK) << unmask_last_error();
    return {entries, std::size_t(count)};
  }
  [[nodiscard]] unmask::range keys() const { return {segment.keys_first, segment.keys_last}; }
  [[nodiscard]] bool hooks(std::int32_t layer) const {
    std::int32_t hooked = 7;
    EXPECT_EQ(unmask_hooks(session, 0, layer, &hooked), UNMASK_OK) << unmask_last_error();
    return hooked != 0;
  }
  unmask::layer_choice at_layer(std::int32_t layer,
                                const unmask::host_hidden<float>& now,
                                const unmask::host_state<float>& previous) {
    unmask_logits shown = UNMASK_LOGITS_INIT;
    shown.rows = now.rows;
    shown.columns = now.columns;
    shown.data = now.data;
    unmask_stored stored = UNMASK_STORED_INIT;
    stored.last = previous.positions.last;
    stored.columns = previous.columns;
    stored.data = previous.data;
    const std::vector<std::int32_t> before(positions().begin(), positions().end());
    const std::int32_t* rows = nullptr;
    std::int32_t count = 0;
    EXPECT_EQ(unmask_at_layer(session, 0, layer, &shown, &stored, &rows, &count), UNMASK_OK)
        << unmask_last_error();
    chosen.clear();
    for (std::int32_t i = 0; i < count; ++i) {
      chosen.push_back(before[std::size_t(rows[i])]);
    }
    return {{rows, std::size_t(count)}, chosen};
  }
  [[nodiscard]] list rows() const {
    const std::int32_t* entries = nullptr;
    std::int32_t count = 0;
    EXPECT_EQ(unmask_rows(session, 0, &entries, &count), UNMASK_OK) << unmask_last_error();
    return {entries, std::size_t(count)};
  }
  std::vector<std::int32_t> chosen = {};
};

template <class Policy>
void expect_same_layers(const char* text, const Policy& composed) {
  using namespace unmask::testing;
  const unmask::layer_rule_info typed = unmask::layer_rule_of(composed);
  SCOPED_TRACE(text);
  const unmask::sequence_shape shape{
      .prompt_length = 5, .length = 37, .block_length = 16, .seed = 3};
  const toy_transformer model;
  const layered_result expected = decode_layered(model, composed, shape);
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = model.vocab;
  options.mask_token = model.vocab - 1;
  options.length = 37;
  options.window = 37;
  options.layers = model.layers;
  const session_pointer s = made(text, options);
  unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
  ASSERT_EQ(unmask_get_layer_rule(s.get(), &rule), UNMASK_OK);
  EXPECT_EQ(rule.has_hooks, 1);
  EXPECT_EQ(rule.reads, static_cast<int>(typed.reads));
  EXPECT_EQ(rule.kept, typed.skipped == unmask::skipping::kept ? 1 : 0);
  std::vector<std::int32_t> tokens = prompted(model, shape);
  toy_memory memory(model.layers, shape.length, toy_transformer::width);
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = 5;
  sequence.length = 37;
  sequence.block_length = 16;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 37, &sequence), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    pass_in_c pass{typed.reads, typed.skipped, s.get(), request.segments[0]};
    const std::vector<float> z = model.forward(pass, tokens.data(), memory);
    const unmask_logits logits = c_logits(z, model.vocab);
    ASSERT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK) << unmask_last_error();
  }
  EXPECT_EQ(tokens, expected.tokens);
  EXPECT_EQ(memory.computed, expected.computed);
  unmask_report report = UNMASK_REPORT_INIT;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.forwards, expected.report.forwards);
}

TEST(c_api, decodes_whole_methods_that_ask_at_layers) {
  expect_same_layers("es_dllm", unmask::methods::es_dllm());
  expect_same_layers("es_dllm_parallel(0.6)", unmask::methods::es_dllm_parallel(0.6F));
  expect_same_layers("dynamic_dllm", unmask::methods::dynamic_dllm());
}

TEST(c_api, says_what_is_wrong_with_a_call_about_layers) {
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  unmask_options o = small_options();
  unmask_session* none = nullptr;
  expect_fails(unmask_create("es_dllm", &o, &none), bad, {"unmask_options::layers", "0"});
  const session_pointer plain = made("tokens_per_step", o);
  unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
  ASSERT_EQ(unmask_get_layer_rule(plain.get(), &rule), UNMASK_OK);
  EXPECT_EQ(rule.has_hooks, 0);
  expect_fails(unmask_get_layer_rule(plain.get(), nullptr), bad, {"rule", "null"});
  o.layers = 8;
  const session_pointer s = made("es_dllm", o);
  const std::int32_t* entries = nullptr;
  std::int32_t count = 0;
  expect_fails(unmask_positions(s.get(), 0, &entries, &count), UNMASK_OUT_OF_ORDER, {"next()"});
  std::vector<std::int32_t> tokens(6);
  const unmask_sequence q = small_sequence();
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  expect_fails(unmask_positions(s.get(), -1, &entries, &count), bad, {"segment", "-1"});
  expect_fails(unmask_positions(s.get(), 1, &entries, &count), bad, {"segment", "1"});
  expect_fails(unmask_positions(s.get(), 0, nullptr, &count), bad, {"entries", "null"});
  expect_fails(unmask_rows(s.get(), 0, &entries, nullptr), bad, {"count", "null"});
  std::int32_t hooked = 0;
  expect_fails(unmask_hooks(s.get(), 0, 8, &hooked), bad, {"layer", "8"});
  expect_fails(unmask_hooks(s.get(), 0, 0, nullptr), bad, {"hooked", "null"});
  std::vector<float> memory(6 * 4);
  unmask_logits now = c_logits(memory, 4);
  unmask_stored stored = UNMASK_STORED_INIT;
  stored.last = 6;
  stored.columns = 4;
  stored.data = memory.data();
  const auto at = [&](std::int32_t layer) {
    return unmask_at_layer(s.get(), 0, layer, &now, &stored, &entries, &count);
  };
  stored.data = nullptr;
  expect_fails(at(1), bad, {"stored->data", "null"});
  stored.data = memory.data();
  stored.kind = 5;
  expect_fails(at(1), bad, {"stored->kind", "5"});
  stored.kind = UNMASK_BF16;
  expect_fails(at(1), bad, {"element type of the stored rows", "float32, got bfloat16"});
  stored.kind = UNMASK_F32;
  stored.first = 7;
  expect_fails(at(1), bad, {"stored->first", "7"});
  stored.first = 0;
  now.rows = 5;
  expect_fails(at(1), bad, {"rows at the layer", "5", "6"});
  now.rows = 6;
  expect_fails(at(0), UNMASK_OUT_OF_ORDER, {"no hook"});
  expect_fails(at(2), UNMASK_OUT_OF_ORDER, {"not called"});
  EXPECT_EQ(at(1), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(count, 6);
}

TEST(c_api, decides_once_from_tokens_and_logits) {
  const session_pointer s = made("threshold(0.7)", small_options());
  std::vector<std::int32_t> tokens = {3, 1, 3, 3, 3, 0};
  std::vector<float> z(6 * 5, 0.0F);  // a padding column
  z[0 * 5 + 2] = 5.0F;
  z[1 * 5 + 0] = 9.0F;  // not masked
  z[3 * 5 + 3] = 9.0F;  // the mask token is never proposed
  z[4 * 5 + 4] = 9.0F;  // padding
  z[4 * 5 + 1] = 4.0F;
  std::vector<std::uint8_t> transfer(6, 7);
  const unmask_logits l = c_logits(z, 5);
  ASSERT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()), UNMASK_OK)
      << unmask_last_error();
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 1, 3, 3, 1, 0}));
  EXPECT_EQ(transfer, (std::vector<std::uint8_t>{1, 0, 0, 0, 1, 0}));
  // The mask token of a prompt is text if `editable` is given.
  tokens = {3, 3, 3, 3, 3, 3};
  const std::vector<std::uint8_t> editable = {0, 0, 0, 0, 1, 1};
  ASSERT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, editable.data(), 0, &l, transfer.data()),
            UNMASK_OK);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{3, 3, 3, 3, 1, 3}));
  // Nothing is masked: nothing happens.
  tokens = {0, 0, 0, 0, 0, 0};
  ASSERT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
            UNMASK_OK);
  EXPECT_EQ(transfer, std::vector<std::uint8_t>(6, 0));
}

TEST(c_api, reads_every_element_type_and_stride) {
  const float value = 6.0F;
  const std::uint16_t bf16 = 0x40c0;  // 6
  const std::uint16_t f16 = 0x4600;   // 6
  for (const int kind : {UNMASK_F32, UNMASK_BF16, UNMASK_F16}) {
    const session_pointer s = made("threshold(0.7)", small_options());
    std::vector<std::int32_t> tokens(6, 3);
    std::vector<float> wide(6 * 9, 0.0F);
    std::vector<std::uint16_t> narrow(6 * 9, 0);
    wide[2 * 9 + 1] = value;
    narrow[2 * 9 + 1] = kind == UNMASK_BF16 ? bf16 : f16;
    unmask_logits l = c_logits(wide, 9);
    l.columns = 4;
    l.stride = 9;
    l.kind = kind;
    l.data = kind == UNMASK_F32 ? static_cast<const void*>(wide.data()) : narrow.data();
    std::vector<std::uint8_t> transfer(6);
    ASSERT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
              UNMASK_OK)
        << unmask_last_error();
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{3, 3, 1, 3, 3, 3})) << kind;
  }
}

TEST(c_api, answers_questions_and_reports_candidates) {
  unmask_options o = small_options();
  o.trace = 1;
  const session_pointer s = made("tokens_per_step(1) + probability_of([0, 1])", o);
  std::vector<std::int32_t> tokens(6);
  const unmask_sequence q = small_sequence();
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * 4, 0.0F);
  const unmask_logits l = c_logits(z, 4);
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK);
  const unmask_candidate* entries = nullptr;
  const unmask_probability* answers = nullptr;
  std::int32_t count = 0;
  ASSERT_EQ(unmask_candidates(s.get(), 0, sizeof(unmask_candidate), &entries, &count), UNMASK_OK);
  ASSERT_EQ(count, 6);
  EXPECT_EQ(entries[0].committed, 1);
  EXPECT_EQ(entries[1].committed, 0);
  EXPECT_EQ(entries[0].outcome, UNMASK_COMMITTED);
  EXPECT_EQ(entries[1].outcome, UNMASK_HELD);
  EXPECT_EQ(entries[1].part, 0);
  EXPECT_EQ(entries[0].rank, 0);
  EXPECT_EQ(entries[1].rank, 1);
  EXPECT_NEAR(entries[1].confidence, 1.0 / 3.0, 1e-6);
  EXPECT_NEAR(entries[1].margin, 0.0, 1e-6);
  EXPECT_NEAR(entries[1].entropy, std::log(3.0), 1e-5);
  ASSERT_EQ(unmask_probabilities(s.get(), 0, sizeof(unmask_probability), &answers, &count),
            UNMASK_OK);
  ASSERT_EQ(count, 12);
  EXPECT_NEAR(answers[0].probability, 1.0 / 3.0, 1e-6);
  EXPECT_NEAR(answers[0].share, 0.5, 1e-6);
}

TEST(c_api, gives_soft_tokens_to_a_sequence_that_asks) {
  const session_pointer s = made("tokens_per_step(1)", small_options());
  unmask_sequence q = small_sequence();
  std::vector<std::int32_t> tokens(6, 0);
  const unmask_probability* soft = nullptr;
  std::int32_t count = -1;
  q.soft_tokens = 65;
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &q),
               UNMASK_INVALID_ARGUMENT,
               {"unmask_sequence::soft_tokens", "65", "in [0, 64]"});
  q.soft_tokens = 2;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(static_cast<std::size_t>(request.rows * small_options().vocab), 0.0F);
  unmask_logits l = UNMASK_LOGITS_INIT;
  l.rows = request.rows;
  l.columns = small_options().vocab;
  l.data = z.data();
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK);
  ASSERT_EQ(unmask_soft_tokens(s.get(), 0, sizeof(unmask_probability), &soft, &count), UNMASK_OK);
  ASSERT_EQ(count, 2 * (request.rows - 1));  // one position has its token
  const double each = 1.0 / (small_options().vocab - 1);
  for (std::int32_t i = 0; i < count; ++i) {
    EXPECT_EQ(soft[i].token, i % 2);
    EXPECT_NEAR(soft[i].probability, each, 1e-6);
    EXPECT_NEAR(soft[i].share, 0.5, 1e-6);
    EXPECT_EQ(tokens[static_cast<std::size_t>(soft[i].position)], small_options().mask_token);
  }
  ASSERT_EQ(unmask_alternatives(s.get(), 0, sizeof(unmask_probability), &soft, &count), UNMASK_OK);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(soft[0].token, tokens[static_cast<std::size_t>(soft[0].position)]);
  EXPECT_EQ(soft[1].token, 1);
  EXPECT_EQ(soft[1].position, soft[0].position);
  expect_fails(unmask_soft_tokens(s.get(), 9, sizeof(unmask_probability), &soft, &count),
               UNMASK_INVALID_ARGUMENT,
               {"slot", "9"});
}

TEST(c_api, records_a_decode) {
  const std::string file = ::testing::TempDir() + "unmask_c_api_trace.jsonl";
  unmask_options o = small_options();
  const session_pointer untraced = made("tokens_per_step(1)", o);
  expect_fails(unmask_record(untraced.get(), file.c_str(), "m"), UNMASK_OUT_OF_ORDER, {"trace"});
  o.trace = 1;
  const unmask_sequence q = small_sequence();
  const auto decode = [&](const session_pointer& s) {
    lent<std::int32_t> tokens(std::vector<std::int32_t>(6));
    EXPECT_EQ(start_lent(s.get(), 0, tokens.span(), q), UNMASK_OK);
    unmask_request request = UNMASK_REQUEST_INIT;
    int refused = 0;
    while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
      EXPECT_EQ(unmask_next(s.get(), &request), UNMASK_OK);  // the same request
      const std::vector<float> z(static_cast<std::size_t>(request.rows) * 4, 0.0F);
      refused += supply_lent(s.get(), z, 4) == UNMASK_OK ? 0 : 1;
    }
    return refused;
  };
  {
    const session_pointer s = made("by_margin + tokens_per_step(2)", o);
    expect_fails(unmask_record(s.get(), nullptr, "m"), UNMASK_INVALID_ARGUMENT, {"file", "null"});
    expect_fails(unmask_record(s.get(), "/no/such/a", "m"), UNMASK_FAILED, {"/no/such/a"});
    ASSERT_EQ(record_lent(s.get(), file, "m"), UNMASK_OK) << unmask_last_error();
    EXPECT_EQ(decode(s), 0);
    expect_fails(unmask_record(s.get(), file.c_str(), "m"), UNMASK_OUT_OF_ORDER, {"twice"});
  }
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 5U);  // the head, three steps of two tokens, the end
  EXPECT_NE(lines[0].find(R"x("parts":["by_margin","tokens_per_step(2)"])x"), std::string::npos);
  EXPECT_NE(lines[1].find(R"("forward":1)"), std::string::npos);
  EXPECT_NE(lines[3].find(R"("forward":3)"), std::string::npos);
  EXPECT_NE(lines[4].find(R"("end":"complete","forwards":3)"), std::string::npos);
  std::remove(file.c_str());
  {
    o.sequences = 2;
    const session_pointer s = made("by_margin + tokens_per_step(2)", o);
    ASSERT_EQ(record_lent(s.get(), file, "m"), UNMASK_OK) << unmask_last_error();
    lent<std::int32_t> first(std::vector<std::int32_t>(6));
    unmask_request request = UNMASK_REQUEST_INIT;
    for (const auto& forget : {unmask_abandon, unmask_cancel_request}) {
      ASSERT_EQ(start_lent(s.get(), 1, first.span(), q), UNMASK_OK);
      ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
      ASSERT_EQ(forget(s.get()), UNMASK_OK);
    }
    EXPECT_EQ(decode(s), 0);
  }
  {
    std::ifstream again(file);
    const std::string all{std::istreambuf_iterator<char>(again), {}};
    EXPECT_NE(all.find(R"("slot":1,"end":"cancelled")"), std::string::npos);
    EXPECT_NE(all.find(R"("slot":0,"end":"complete","forwards":3)"), std::string::npos);
    for (const char* const forward : {"3", "4", "5"}) {  // two passes were forgotten
      EXPECT_NE(all.find(R"("forward":)" + std::string(forward)), std::string::npos) << all;
    }
  }
  std::remove(file.c_str());
  {
    const session_pointer s = made("tokens_per_step(2)", o);
    ASSERT_EQ(record_lent(s.get(), file, "m"), UNMASK_OK) << unmask_last_error();
    lent<std::int32_t> tokens(std::vector<std::int32_t>(6));
    unmask_sequence other = q;
    other.policy = "left_to_right + tokens_per_step(3)";
    ASSERT_EQ(start_lent(s.get(), 1, tokens.span(), other), UNMASK_OK) << unmask_last_error();
    EXPECT_EQ(decode(s), 0);
  }
  {
    std::ifstream again(file);
    std::string head;
    std::getline(again, head);
    EXPECT_NE(head.find(R"x("policy":"tokens_per_step(2)","parts":["tokens_per_step(2)"],"seed")x"),
              std::string::npos)
        << head;
    EXPECT_NE(head.find(R"x("policy":"left_to_right + tokens_per_step(3)",)x"
                        R"x("parts":["left_to_right","tokens_per_step(3)"]})x"),
              std::string::npos)
        << head;
  }
  std::remove(file.c_str());
  if (std::ifstream("/dev/full")) {
    const session_pointer s = made("tokens_per_step(2)", o);
    ASSERT_EQ(unmask_record(s.get(), "/dev/full", "m"), UNMASK_OK);
    EXPECT_EQ(decode(s), 1);  // once
    EXPECT_NE(std::string(unmask_last_error()).find("/dev/full"), std::string::npos);
  }
}

// Behind a call a recording reads nothing that its caller may have freed: the marks of fixed
// positions, and the tokens of a sequence that has nothing to decode.
TEST(c_api, records_without_the_arguments_of_calls_before) {
  const std::string file = ::testing::TempDir() + "unmask_c_api_lent.jsonl";
  unmask_options o = small_options();
  o.sequences = 2;
  o.trace = 1;
  std::vector<std::uint8_t> editable(6, 1);
  editable[2] = 0;
  unmask_sequence q = small_sequence();
  q.editable = editable.data();
  unmask_sequence nothing = small_sequence();
  nothing.prompt_length = 6;
  const auto start_nothing = [&](unmask_session* s) {
    lent<std::int32_t> tokens(std::vector<std::int32_t>(6, 1));
    return start_lent(s, 1, tokens.span(), nothing);
  };
  {
    const session_pointer s = made("tokens_per_step(2)", o);
    ASSERT_EQ(record_lent(s.get(), file, "m"), UNMASK_OK) << unmask_last_error();
    lent<std::int32_t> tokens(std::vector<std::int32_t>(6, 2));
    ASSERT_EQ(start_lent(s.get(), 0, tokens.span(), q), UNMASK_OK);
    ASSERT_EQ(start_nothing(s.get()), UNMASK_OK);
    ASSERT_EQ(start_nothing(s.get()), UNMASK_OK);
    unmask_request request = UNMASK_REQUEST_INIT;
    while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
      ASSERT_EQ(supply_lent(s.get(), std::vector<float>(std::size_t(request.rows) * 4), 4),
                UNMASK_OK);
    }
    editable[2] = 1;
    editable[4] = 0;
    editable[3] = 3;
    EXPECT_EQ(start_lent(s.get(), 0, tokens.span(), q), UNMASK_INVALID_ARGUMENT);
    EXPECT_THAT(unmask_last_error(),
                HasSubstr("unmask_sequence::editable must be 0 (fixed), 1 (masked) or 2 "
                          "(committed), got 3"));
    editable[3] = 2;
    ASSERT_EQ(start_lent(s.get(), 0, tokens.span(), q), UNMASK_OK);
    ASSERT_EQ(unmask_cancel(s.get(), 0), UNMASK_OK);
  }
  std::ifstream in(file);
  const unmask::trace read =
      unmask::read_trace(std::string{std::istreambuf_iterator<char>(in), {}});
  ASSERT_EQ(read.sequences.size(), 4U);
  EXPECT_EQ(read.sequences[0].fixed, std::vector<std::int32_t>{2});
  EXPECT_EQ(read.sequences[0].end, unmask::ending::complete);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(read.sequences[i].end, unmask::ending::complete);
    EXPECT_EQ(read.sequences[i].final_tokens, std::vector<std::int32_t>(6, 1));
  }
  EXPECT_EQ(read.sequences[3].fixed, std::vector<std::int32_t>{4});
  EXPECT_EQ(read.sequences[3].committed, std::vector<std::int32_t>{3});
  EXPECT_EQ(read.sequences[3].end, unmask::ending::cancelled);
  std::remove(file.c_str());
  if (std::ifstream("/dev/full")) {
    const session_pointer s = made("tokens_per_step(2)", o);
    ASSERT_EQ(record_lent(s.get(), "/dev/full", "m"), UNMASK_OK);
    expect_fails(start_nothing(s.get()), UNMASK_FAILED, {"/dev/full"});
    EXPECT_EQ(start_nothing(s.get()), UNMASK_OK);  // the recording has ended
  }
}

// The entries of a decode: step, position, token and the bits of the log-probability. The token of
// a branch counts for the step that proposed it, in which a replay commits it.
using written_set = std::set<std::tuple<int, int, int, std::uint32_t>>;

// Decodes logits of a position and of the tokens beside it.
written_set
decode_written(unmask_session* s, std::vector<std::int32_t>& tokens, const unmask_sequence& q) {
  constexpr int vocab = 9;
  const auto length = static_cast<std::int32_t>(tokens.size());
  EXPECT_EQ(start_lent(s, 0, tokens, q), UNMASK_OK) << unmask_last_error();
  written_set all;
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s, &request) == UNMASK_OK && request.count > 0) {
    std::vector<float> z;
    for (const unmask_segment& g : std::span(request.segments, std::size_t(request.count))) {
      std::vector<std::int32_t> seen = tokens;
      for (const unmask_placement& p : std::span(g.placed, std::size_t(g.placed_count))) {
        seen[std::size_t(p.position)] = p.token;
      }
      for (std::int32_t p = g.row_first; p < g.row_last; ++p) {
        const int left = p > 0 ? seen[std::size_t(p - 1)] : 0;
        const int right = p + 1 < length ? seen[std::size_t(p + 1)] : 0;
        for (int t = 0; t < vocab; ++t) {
          z.push_back(5.0F * std::sin(float(t * 37 + left * 11 + right * 5 + p * 3)));
        }
      }
    }
    if (supply_lent(s, z, vocab) != UNMASK_OK) {
      ADD_FAILURE() << unmask_last_error();
      break;
    }
    const unmask_candidate* entries = nullptr;
    std::int32_t count = 0;
    EXPECT_EQ(unmask_candidates(s, 0, sizeof(unmask_candidate), &entries, &count), UNMASK_OK);
    for (const unmask_candidate& c : std::span(entries, std::size_t(count))) {
      if (c.committed != 0 || c.outcome == UNMASK_REMASKED) {
        const bool is_commit = c.committed != 0;
        all.emplace(c.step - (c.outcome == UNMASK_FROM_BRANCH ? 1 : 0),
                    c.position,
                    is_commit ? c.token : -1,
                    is_commit ? std::bit_cast<std::uint32_t>(c.log_probability) : 0);
      }
    }
  }
  return all;
}

TEST(c_api, replays_a_trace_by_the_text_of_a_policy) {
  const std::string file = ::testing::TempDir() + "unmask_c_api_replay.jsonl";
  const std::string text = "replay('" + file + "')";
  unmask_options o = small_options();
  o.vocab = 9;
  o.mask_token = 8;
  o.length = 24;
  o.window = 24;
  o.trace = 1;
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.prompt_length = 4;
  q.length = 24;
  q.block_length = 8;
  std::vector<std::uint8_t> editable(24, 1);
  editable[9] = 0;
  q.editable = editable.data();
  const std::vector<std::int32_t> prompt(24, 2);
  for (const char* const policy : {"threshold(0.9) + trace_credit",
                                   "tokens_per_step(2) + lookahead(3)",
                                   "by_margin + threshold(0.7) + temperature(1.5) + dual_cache",
                                   "threshold(0.6) + sampling(1) + top_k(4)",
                                   "threshold(0.5) + remask_current_below(0.4, 3)"}) {
    SCOPED_TRACE(policy);
    std::vector<std::int32_t> tokens = prompt;
    written_set first;
    {
      const session_pointer s = made(policy, o);
      ASSERT_EQ(unmask_record(s.get(), file.c_str(), "m"), UNMASK_OK) << unmask_last_error();
      first = decode_written(s.get(), tokens, q);
    }
    ASSERT_FALSE(first.empty());
    EXPECT_EQ(unmask_check_policy(text.c_str()), UNMASK_OK) << unmask_last_error();
    std::vector<std::int32_t> again = prompt;
    unmask_sequence other = q;
    other.seed = 7;  // draws are those of the trace
    const session_pointer s = made(text.c_str(), o);
    EXPECT_EQ(decode_written(s.get(), again, other), first);
    EXPECT_EQ(again, tokens);
  }

  const std::string second = file + ".again";  // a replay is recorded as any decode
  {
    std::vector<std::int32_t> again = prompt;
    const session_pointer s = made(text.c_str(), o);
    ASSERT_EQ(unmask_record(s.get(), second.c_str(), "m"), UNMASK_OK) << unmask_last_error();
    EXPECT_FALSE(decode_written(s.get(), again, q).empty());
  }
  const auto lines_of = [](const std::string& name) {
    std::vector<std::string> lines;
    std::ifstream in(name);
    for (std::string line; std::getline(in, line);) {
      lines.push_back(line);
    }
    return lines;
  };
  EXPECT_EQ(lines_of(second).size(), lines_of(file).size());
  EXPECT_NE(lines_of(second)[0].find("\"parts\":[\"replay('"), std::string::npos);

  const session_pointer s = made(text.c_str(), o);
  std::vector<std::int32_t> tokens = prompt;
  const auto refused = [&](const unmask_sequence& wrong, const std::vector<const char*>& words) {
    expect_fails(
        unmask_start(s.get(), 0, tokens.data(), 24, &wrong), UNMASK_INVALID_ARGUMENT, words);
    EXPECT_EQ(tokens, prompt);
  };
  unmask_sequence wrong = q;
  wrong.prompt_length = 5;
  refused(wrong, {"prompt_length must be that of the trace, 4, got 5"});
  wrong = q;
  wrong.editable = nullptr;
  refused(wrong, {"replay: position 9 is masked, in the trace it is fixed"});
  editable[9] = 1;
  editable[12] = 0;
  refused(q, {"replay: position 9 is masked"});
  editable[9] = 0;
  refused(q, {"replay: position 12 is fixed, in the trace it is masked"});
  std::vector<std::uint8_t> transfer(24);
  const std::vector<float> z(24 * 9, 0.0F);
  const unmask_logits l = c_logits(z, 9);
  expect_fails(unmask_decide(s.get(), 0, tokens.data(), 24, nullptr, 0, &l, transfer.data()),
               UNMASK_INVALID_ARGUMENT,
               {"replay"});

  const auto no_policy = [&](const std::string& bad, const std::vector<const char*>& words) {
    unmask_session* none = nullptr;
    expect_fails(unmask_create(bad.c_str(), &o, &none), UNMASK_INVALID_ARGUMENT, words);
    expect_fails(unmask_check_policy(bad.c_str()), UNMASK_INVALID_ARGUMENT, words);
  };
  no_policy("replay", {"column 1", "the file of a trace, in quotes"});
  no_policy("replay(3)", {"in quotes"});
  no_policy("replay('a', 1, 2)", {"in quotes"});
  no_policy("replay('a', 0.5)", {"the index of a sequence"});
  no_policy("replay('/no/such/file')", {"column 8", "/no/such/file", "cannot be read"});
  no_policy("threshold + replay('a')", {"column 13", "replay is a whole policy"});
  no_policy("replay('" + file + "', sequence=1)", {"1 sequences", "index 1"});
  no_policy("replay('" + second + "')", {"the trace is of a replay", file.c_str()});
  std::remove(second.c_str());
  std::ofstream(file, std::ios::app)
      << R"({"slot":0,"step":9,"score":[4,24],"position":[4],)"
      << R"("token":[1],"log_probability":[0],"outcome":"c"})" << '\n';
  no_policy(text, {"line", "step 9, position 4"});
  std::remove(file.c_str());
}

TEST(c_api, says_what_is_wrong_with_a_session) {
  unmask_session* s = nullptr;
  const unmask_options o = small_options();
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  expect_fails(unmask_create("threshold(2)", &o, &s), bad, {"column 11", "in [0, 1]", "2"});
  EXPECT_EQ(s, nullptr);
  expect_fails(unmask_create(nullptr, &o, &s), bad, {"policy", "null"});
  expect_fails(unmask_create("tokens_per_step", nullptr, &s), bad, {"options", "null"});
  expect_fails(unmask_create("tokens_per_step", &o, nullptr), bad, {"session", "null"});
  expect_fails(unmask_check_policy("by_margin"), bad, {"commit rule"});
  expect_fails(unmask_check_policy(nullptr), bad, {"policy"});
  EXPECT_EQ(unmask_check_policy("by_margin + tokens_per_step"), UNMASK_OK);
  const auto with = [&](auto change) {
    unmask_options other = o;
    change(other);
    return unmask_create("tokens_per_step", &other, &s);
  };
  expect_fails(with([](auto& x) { x.struct_size = 0; }), bad, {"struct_size", "0"});
  expect_fails(with([](auto& x) { x.vocab = 0; }), bad, {"unmask_options::vocab must", "0"});
  expect_fails(
      with([](auto& x) { x.mask_token = 4; }), bad, {"unmask_options::mask_token must", "4"});
  expect_fails(with([](auto& x) { x.mask_token = UNMASK_NO_TOKEN; }),
               bad,
               {"unmask_options::mask_token must", "UNMASK_NO_TOKEN, its default"});
  expect_fails(with([](auto& x) { x.eos_token = 4; }),
               bad,
               {"unmask_options::eos_token must", "or UNMASK_NO_TOKEN", "4"});
  expect_fails(with([](auto& x) { x.eos_token = 3; }),
               bad,
               {"unmask_options::eos_token must", "than unmask_options::mask_token = 3"});
  expect_fails(
      with([](auto& x) { x.sequences = 0; }), bad, {"unmask_options::sequences must", "0"});
  expect_fails(with([](auto& x) { x.length = -1; }), bad, {"unmask_options::length must", "-1"});
  expect_fails(with([](auto& x) { x.window = 0; }), bad, {"unmask_options::window must", "0"});
  expect_fails(with([](auto& x) { x.threads = 0; }), bad, {"threads", "0"});
  expect_fails(with([](auto& x) { x.memory_space = 9; }), bad, {"memory_space", "9"});
#ifndef UNMASK_C_API_CUDA
  expect_fails(with([](auto& x) { x.memory_space = UNMASK_DEVICE; }),
               UNMASK_UNSUPPORTED,
               {"without a device", "UNMASK_C_API_CUDA", "memory_space must be UNMASK_HOST"});
#endif
  int stream = 0;
  expect_fails(with([&](auto& x) { x.stream = &stream; }), bad, {"options->stream", "null"});
  ASSERT_EQ(unmask_create("stable_and_confident + edit_committed", &o, &s), UNMASK_OK);
  unmask_destroy(s);
  EXPECT_EQ(unmask_abi_version(), std::uint32_t{UNMASK_ABI_VERSION});
  EXPECT_THAT(unmask_version(), HasSubstr("."));
  EXPECT_THAT(unmask_describe_parts(), HasSubstr("threshold(value=0.9, inclusive=false)"));
}

TEST(c_api, lists_models) {
  const unmask_model* models = nullptr;
  std::int32_t count = 0;
  ASSERT_EQ(unmask_list_models(sizeof(unmask_model), &models, &count), UNMASK_OK);
  ASSERT_GT(count, 15);
  bool found = false;
  for (std::int32_t i = 0; i < count; ++i) {
    const unmask_model& m = models[i];
    EXPECT_EQ(unmask_check_policy(m.word), UNMASK_OK) << m.word << ": " << unmask_last_error();
    EXPECT_EQ(unmask_check_policy(m.policy), UNMASK_OK) << m.policy;
    EXPECT_THAT(unmask_describe_models(), HasSubstr(std::string(m.word) + "\n"));
    if (m.word == std::string("model:fast_dllm_v2")) {
      found = true;
      EXPECT_EQ(m.block_length, 32);
      EXPECT_EQ(m.whole_blocks, 1);
      EXPECT_EQ(m.mask_token, 151665);
      EXPECT_EQ(m.eos_tokens[0], 151645);
      EXPECT_EQ(m.eos_tokens[1], UNMASK_NO_TOKEN);
      EXPECT_EQ(m.logits_shift, 1);
      EXPECT_EQ(m.propose_mask, 1);
      EXPECT_THAT(m.source, HasSubstr("modeling.py"));
    }
  }
  EXPECT_TRUE(found);
  struct newer {
    unmask_model known;
    std::uint64_t more;
  };
  const unmask_model* larger = nullptr;
  std::int32_t as_many = 0;
  ASSERT_EQ(unmask_list_models(sizeof(newer), &larger, &as_many), UNMASK_OK);
  ASSERT_EQ(as_many, count);
  EXPECT_EQ(reinterpret_cast<const newer*>(larger)[1].known.word, models[1].word);
  EXPECT_EQ(reinterpret_cast<const newer*>(larger)[1].more, 0U);
  expect_fails(unmask_list_models(8, &larger, &as_many), UNMASK_INVALID_ARGUMENT, {"entry_size"});
  expect_fails(unmask_list_models(sizeof(newer), nullptr, &as_many),
               UNMASK_INVALID_ARGUMENT,
               {"entries", "null"});
  EXPECT_STREQ(unmask_model_of("llada2_moe", "LLaDA2.1-mini"), "model:llada2_1");
  EXPECT_STREQ(unmask_model_of("llada2_moe", nullptr), "model:llada2");
  EXPECT_EQ(unmask_model_of("qwen2", ""), nullptr);
  EXPECT_EQ(unmask_model_of(nullptr, ""), nullptr);
}

TEST(c_api, takes_structures_of_other_sizes) {
  struct newer {
    unmask_options options;
    std::uint64_t more;
  } n{small_options(), 0};
  n.options.struct_size = sizeof(newer);
  const session_pointer s = made("tokens_per_step", n.options);
  n.more = 1;
  unmask_session* refused = nullptr;
  expect_fails(
      unmask_create("tokens_per_step", &n.options, &refused), UNMASK_UNSUPPORTED, {"options"});
  // An older caller's report ends early.
  unmask_report report = UNMASK_REPORT_INIT;
  report.struct_size = offsetof(unmask_report, committed_prefix);
  report.committed_prefix = 77;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.committed_prefix, 77);
}

TEST(c_api, tells_what_a_policy_requires) {
  unmask_options o = small_options();
  o.window = 0;
  o.length = 64;
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.prompt_length = 4;
  q.length = 64;
  q.block_length = 16;
  unmask_requirements r = UNMASK_REQUIREMENTS_INIT;
  const auto of = [&](const char* policy) { return unmask_get_requirements(policy, &o, &q, &r); };
  ASSERT_EQ(of("threshold(0.9)"), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(r.window, 16);
  EXPECT_EQ(r.most_forwards, 60);
  EXPECT_GT(r.state_bytes, 64U);
  const std::uint64_t one = r.state_bytes;
  o.sequences = 5;
  ASSERT_EQ(of("threshold(0.9)"), UNMASK_OK);
  EXPECT_EQ(r.state_bytes, 5 * one);
  ASSERT_EQ(of("by_entropy + timesteps(9) + single_block"), UNMASK_OK);
  EXPECT_EQ(r.window, 60);
  EXPECT_EQ(r.most_forwards, 68);
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  expect_fails(of("threshold(2)"), bad, {"column 11"});
  expect_fails(of("es_dllm"), bad, {"unmask_options::layers", "0"});
  expect_fails(of("replay('/no/such/file')"), bad, {"/no/such/file"});
  q.length = 65;
  expect_fails(of("threshold(0.9)"), bad, {"length", "65"});
  expect_fails(unmask_get_requirements(nullptr, &o, &q, &r), bad, {"policy", "null"});
  q.length = 64;
  expect_fails(unmask_get_requirements("threshold", &o, &q, nullptr), bad, {"requirements"});
}

// What no session has is no session's requirement either.
TEST(c_api, requires_nothing_that_no_session_can_have) {
  using change = void (*)(unmask_options&);
  constexpr change changes[] = {[](unmask_options& o) { o.branches = -1; },
                                [](unmask_options& o) { o.branches = 17; },
                                [](unmask_options& o) { o.window = -1; },
                                [](unmask_options& o) { o.sequences = 0; },
                                [](unmask_options& o) { o.threads = 0; },
                                [](unmask_options& o) { o.memory_space = 7; },
                                [](unmask_options& o) { o.vocab = 0; },
                                [](unmask_options& o) { o.flags = 8; }};
  const unmask_sequence q = small_sequence();
  unmask_requirements r = UNMASK_REQUIREMENTS_INIT;
  for (const char* policy : {"threshold", "threshold + lookahead(3)"}) {
    for (const change& make : changes) {
      unmask_options o = small_options();
      make(o);
      unmask_session* s = nullptr;
      ASSERT_EQ(unmask_create(policy, &o, &s), UNMASK_INVALID_ARGUMENT);
      const std::string why = unmask_last_error();
      EXPECT_EQ(unmask_get_requirements(policy, &o, &q, &r), UNMASK_INVALID_ARGUMENT) << why;
      EXPECT_EQ(unmask_last_error(), why);
    }
  }
  // A sequence without an answer requires a window that a session can have.
  unmask_sequence whole = q;
  whole.prompt_length = whole.length;
  unmask_options o = small_options();
  o.window = 0;
  ASSERT_EQ(unmask_get_requirements("threshold", &o, &whole, &r), UNMASK_OK);
  o.window = r.window;
  const session_pointer s = made("threshold", o);
  std::vector<std::int32_t> tokens(6);
  EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &whole), UNMASK_OK) << unmask_last_error();
}

TEST(c_api, opens_no_file_for_a_text_from_others) {
  unmask_options o = small_options();
  o.flags = UNMASK_NO_FILES;
  const unmask_sequence q = small_sequence();
  unmask_requirements r = UNMASK_REQUIREMENTS_INIT;
  const session_pointer session = made("threshold", o);
  std::vector<std::int32_t> tokens(6);
  for (const char* policy : {"calibrated_threshold('/dev/null')", "replay('/dev/null')"}) {
    const auto refused = [](unmask_status status) {
      expect_fails(
          status, UNMASK_INVALID_ARGUMENT, {"/dev/null", "names a file, which it may not"});
    };
    unmask_session* s = nullptr;
    refused(unmask_create(policy, &o, &s));
    refused(unmask_get_requirements(policy, &o, &q, &r));
    refused(unmask_check_policy_with(policy, UNMASK_NO_FILES));
    for (const unmask_status status :
         {unmask_check_policy(policy), unmask_check_policy_with(policy, 0)}) {
      expect_fails(status, UNMASK_INVALID_ARGUMENT, {"/dev/null", "must be a regular file"});
    }
  }
  unmask_sequence own = q;
  own.policy = "calibrated_threshold('/dev/null')";
  expect_fails(unmask_start(session.get(), 0, tokens.data(), 6, &own),
               UNMASK_INVALID_ARGUMENT,
               {"names a file, which it may not"});
  EXPECT_EQ(unmask_check_policy_with("threshold", UNMASK_NO_FILES), UNMASK_OK);
  expect_fails(unmask_check_policy_with("threshold", 8), UNMASK_INVALID_ARGUMENT, {"flags", "8"});
}

TEST(c_api, counts_rows_that_truncation_reads_twice) {
  for (const bool flat : {false, true}) {
    unmask_options o = small_options();
    o.vocab = 300;
    o.mask_token = 299;
    const session_pointer s = made("tokens_per_step + sampling + top_p(0.9)", o);
    std::vector<std::int32_t> tokens(6);
    const unmask_sequence q = small_sequence();
    ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
    unmask_request request = UNMASK_REQUEST_INIT;
    ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
    std::vector<float> z(6 * 300, 0.0F);
    for (std::size_t p = 0; p < 6 && !flat; ++p) {
      z[p * 300 + 7] = 20.0F;
    }
    const unmask_logits l = c_logits(z, 300);
    ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.second_reads, flat ? 6 : 0);
  }
}

TEST(c_api, says_where_the_answer_ends) {
  const session_pointer s = made("threshold(0.5) + stop_sequence([1, 2])", small_options());
  std::vector<std::int32_t> tokens(6);
  const unmask_sequence q = small_sequence();
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_report report = UNMASK_REPORT_INIT;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.answer_end, 6) << "while it runs";
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  std::vector<float> z(6 * 4, 0.0F);
  for (std::size_t p = 0; p < 6; ++p) {
    z[p * 4 + p % 3] = 9.0F;
  }
  const unmask_logits l = c_logits(z, 4);
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
  ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
  EXPECT_EQ(report.end, UNMASK_STOP_TOKENS);
  EXPECT_EQ(report.committed_prefix, 6);
  EXPECT_EQ(report.answer_end, 3);
  // An older caller's report ends before it.
  unmask_report older = UNMASK_REPORT_INIT;
  older.struct_size = offsetof(unmask_report, answer_end);
  older.answer_end = 77;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &older), UNMASK_OK);
  EXPECT_EQ(older.answer_end, 77);
}

// Position 2 is certain, the others are not: what max_steps and unmask_cancel() leave is not
// decided.
TEST(c_api, ends_the_answer_before_what_no_decision_committed) {
  for (const bool cancels : {false, true}) {
    const session_pointer s =
        made(cancels ? "threshold(0.5)" : "threshold(0.5) + max_steps(1)", small_options());
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.end, UNMASK_IDLE);
    std::vector<std::int32_t> tokens(6);
    const unmask_sequence q = small_sequence();
    ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.end, UNMASK_RUNNING);
    unmask_request request = UNMASK_REQUEST_INIT;
    ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
    std::vector<float> z(6 * 4, 0.0F);
    z[0] = z[2 * 4 + 1] = 9.0F;
    const unmask_logits l = c_logits(z, 4);
    ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    if (cancels) {
      ASSERT_EQ(unmask_cancel(s.get(), 0), UNMASK_OK);
    }
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.end, cancels ? UNMASK_CANCELLED : UNMASK_MAX_STEPS);
    EXPECT_EQ(report.committed, 2);
    EXPECT_EQ(report.answer_end, 1);
  }
}

// A model that always proposes the mask token: released decoders let it, and never finish.
TEST(c_api, lets_the_mask_token_be_proposed) {
  for (const bool proposed : {false, true}) {
    unmask_options o = small_options();
    o.propose_mask = proposed ? 1 : 0;
    const session_pointer s = made("tokens_per_step + max_steps(3)", o);
    std::vector<std::int32_t> tokens(6);
    const unmask_sequence q = small_sequence();
    ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
    std::vector<float> z(6 * 4, 0.0F);
    for (std::size_t p = 0; p < 6; ++p) {
      z[p * 4 + 3] = 9.0F;
    }
    unmask_request request = UNMASK_REQUEST_INIT;
    while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
      unmask_logits l = c_logits(z, 4);
      l.rows = request.rows;
      ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    }
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.end, UNMASK_MAX_STEPS);
    EXPECT_EQ(report.masked, proposed ? 6 : 3);
  }
  unmask_options o = small_options();
  unmask_session* none = nullptr;
  o.branches = 17;
  expect_fails(
      unmask_create("tokens_per_step", &o, &none), UNMASK_INVALID_ARGUMENT, {"branches", "17"});
}

// Structures on the heap, where a sanitizer detects reads behind them.
TEST(c_api, does_not_read_behind_a_structure_whose_size_is_garbage) {
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  const auto options = std::make_unique<unmask_options>(small_options());
  const session_pointer s = made("tokens_per_step", *options);
  const auto sequence = std::make_unique<unmask_sequence>(small_sequence());
  const std::vector<float> z(6 * 4, 0.0F);
  const auto logits = std::make_unique<unmask_logits>(c_logits(z, 4));
  std::vector<std::int32_t> tokens(6);
  std::vector<std::uint8_t> transfer(6);
  const auto smallest = sizeof(std::uint32_t);
  for (const std::size_t size : {smallest,
                                 sizeof(unmask_logits) - 1,
                                 std::size_t{4096},
                                 std::size_t{1} << 24U,
                                 std::size_t{0xffffffff}}) {
    options->struct_size = sequence->struct_size = logits->struct_size = std::uint32_t(size);
    const std::string got = "got " + std::to_string(size);
    unmask_session* made_of_it = nullptr;
    expect_fails(unmask_create("tokens_per_step", options.get(), &made_of_it),
                 bad,
                 {"options->struct_size", got.c_str()});
    expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, sequence.get()),
                 bad,
                 {"sequence->struct_size", got.c_str()});
    expect_fails(unmask_supply(s.get(), logits.get()), bad, {"logits->struct_size", got.c_str()});
    expect_fails(
        unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, logits.get(), transfer.data()),
        bad,
        {"logits->struct_size", got.c_str()});
  }
  // An answer is written as far as both know it.
  const auto report = std::make_unique<unmask_report>();
  report->struct_size = 0xffffffff;
  EXPECT_EQ(unmask_get_report(s.get(), 0, report.get()), UNMASK_OK);
  // The size of segments is read.
  const auto request = std::make_unique<unmask_request>();
  request->struct_size = 0xffffffff;
  expect_fails(unmask_next(s.get(), request.get()), bad, {"request->struct_size"});
  request->struct_size = sizeof(unmask_request);
  expect_fails(unmask_next(s.get(), request.get()), bad, {"request->segment_size", "got 0"});
}

TEST(c_api, takes_a_window_of_the_length_at_most) {
  for (const std::int32_t window : {7, 64, std::numeric_limits<std::int32_t>::max()}) {
    unmask_options o = small_options();
    o.window = window;
    const session_pointer s = made("threshold(0.7)", o);
    std::vector<std::int32_t> tokens(64, 3);
    const std::vector<float> z(64 * 4, 0.0F);
    std::vector<std::uint8_t> transfer(64);
    unmask_logits l = c_logits(z, 4);
    l.rows = 7;
    for (const std::int32_t count : {7, 64}) {
      l.rows = count;
      expect_fails(unmask_decide(s.get(), 0, tokens.data(), count, nullptr, 0, &l, transfer.data()),
                   UNMASK_INVALID_ARGUMENT,
                   {"count", "[1, 6]", "window", "length", "got"});
    }
    l.rows = 6;
    EXPECT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
              UNMASK_OK);
  }
}

TEST(c_api, names_the_size_that_is_out_of_range) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  unmask_session* s = nullptr;
  const auto with = [&](auto change) {
    unmask_options other = small_options();
    change(other);
    return unmask_create("tokens_per_step", &other, &s);
  };
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  expect_fails(with([](auto& x) { x.vocab = most; }), bad, {"vocab", "at most 1073741824"});
  expect_fails(with([](auto& x) { x.length = most; }), bad, {"length", "at most 536870912"});
  expect_fails(with([](auto& x) { x.sequences = most; }),
               bad,
               {"unmask_options::sequences must be at most 178956970",
                "(1 + unmask_options::branches) * unmask_options::window"});
  EXPECT_EQ(s, nullptr);
  const session_pointer there = made("tokens_per_step", small_options());
  std::vector<std::int32_t> tokens(6, 3);
  std::vector<std::uint8_t> transfer(6);
  const std::vector<float> z(6 * 4, 0.0F);
  unmask_logits l = c_logits(z, 4);
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t stride : {std::int64_t{1} << 61U, limit / 24 + 1, limit}) {
    l.stride = stride;
    expect_fails(unmask_decide(there.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
                 bad,
                 {"logits->stride", "at most", "got"});
    expect_fails(unmask_supply(there.get(), &l), bad, {"logits->stride"});
  }
  unmask_sequence q = small_sequence();
  q.block_length = most;
  EXPECT_EQ(unmask_start(there.get(), 0, tokens.data(), 6, &q), UNMASK_OK) << unmask_last_error();
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(there.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.rows, 6);
}

// Policies are refused for the same reasons with and without a session.
TEST(c_api, checks_a_policy_as_it_makes_one) {
  unmask_options o = small_options();
  o.layers = 1;
  const char* const policies[] = {"tokens_per_step",
                                  "threshold(2)",
                                  "by_margin",
                                  "sampling + lookahead + remask_current_below + tokens_per_step",
                                  "sampling + lookahead + tokens_per_step",
                                  "trace_credit + adaptive_threshold",
                                  "canvas + entropy_bound + sampling",
                                  "remask_below + lookahead + threshold(0.4, inclusive=true)",
                                  "sampling + top_k(3) + lookahead + tokens_per_step",
                                  "adaptive_threshold + edit_committed",
                                  "es_dllm + max_steps(9)",
                                  "es_dllm + lookahead",
                                  "linear_spec",
                                  "wino",
                                  "threshold + early_skip + remask_current_below + sampling",
                                  "calibrated_threshold('no/such/file')",
                                  "canvas + edit_committed + entropy_bound",
                                  "sampling + top_p(0.9) + edit_committed + tokens_per_step",
                                  "stop_sequence([1, 2], 3) + max_steps(9) + tokens_per_step"};
  constexpr std::uint32_t attentions = UNMASK_CAUSAL_ATTENTION | UNMASK_SHADOW_ATTENTION;
  for (const char* const policy : policies) {
    for (std::uint32_t flags = 0; flags < 8; ++flags) {
      o.flags = flags;
      unmask_session* s = nullptr;
      const unmask_status created = unmask_create(policy, &o, &s);
      unmask_destroy(s);
      const std::string why = created == UNMASK_OK ? "" : unmask_last_error();
      EXPECT_EQ(unmask_check_policy_with(policy, flags), created) << policy << ", flags " << flags;
      EXPECT_EQ(created == UNMASK_OK ? why : unmask_last_error(), why);
      if (flags == attentions) {
        EXPECT_EQ(unmask_check_policy(policy), created) << policy;
        EXPECT_EQ(created == UNMASK_OK ? why : unmask_last_error(), why);
      }
    }
  }
  EXPECT_EQ(unmask_check_policy_with("linear_spec", UNMASK_CAUSAL_ATTENTION), UNMASK_OK);
  expect_fails(unmask_check_policy_with("linear_spec", UNMASK_SHADOW_ATTENTION),
               UNMASK_INVALID_ARGUMENT,
               {"causal"});
  EXPECT_EQ(unmask_check_policy_with("wino", UNMASK_SHADOW_ATTENTION), UNMASK_OK);
  expect_fails(unmask_check_policy_with("wino", 0), UNMASK_INVALID_ARGUMENT, {"shadow"});
}

TEST(c_api, decides_on_its_own_for_no_policy_that_wants_a_loop) {
  const std::vector<float> z(6 * 4, 0.0F);
  const unmask_logits l = c_logits(z, 4);
  std::vector<std::uint8_t> transfer(6, 7);
  const std::pair<const char*, const char*> refused[] = {
      {"timesteps(8)", "timesteps"},
      {"any_of(timesteps(8), threshold(0.9))", "timesteps"},
      {"independent_timesteps(8)", "timesteps"},
      {"all_of(steps_per_block(8), threshold(0.9))", "steps_per_block"},
      {"canvas + entropy_bound", "canvas"},
      {"lookahead + threshold(0.9)", "lookahead"},
      {"trace_credit + threshold(0.9)", "credit"},
      {"adaptive_credit + threshold(0.9)", "credit"},
      {"adaptive_threshold", "adaptive_threshold"},
      {"stable_and_confident", "stable_and_confident"},
      {"early_commit", "early_commit"},
      {"any_of(threshold(0.9), steady_leader)", "steady_leader"},
      {"edit_committed + threshold(0.9)", "edit_committed"},
      {"remask_current_below + threshold(0.9)", "remask_current_below"},
      {"remask_below + threshold(0.4, inclusive=true)", "remask_below"},
      {"slow_fast + threshold(0.9)", "slow_fast"},
      {"es_dllm", "early_skip"},
      {"delayed_cache + tokens_per_step", "delayed_cache"}};
  for (const auto& [policy, why] : refused) {
    SCOPED_TRACE(policy);
    unmask_options o = small_options();
    o.layers = 2;
    const session_pointer s = made(policy, o);
    std::vector<std::int32_t> tokens = {3, 1, 3, 3, 3, 0};
    expect_fails(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
                 UNMASK_INVALID_ARGUMENT,
                 {"unmask_decide()", why, "unmask_next()"});
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{3, 1, 3, 3, 3, 0}));
    EXPECT_EQ(transfer, std::vector<std::uint8_t>(6, 7));
    const unmask_sequence q = small_sequence();
    EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK) << "a loop serves it";
  }
  for (const char* policy : {"by_margin + threshold(0.9) + temperature(0.8) + stop_at_eos",
                             "at_random + tokens_per_step(2) + sampling + top_k(2)",
                             "single_block + factor + repetition_penalty + eos_last",
                             "block_pipeline + entropy_bound + dual_cache + max_steps(3)",
                             "all_of(at_frontier, hierarchical) + no_equal_neighbours"}) {
    unmask_options o = small_options();
    o.eos_token = 2;
    const session_pointer s = made(policy, o);
    std::vector<std::int32_t> tokens = {3, 1, 3, 3, 3, 0};
    EXPECT_EQ(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &l, transfer.data()),
              UNMASK_OK)
        << unmask_last_error();
    EXPECT_GE(std::count(transfer.begin(), transfer.end(), 1), 1) << policy;
    std::fill(transfer.begin(), transfer.end(), std::uint8_t{7});
  }
}

TEST(c_api, says_what_is_wrong_with_the_tensor_of_a_segment) {
  unmask_options o = small_options();
  o.sequences = 2;
  const session_pointer s = made("tokens_per_step", o);
  std::vector<std::int32_t> tokens[2] = {std::vector<std::int32_t>(6),
                                         std::vector<std::int32_t>(6)};
  const unmask_sequence q = small_sequence();
  for (const std::int32_t slot : {0, 1}) {
    ASSERT_EQ(unmask_start(s.get(), slot, tokens[slot].data(), 6, &q), UNMASK_OK);
  }
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * 4, 0.0F);
  unmask_logits tensors[] = {c_logits(z, 4), c_logits(z, 4)};
  const auto supplied = [&] { return unmask_supply_segments(s.get(), tensors, nullptr, 2); };
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  tensors[1].kind = UNMASK_BF16;
  expect_fails(supplied(), bad, {"element type", "first segment's, float32, got bfloat16"});
  tensors[1].kind = UNMASK_F32;
  tensors[1].memory_space = UNMASK_DEVICE;
  expect_fails(supplied(), bad, {"memory space", "that of the first segment's, got device"});
  tensors[1].memory_space = UNMASK_HOST;
  tensors[1].rows = 5;
  expect_fails(
      supplied(), bad, {"rows of a segment's logits must be row_last - row_first = 6, got 5"});
  tensors[1].rows = 6;
  EXPECT_EQ(supplied(), UNMASK_OK);
}

TEST(c_api, says_what_is_wrong_with_a_call) {
  const session_pointer s = made("tokens_per_step", small_options());
  std::vector<std::int32_t> tokens(6);
  const unmask_sequence q = small_sequence();
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  const std::vector<float> z(6 * 4, 0.0F);
  const unmask_logits l = c_logits(z, 4);
  unmask_request request = UNMASK_REQUEST_INIT;
  expect_fails(unmask_supply(s.get(), &l), UNMASK_OUT_OF_ORDER, {"next()"});
  expect_fails(unmask_start(nullptr, 0, tokens.data(), 6, &q), bad, {"session", "null"});
  expect_fails(unmask_start(s.get(), 1, tokens.data(), 6, &q),
               bad,
               {"slot must be in [0, unmask_options::sequences = 1)", "got 1"});
  expect_fails(unmask_start(s.get(), 0, nullptr, 6, &q), bad, {"tokens", "null"});
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, nullptr), bad, {"sequence", "null"});
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 5, &q), bad, {"5"});
  unmask_sequence wrong = q;
  wrong.block_length = 0;
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &wrong),
               bad,
               {"unmask_sequence::block_length must", "0"});
  wrong = q;
  wrong.prompt_length = 7;
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &wrong),
               bad,
               {"unmask_sequence::prompt_length must", "unmask_sequence::length = 6", "7"});
  wrong = q;
  wrong.length = 7;
  std::vector<std::int32_t> longer(7);
  expect_fails(unmask_start(s.get(), 0, longer.data(), 7, &wrong),
               bad,
               {"unmask_sequence::length must be at most unmask_options::length = 6", "7"});
  wrong = q;
  const std::vector<std::int32_t> suppressed(1000, 0);
  wrong.suppressed = suppressed.data();
  wrong.suppressed_count = 1000;
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &wrong),
               bad,
               {"unmask_sequence::suppressed_count must", "1000"});
  wrong = q;
  wrong.suppressed_count = 1;
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &wrong), bad, {"suppressed", "null"});
  EXPECT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 0);
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  expect_fails(unmask_next(s.get(), nullptr), bad, {"request", "null"});
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.rows, 6);
  expect_fails(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OUT_OF_ORDER, {"start()"});
  expect_fails(unmask_cancel(s.get(), 0), UNMASK_OUT_OF_ORDER, {"cancel()"});
  ASSERT_EQ(unmask_abandon(s.get()), UNMASK_OK);
  expect_fails(unmask_abandon(s.get()), UNMASK_OUT_OF_ORDER, {"abandon()", "without a request"});
  expect_fails(unmask_abandon(nullptr), bad, {"session", "null"});
  expect_fails(unmask_cancel_request(s.get()), UNMASK_OUT_OF_ORDER, {"cancel_request()"});
  expect_fails(unmask_cancel_request(nullptr), bad, {"session", "null"});
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  ASSERT_EQ(unmask_cancel_request(s.get()), UNMASK_OK);
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 0);
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.rows, 6);
  const auto with = [&](auto change) {
    unmask_logits other = l;
    change(other);
    return unmask_supply(s.get(), &other);
  };
  expect_fails(with([](auto& x) { x.kind = 3; }), bad, {"kind", "3"});
  expect_fails(with([](auto& x) { x.memory_space = UNMASK_DEVICE; }), bad, {"memory", "device"});
  expect_fails(with([](auto& x) { x.memory_space = 2; }), bad, {"memory_space", "2"});
  expect_fails(with([](auto& x) { x.rows = 5; }), bad, {"rows", "5", "unmask_request::rows = 6"});
  expect_fails(with([](auto& x) { x.rows = -1; }), bad, {"rows", "-1"});
  expect_fails(with([](auto& x) { x.columns = 3; }), bad, {"columns", "3", "4"});
  expect_fails(with([](auto& x) { x.stride = 3; }), bad, {"stride", "3"});
  expect_fails(with([](auto& x) { x.data = nullptr; }), bad, {"data", "null"});
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK);
  expect_fails(unmask_supply(s.get(), nullptr), bad, {"logits", "null"});

  unmask_report report = UNMASK_REPORT_INIT;
  const unmask_commit* entries = nullptr;
  const unmask_probability* answers = nullptr;
  std::int32_t count = 0;
  expect_fails(unmask_get_report(s.get(), 9, &report), bad, {"slot", "9"});
  expect_fails(unmask_get_report(s.get(), 0, nullptr), bad, {"report", "null"});
  unmask_plan plan = UNMASK_PLAN_INIT;
  expect_fails(unmask_get_plan(s.get(), 9, &plan), bad, {"slot", "9"});
  expect_fails(unmask_get_plan(s.get(), 0, nullptr), bad, {"plan", "null"});
  expect_fails(unmask_get_plan(nullptr, 0, &plan), bad, {"session", "null"});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{32}, std::size_t{38}, std::size_t{132}}) {
    expect_fails(unmask_committed(s.get(), 0, size, &entries, &count),
                 bad,
                 {"entry_size", std::to_string(size).c_str(), "sizeof", "at least 36"});
  }
  expect_fails(unmask_committed(s.get(), 0, sizeof(unmask_commit), nullptr, &count),
               bad,
               {"entries", "null"});
  expect_fails(unmask_committed(s.get(), 0, sizeof(unmask_commit), &entries, nullptr),
               bad,
               {"count", "null"});
  const unmask_candidate* candidates = nullptr;
  expect_fails(unmask_candidates(s.get(), 0, sizeof(unmask_candidate), &candidates, &count),
               UNMASK_OUT_OF_ORDER,
               {"without unmask_options::trace"});
  expect_fails(unmask_probabilities(s.get(), -1, sizeof(unmask_probability), &answers, &count),
               bad,
               {"slot", "-1"});

  std::vector<std::uint8_t> transfer(6);
  const auto decide = [&](std::int32_t* t, std::int32_t n, std::uint8_t* to) {
    return unmask_decide(s.get(), 0, t, n, nullptr, 0, &l, to);
  };
  expect_fails(decide(tokens.data(), 6, transfer.data()), UNMASK_OUT_OF_ORDER, {"runs"});
  ASSERT_EQ(unmask_cancel(s.get(), 0), UNMASK_OK);
  expect_fails(decide(nullptr, 6, transfer.data()), bad, {"tokens", "null"});
  unmask_logits there = l;
  there.memory_space = UNMASK_DEVICE;
  expect_fails(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &there, transfer.data()),
               bad,
               {"memory_space", "that of the session", "UNMASK_DEVICE"});
  unmask_logits odd = l;
  odd.data = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(l.data) + 1);
  const std::vector<std::int32_t> before = tokens;
  expect_fails(unmask_decide(s.get(), 0, tokens.data(), 6, nullptr, 0, &odd, transfer.data()),
               bad,
               {"address of the logits", "multiple of 4"});
  EXPECT_EQ(tokens, before);
  unmask_report r = UNMASK_REPORT_INIT;
  ASSERT_EQ(unmask_get_report(s.get(), 0, &r), UNMASK_OK);
  EXPECT_EQ(r.end, UNMASK_CANCELLED) << "an error has started a sequence";
  expect_fails(decide(tokens.data(), 6, nullptr), bad, {"transfer", "null"});
  expect_fails(decide(tokens.data(), 7, transfer.data()), bad, {"count", "7"});
  expect_fails(decide(tokens.data(), 5, transfer.data()), bad, {"rows", "6", "5"});
  EXPECT_EQ(decide(tokens.data(), 6, transfer.data()), UNMASK_OK) << unmask_last_error();
  unmask_destroy(nullptr);
}

}  // namespace
}  // namespace c_api_test
