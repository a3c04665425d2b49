// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every allocation of what a program makes fails once: std::bad_alloc comes out, nothing leaks, and
// what was there before decodes on.
#include <unmask/c_api.h>
#include <unmask/host/thread_pool.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/named_requirements.hpp>
#include <unmask/sharded_session.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/trace/trace_writer.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bound_session.hpp"
#include "support/c_calls.hpp"
#include "support/count_allocations.hpp"
#include "support/lent.hpp"

namespace unmask::testing::out_of_memory_test {
namespace {

constexpr model_info model{.vocab = 40, .mask_token = 0, .eos_token = 1, .layers = 4};
constexpr session_capacity capacity{.sequences = 3, .length = 24, .window = 24, .branches = 4};

/// Calls make() with its first allocation failing, then with its second, until none fails. Returns
/// the number of failures.
template <class Make>
long every_failure_of(const Make& make) {
  if (!counts_allocations) {
    return 1;
  }
  for (long failures = 0;; ++failures) {
    const long before = live_allocations;
    failing_allocation = failures;
    try {
      [[maybe_unused]] const auto made = make();
      const bool all_succeeded = failing_allocation >= 0;
      failing_allocation = -1;
      EXPECT_TRUE(all_succeeded) << "a failure was swallowed";
      return failures;
    } catch (const std::bad_alloc&) {
      EXPECT_LT(failing_allocation, 0);
    }
    EXPECT_EQ(live_allocations, before) << "leaked behind allocation " << failures;
    if (::testing::Test::HasFailure()) {
      failing_allocation = -1;
      return failures;
    }
  }
}

TEST(OutOfMemory, IsReportedByEachSession) {
  const policy rich{
      by_margin{}, threshold{0.9F}, trace_credit<8>{}, lookahead{}, dual_cache{}, stop_at_eos{}};
  EXPECT_GT(every_failure_of([&] {
              return std::make_unique<session<std::remove_const_t<decltype(rich)>>>(model,
                                                                                    capacity);
            }),
            3);
  const policy comparing{by_confidence{}, adaptive_threshold{}, sampling{}, temperature{0.8F}};
  EXPECT_GT(every_failure_of([&] {
              return std::make_unique<session<std::remove_const_t<decltype(comparing)>>>(model,
                                                                                         capacity);
            }),
            3);
  const policy truncating{by_confidence{}, threshold{}, sampling{}, top_k{5}};
  EXPECT_GT(every_failure_of([&] {
              return std::make_unique<session<std::remove_const_t<decltype(truncating)>>>(model,
                                                                                          capacity);
            }),
            3);
  const policy plain{by_confidence{}, threshold{}};
  const index_t cuts[] = {0, 20, 40};
  EXPECT_GT(every_failure_of([&] {
              return std::make_unique<sharded_session<std::remove_const_t<decltype(plain)>>>(
                  model, capacity, cuts, 0);
            }),
            3);
}

TEST(OutOfMemory, IsReportedByEachSessionByName) {
  for (const char* text :
       {"threshold(0.9)",
        "lookahead(3) + any_of(threshold(0.8), tokens_per_step(2)) + trace_credit",
        "adaptive_threshold + temperature(0.7)",
        "threshold(0.9) + sampling + top_p(0.9)",
        "remask_below(0.3) + threshold(0.8)",
        "entropy_bound(0.1) + canvas"}) {
    SCOPED_TRACE(text);
    EXPECT_GT(
        every_failure_of([&] { return testing::make_bound(read_policy(text), model, capacity); }),
        3);
  }
  EXPECT_GT(every_failure_of(
                [&] { return testing::make_bound(read_policy("es_dllm"), model, capacity); }),
            3);
}

TEST(OutOfMemory, IsReportedByTextsAndThreads) {
  EXPECT_GT(every_failure_of([] { return read_policy("es_dllm + stop_at_eos"); }), 3);
  EXPECT_GT(every_failure_of([] { return describe_parts(); }), 3);
  EXPECT_GT(every_failure_of([] {
              return requirements_of(read_policy("threshold + lookahead"),
                                     model,
                                     capacity,
                                     {.length = 20, .block_length = 5});
            }),
            3);
  EXPECT_GT(every_failure_of([] { return std::make_unique<host::thread_pool>(4); }), 3);
  EXPECT_GT(every_failure_of([] {
              std::string error;
              try {
                static_cast<void>(read_policy("treshold(0.9)"));
              } catch (const policy_text_error& e) {
                error = e.what();
              }
              return error;
            }),
            3);
}

/// Decodes on until every sequence has ended; logits are a hash of position and token.
void run(testing::bound_session<named_policy>& s) {
  std::vector<float> logits;
  while (const auto request = s.next()) {
    logits.clear();
    for (const segment& part : request->segments) {
      for (index_t p = part.rows.first; p < part.rows.last; ++p) {
        for (index_t v = 0; v < model.vocab; ++v) {
          logits.push_back(static_cast<float>((p * 31 + v * 17 + part.slot * 5) % 23) * 0.4F);
        }
      }
    }
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
  }
}

// A sequence whose policy needs more memory than its slot has allocates; if that fails, the running
// sequences do not notice, and the same call succeeds later.
TEST(OutOfMemory, LeavesTheOtherSequencesOfTheSessionAlone) {
  constexpr sequence_shape shape{.length = 20, .block_length = 5};
  const named_policy first = read_policy("tokens_per_step(2)");
  const named_policy second = read_policy("stable_and_confident + sampling + top_k(3)");
  const auto decode = [&](bool fails) {
    std::vector<token_id> one(20);
    std::vector<token_id> other(20);
    const auto s = testing::make_bound(first, model, capacity);
    s->start(0, one.data(), 20, shape);
    long failures = 0;
    if (fails) {
      for (bool started = false; !started;) {
        failing_allocation = failures;
        try {
          s->start(1, second, other, shape);
          started = true;
        } catch (const std::bad_alloc&) {
          ++failures;
        }
        failing_allocation = -1;
      }
      EXPECT_GT(failures, 3);
    } else {
      s->start(1, second, other, shape);
    }
    run(*s);
    one.insert(one.end(), other.begin(), other.end());
    return one;
  };
  EXPECT_EQ(decode(counts_allocations), decode(false));
}

/// Options and shape of a sequence of 20 tokens.
unmask_options options_in_c() {
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = model.vocab;
  options.mask_token = model.mask_token;
  options.length = 20;
  options.window = 20;
  return options;
}
unmask_sequence sequence_in_c(std::int32_t block_length) {
  unmask_sequence shape = UNMASK_SEQUENCE_INIT;
  shape.length = 20;
  shape.block_length = block_length;
  return shape;
}

/// Makes a call of the C interface until none of its allocations fails. Returns the failures.
long with_failures(const std::function<unmask_status()>& call) {
  for (long failures = 0;; ++failures) {
    failing_allocation = failures;
    const unmask_status status = call();
    const bool failed = failing_allocation < 0;
    failing_allocation = -1;
    SCOPED_TRACE(failures);
    if (!failed) {
      EXPECT_EQ(status, UNMASK_OK) << unmask_last_error();
      return failures;
    }
    expect_fails(status, UNMASK_OUT_OF_MEMORY, {"out of memory"});
    if (::testing::Test::HasFailure()) {
      return failures;
    }
  }
}

// Calls of the C interface return a status, and the next call may succeed.
TEST(OutOfMemory, IsAStatusInC) {
  if (!counts_allocations) {
    GTEST_SKIP() << "operator new is the sanitizer's";
  }
  unmask_options options = options_in_c();
  options.sequences = 2;
  unmask_sequence shape = sequence_in_c(5);
  shape.policy = "threshold(0.5) + sampling + top_k(3)";
  std::vector<std::int32_t> tokens(20);

  const auto decode = [&] {
    unmask_session* s = nullptr;
    with_failures([&] { return unmask_create("threshold(0.9) + lookahead(2)", &options, &s); });
    with_failures([&] { return unmask_start(s, 0, tokens.data(), 20, &shape); });
    unmask_request request = UNMASK_REQUEST_INIT;
    with_failures([&] { return unmask_next(s, &request); });
    const std::vector<float> z(static_cast<std::size_t>(request.rows * model.vocab), 1.0F);
    const unmask_logits logits = c_logits(z, model.vocab);
    with_failures([&] { return unmask_supply(s, &logits); });
    unmask_destroy(s);
  };
  decode();  // tables that are made once stay
  const long before = live_allocations;
  decode();
  EXPECT_EQ(live_allocations, before);
}

// A call whose message cannot be made has one all the same.
TEST(OutOfMemory, LeavesNoErrorWithoutAMessageInC) {
  if (!counts_allocations) {
    GTEST_SKIP() << "operator new is the sanitizer's";
  }
  const unmask_options options = options_in_c();
  unmask_session* const none = nullptr;
  const std::vector<std::function<unmask_status()>> refused = {
      [&] { return unmask_check_policy("there_is_no_part_of_this_name_and_no_word_near_it"); },
      [&] { return unmask_check_policy_with("threshold(0.9)", 1U << 30U); },
      [&] {
        unmask_session* s = nullptr;
        return unmask_create("threshold(0.9) + threshold(0.8)", &options, &s);
      },
      [&] { return unmask_cancel(none, 0); }};
  for (std::size_t k = 0; k < refused.size(); ++k) {
    std::string last;
    for (long failures = 0;; ++failures) {
      failing_allocation = failures;
      const unmask_status status = refused[k]();
      const bool has_failed = failing_allocation < 0;
      failing_allocation = -1;
      EXPECT_NE(status, UNMASK_OK);
      last = unmask_last_error();
      EXPECT_FALSE(last.empty()) << "call " << k << ", allocation " << failures;
      if (!has_failed || ::testing::Test::HasFailure()) {
        EXPECT_EQ(status, UNMASK_INVALID_ARGUMENT);
        break;
      }
      if (status == UNMASK_OUT_OF_MEMORY) {
        EXPECT_EQ(last.rfind("out of memory", 0), 0U) << last;
      }
    }
    EXPECT_NE(last.rfind("out of memory", 0), 0U) << last;
  }
}

// A recording in C in which every allocation fails once is the one in which none does. Its starts
// allocate, its steps do not.
TEST(OutOfMemory, LeavesARecordingInCWhole) {
  if (!counts_allocations) {
    GTEST_SKIP() << "operator new is the sanitizer's";
  }
  const std::string file = ::testing::TempDir() + "unmask_out_of_memory.jsonl";
  unmask_options options = options_in_c();
  options.sequences = 3;
  options.branches = 2;
  options.trace = 1;
  const auto record = [&](bool fails) {
    const auto call = [&](const std::function<unmask_status()>& made) -> long {
      if (fails) {
        return with_failures(made);
      }
      EXPECT_EQ(made(), UNMASK_OK) << unmask_last_error();
      return 0;
    };
    const session_pointer s = made("threshold(0.9) + lookahead(2)", options);
    long failures = 0;
    EXPECT_EQ(call([&] { return unmask_record(s.get(), file.c_str(), "m"); }) > 3, fails);
    std::vector<std::optional<lent<std::int32_t>>> tokens(3);
    const auto start = [&](std::int32_t slot, std::int32_t prompt_length) {
      std::optional<lent<std::int32_t>>& own = tokens[static_cast<std::size_t>(slot)];
      own.emplace(std::vector<std::int32_t>(20, 7));
      const std::vector<std::uint8_t> editable(20, 1);
      lent<unmask_sequence> q(sequence_in_c(5));
      q.data()->prompt_length = prompt_length;
      lent<std::uint8_t> given(editable);
      q.data()->editable = given.data();
      failures += call([&] { return unmask_start(s.get(), slot, own->data(), 20, q.data()); });
    };
    start(0, 4);
    start(1, 20);  // has nothing to decode
    tokens[1].reset();
    start(2, 10);
    unmask_request request = UNMASK_REQUEST_INIT;
    for (int step = 0; step < 60; ++step) {
      const std::int32_t one[] = {0, 1};
      const bool some = step % 3 == 2;
      EXPECT_EQ(call([&] {
                  return some ? unmask_next_slots(s.get(), one, 2, &request)
                              : unmask_next(s.get(), &request);
                }),
                0);
      if (request.count == 0 && !some) {
        break;
      }
      if (request.count == 0) {
        continue;
      }
      if (step == 4) {
        EXPECT_EQ(call([&] { return unmask_abandon(s.get()); }), 0);
        EXPECT_EQ(call([&] { return unmask_cancel(s.get(), 2); }), 0);
        tokens[2].reset();
        start(1, 12);  // joins
        continue;
      }
      std::vector<float> z(static_cast<std::size_t>(request.rows * model.vocab));
      for (std::size_t i = 0; i < z.size(); ++i) {
        z[i] = static_cast<float>(i * 17 % 23) * 0.4F;
      }
      const unmask_logits logits = c_logits(z, model.vocab);
      EXPECT_EQ(call([&] { return unmask_supply(s.get(), &logits); }), 0);
    }
    EXPECT_EQ(failures > 9, fails);
    for (std::int32_t slot = 0; slot < 3; ++slot) {
      unmask_report report = UNMASK_REPORT_INIT;
      EXPECT_EQ(unmask_get_report(s.get(), slot, &report), UNMASK_OK);
      EXPECT_EQ(report.end, slot == 2 ? UNMASK_CANCELLED : UNMASK_COMPLETE);
    }
    std::ifstream in(file);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const std::string undisturbed = record(false);
  EXPECT_EQ(record(true), undisturbed);
  const trace read = read_trace(undisturbed);
  ASSERT_EQ(read.sequences.size(), 4U);
  for (const traced_sequence& q : read.sequences) {
    EXPECT_NE(q.end, ending::running);
  }
  std::remove(file.c_str());
}

/// A recording in C++ in which allocation `failing` fails; its texts need memory, too.
struct recording {
  std::string text;
  long failures = 0;
  long allocations_left = 0;  ///< until the one that fails
};
recording record_with_failure(long failing) {
  recording all;
  all.text.reserve(1U << 20U);
  const char* const policy = "tokens_per_step(2)";
  const auto s = std::make_unique<named_session>(
      read_policy(policy),
      model,
      session_capacity{.sequences = 2, .length = 24, .window = 24, .trace = true});
  trace_writer trace(
      [&all](std::string_view line) {
        all.text += line;
        return true;
      },
      {.model = "m",
       .info = model,
       .policy = policy,
       .parts = {policy},
       .text = [](token_id token) {
         return std::string(40, static_cast<char>('a' + token % 26));
       }});
  std::vector<float> z(static_cast<std::size_t>(24 * model.vocab) * 2);
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i] = static_cast<float>(i * 17 % 23) * 0.4F;
  }
  std::vector<std::optional<lent<token_id>>> tokens(2);
  std::vector<token_id> text(20, 7);
  const auto counted = [&](const auto& call) {
    try {
      call();
      return true;
    } catch (const std::bad_alloc&) {
      ++all.failures;
      return false;
    }
  };
  int started = 0;
  const auto start = [&](index_t slot) {
    ++started;
    const sequence_shape shape{.prompt_length = 4 * slot, .length = 20, .block_length = 5};
    const long failure = failing_allocation.exchange(-1);  // of the recording alone
    std::optional<lent<token_id>>& own = tokens[static_cast<std::size_t>(slot)];
    own.emplace(text);
    s->start(slot, own->span(), shape);
    failing_allocation = failure;
    while (
        !counted([&] { trace.start({.slot = slot, .shape = shape, .tokens = own->span()}, *s); })) {
    }
  };
  failing_allocation = failing;
  start(0);
  start(1);
  while (const auto request = s->next()) {
    while (!counted([&] { trace.request(*request, *s); })) {
    }
    s->supply(host_logits<float>(z.data(), request->rows, model.vocab));
    counted([&] { trace.step(*s); });
    if (s->report(1).end != ending::running && started == 2) {
      start(1);
    }
  }
  all.allocations_left = failing_allocation.exchange(-1);
  return all;
}

// Every allocation of a recording in C++ fails once: the call that is made again succeeds, and only
// texts are missing where they first occur.
TEST(OutOfMemory, LeavesARecordingWhole) {
  if (!counts_allocations) {
    GTEST_SKIP() << "operator new is the sanitizer's";
  }
  const auto stripped = [](const std::string& text) {
    std::string all;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1) {
      nlohmann::json line = nlohmann::json::parse(text.substr(at, end - at));
      line.erase("text");
      all += line.dump() + '\n';
    }
    return all;
  };
  const recording whole = record_with_failure(1L << 40);
  EXPECT_EQ(whole.failures, 0);
  const std::string expected = stripped(whole.text);
  EXPECT_EQ(read_trace(whole.text).sequences.size(), 3U);
  long failing = 0;
  for (;; ++failing) {
    SCOPED_TRACE(failing);
    const recording r = record_with_failure(failing);
    EXPECT_EQ(r.failures, r.allocations_left < 0 ? 1 : 0);
    EXPECT_EQ(stripped(r.text), expected);
    if (r.allocations_left >= 0 || HasFailure()) {
      break;
    }
  }
  EXPECT_GT(failing, 20);
}

