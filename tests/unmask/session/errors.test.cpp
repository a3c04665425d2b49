// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/beside.hpp"

namespace unmask::testing::errors_test {
namespace {

using tokens_of = std::vector<token_id>;
using greedy = policy<by_confidence, threshold>;
using in_one = policy<by_confidence, tokens_per_step, single_block>;

constexpr float not_a_float = std::numeric_limits<float>::quiet_NaN();
constexpr model_info good_model = {.vocab = 9, .mask_token = 8, .eos_token = 7};
constexpr session_capacity good_capacity = {.sequences = 2, .length = 10, .window = 4};

/// `call` throws exactly that exception, and its message has every one of `parts` in it: the name
/// of the argument, its value, the rule.
template <class Exception>
void expect_refused(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Exception& e) {
    const std::string said = e.what();
    for (const std::string& part : parts) {
      EXPECT_NE(said.find(part), std::string::npos) << "no '" << part << "' in: " << said;
    }
    return;
  } catch (const std::exception& e) {
    FAIL() << "another exception: " << e.what();
  }
  FAIL() << "accepted, though it should say: " << ::testing::PrintToString(parts);
}

// The construction of a session.

void expect_bad_model(model_info m, const std::vector<std::string>& parts) {
  expect_refused<std::invalid_argument>([&] { session<greedy>(m, good_capacity); }, parts);
}

TEST(construction, refuses_a_model_that_cannot_work) {
  expect_bad_model({.vocab = 0}, {"model_info::vocab", "got 0", "at least 1"});
  expect_bad_model({.vocab = -3}, {"model_info::vocab", "got -3"});
  expect_bad_model({.vocab = 9, .mask_token = 9},
                   {"model_info::mask_token", "got 9", "[0, vocab = 9)"});
  expect_bad_model({.vocab = 9, .mask_token = -1}, {"model_info::mask_token", "got -1"});
  expect_bad_model({.vocab = 9}, {"model_info::mask_token must be given", "no_token"});
  expect_bad_model({.vocab = 9, .mask_token = 8, .eos_token = 8},
                   {"model_info::eos_token must be another token", "mask_token = 8", "got 8"});
  expect_bad_model({.vocab = 9, .mask_token = 8, .eos_token = 9},
                   {"model_info::eos_token", "got 9", "no_token"});
  expect_bad_model({.vocab = 9, .mask_token = 8, .eos_token = -1},
                   {"model_info::eos_token", "got -1"});
  expect_bad_model({.vocab = 9, .mask_token = 8, .logits_shift = 2},
                   {"model_info::logits_shift", "got 2", "0 or 1"});
  expect_bad_model({.vocab = 9, .mask_token = 8, .logits_shift = -1},
                   {"model_info::logits_shift", "got -1"});
  expect_bad_model({.vocab = 1, .mask_token = 0}, {"model_info::vocab", "got 1", "at least 2"});
}

void expect_bad_capacity(session_capacity c, const std::vector<std::string>& parts) {
  expect_refused<std::invalid_argument>([&] { session<greedy>(good_model, c); }, parts);
}

TEST(construction, refuses_capacities_that_cannot_work) {
  expect_bad_capacity({.sequences = 0, .length = 9, .window = 4},
                      {"session_capacity::sequences", "got 0", "at least 1"});
  expect_bad_capacity({.sequences = -1, .length = 9, .window = 4},
                      {"session_capacity::sequences", "got -1"});
  expect_bad_capacity({.sequences = 1, .length = 0, .window = 4},
                      {"session_capacity::length", "got 0", "at least 1"});
  expect_bad_capacity({.sequences = 1, .length = 9, .window = 0},
                      {"session_capacity::window", "got 0", "at least 1"});
  expect_bad_capacity({.sequences = 1, .length = 9, .window = 4, .branches = -1},
                      {"session_capacity::branches", "got -1"});
}

TEST(construction, with_tokens_refuses_what_start_refuses) {
  tokens_of tokens(6);
  const auto make = [&](sequence_shape g) {
    return [&tokens, g] {
      session s{
          greedy{by_confidence{}, threshold{}}, good_model, tokens_view<memory::host>(tokens), g};
    };
  };
  expect_refused<std::invalid_argument>(make({.length = 7}),
                                        {"sequence_shape::length", "got 7", "6"});
  expect_refused<std::invalid_argument>(make({.length = 6, .block_length = 0}),
                                        {"sequence_shape::block_length", "got 0", "at least 1"});
  expect_refused<std::invalid_argument>(make({.prompt_length = 7, .length = 6}),
                                        {"sequence_shape::prompt_length", "got 7", "6"});
}

// The start of a sequence, beside one that is running.

/// Two equal sessions with a sequence in slot 0 that has taken a step; one is disturbed.
template <class Policy>
class twins {
 public:
  explicit twins(const Policy& p)
      : disturbed_(good_model, good_capacity)
      , calm_(good_model, good_capacity) {
    start(disturbed_, p, disturbed_tokens_);
    start(calm_, p, calm_tokens_);
    step(disturbed_, disturbed_tokens_);
    step(calm_, calm_tokens_);
  }

