// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named/policy_text.hpp>
#include <unmask/named/read_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/session.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace unmask::read_policy_test {
namespace {

using ::testing::HasSubstr;

std::string problem_of(std::string_view text, const file_source& files = contents_of_file) {
  try {
    static_cast<void>(read_policy(text, files));
  } catch (const policy_text_error& e) {
    return e.what();
  }
  return "none";
}

TEST(policy_text, is_parts_with_arguments_by_place_and_by_name) {
  const auto parts = parse_policy_text(" a+b( 1 , x = -2e-1,[3,4] )+ c(d(e), f=g)");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "a");
  EXPECT_EQ(parts[0].column, 2U);
  EXPECT_EQ(parts[1].name, "b");
  ASSERT_EQ(parts[1].arguments.size(), 3U);
  EXPECT_EQ(parts[1].arguments[0].value.number, 1.0);
  EXPECT_EQ(parts[1].arguments[1].name, "x");
  EXPECT_EQ(parts[1].arguments[1].value.number, -0.2);
  EXPECT_EQ(parts[1].arguments[2].value.list, (std::vector<double>{3, 4}));
  EXPECT_EQ(parts[2].arguments[0].value.part->arguments[0].value.part->name, "e");
  EXPECT_EQ(parts[2].arguments[1].value.part->name, "g");
}

TEST(policy_text, quotes_with_either_mark) {
  const auto parts = parse_policy_text("a(\"b c')\", x = '\"+')+d");
  ASSERT_EQ(parts.size(), 2U);
  ASSERT_EQ(parts[0].arguments.size(), 2U);
  EXPECT_EQ(parts[0].arguments[0].value.is, value_text::kind::quoted);
  EXPECT_EQ(parts[0].arguments[0].value.text, "\"b c')\"");
  EXPECT_EQ(parts[0].arguments[1].name, "x");
  EXPECT_EQ(parts[0].arguments[1].value.text, "'\"+'");
}

TEST(policy_text, errors_say_where) {
  const auto column = [](std::string_view text) -> std::size_t {
    try {
      static_cast<void>(parse_policy_text(text));
    } catch (const policy_text_error& e) {
      return e.column();
    }
    return 0;
  };
  EXPECT_EQ(column(""), 1U);
  EXPECT_EQ(column("a+"), 3U);
  EXPECT_EQ(column("a b"), 3U);
  EXPECT_EQ(column("a(1"), 4U);
  EXPECT_EQ(column("a(1,)"), 5U);
  EXPECT_EQ(column("a([1;2])"), 5U);
  EXPECT_EQ(column("a(x=)"), 5U);
  EXPECT_EQ(column("1"), 1U);
  EXPECT_EQ(column("a()"), 0U);
  EXPECT_EQ(column("a(\"b)"), 3U);
  EXPECT_EQ(column("a('b\")"), 3U);
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) {
    deep += "(a";
  }
  EXPECT_GT(column(deep), 0U);
}

TEST(policy_text, may_come_from_a_file) {
  const auto parts = parse_policy_text("\r\n margin +\n\tthreshold(\n0.5 )\n\n");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].arguments[0].value.number, 0.5);
}

TEST(policy_text, a_number_that_no_double_holds_is_out_of_range) {
  for (const char* number : {"1e999", "-1e999", "1e-999"}) {
    const std::string said = problem_of("threshold(" + std::string(number) + ")");
    EXPECT_THAT(said,
                HasSubstr("column 11: the number '" + std::string(number) + "' is out of range"));
  }
}

// what() ends at a NUL, and a line end makes two messages of one.
TEST(policy_text, is_quoted_on_one_line) {
  using namespace std::string_view_literals;
  EXPECT_THAT(problem_of("tokens_per_step\0(3)"sv),
              HasSubstr("column 16: expected '+' or the end, got '\\x00'"));
  EXPECT_THAT(problem_of("tokens_per_step\n(3) \x1b"sv),
              HasSubstr("policy 'tokens_per_step\\n(3) \\x1b', column 21"));
  EXPECT_THAT(problem_of("threshold([1,\n2])"), HasSubstr("got '[1,\\n2]'"));
  EXPECT_THAT(problem_of("calibrated_threshold('no\nfile')"), HasSubstr("'no\\nfile': the file"));
  EXPECT_THAT(problem_of("calibrated_threshold('" + std::string(1000, 'a') + "')"),
              HasSubstr(std::string(200, 'a') + "...': the file"));
}