// Without texts a recording allocates where a sequence starts, whatever the steps do.
TEST(Allocation, IsNotInARecordedStep) {
  for (const char* policy :
       {"tokens_per_step(2)",
        "by_entropy + threshold(0.8) + lookahead(4)",
        "threshold(0.5) + remask_current_below(0.4) + edit_committed(0.8) + edited_blocks",
        "hierarchical(0.4, 0.9) + remask_below(0.5)",
        "entropy_bound(0.1) + canvas"}) {
    SCOPED_TRACE(policy);
    session_capacity traced = capacity;
    traced.trace = true;
    const auto s = std::make_unique<named_session>(read_policy(policy), model, traced);
    std::size_t lines = 0;
    trace_writer trace([&lines](std::string_view) { return ++lines > 0; },
                       {.model = "m", .info = model, .policy = policy, .parts = {policy}});
    std::vector<std::vector<token_id>> tokens(3, std::vector<token_id>(24, model.vocab - 1));
    for (index_t slot = 0; slot < 3; ++slot) {
      std::vector<token_id>& own = tokens[static_cast<std::size_t>(slot)];
      const sequence_shape shape{.prompt_length = slot, .length = 24, .block_length = 8};
      s->start(slot, own, shape);
      trace.start({.slot = slot, .shape = shape, .tokens = own}, *s);
    }
    long in_the_trace = 0;
    std::vector<float> z;
    for (std::size_t step = 0; auto request = s->next(); ++step) {
      const allocation_count requested;
      trace.request(*request, *s);
      in_the_trace += requested.value();
      z.resize(static_cast<std::size_t>(request->rows * model.vocab));
      for (std::size_t i = 0; i < z.size(); ++i) {
        z[i] = static_cast<float>((i * 17 + step * 5) % 23) * -0.123456789F;
      }
      s->supply(host_logits<float>(z.data(), request->rows, model.vocab));
      const allocation_count decided;
      trace.step(*s);
      in_the_trace += decided.value();
    }
    EXPECT_EQ(in_the_trace, 0);
    EXPECT_GT(lines, 6U);
  }
}

