// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/language.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unmask::testing::structural_tag_test {
namespace {

using language::compile_structural_tag;
using language::compiled;

struct example {
  std::string tag;
  std::vector<std::string_view> in;
  std::vector<std::string_view> out;
};

void check(const example& e) {
  const compiled got = compile_structural_tag(e.tag);
  ASSERT_TRUE(got) << e.tag << ": " << got.refused->message;
  for (const std::string_view text : e.in) {
    EXPECT_TRUE(got.bytes.accepts(text)) << e.tag << " and " << text;
  }
  for (const std::string_view text : e.out) {
    EXPECT_FALSE(got.bytes.accepts(text)) << e.tag << " and " << text;
  }
}

TEST(structural_tag, has_the_older_form) {
  check({R"({"type": "structural_tag", "triggers": ["<f="], "structures": [
             {"begin": "<f=one>", "schema": {"type": "integer"}, "end": "</f>"},
             {"begin": "<f=two>", "schema": {"enum": ["x"]}, "end": "</f>"}]})",
         {"",
          "text < f= <f",
          "<f=one>12</f>",
          "a<f=one>1</f>\n<f=two>\"x\"</f>b",
          "<<f=one>1</f>",
          "\xC3\xA4"},
         {"<f=", "<f=one>x</f>", "<f=three>1</f>", "a<f=one>1", "\xC3"}});
  check({R"({"triggers": ["<"], "at_least_one": true, "structures": [
             {"begin": "<", "schema": null, "end": ">"}]})",
         {"<1>", "<[\"a\"]>x<{}>"},
         {"", "x", "x<1>", "<x>"}});
}

// The members that xgrammar writes where a user has none: null, and what it takes for the default.
TEST(structural_tag, has_the_members_of_schemas) {
  check({R"({"type": "structural_tag", "format": {"type": "json_schema", "style": "json",
             "json_schema": {"type": "string"}, "any_order": true, "max_whitespace_cnt": null,
             "excludes": ["bad", "x", "\u00e4"]}})",
         {R"("good")", R"("")", R"("\"")", "\"\xC3\xB6\""},
         {R"("a bad one")", R"("x")", "\"\xC3\xA4\"", "bad"}});
  check({R"({"type": null, "format": {"type": "any_text", "excludes": null, "max_tokens": null,
             "max_chars": null}})",
         {"", "a"},
         {}});
  // null in a schema is a value.
  check(
      {R"({"format": {"type": "json_schema", "json_schema": {"const": null}}})", {"null"}, {"1"}});
}

TEST(structural_tag, has_the_formats_of_texts) {
  const example examples[] = {
      {R"({"format": {"type": "const_string", "value": "a\"b"}})", {"a\"b"}, {"", "a"}},
      {R"({"format": {"type": "json_schema", "json_schema": {"const": 1.50}, "style": "json"}})",
       {"1.5"},
       {"1"}},
      {R"({"format": {"type": "grammar", "grammar": "root ::= \"a\" root | \"b\""}})",
       {"b", "aaaaaab"},
       {"a"}},
      {R"({"format": {"type": "regex", "pattern": "[A-Z]{2}-\\d"}})", {"AB-1"}, {"xAB-1"}},
      {R"({"format": {"type": "any_text"}})", {"", "a\nb"}, {"\xFF"}},
      {R"({"format": {"type": "any_text", "excludes": ["ab", "c"], "max_chars": 3}})",
       {"", "aaa", "bba"},
       {"ab", "xab", "c", "aaaa"}},
      {R"({"format": {"type": "sequence", "elements": [
           {"type": "const_string", "value": "a"},
           {"type": "or", "elements": [{"type": "const_string", "value": "b"},
                                       {"type": "const_string", "value": "c"}]}]}})",
       {"ab", "ac"},
       {"a", "abc"}},
      {R"({"format": {"type": "optional", "content": {"type": "const_string", "value": "a"}}})",
       {"", "a"},
       {"aa"}},
      {R"({"format": {"type": "plus", "content": {"type": "const_string", "value": "a"}}})",
       {"a", "aaa"},
       {""}},
      {R"({"format": {"type": "star", "content": {"type": "const_string", "value": "a"}}})",
       {"", "aaa"},
       {"b"}},
      {R"({"format": {"type": "repeat", "min": 1, "max": 2,
                      "content": {"type": "const_string", "value": "a"}}})",
       {"a", "aa"},
       {"", "aaa"}},
      {R"({"format": {"type": "repeat", "min": 2, "max": -1,
                      "content": {"type": "const_string", "value": "a"}}})",
       {"aa", "aaaa"},
       {"a"}},
      {R"({"format": {"begin": "<t>", "content": {"type": "any_text"}, "end": ["</t>", "<e>"]}})",
       {"<t></t>", "<t>a<b</t>", "<t>x<e>"},
       {"<t>", "<t>a<e>b</t>", "<t>a</t>b"}},
      {R"({"format": {"type": "tags_with_separator", "separator": ",", "tags": [
           {"begin": "[", "content": {"type": "const_string", "value": "a"}, "end": "]"}]}})",
       {"", "[a]", "[a],[a]"},
       {"[a],", "[a][a]"}},
      {R"({"format": {"type": "tags_with_separator", "separator": ",", "at_least_one": true,
           "stop_after_first": true, "tags": [
           {"begin": "[", "content": {"type": "const_string", "value": "a"}, "end": "]"}]}})",
       {"[a]"},
       {"", "[a],[a]"}},
      {R"({"format": {"type": "dispatch", "rules": [["ab", {"type": "const_string", "value": "!"}]],
           "excludes": ["z"], "loop": false}})",
       {"", "aaab!", "xy"},
       {"ab", "ab!x", "z", "zab!"}},
  };
  for (const example& e : examples) {
    check(e);
  }
}