// Python makes strings of messages, which must be UTF-8.
TEST(policy_text, is_quoted_in_utf_8) {
  EXPECT_THAT(problem_of("tokens_per_step \u00e9"), HasSubstr("got '\u00e9'"));
  EXPECT_THAT(problem_of("threshold(\"\xff\xc3\xa9\xed\xa0\x80\")"),
              HasSubstr("'\"\\xff\u00e9\\xed\\xa0\\x80\"'"));
  EXPECT_THAT(problem_of("calibrated_threshold('" + std::string(199, 'a') + "\u00e9b')"),
              HasSubstr(std::string(199, 'a') + "\u00e9...': the file"));  // cut behind it
}

TEST(policy_text, opens_no_file_whose_name_has_a_nul) {
  bool is_opened = false;
  const auto open = [&](const std::string&) {
    is_opened = true;
    return std::string();
  };
  using namespace std::string_view_literals;
  const std::string_view text = "calibrated_threshold('a.json\0b')"sv;
  EXPECT_THAT([&] { static_cast<void>(read_policy(text, open)); },
              ::testing::ThrowsMessage<policy_text_error>(HasSubstr("quoted name of a file, got")));
  EXPECT_FALSE(is_opened);
}

TEST(policy_text, a_long_one_is_refused_at_once_and_in_few_words) {
  const std::string name(1 << 20, 'a');
  for (const std::string& text : {name,
                                  "threshold(" + name + "=1)",
                                  "threshold(" + name + ")",
                                  "any_of(" + name + ")",
                                  "any_of([1" + std::string(1 << 20, ' ') + "])"}) {
    const auto before = std::chrono::steady_clock::now();
    const std::string said = problem_of(text);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
    EXPECT_NE(said, "none");
    EXPECT_LT(said.size(), 2000U);
  }
}

TEST(read_policy, sets_the_parts_named) {
  const named_policy p =
      read_policy("by_margin + trace_credit(0.5, decay=0.25) + any_of(threshold(0.8), "
                  "all_of(tokens_per_step(3), threshold(inclusive=true))) + "
                  "temperature(0.5) + block_pipeline(at_once=2) + stop_at_eos + max_steps(7)");
  EXPECT_TRUE(p.ranking.holds<by_margin>());
  EXPECT_EQ(p.commit_rule.size(), 3);
  EXPECT_EQ(p.temperature.value, 0.5F);
  EXPECT_EQ(p.stops.count, 2);
  EXPECT_TRUE(p.logits_processors.count > 0 && step::transforms_now(p));
  p.logits_processors.each([](const auto& rule, index_t) {
    if constexpr (requires { rule.strength; }) {
      EXPECT_EQ(rule.strength, 0.5F);
      EXPECT_EQ(rule.decay, 0.25F);
      EXPECT_EQ(rule.exponent, trace_credit<>{}.exponent);
    } else {
      ADD_FAILURE() << "another rule";
    }
  });
}