  [[nodiscard]] session<Policy>& disturbed() { return disturbed_; }
  [[nodiscard]] tokens_of& tokens() { return disturbed_tokens_; }

  /// Asks both for their next request, so that it is out.
  void ask() {
    ASSERT_TRUE(disturbed_.next());
    ASSERT_TRUE(calm_.next());
  }

  /// Runs both to the end; all their results must be equal.
  void expect_undisturbed() {
    while (true) {
      EXPECT_EQ(disturbed_tokens_, calm_tokens_);
      EXPECT_EQ(disturbed_.report(0).forwards, calm_.report(0).forwards);
      EXPECT_EQ(disturbed_.report(0).committed, calm_.report(0).committed);
      EXPECT_EQ(disturbed_.report(0).masked, calm_.report(0).masked);
      EXPECT_EQ(disturbed_.committed(0).size(), calm_.committed(0).size());
      const bool more = step(calm_, calm_tokens_);
      ASSERT_EQ(step(disturbed_, disturbed_tokens_), more);
      if (!more) {
        break;
      }
    }
    EXPECT_EQ(disturbed_.report(0).end, ending::complete);
    EXPECT_FALSE(disturbed_.planned(1).active()) << "nothing was started in slot 1";
  }

 private:
  static void start(session<Policy>& s, const Policy& p, tokens_of& tokens) {
    tokens.assign(10, 0);
    s.start(0, p, tokens, {.prompt_length = 2, .length = 6, .block_length = 4});
  }
  static bool step(session<Policy>& s, const tokens_of& tokens) {
    const auto request = s.next();
    if (!request) {
      return false;
    }
    const fake_model fake{.seed = 3, .vocab = good_model.vocab};
    packed_rows<float> rows(request->rows, good_model.vocab, 1);
    for (index_t r = 0; r < request->rows; ++r) {
      fake.row<float>(tokens, request->segments[0].rows.first + r, rows.row(r));
    }
    s.supply(rows.view());
    return true;
  }