TEST(structural_tag, has_triggered_tags) {
  const std::string tags =
      R"("triggers": ["<f"], "tags": [{"begin": "<f>", "content": {"type": "const_string", "value": "1"}, "end": "</f>"}])";
  const auto format = [&](const std::string& flags) {
    return R"({"format": {"type": "triggered_tags", )" + tags + flags + "}}";
  };
  check({format(""), {"", "a", "x<f>1</f>y<f>1</f>"}, {"<f", "<f>2</f>"}});
  check({format(R"(, "stop_after_first": true)"),
         {"", "a", "x<f>1</f>"},
         {"x<f>1</f>y", "<f>1</f><f>1</f>"}});
  check({format(R"(, "at_least_one": true)"),
         {"<f>1</f>", "<f>1</f>x<f>1</f>"},
         {"", "x", "x<f>1</f>"}});
  check({format(R"(, "at_least_one": true, "stop_after_first": true)"),
         {"<f>1</f>"},
         {"", "x", "<f>1</f>x"}});
  check({format(R"(, "excludes": ["no"])"), {"n", "n<f>1</f>o"}, {"no", "<f>1</f>no"}});
  // Free text in a tag ends where the tag does.
  check({R"x({"format": {"begin": "(", "end": ")", "content": {"type": "triggered_tags", )x" +
             tags + "}}}",
         {"()", "(a<f>1</f>b)"},
         {"(a)b)", "(a"}});
}

TEST(structural_tag, repeats_nothing_at_no_cost) {
  for (const std::string_view counts : {R"("min": 0, "max": 999999999)",
                                        R"("min": 999999999, "max": 999999999)",
                                        R"("min": 999999999, "max": -1)"}) {
    const std::string repeat = R"({"format": {"type": "repeat", )" + std::string(counts);
    check({repeat + R"(, "content": {"type": "const_string", "value": ""}}})", {""}, {"a"}});
    check({repeat + R"(, "content": {"type": "regex", "pattern": "(?:(?:){2,900}){9,9999999}"}}})",
           {""},
           {"a"}});
    check({repeat + R"(, "content": {"type": "grammar",
                       "grammar": "root ::= (\"\" | \"\"){1,9999999}"}}})",
           {""},
           {"a"}});
  }
}

// Texts of a few letters beside a reader that looks for the first trigger as one would by hand.
TEST(structural_tag, free_text_ends_at_the_first_trigger) {
  struct reader {
    std::vector<std::string> triggers;
    std::string rest;  // what a trigger needs after it
    [[nodiscard]] bool reads(std::string_view text) const {
      for (std::size_t end = 1; end <= text.size(); ++end) {
        for (const std::string& t : triggers) {
          if (text.substr(0, end).ends_with(t)) {
            return text.substr(end).starts_with(rest) && reads(text.substr(end + rest.size()));
          }
        }
      }
      return true;
    }
  };
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; texts[i].size() < 8; ++i) {
    for (const char c : {'a', 'b', 'c'}) {
      texts.push_back(texts[i] + c);
    }
  }
  for (const std::vector<std::string>& triggers : std::vector<std::vector<std::string>>{
           {"a"}, {"aa"}, {"aab"}, {"aba"}, {"ab", "bb"}, {"aab", "ba"}}) {
    for (const char* const rest : {"c", "bc", "a"}) {
      std::string rules;
      for (const std::string& t : triggers) {
        rules += (rules.empty() ? "" : ",") + ("[\"" + t) +
                 R"(", {"type": "const_string", "value": ")" + rest + R"("}])";
      }
      const compiled got =
          compile_structural_tag(R"({"format": {"type": "dispatch", "rules": [)" + rules + "]}}");
      ASSERT_TRUE(got);
      const reader by_hand{triggers, rest};
      for (const std::string& text : texts) {
        ASSERT_EQ(got.bytes.accepts(text), by_hand.reads(text)) << rules << " and " << text;
      }
    }
  }
}