TEST(read_policy, names_what_is_wrong) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"threshold(1.5)", {"column 11: value of threshold must be in [0, 1], got 1.5"}},
      {"tokens_per_step(count=2.5)",
       {"count of tokens_per_step", "whole number", "at least 0", "2.5"}},
      {"tokens_per_step(-1)", {"count of tokens_per_step", "at least 0", "-1"}},
      {"temperature(0)+tokens_per_step", {"value of temperature", "at least 1e-06", "got 0"}},
      {"temperature(1e-45)+tokens_per_step",
       {"value of temperature", "at least 1e-06", "got 1e-45"}},
      {"treshold(0.9)", {"column 1", "'treshold'", "did you mean threshold?"}},
      {"timesteps(64)+alg_temp(0.5)", {"column 15", "did you mean alg_temperature?"}},
      {"tresh(0.9)", {"did you mean threshold?"}},
      {"repetition(1.1)+threshold", {"did you mean repetition_penalty?"}},
      {"random+threshold", {"did you mean at_random?"}},
      {"entropy+timesteps",
       {"did you mean by_entropy or by_entropy_and_distance or entropy_bound or entropy_below or "
        "entropy_cache?"}},
      {"Threshold(0.9)", {"no part 'Threshold'", "did you mean threshold?"}},
      {"TokensPerStep(2)", {"did you mean tokens_per_step?"}},
      {"eos+threshold",
       {"did you mean eos_penalty or eos_gate or eos_last or rho_eos or stop_at_eos?"}},
      {"k(5)+threshold", {"did you mean top_k?"}},
      {"threshold=0.9",
       {"column 10: expected '+' or the end, got '=': arguments are in parentheses, as in "
        "threshold(0.9)"}},
      {"by_margin + threshold = 0.9 + stop_at_eos", {"column 23", "as in threshold(0.9)"}},
      {"threshold{0.9}", {"got '{': arguments are in parentheses, as in threshold(0.9)"}},
      {"threshold: 0.9", {"got ':': arguments are in parentheses, as in threshold(0.9)"}},
      {"tokens_per_step 2", {"got '2': arguments are in parentheses, as in tokens_per_step(2)"}},
      {"any_of(threshold{0.9}, tokens_per_step)", {"as in threshold(0.9)"}},
      {"any_of(threshold=0.9)", {"such as threshold(0.9), got 'threshold=0.9'"}},
      {"threshold(0.9), stop_at_eos", {"got ',': parts are joined by '+'"}},
      {"threshold(0.9) stop_at_eos", {"got 's': parts are joined by '+'"}},
      {"threshold(0.9) && tokens_per_step", {"got '&': write all_of(a, b) for two commit rules"}},
      {"threshold(0.9) || tokens_per_step", {"got '|': write any_of(a, b) for two commit rules"}},
      {"by-margin", {"got '-': names are written with '_'"}},
      {"zzz", {"no part 'zzz'", "threshold", "any_of"}},
      {"threshold(level=1)", {"threshold has no argument 'level': it has value, inclusive"}},
      {"tokens_per_step(2, 1)", {"tokens_per_step has 1 argument: count"}},
      {"by_margin(2)+tokens_per_step", {"by_margin has no arguments"}},
      {"threshold(0.9, value=0.8)", {"given twice"}},
      {"threshold(0,9)",
       {"column 13: inclusive of threshold must be true or false, got 9: numbers have a decimal "
        "point, such as 0.9"}},
      {"tokens_per_step(99999999999)",
       {"count of tokens_per_step must be a whole number, at least 0 and at most 2147483647, got "
        "99999999999"}},
      {"trace_credit(decay=0.5, 0.2)+tokens_per_step", {"without a name must come before"}},
      {"by_margin", {"needs a commit rule"}},
      {"threshold+tokens_per_step",
       {"one commit rule, got threshold and tokens_per_step: join", "any_of"}},
      {"by_margin+by_entropy+tokens_per_step", {"one ranking", "by_margin and by_entropy"}},
      {"any_of(by_margin)", {"are of commit rules, got by_margin (ranking)"}},
      {"any_of()", {"any_of needs at least one"}},
      {"at_most(8)",
       {"column 1: at_most needs a number and a commit rule, such as at_most(8, threshold(0.9))"}},
      {"at_most(threshold, 8)", {"at_most needs a number and a commit rule"}},
      {"at_most(8, threshold, factor)", {"at_most needs a number and a commit rule"}},
      {"at_most(8, by_margin)", {"commit rules, got by_margin (ranking)"}},
      {"at_most(-1, threshold)",
       {"column 9: count of at_most must be a whole number, at least 0, got -1"}},
      {"at_most(1e10, threshold)", {"column 9: count of at_most must be a whole number"}},
      {"at_most(2.5, threshold)", {"count of at_most must be a whole number", "got 2.5"}},
      {"at_most(threshold, tokens_per_step)", {"count of at_most", "got threshold"}},
      {"atmost(8, threshold)", {"did you mean at_most?"}},
      {"at_most(2, threshold) + tokens_per_step",
       {"one commit rule, got at_most and tokens_per_step: join"}},
      {"any_of(at_most(1, threshold), at_most(1, threshold), at_most(1, threshold), "
       "at_most(1, threshold), at_most(1, threshold))",
       {"at most 4 at_most, got another"}},
      {"any_of(0.9)", {"got '0.9'"}},
      {"alg_temperature(at_random)+tokens_per_step",
       {"order of alg_temperature", "by_confidence, by_margin", "got at_random"}},
      {"eos_gate(2)+tokens_per_step", {"until_first of eos_gate", "true or false", "got 2"}},
      {"logit_bias([1, 2], [3])+tokens_per_step", {"2 and 1"}},
      {"logit_bias([1])+tokens_per_step", {"biases of logit_bias must be given"}},
      {"allowed_tokens([-1])+tokens_per_step", {"a list of tokens", "[-1]"}},
      {"allowed_tokens([])+tokens_per_step", {"1 to 16 tokens, got 0"}},
      {"adaptive_threshold+trace_credit", {"compares rows"}},
      {"adaptive_threshold+lookahead", {"column 20", "compares rows", "lookahead"}},
      {"top_k+tokens_per_step", {"no effect", "sampling"}},
      {"confidence_after_truncation+tokens_per_step", {"has no effect without"}},
      {"top_k+sampling+trace_credit+tokens_per_step", {"trace_credit"}},
      {"remask_below+lookahead+tokens_per_step",
       {"column 14", "candidates again cannot have lookahead"}},
      {"remask_below+remask_current_below+tokens_per_step",
       {"column 14", "remask_below or remask_current_below"}},
      {"all_of(at_frontier, tokens_per_step)+lookahead", {"at_frontier"}},
      {"canvas+sampling+tokens_per_step", {"canvas"}},
      {"by_margin+factor(1)", {"order of their confidence"}},
      {"any_of(tokens_per_step,hierarchical)+left_to_right",
       {"column 38", "order of their confidence"}},
      {"alg_temperature(by_confidence)+factor", {"order of their confidence"}},
      {"trace_credit+min_new_tokens+tokens_per_step",
       {"column 14", "before parts that store tokens"}},
      {"trace_credit+trace_credit+tokens_per_step",
       {"one part with credit, got another: trace_credit"}},
      {"canvas(hottest=0.1)+tokens_per_step", {"hottest", "coldest = 0.4"}},
      {"key_eviction(pool=2)+tokens_per_step", {"pool", "odd"}},
      {"any_of(adaptive_threshold, adaptive_threshold)", {"one adaptive_threshold"}},
      {"calibrated_threshold(cap=0)", {"cap of calibrated_threshold", "(0, 1]", "got 0"}},
      {"calibrated_threshold(mode=step)", {"mode of", "one of block, step_block", "got step"}},
      {"calibrated_threshold(0.9)", {"file of calibrated_threshold", "quoted name", "got 0.9"}},
      {"calibrated_threshold('')", {"file of calibrated_threshold", "quoted name", "got ''"}},
      {"calibrated_threshold('no/such.json')",
       {"column 22", "file of calibrated_threshold, 'no/such.json'", "cannot be read"}},
      {"threshold('0.9')", {"a number in [0, 1]", "got '0.9'"}},
      {"early_skip+tokens_per_step+cache_budget",
       {"column 28", "one layer rule", "early_skip and cache_budget"}},
      {"early_skip(depths=[0.5])+tokens_per_step", {"as many keeps", "1 and 0"}},
      {"early_skip(0.5, [0.1, 0.2], [0.3, 0.4])+tokens_per_step", {"stages.keep", "0.4"}},
      {"early_skip(reads=logits)+tokens_per_step",
       {"reads of early_skip", "hidden, input", "got logits"}},
      {"tokens_per_step+drafts(17)", {"branches of drafts", "[0, 16]", "17"}},
      {"drafts+tokens_per_step+lookahead", {"column 24", "drafts and lookahead"}},
      {"drafts+tokens_per_step+sampling", {"draws tokens"}},
      {"drafts+tokens_per_step+canvas", {"canvas"}},
      {"drafts+tokens_per_step+trace_credit", {"stores tokens between steps"}},
      {"drafts+tokens_per_step+edit_committed", {"rewrite committed tokens"}},
      {"drafts+tokens_per_step+remask_below", {"cannot have lookahead, drafts or a beam"}},
      {"drafts+tokens_per_step+delayed_cache", {"drafts or a beam cannot skip"}},
      {"early_skip+tokens_per_step+lookahead",
       {"column 28", "with lookahead, drafts or a beam cannot skip"}},
      {"delayed_cache+tokens_per_step+lookahead", {"with lookahead, drafts or a beam cannot skip"}},
      {"canvas+tokens_per_step+similarity_refresh", {"a canvas", "must not skip any"}},
      {"es_dlm", {"did you mean es_dllm?"}},
      {"tokens_per_step+es_dllm",
       {"column 17", "one commit rule, got tokens_per_step and tokens_per_step of es_dllm"}},
      {"es_dllm+threshold", {"column 9", "got tokens_per_step of es_dllm and threshold"}},
      {"es_dllm+lopa_d2f", {"got tokens_per_step of es_dllm and threshold of lopa_d2f"}},
      {"es_dllm_parallel(1.5)", {"column 18", "threshold must be in [0, 1]", "1.5"}},
      {"es_dllm+eos_gate", {"column 9", "one eos_gate"}},
      {"es_dllm+lookahead", {"with lookahead, drafts or a beam cannot skip"}},
      {"any_of(credit_decoding, tokens_per_step)", {"got credit_decoding (method)"}},
      {"osdt_gsm8k(threshold=2)", {"threshold of calibrated_threshold", "in [0, 1]", "got 2"}},
      {"any_of(tokens_per_step,tokens_per_step,tokens_per_step,tokens_per_step,tokens_per_step,"
       "tokens_per_step,tokens_per_step,tokens_per_step,tokens_per_step)",
       {"at most 8 parts, got another: tokens_per_step"}},
  };
  for (const auto& [text, words] : cases) {
    for (const char* word : words) {
      EXPECT_THAT(problem_of(text), HasSubstr(word)) << text;
    }
  }
}