  session<Policy> disturbed_;
  session<Policy> calm_;
  tokens_of disturbed_tokens_;
  tokens_of calm_tokens_;
};

const greedy careful{by_confidence{}, threshold{0.999F}};

/// start(slot, ...) is refused, in a slot that runs and in a free one, and disturbs nothing.
template <class Policy>
void expect_bad_start(const Policy& usual,
                      const Policy& p,
                      const sequence_shape& g,
                      const start_options& options,
                      const std::vector<std::string>& parts) {
  for (const index_t slot : {0, 1}) {
    SCOPED_TRACE(slot);
    twins<Policy> pair(usual);
    tokens_of other(10, 5);
    const tokens_of before = other;
    expect_refused<std::invalid_argument>(
        [&] { pair.disturbed().start(slot, p, other, g, options); }, parts);
    EXPECT_EQ(other, before);
    pair.expect_undisturbed();
  }
}

void expect_bad_sequence_shape(const sequence_shape& g, const std::vector<std::string>& parts) {
  expect_bad_start(careful, careful, g, {}, parts);
}

TEST(start, refuses_a_geometry_that_cannot_work) {
  expect_bad_sequence_shape({.prompt_length = -1, .length = 6},
                            {"sequence_shape::prompt_length", "got -1", "at least 0"});
  expect_bad_sequence_shape(
      {.prompt_length = 7, .length = 6},
      {"sequence_shape::prompt_length", "got 7", "at most sequence_shape::length = 6"});
  expect_bad_sequence_shape({.length = 0}, {"sequence_shape::length", "got 0", "at least 1"});
  expect_bad_sequence_shape({.length = -4}, {"sequence_shape::length", "got -4"});
  expect_bad_sequence_shape({.length = 6, .block_length = 0},
                            {"sequence_shape::block_length", "got 0", "at least 1"});
  expect_bad_sequence_shape({.length = 6, .block_length = -4},
                            {"sequence_shape::block_length", "got -4"});
}

TEST(start, refuses_an_answer_longer_than_the_tokens) {
  twins<greedy> pair(careful);
  tokens_of few(5, 1);
  expect_refused<std::invalid_argument>(
      [&] { pair.disturbed().start(1, careful, few, {.length = 6, .block_length = 2}); },
      {"sequence_shape::length", "got 6", "the number of tokens, 5"});
  EXPECT_EQ(few, tokens_of(5, 1));
  pair.expect_undisturbed();
}

TEST(start, refuses_an_answer_longer_than_the_capacity) {
  twins<greedy> pair(careful);
  tokens_of many(11, 1);
  expect_refused<std::invalid_argument>(
      [&] { pair.disturbed().start(1, careful, many, {.length = 11, .block_length = 2}); },
      {"sequence_shape::length", "got 11", "session_capacity::length = 10"});
  pair.expect_undisturbed();
}

TEST(start, refuses_a_slot_that_is_not_there) {
  for (const index_t slot : {-1, 2, 1000}) {
    SCOPED_TRACE(slot);
    twins<greedy> pair(careful);
    tokens_of tokens(6, 1);
    expect_refused<std::invalid_argument>(
        [&] { pair.disturbed().start(slot, careful, tokens, {.length = 6, .block_length = 2}); },
        {"slot", "got " + std::to_string(slot), "session_capacity::sequences = 2"});
    pair.expect_undisturbed();
  }
}

TEST(start, refuses_a_block_wider_than_the_window) {
  expect_bad_sequence_shape({.length = 10, .block_length = 5},
                            {"block_length", "got 5", "session_capacity::window = 4"});
}

TEST(start, refuses_a_whole_sequence_wider_than_the_window) {
  const in_one p{by_confidence{}, tokens_per_step{1}, single_block{}};
  expect_bad_start(p,
                   p,
                   {.prompt_length = 1, .length = 10, .block_length = 2},
                   {},
                   {"got 9", "session_capacity::window = 4"});
}

TEST(start, takes_a_window_that_is_just_wide_enough) {
  session<in_one> s(good_model, good_capacity);
  tokens_of tokens(10);
  s.start(0,
          {by_confidence{}, tokens_per_step{1}, single_block{}},
          tokens,
          {.prompt_length = 6, .length = 10});
  session<greedy> t(good_model, good_capacity);
  t.start(0, careful, tokens, {.prompt_length = 6, .length = 10, .block_length = 4});
  // A block longer than what is left of the answer does not need the room.
  t.start(0, careful, tokens, {.prompt_length = 6, .length = 10, .block_length = 400});
}

TEST(start, refuses_options_that_cannot_work) {
  const sequence_shape g = {.length = 6, .block_length = 2};
  const std::vector<std::uint8_t> few(5, 1);
  expect_bad_start(careful,
                   careful,
                   g,
                   {.editable = few, .suppressed = {}},
                   {"start_options::editable", "got 5", "sequence_shape::length = 6"});
  const std::vector<std::uint8_t> unknown = {1, 0, 2, 1, 3, 1};
  expect_bad_start(careful,
                   careful,
                   g,
                   {.editable = unknown, .suppressed = {}},
                   {"start_options::editable", "got 3", "0 (fixed), 1 (masked) or 2 (committed)"});
  for (const token_id v : {-1, 9, no_token}) {
    SCOPED_TRACE(v);
    const tokens_of suppressed = {3, v};
    expect_bad_start(careful,
                     careful,
                     g,
                     {.editable = {}, .suppressed = suppressed},
                     {"start_options::suppressed", "got " + std::to_string(v), "vocab = 9"});
  }
  const tokens_of everything = {0, 1, 2, 3, 4, 5, 6, 7};
  expect_bad_start(careful,
                   careful,
                   g,
                   {.editable = {}, .suppressed = everything},
                   {"suppressed", "got 9", "vocab = 9"});
  const tokens_of many(16, 3);
  expect_bad_start(careful,
                   careful,
                   g,
                   {.editable = {}, .suppressed = many},
                   {"start_options::suppressed.size()", "got 16", "at most 15"});
}

TEST(start, takes_options_at_their_bounds) {
  session<greedy> s(good_model, good_capacity);
  tokens_of tokens(6);
  const tokens_of all_but_one = {0, 1, 2, 3, 4, 5, 7};
  const std::vector<std::uint8_t> longer(9, 1);
  s.start(0,
          careful,
          tokens,
          {.length = 6, .block_length = 2},
          {.editable = longer, .suppressed = all_but_one});
  const tokens_of repeated(15, 3);
  s.start(0,
          careful,
          tokens,
          {.length = 6, .block_length = 2},
          {.editable = {}, .suppressed = repeated});
}

// The knobs of policies.

template <class CommitRule>
void expect_bad_commit_rule(const CommitRule& a, const std::vector<std::string>& parts) {
  using p = policy<by_confidence, CommitRule>;
  expect_bad_start(p{by_confidence{}, CommitRule{}},
                   p{by_confidence{}, a},
                   {.length = 6, .block_length = 2},
                   {},
                   parts);
}

TEST(start, refuses_thresholds_outside_zero_to_one) {
  expect_bad_commit_rule(threshold{1.5F}, {"threshold::value", "got 1.5", "[0, 1]"});
  expect_bad_commit_rule(threshold{-0.25F}, {"threshold::value", "got -0.25"});
  expect_bad_commit_rule(threshold{not_a_float}, {"threshold::value", "nan"});
  expect_bad_commit_rule(threshold{1.5F, true}, {"threshold::value", "got 1.5"});
  expect_bad_commit_rule(threshold{-1.0F, true}, {"threshold::value", "got -1"});
  expect_bad_commit_rule(threshold{not_a_float, true}, {"threshold::value", "nan"});
}

TEST(start, refuses_other_knobs_out_of_range) {
  expect_bad_commit_rule(tokens_per_step{-1}, {"tokens_per_step::count", "got -1", "at least 0"});
  expect_bad_commit_rule(steps_per_block{0}, {"steps_per_block::steps", "got 0", "at least 1"});
  expect_bad_commit_rule(steps_per_block{-5}, {"steps_per_block::steps", "got -5"});
  expect_bad_commit_rule(factor{.value = -0.5F}, {"factor::value", "got -0.5", "at least 0"});
  expect_bad_commit_rule(factor{.value = not_a_float}, {"factor::value", "nan"});
  expect_bad_commit_rule(entropy_bound{-0.5F}, {"entropy_bound::bound", "got -0.5", "at least 0"});
  expect_bad_commit_rule(entropy_bound{not_a_float}, {"entropy_bound::bound", "nan"});
}

TEST(start, refuses_knobs_inside_a_composition) {
  expect_bad_commit_rule((threshold{0.5F} && tokens_per_step{-7}) || factor{1.0F},
                         {"tokens_per_step::count", "got -7"});
  expect_bad_commit_rule(threshold{0.5F} || (steps_per_block{3} && threshold{2.0F, true}),
                         {"threshold::value", "got 2"});
}

template <class Part>
void expect_bad_part(const Part& usual, const Part& bad, const std::vector<std::string>& parts) {
  using p = policy<Part, by_confidence, tokens_per_step>;
  expect_bad_start(p{usual, by_confidence{}, tokens_per_step{}},
                   p{bad, by_confidence{}, tokens_per_step{}},
                   {.length = 6, .block_length = 2},
                   {},
                   parts);
}

TEST(start, refuses_knobs_of_parts_that_neither_rank_nor_commit) {
  expect_bad_part(temperature{}, temperature{0.0F}, {"temperature::value", "got 0", "at least"});
  expect_bad_part(temperature{}, temperature{1e-45F}, {"temperature::value", "at least 1e-06"});
  expect_bad_part(temperature{}, temperature{-2.0F}, {"temperature::value", "got -2"});
  expect_bad_part(temperature{}, temperature{not_a_float}, {"temperature::value", "nan"});
  expect_bad_part(max_steps{}, max_steps{0}, {"max_steps::steps", "got 0", "at least 1"});
}

TEST(start, refuses_timesteps_out_of_range) {
  using p = policy<by_confidence, timesteps>;
  const auto refused = [](timesteps t, const std::vector<std::string>& parts) {
    session<p> s(good_model, good_capacity);
    tokens_of tokens(6);
    expect_refused<std::invalid_argument>(
        [&] { s.start(0, {by_confidence{}, t}, tokens, {.length = 6, .block_length = 2}); }, parts);
  };
  refused({.steps = 0}, {"timesteps::steps", "got 0"});
  refused({.epsilon = 0.0F}, {"timesteps::epsilon", "got 0", "(0, 1)"});
  refused({.epsilon = 1.0F}, {"timesteps::epsilon", "got 1"});
  refused({.epsilon = not_a_float}, {"timesteps::epsilon", "nan"});
}

// The knob of a user's part, checked the same way.
struct never_thirteen {
  index_t k = 1;
  static constexpr statistics required = stat::none;
  void check(const sequence_shape& g) const {
    check_argument(k != 13 && k < g.length, "never_thirteen::k", k, "lucky and below the length");
  }
  bool commits(const auto&, const rank_info& s) const { return s.rank < k; }
};

TEST(start, lets_the_part_of_a_user_refuse) {
  expect_bad_commit_rule(never_thirteen{13}, {"never_thirteen::k", "got 13", "lucky"});
  expect_bad_commit_rule(never_thirteen{6}, {"never_thirteen::k", "got 6"});
}

// The protocol.

row_modifiers<float> no_modifiers() {
  return {};
}

/// Misuse while no request is out, and while one is.
void expect_misuse(bool request_out,
                   const std::function<void(session<greedy>&, tokens_of&)>& misuse,
                   bool of_order,
                   const std::vector<std::string>& parts) {
  twins<greedy> pair(careful);
  if (request_out) {
    pair.ask();
  }
  const auto call = [&] { misuse(pair.disturbed(), pair.tokens()); };
  if (of_order) {
    expect_refused<std::logic_error>(call, parts);
  } else {
    expect_refused<std::invalid_argument>(call, parts);
  }
  pair.expect_undisturbed();
}

TEST(supply, without_a_request_is_refused) {
  const std::vector<float> z(90, 0.0F);
  const auto supply = [&](session<greedy>& s, tokens_of&) {
    s.supply(host_logits<float>(z.data(), 3, 9), no_modifiers());
  };
  expect_misuse(false, supply, true, {"supply() without a request", "next()"});
  const auto by_segment = [&](session<greedy>& s, tokens_of&) {
    const std::vector<host_logits<float>> views = {{z.data(), 3, 9}};
    s.supply(std::span<const host_logits<float>>(views));
  };
  expect_misuse(false, by_segment, true, {"supply() without a request", "next()"});
  const auto read = [&](session<greedy>& s, tokens_of&) {
    s.read(0, host_logits<float>(z.data(), 3, 9));
  };
  expect_misuse(false, read, true, {"read() without a request", "next()"});
  expect_misuse(false,
                [](session<greedy>& s, tokens_of&) { s.decide(); },
                true,
                {"decide() without a request", "next()"});
}

TEST(supply, twice_is_refused) {
  std::vector<token_id> tokens(4);
  session s{careful, good_model, tokens_view<memory::host>(tokens), sequence_shape{.length = 4}};
  const std::vector<float> z(36, 0.0F);
  const host_logits<float> logits(z.data(), 4, 9);
  ASSERT_TRUE(s.next());
  s.supply(logits);
  const tokens_of after = tokens;
  expect_refused<std::logic_error>([&] { s.supply(logits); }, {"supply() without a request"});
  EXPECT_EQ(tokens, after);
  EXPECT_EQ(s.report().forwards, 1);
}

TEST(supply, of_the_wrong_number_of_rows_is_refused) {
  const std::vector<float> z(90, 0.0F);
  for (const index_t rows : {0, 1, 2, 4, 10}) {
    SCOPED_TRACE(rows);
    expect_misuse(
        true,
        [&](session<greedy>& s, tokens_of&) { s.supply(host_logits<float>(z.data(), rows, 9)); },
        false,
        {"rows of the logits", "got " + std::to_string(rows), "forward_request::rows = 3"});
  }
}

TEST(supply, of_too_few_columns_is_refused) {
  const std::vector<float> z(90, 0.0F);
  for (const index_t columns : {0, 8, -9}) {
    SCOPED_TRACE(columns);
    expect_misuse(
        true,
        [&](session<greedy>& s, tokens_of&) {
          s.supply(host_logits<float>(z.data(), 3, columns, 9));
        },
        false,
        {"columns of the logits", "got " + std::to_string(columns), "model_info::vocab = 9"});
  }
}

TEST(supply, by_segment_checks_every_segment) {
  const std::vector<float> z(90, 0.0F);
  const auto with = [&](const std::vector<host_logits<float>>& views) {
    return [views](session<greedy>& s, tokens_of&) {
      s.supply(std::span<const host_logits<float>>(views));
    };
  };
  const host_logits<float> good(z.data(), 3, 9);
  expect_misuse(true, with({}), false, {"number of tensors", "got 0", "number of segments, 1"});
  expect_misuse(true, with({good, good}), false, {"number of tensors", "got 2"});
  expect_misuse(true,
                with({{z.data(), 2, 9}}),
                false,
                {"rows of a segment's logits", "got 2", "segment::rows.size() = 3"});
  expect_misuse(true, with({{z.data(), 3, 8}}), false, {"columns of the logits", "got 8"});
}

TEST(supply, by_segment_reads_nothing_before_all_segments_are_checked) {
  session<greedy> s(good_model, good_capacity);
  tokens_of first(2);
  tokens_of second(2);
  s.start(0, careful, first, {.length = 2, .block_length = 2});
  s.start(1, careful, second, {.length = 2, .block_length = 2});
  ASSERT_EQ(s.next()->segments.size(), 2U);
  std::vector<float> wrong(18, 0.0F);
  wrong[3] = wrong[12] = 9.0F;
  std::vector<float> right(18, 0.0F);
  right[2] = right[11] = 9.0F;
  const std::vector<host_logits<float>> half = {{wrong.data(), 2, 9}, {wrong.data(), 1, 9}};
  expect_refused<std::invalid_argument>(
      [&] { s.supply(std::span<const host_logits<float>>(half)); }, {"rows of a segment's logits"});
  const std::vector<host_logits<float>> whole = {{right.data(), 2, 9}, {right.data(), 2, 9}};
  s.supply(std::span<const host_logits<float>>(whole));
  EXPECT_EQ(s.committed(0)[0].token, 2);
  EXPECT_EQ(s.committed(1)[0].token, 2);
  EXPECT_EQ(s.report(0).forwards, 1);
}

// Rows that overlap would decode the tokens of one row at the positions of another.
TEST(supply, of_rows_that_overlap_is_refused) {
  const std::vector<float> z(90, 0.0F);
  for (const std::ptrdiff_t stride : {8, 1, 0, -9}) {
    SCOPED_TRACE(stride);
    const host_logits<float> rows(z.data() + 40, 3, 9, stride);
    const std::vector<std::string> parts = {
        "stride of the logits", "got " + std::to_string(stride), "number of columns, 9"};
    expect_misuse(true, [&](session<greedy>& s, tokens_of&) { s.supply(rows); }, false, parts);
    expect_misuse(true, [&](session<greedy>& s, tokens_of&) { s.read(0, rows); }, false, parts);
    expect_misuse(
        true, [&](session<greedy>& s, tokens_of&) { s.supply(std::span(&rows, 1)); }, false, parts);
  }
  tokens_of tokens(1);
  session s{careful, good_model, tokens_view<memory::host>(tokens), sequence_shape{.length = 1}};
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(z.data(), 1, 9, 0));  // one row overlaps nothing
}