TEST(structural_tag, says_where_it_is_wrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{}",
       "the structural tag: must be an object with `format`, or with `structures` and "
       "`triggers`, got {}"},
      {"3",
       "the structural tag: must be an object with `format`, or with `structures` and "
       "`triggers`, got 3"},
      {R"({"type": "tag", "format": {}})", "/type: must be \"structural_tag\", got \"tag\""},
      {R"({"format": {}})", "/format: needs the member `type`, got {}"},
      {R"({"format": {"type": "token", "token": 3}})",
       "/format/type: is not a known format, got \"token\"; tokens are not texts, and "
       "have none"},
      {R"({"format": {"type": "any_text", "max_tokens": 3}})",
       "/format/max_tokens: a number of tokens is not kept: write `max_chars`"},
      {R"({"format": {"type": "any_text", "exclude": []}})",
       "/format/exclude: is not a known member"},
      {R"({"format": {"type": "sequence", "elements": [{"type": "regex", "pattern": "("}]}})",
       "/format/elements/0/pattern: column 1: this group is not closed"},
      {R"({"format": {"type": "grammar", "grammar": "root ::= a"}})",
       "/format/grammar: line 1, column 10: there is no rule 'a'"},
      {R"({"format": {"type": "json_schema", "json_schema": {"minimum": "x"}}})",
       "/format/json_schema/minimum: must be a number"},
      {R"({"format": {"type": "json_schema", "json_schema": true, "style": "qwen_xml"}})",
       "/format/style: only \"json\" is supported, got \"qwen_xml\""},
      {R"({"format": {"type": "repeat", "min": 3, "max": 2, "content": {"type": "any_text"}}})",
       "/format: `max` must be at least `min`, or -1"},
      {R"({"triggers": ["<f"], "structures": [{"begin": "g", "schema": true, "end": ""}]})",
       "/structures/0/begin: must begin with one of `triggers`, got \"g\""},
      {R"({"triggers": [""], "structures": [{"begin": "g", "schema": true, "end": ""}]})",
       "/triggers/0: must not be empty"},
      {R"({"triggers": ["a", "ab"], "structures": [{"begin": "abc", "schema": true, "end": ""}]})",
       "/structures/0/begin: begins with several of `triggers`, got \"abc\""},
      {R"({"format": {"type": "triggered_tags", "triggers": ["a"], "at_least_one": true,
           "stop_after_first": true, "tags": [{"begin": "b", "content": {"type": "any_text"}, "end": ""}]}})",
       "/format/tags/0/begin: must begin with one of `triggers`, got \"b\""},
      {R"({"format": {"type": "tags_with_separator", "separator": "", "tags": [{"type": "any_text"}]}})",
       "/format/tags/0/type: must be \"tag\", got \"any_text\""},
      {R"({"format": {"type": "json_schema", "json_schema": true, "max_whitespace_cnt": 0}})",
       "/format/max_whitespace_cnt: must be at least 1, got 0"},
      {R"({"format": {"type": "json_schema", "json_schema": null}})",
       "/format: needs the member `json_schema`, got "
       "{\"type\":\"json_schema\",\"json_schema\":null}"},
      {R"({"format": {"type": "const_string", "value": ["ääääääääääääääääääääääääääääääääääääääää"]}})",
       "/format/value: must be a text, got [\"äääääääääääääääääääääääääääääääääääääää..."},
      {R"({"triggers": [], "structures": []})",
       "/structures: must be a list that is not empty, got []"},
  };
  for (const auto& [tag, message] : cases) {
    const compiled got = compile_structural_tag(tag);
    ASSERT_FALSE(got) << tag;
    EXPECT_EQ(got.refused->message, message);
  }
  language::schema_options options;
  options.limits.positions = 100'000;
  EXPECT_FALSE(compile_structural_tag(
      R"({"format": {"type": "repeat", "min": 1, "max": 900000000, "content": {"type": "any_text"}}})",
      options));
}

}  // namespace
}  // namespace unmask::testing::structural_tag_test