TEST(read_policy, reads_the_file_that_a_text_names_and_no_other) {
  calibrated_threshold<> profile{.cap = 0.5F, .slack = 0.125F, .block_length = 16, .blocks = 2};
  profile.ends[0] = 1;
  profile.ends[1] = 2;
  profile.cells[0] = 0.25F;
  profile.cells[1] = 0.75F;
  std::vector<std::string> asked;
  const file_source files = [&](const std::string& name) {
    asked.push_back(name);
    return name == "p.json" ? to_json(profile) : std::string("{}");
  };
  static_cast<void>(read_policy("threshold + dual_cache", files));
  EXPECT_TRUE(asked.empty());
  const named_policy p =
      read_policy("any_of(tokens_per_step(1), calibrated_threshold(file='p.json'))", files);
  EXPECT_EQ(asked, (std::vector<std::string>{"p.json"}));
  EXPECT_EQ(p.commit_rule.profile(), profile);
  EXPECT_THROW(p.commit_rule.check({.block_length = 8}, {}), std::invalid_argument);
  EXPECT_NO_THROW(p.commit_rule.check({.block_length = 16}, {}));
  EXPECT_THROW(static_cast<void>(read_policy("calibrated_threshold('q.json')", files)),
               policy_text_error);
  EXPECT_THROW(
      static_cast<void>(read_policy(
          "any_of(calibrated_threshold('p.json'), calibrated_threshold('p.json'))", files)),
      policy_text_error);

  const std::string path = ::testing::TempDir() + "unmask_named_profile.json";
  save_profile(profile, path);
  EXPECT_EQ(read_policy("calibrated_threshold(\"" + path + "\")").commit_rule.profile(), profile);
  std::remove(path.c_str());
}