// The last of three rows begins 2 * stride * 4 bytes behind the first.
TEST(supply, of_rows_beyond_any_address_is_refused) {
  const std::vector<float> z(90, 0.0F);
  const std::vector<std::uint32_t> words(9, ~0U);
  constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max() / 4 / 3;
  for (const std::ptrdiff_t stride : {most + 1, std::ptrdiff_t{1} << 61U, 12 * most}) {
    SCOPED_TRACE(stride);
    const host_logits<float> rows(z.data(), 3, 9, stride);
    const host_logits<float> near(z.data(), 3, 9);
    const auto expect_too_far = [&](const auto& use, const std::string& of) {
      expect_misuse(
          true, use, false, {"stride of " + of, "at most", "got " + std::to_string(stride)});
    };
    expect_too_far([&](session<greedy>& s, tokens_of&) { s.supply(rows); }, "the logits");
    expect_too_far([&](session<greedy>& s, tokens_of&) { s.read(0, rows); }, "the logits");
    expect_too_far(
        [&](session<greedy>& s, tokens_of&) {
          s.supply(near, {.allowed = words.data(), .allowed_stride = stride});
        },
        "row_modifiers::allowed");
    expect_too_far(
        [&](session<greedy>& s, tokens_of&) {
          s.supply(near, {.unconditional = z.data(), .unconditional_stride = stride});
        },
        "row_modifiers::unconditional");
  }
}