TEST(Allocation, IsNotInAStepInC) {
  unmask_options options = options_in_c();
  options.trace = 1;
  const session_pointer s = made("tokens_per_step(2) + probability_of([3, 4])", options);
  const unmask_sequence shape = sequence_in_c(20);
  std::vector<std::int32_t> tokens(20);
  const std::vector<float> z(static_cast<std::size_t>(20 * model.vocab), 1.0F);
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 20, &shape), UNMASK_OK);
  const allocation_count count;
  int steps = 0;
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = request.rows;
    logits.columns = model.vocab;
    logits.data = z.data();
    ASSERT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK);
    const unmask_commit* commits = nullptr;
    const unmask_candidate* candidates = nullptr;
    const unmask_probability* answers = nullptr;
    std::int32_t n = 0;
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_committed(s.get(), 0, sizeof(unmask_commit), &commits, &n), UNMASK_OK);
    ASSERT_EQ(unmask_candidates(s.get(), 0, sizeof(unmask_candidate), &candidates, &n), UNMASK_OK);
    ASSERT_EQ(unmask_probabilities(s.get(), 0, sizeof(unmask_probability), &answers, &n),
              UNMASK_OK);
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    ++steps;
  }
  EXPECT_EQ(count.value(), 0);
  EXPECT_EQ(steps, 10);
}

}  // namespace
}  // namespace unmask::testing::out_of_memory_test