TEST(read_policy, opens_no_file_for_a_text_from_others) {
  const auto refused = [](const char* text, const char* column) {
    try {
      static_cast<void>(read_policy(text, no_files));
    } catch (const policy_text_error& e) {
      EXPECT_THAT(e.what(), HasSubstr(column));
      EXPECT_THAT(e.what(), HasSubstr("names a file, which it may not"));
      return;
    }
    ADD_FAILURE() << text;
  };
  refused("calibrated_threshold('p.json')", "column 22");
  refused("any_of(threshold, calibrated_threshold('p.json'))", "column 40");
  refused("osdt_gsm8k('/dev/zero')", "column 12");
  EXPECT_NO_THROW(static_cast<void>(read_policy("threshold(0.9) + stop_at_eos", no_files)));
}

// A pipe without a writer blocks whoever opens it, a device may never end.
TEST(read_policy, opens_regular_files_only_and_of_a_limited_size) {
  const std::string folder = ::testing::TempDir();
  const auto refused = [](const std::string& file, const char* why) {
    EXPECT_THAT(problem_of("calibrated_threshold('" + file + "')"),
                HasSubstr("the file " + std::string(why)));
  };
  const std::string pipe = folder + "unmask_pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused(pipe, "must be a regular file");
  std::filesystem::remove(pipe);
  refused("/dev/zero", "must be a regular file");
  refused(folder, "must be a regular file");
  refused(folder + "unmask_no_such_file", "cannot be read");
  const std::string large = folder + "unmask_large";
  std::ofstream(large) << '{';
  std::filesystem::resize_file(large, (16U << 20U) + 1);
  refused(large, "must have at most 16 MB");
  std::filesystem::remove(large);
}