TEST(supply, of_data_off_its_alignment_is_refused) {
  std::vector<float> z(90, 0.0F);
  const auto odd = [&z](std::ptrdiff_t bytes) {
    return reinterpret_cast<std::byte*>(z.data()) + bytes;
  };
  for (const std::ptrdiff_t bytes : {1, 2, 3}) {
    SCOPED_TRACE(bytes);
    const host_logits<float> rows(reinterpret_cast<const float*>(odd(bytes)), 3, 9);
    expect_misuse(true,
                  [&](session<greedy>& s, tokens_of&) { s.supply(rows); },
                  false,
                  {"address of the logits", "a multiple of 4"});
  }
  const host_logits<bfloat16> half(reinterpret_cast<const bfloat16*>(odd(3)), 3, 9);
  expect_misuse(true,
                [&](session<greedy>& s, tokens_of&) { s.read(0, half); },
                false,
                {"address of the logits", "a multiple of 2"});
  expect_misuse(true,
                [](session<greedy>& s, tokens_of&) { s.supply(host_logits<float>(nullptr, 3, 9)); },
                false,
                {"address of the logits", "got 0"});
  tokens_of tokens(7);
  auto* const between =
      reinterpret_cast<token_id*>(reinterpret_cast<std::byte*>(tokens.data()) + 2);
  for (token_id* const first : {between, static_cast<token_id*>(nullptr)}) {
    twins<greedy> pair(careful);
    expect_refused<std::invalid_argument>(
        [&] { pair.disturbed().start(1, careful, {first, 6}, {.length = 6, .block_length = 2}); },
        {"address of the tokens"});
    pair.expect_undisturbed();
  }
}