TEST(read_policy, does_not_quote_a_file_that_is_no_profile) {
  const std::string policy = "calibrated_threshold('p.json')";
  for (const char* text : {"hunter2",
                           "{hunter2",
                           R"({"hunter2": 1})",
                           R"({"mode": "hunter2"})",
                           R"({"mode": "hunter2)",
                           R"({"cap": hunter2})",
                           R"({"blocks": hunter2})",
                           R"({"unmask_profile": hunter2})"}) {
    const file_source files = [&](const std::string&) { return std::string(text); };
    try {
      static_cast<void>(read_policy(policy, files));
      ADD_FAILURE() << text;
    } catch (const policy_text_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("profile, line 1"));
      EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("hunter2")));
    }
  }
}

TEST(read_policy, takes_methods_for_the_text_that_they_stand_for) {
  for (const known_method& m : known_methods()) {
    EXPECT_THAT(describe_parts(),
                HasSubstr(std::string(m.name) + "\n    method: " + std::string(m.about) +
                          "\n    = " + std::string(m.text) + "\n"));
    EXPECT_EQ(problem_of(m.name), "none");
  }
  // Arguments by place are those of the first part, by name those of the part that has them.
  EXPECT_EQ(read_policy("lopa_d2f(0.8, branches=7, add=0.2)").lookahead.branches, 7);
  EXPECT_EQ(read_policy("lopa_d2f(branches=7)").lookahead.branches, 7);
  EXPECT_EQ(read_policy("lopa_d2f(0.8)").lookahead.branches, 14);
  EXPECT_THAT(problem_of("lopa_d2f(depth=7)"),
              AllOf(HasSubstr("column 1: lopa_d2f has no argument 'depth', nor has a part of it"),
                    HasSubstr("lookahead(14)")));
  EXPECT_THAT(problem_of("lopa_d2f(0.8, value=0.9)"),
              HasSubstr("value of threshold is given twice"));
  EXPECT_THAT(problem_of("lopa_d2f(0.8, branches=99)"), HasSubstr("branches of lookahead"));
  const named_policy p =
      read_policy("stop_at_eos + es_dllm_parallel(0.75) + by_margin + min_new_tokens(3)");
  EXPECT_EQ(p.stops.count, 1);
  EXPECT_TRUE(p.ranking.holds<by_margin>());
  EXPECT_TRUE(p.layered_now() && p.logits_processors.count > 0 && p.filter.holds<eos_gate>());
}

TEST(read_policy, takes_profiles_of_a_task_that_were_calibrated_as_the_paper_says) {
  calibrated_threshold<> profile = methods::osdt_gpqa_settings<256>;
  profile.block_length = 32;
  profile.blocks = 1;
  profile.ends[0] = 2;
  profile.cells[0] = 0.5F;
  profile.cells[1] = 0.25F;
  const file_source files = [&](const std::string&) { return to_json(profile); };
  EXPECT_EQ(read_policy("osdt_gpqa('p.json') + stop_at_eos", files).commit_rule.profile(), profile);
  try {
    static_cast<void>(read_policy("by_margin + osdt_humaneval('p.json')", files));
    ADD_FAILURE();
  } catch (const policy_text_error& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("column 13: cap of calibrated_threshold must be that of its profile, "
                          "0.75, got 0.8"));
  }
  EXPECT_THAT(problem_of("calibrated_threshold('p.json', mode=block)", files),
              HasSubstr("mode of calibrated_threshold must be that of its profile, step_block"));
  EXPECT_EQ(problem_of("calibrated_threshold('p.json', mode=step_block, slack=0.2)", files),
            "none");
}

TEST(read_policy, makes_the_rule_that_decodes_the_sequence_to_record) {
  const auto rule = [](std::string_view text) { return read_policy(text).commit_rule.profile(); };
  EXPECT_EQ(rule("osdt_gsm8k"), methods::osdt_gsm8k_settings<>);
  EXPECT_EQ(rule("osdt_gpqa"), methods::osdt_gpqa_settings<>);
  EXPECT_EQ(rule("osdt_humaneval"), methods::osdt_humaneval_settings<>);
  const calibrated_threshold<> by_name{.threshold = 0.5F,
                                       .cap = 1.0F,
                                       .slack = 0.0F,
                                       .mode = profile_mode::step_block,
                                       .statistic = metric::min_whisker,
                                       .recorded = collect::candidates};
  EXPECT_EQ(rule("osdt_gpqa(threshold=0.5, cap=1, slack=0, statistic=min_whisker, "
                 "recorded=candidates)"),
            by_name);
}

TEST(read_policy, names_a_part_that_looks_beyond_one_step) {
  EXPECT_EQ(
      read_policy(
          "by_margin + any_of(threshold, tokens_per_step(2)) + eos_penalty + top_k + sampling + "
          "block_pipeline + dual_cache + stop_at_eos")
          .beyond_a_step,
      "");
  for (const char* text : {"steps_per_block",
                           "timesteps",
                           "independent_timesteps",
                           "early_commit",
                           "steady_leader",
                           "adaptive_threshold",
                           "stable_and_confident"}) {
    EXPECT_EQ(read_policy(text).beyond_a_step, text);
  }
  for (const char* text : {"trace_credit",
                           "adaptive_credit",
                           "edit_committed",
                           "remask_current_below",
                           "remask_below",
                           "lookahead",
                           "slow_fast",
                           "edited_blocks",
                           "canvas",
                           "delayed_cache",
                           "entropy_cache",
                           "early_skip",
                           "cache_budget",
                           "similarity_refresh"}) {
    EXPECT_EQ(read_policy("tokens_per_step + " + std::string(text)).beyond_a_step, text);
  }
}

// A text with one argument given, the others at their defaults.
std::string
with_argument(const known_part& part, const part_argument& a, const std::string& value) {
  std::string text(part.name);
  text += "(";
  for (const part_argument& other : part.arguments) {
    if (other.is_list() && other.must_be_given()) {
      text += std::string(other.name) + "=[1], ";
    }
  }
  text += std::string(a.name) + "=" + value + ")";
  const bool commits = part.decides();
  text += commits ? "" : "+tokens_per_step";
  text += part.stage == part_stage::truncation ? "+sampling" : "";
  return text;
}

TEST(known_parts, have_ranges_that_are_those_of_the_parts) {
  int ends = 0;
  for (const known_part& part : known_parts()) {
    for (const part_argument& a : part.arguments) {
      if (a.kind != knob_kind::real && a.kind != knob_kind::exact && a.kind != knob_kind::whole) {
        continue;
      }
      const auto expect = [&](double value, bool is_fine) {
        const std::string text = with_argument(part, a, shortest_text(value));
        EXPECT_EQ(problem_of(text) == "none", is_fine) << text << ": " << problem_of(text);
        ++ends;
      };
      const auto& [least, most, without_least, without_most, unit] = a.range;
      EXPECT_TRUE(a.range.holds(a.value)) << part.name << " " << a.name;
      const double step = a.kind == knob_kind::whole ? 1.0 : 1e-3;
      if (std::isfinite(least)) {
        expect(least, !without_least && !(part.name == "canvas" && a.name == "hottest"));
        expect(least - step, false);
      }
      if (std::isfinite(most)) {
        expect(most, !without_most);
        expect(most + step * std::max(1.0, most), false);
      }
    }
  }
  EXPECT_GT(ends, 100);
}