TEST(supply, with_modifiers_that_overlap_is_refused) {
  const std::vector<float> z(90, 0.0F);
  const std::vector<std::uint32_t> words(9, ~0U);
  const auto with = [&](const row_modifiers<float>& modifiers) {
    return [&z, modifiers](session<greedy>& s, tokens_of&) {
      s.supply(host_logits<float>(z.data(), 3, 9), modifiers);
    };
  };
  expect_misuse(true,
                with({.allowed = words.data(), .allowed_stride = -1}),
                false,
                {"stride of row_modifiers::allowed", "got -1", "words of a row, 1"});
  expect_misuse(true,
                with({.unconditional = z.data(), .unconditional_stride = 8}),
                false,
                {"stride of row_modifiers::unconditional", "got 8", "columns that are read, 9"});
  const auto* const odd = reinterpret_cast<const std::byte*>(words.data()) + 1;
  expect_misuse(true,
                with({.allowed = reinterpret_cast<const std::uint32_t*>(odd), .allowed_stride = 1}),
                false,
                {"address of row_modifiers::allowed", "a multiple of 4"});
}

TEST(start, refuses_tokens_that_another_running_sequence_has) {
  const sequence_shape g = {.length = 4, .block_length = 2};
  tokens_of tokens(12, 1);
  session<greedy> s({.vocab = 9, .mask_token = 8}, {.sequences = 3, .length = 10, .window = 4});
  const auto start = [&](index_t slot, std::ptrdiff_t first) {
    s.start(slot, careful, {tokens.data() + first, 4}, g);
  };
  start(1, 4);
  const tokens_of before = tokens;
  for (const std::ptrdiff_t first : {1, 4, 7}) {
    SCOPED_TRACE(first);
    expect_refused<std::invalid_argument>([&] { start(2, first); },
                                          {"tokens of slot 2 overlap those of slot 1, which runs"});
  }
  EXPECT_EQ(tokens, before);
  start(0, 0);  // beside them
  start(2, 8);
  start(1, 4);  // the same slot anew
  s.cancel(1);
  s.cancel(2);
  start(2, 4);  // they are not written any more
  expect_refused<std::invalid_argument>([&] { start(1, 5); }, {"overlap those of slot 2"});
  const std::vector<float> z(90, 0.0F);
  while (const auto request = s.next()) {
    s.supply(host_logits<float>(z.data(), request->rows, 9));
  }
  start(1, 5);
}