std::vector<std::string> lines_of_page(const std::string& name) {
  std::ifstream file(UNMASK_TEST_DATA "/../../" + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  EXPECT_FALSE(lines.empty()) << name;
  return lines;
}

// All that stands in `line` between two texts.
void add_between(std::vector<std::string>& found,
                 const std::string& line,
                 const std::string& before,
                 const std::string& after) {
  for (std::size_t at = line.find(before); at != std::string::npos;) {
    const std::size_t first = at + before.size();
    const std::size_t last = line.find(after, first);
    found.push_back(line.substr(first, last - first));
    at = line.find(before, std::min(last, line.size()));
  }
}

// The policies that the pages say: those behind --policy, quoted in code, in the text blocks of
// named/README.md, and in the second column of the guides of policy/.
std::vector<std::string> policies_of_the_pages() {
  std::vector<std::string> found;
  for (const char* page : {"README.md",
                           "examples/README.md",
                           "examples/hosts/llama_cpp/README.md",
                           "include/unmask/policy/README.md",
                           "include/unmask/policy/CHOOSE.md",
                           "include/unmask/named/README.md"}) {
    bool in_text = false, in_guide = false;
    for (const std::string& line : lines_of_page(page)) {
      add_between(found, line, "--policy \"", "\"");
      add_between(found, line, "`\"", "\"`");
      in_text = line.rfind("```", 0) == 0
                    ? line == "```text" && page == std::string("include/unmask/named/README.md")
                    : in_text;
      if (in_text && line.rfind("```", 0) != 0) {
        found.push_back(line);
      }
      in_guide = line.rfind("| you have or want |", 0) == 0 || line.rfind("| you want |", 0) == 0 ||
                 line.rfind("| in the picture |", 0) == 0 || (in_guide && line.rfind("|", 0) == 0);
      const std::size_t column = line.find(" | ");
      if (in_guide && column != std::string::npos && line.compare(column, 4, " | `") == 0 &&
          line.compare(column, 12, " | `unmask::") != 0) {
        found.push_back(line.substr(column + 4, line.find('`', column + 4) - column - 4));
      }
    }
  }
  return found;
}

TEST(read_policy, reads_what_the_pages_say) {
  calibrated_threshold<> profile = methods::osdt_gsm8k_settings<256>;
  profile.block_length = 32;
  profile.blocks = 1;
  profile.ends[0] = 1;
  const file_source files = [&](const std::string&) { return to_json(profile); };
  const std::vector<std::string> texts = policies_of_the_pages();
  EXPECT_GT(texts.size(), 25U);
  for (const std::string& text : texts) {
    if (text.rfind("policy '", 0) == 0) {  // a message, of the text that it quotes
      EXPECT_EQ(problem_of(text.substr(8, text.find('\'', 8) - 8)), text);
    } else if (text != "TEXT" && text.find("...") == std::string::npos &&
               text.find("next_to_known") == std::string::npos) {  // which a program registers
      EXPECT_NO_THROW(static_cast<void>(read_policy(text, files))) << text;
    }
  }
}

// The names in the first column of the table of include/unmask/policy/README.md: `name{...}`,
// `name<...>{...}`.
std::set<std::string> parts_of_the_table() {
  std::set<std::string> names;
  bool in_table = false;
  for (const std::string& line : lines_of_page("include/unmask/policy/README.md")) {
    in_table = line.rfind("| part | stage", 0) == 0 || (in_table && line.rfind("|", 0) == 0);
    const std::string column = in_table ? line.substr(0, line.find(" | ")) : "";
    for (std::size_t open = column.find('`'); open != std::string::npos;) {
      const std::size_t close = column.find('`', open + 1);
      const std::string part = column.substr(open + 1, close - open - 1);
      const std::size_t end = part.find_first_of("{<, ");
      names.insert(part.substr(0, end));
      open = column.find('`', close + 1);
    }
  }
  return names;
}

TEST(known_parts, are_all_parts_but_those_that_a_text_cannot_say) {
  const std::set<std::string> without_a_name = {"a",  // stands for any commit rule
                                                "threshold_calibrator",
                                                "row_modifiers::allowed"};
  std::set<std::string> named = {"at_most"};  // made of a rule, as any_of and all_of
  for (const known_part& part : known_parts()) {
    named.emplace(part.name);
  }
  const std::set<std::string> all = parts_of_the_table();
  EXPECT_GT(all.size(), 50U);
  for (const std::string& part : all) {
    EXPECT_EQ(named.count(part) + without_a_name.count(part), 1U) << part;
  }
}

// The table's parts are drawn by order_map.cpp, and the page says of each picture what it shows.
TEST(known_parts, have_a_picture_and_a_sentence) {
  std::string drawn;
  for (const std::string& line : lines_of_page("examples/order_map.cpp")) {
    drawn += line + "\n";
  }
  std::string said;
  bool in_section = false;
  for (const std::string& line : lines_of_page("include/unmask/policy/README.md")) {
    in_section = line.rfind("## ", 0) == 0 ? line == "## Pictures" : in_section;
    said += in_section ? line + "\n" : "";
  }
  const auto by_its_method = [](std::string_view name) { return name == "calibrated_threshold"; };
  const auto needs_attention = [](const known_part& p) {  // that the model of the pictures lacks
    return p.traits.verifies || p.traits.shadows;
  };
  for (const known_part& part : known_parts()) {
    const std::string name(part.name);
    EXPECT_TRUE(by_its_method(name) || needs_attention(part) ||
                std::regex_search(drawn, std::regex("\\b" + name + "\\b")))
        << name << " is in no picture of examples/order_map.cpp";
    EXPECT_THAT(said, HasSubstr("`" + name + "`"));
  }
}

TEST(known_parts, are_told_apart_and_described) {
  std::set<std::string_view> names;
  for (const known_part& part : known_parts()) {
    EXPECT_TRUE(names.insert(part.name).second) << part.name;
    EXPECT_FALSE(part.about.empty());
    EXPECT_THAT(describe_parts(), HasSubstr(signature_of(part)));
  }
  EXPECT_EQ(signature_of(known_parts()[9]), "threshold(value=0.9, inclusive=false)");
}

}  // namespace
}  // namespace unmask::read_policy_test