TEST(read, checks_its_segment) {
  const std::vector<float> z(90, 0.0F);
  const auto with = [&](std::size_t index, const host_logits<float>& view) {
    return [index, view](session<greedy>& s, tokens_of&) { s.read(index, view); };
  };
  expect_misuse(true,
                with(1, {z.data(), 3, 9}),
                false,
                {"index of the segment", "got 1", "number of segments, 1"});
  expect_misuse(true, with(0, {z.data(), 2, 9}), false, {"rows of a segment's logits", "got 2"});
  expect_misuse(true, with(0, {z.data(), 3, 8}), false, {"columns of the logits", "got 8"});
}

TEST(decide, before_every_segment_was_read_is_refused) {
  const std::vector<std::string> parts = {"decide() before every segment", "read()"};
  expect_misuse(true, [](session<greedy>& s, tokens_of&) { s.decide(); }, true, parts);
}

/// Two sequences of two positions whose request is out.
struct two_sequences {
  tokens_of first = tokens_of(2);
  tokens_of second = tokens_of(2);
  session<greedy> s{good_model, good_capacity};
  std::vector<float> threes = std::vector<float>(18, 0.0F);

  two_sequences() {
    s.start(0, careful, first, {.length = 2, .block_length = 2});
    s.start(1, careful, second, {.length = 2, .block_length = 2});
    EXPECT_EQ(s.next()->segments.size(), 2U);
    threes[3] = threes[12] = 90.0F;
  }
  [[nodiscard]] host_logits<float> rows() const { return {threes.data(), 2, 9}; }
};

TEST(decide, with_one_of_two_segments_read_is_refused) {
  two_sequences both;
  both.s.read(1, both.rows());
  expect_refused<std::logic_error>([&] { both.s.decide(); }, {"decide() before every segment"});
  EXPECT_EQ(both.first, tokens_of(2, 8));
  EXPECT_EQ(both.second, tokens_of(2, 8));
  EXPECT_EQ(both.s.report(1).forwards, 0);
  both.s.read(0, both.rows());
  both.s.decide();
  EXPECT_EQ(both.first, tokens_of(2, 3));
  EXPECT_EQ(both.second, tokens_of(2, 3));
}

TEST(read, of_a_segment_twice_is_refused) {
  two_sequences both;
  const std::vector<float> zeros(18, 0.0F);
  both.s.read(1, both.rows());
  expect_refused<std::logic_error>([&] { both.s.read(1, host_logits<float>(zeros.data(), 2, 9)); },
                                   {"read() of a segment that was read already"});
  both.s.read(0, both.rows());
  both.s.decide();
  EXPECT_EQ(both.second, tokens_of(2, 3)) << "the rows of the second read() were taken";
  EXPECT_EQ(both.s.report(1).forwards, 1);
}

TEST(supply, after_read_is_refused) {
  two_sequences both;
  both.s.read(0, both.rows());
  const std::vector<float> zeros(36, 0.0F);
  const host_logits<float> all(zeros.data(), 4, 9);
  const std::vector<host_logits<float>> one_each = {all.subrows({0, 2}), all.subrows({2, 4})};
  const std::vector<std::string> parts = {"supply() after read()", "decide()"};
  expect_refused<std::logic_error>([&] { both.s.supply(all); }, parts);
  expect_refused<std::logic_error>(
      [&] { both.s.supply(std::span<const host_logits<float>>(one_each)); }, parts);
  both.s.read(1, both.rows());
  both.s.decide();
  EXPECT_EQ(both.first, tokens_of(2, 3));
  EXPECT_FALSE(both.s.next());
}

TEST(start, between_next_and_supply_is_refused) {
  for (const index_t slot : {0, 1}) {
    SCOPED_TRACE(slot);
    tokens_of other(6, 1);
    expect_misuse(true,
                  [&](session<greedy>& s, tokens_of&) {
                    s.start(slot, careful, other, {.length = 6, .block_length = 2});
                  },
                  true,
                  {"start() between next() and supply()"});
    EXPECT_EQ(other, tokens_of(6, 1));
  }
}

TEST(cancel, between_next_and_supply_is_refused) {
  expect_misuse(true,
                [](session<greedy>& s, tokens_of&) { s.cancel(0); },
                true,
                {"cancel() between next() and supply()"});
}

TEST(session, refuses_a_slot_that_is_not_there) {
  for (const bool request_out : {false, true}) {
    SCOPED_TRACE(request_out);
    const std::vector<std::string> parts = {"slot", "got 2", "session_capacity::sequences = 2"};
    expect_misuse(
        request_out,
        [](session<greedy>& s, tokens_of&) { static_cast<void>(s.report(2)); },
        false,
        parts);
    expect_misuse(
        request_out,
        [](session<greedy>& s, tokens_of&) { static_cast<void>(s.committed(2)); },
        false,
        parts);
    expect_misuse(
        request_out,
        [](session<greedy>& s, tokens_of&) { static_cast<void>(s.planned(2)); },
        false,
        parts);
  }
  expect_misuse(
      false, [](session<greedy>& s, tokens_of&) { s.cancel(2); }, false, {"slot", "got 2"});
  expect_misuse(
      false, [](session<greedy>& s, tokens_of&) { s.cancel(-1); }, false, {"slot", "got -1"});
}

}  // namespace
}  // namespace unmask::testing::errors_test
