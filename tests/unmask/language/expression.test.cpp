// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/language.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::testing::expression_test {
namespace {

using language::compile_expression;
using language::compiled;
using language::expression_options;
using language::text_form;

std::string utf8(std::uint32_t code) {
  std::string out;
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t leads[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(leads[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) {
    out += static_cast<char>(0x80U | (code >> (6 * i) & 0x3FU));
  }
  return out;
}

bool accepts(std::string_view expression, std::string_view text, bool search = false) {
  expression_options options;
  options.search = search;
  const compiled got = compile_expression(expression, options);
  EXPECT_TRUE(got) << expression << ": " << got.refused->message;
  return got && got.bytes.accepts(text);
}

struct example {
  std::string_view expression;
  std::vector<std::string_view> in;
  std::vector<std::string_view> out;
};

void expect_examples(std::span<const example> examples) {
  for (const example& e : examples) {
    expression_options options;
    options.limits.milliseconds = 120000;  // of a machine that is busy
    const compiled got = compile_expression(e.expression, options);
    ASSERT_TRUE(got) << e.expression << ": " << got.refused->message;
    for (const std::string_view text : e.in) {
      EXPECT_TRUE(got.bytes.accepts(text)) << e.expression << " and " << text;
    }
    for (const std::string_view text : e.out) {
      EXPECT_FALSE(got.bytes.accepts(text)) << e.expression << " and " << text;
    }
  }
}

TEST(expression, takes_the_strings_of_ecma_262) {
  const example examples[] = {
      {"", {""}, {"a"}},
      {"a|", {"", "a"}, {"aa"}},
      {"a*b+?c??", {"b", "aabb", "abc"}, {"", "a", "c"}},
      {"[]|a", {"a"}, {"", "]"}},
      {"[^]", {"\n", "\xE2\x80\xA8"}, {"", "ab"}},
      {"[a\\-z]", {"a", "-", "z"}, {"b"}},
      {"[\\b]", {"\b"}, {"b"}},
      {"[-a-c-]", {"-", "a", "b"}, {"d"}},
      {"[\\w-x]", {"-", "x", "_"}, {"+"}},
      {"(?:ab){2,}", {"abab", "ababab"}, {"ab", "aba"}},
      {"(?<year>\\d{4})", {"2026"}, {"202"}},
      {"x{,2}", {"x{,2}"}, {"x", "xx"}},
      {"^a$|b", {"a", "b"}, {"", "ab"}},
      {"(^a|^b$)c?", {"a", "ac", "b"}, {"bc"}},
      {"a$|a$b", {"a"}, {"ab"}},
      {"\\u{1F600}|\\uD83D\\uDE00", {"\xF0\x9F\x98\x80"}, {"\xED\xA0\xBD\xED\xB8\x80"}},
      {"\\x41\\u0042\\cJ\\t\\0", {std::string_view("AB\n\t\0", 5)}, {"AB"}},
      {"\\p{Lu}\\P{L}\\p{gc=Nd}", {"A-1", "\xC3\x84 \xD9\xA3"}, {"a-1", "AB1"}},
      {"((a{0,100}){0,100}){0,10}", {"", "aaaa"}, {"b"}},
      {"(a{2}){3}|(b{2,3}){2,3}", {"aaaaaa", "bbbb", "bbbbb", "bbbbbbbbb"}, {"aaaa", "bbb"}},
      {"(a{3}){0,2}", {"", "aaa", "aaaaaa"}, {"a", "aaaa"}},
      {"(a*){2}|(b+){2,3}", {"", "aaa", "bb", "bbbbbb"}, {"b"}},
  };
  expect_examples(examples);
}

TEST(expression, searches_as_pattern_does) {
  EXPECT_TRUE(accepts("b", "abc", true));
  EXPECT_FALSE(accepts("^b", "abc", true));
  EXPECT_FALSE(accepts("b$", "abc", true));
  EXPECT_TRUE(accepts("^a|c$", "abc", true));
  EXPECT_TRUE(accepts("^$", "", true));
  EXPECT_FALSE(accepts("^$", "a", true));
  EXPECT_TRUE(accepts("", "anything", true));
  EXPECT_FALSE(accepts("a", "\xFF\x61", true)) << "no text in UTF-8";
}

TEST(expression, looks_around) {
  const example examples[] = {
      {"(?=a)[ab]+", {"a", "ab"}, {"b", "ba"}},
      {"(?!ab|b)[ab]{2}", {"aa"}, {"ab", "ba", "bb"}},
      {"(?=.*[0-9])(?=.*[a-z])(?!.*\\s).{2,4}", {"a1", "1xx1"}, {"aa", "11", "a1 ", "a1111"}},
      {"(?!.*--)[a-z-]+(?<!-)", {"a-b", "-a"}, {"a--b", "a-"}},
      {"(?:a(?!b)|b(?=a))*c", {"c", "aac", "bac", "baac"}, {"abc", "bc"}},
      {"(?<=a)b|c", {"c"}, {"b", "ab"}},
      {"a(?<=a)b(?<!aa)", {"ab"}, {"b"}},
      {"(?=(?!b)[^]*c)[^]+", {"ac", "cb"}, {"bc", "a"}},
      {"\\ba\\b-\\bb", {"a-b"}, {"ab"}},
      {"a\\Bb\\b", {"ab"}, {"a"}},
      {"\\B|-", {"", "-"}, {"a"}},
      {"(?=^a)a|(?=b^)b", {"a"}, {"b"}},
      {"a(?=$)|a(?!$)b", {"a", "ab"}, {"aa"}},
      {"[^](?<=\\u{1F600})", {"\xF0\x9F\x98\x80"}, {"a"}},
  };
  expect_examples(examples);
  EXPECT_TRUE(accepts("\\bcat\\b", "a cat.", true));
  EXPECT_FALSE(accepts("\\bcat\\b", "concat", true));
  EXPECT_TRUE(accepts("(?<!-)b", "ab", true));
  EXPECT_FALSE(accepts("(?<!-)b", "a-b", true));
  // The automaton is that of the same language without looks.
  EXPECT_EQ(compile_expression("(?!b)[a-z]*").bytes.runs,
            compile_expression("([ac-z][a-z]*)?").bytes.runs);
  EXPECT_EQ(compile_expression("(?=a)b").refused->message, "the expression matches no text");
}

// Every code point in the classes that people write, decided by the text of the standard.
TEST(expression, classes_have_exactly_the_characters_of_the_standard) {
  const auto is_space = [](std::uint32_t c) {
    return (c >= 9 && c <= 13) || c == 32 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
  };
  const auto is_word = [](std::uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const compiled any = compile_expression("[^]");
  const compiled dot = compile_expression(".");
  const compiled space = compile_expression("\\s");
  const compiled no_space = compile_expression("[^\\s]");
  const compiled word = compile_expression("[^\\W]");
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string text = utf8(c);
    const bool is_scalar = c < 0xD800 || c > 0xDFFF;
    const bool is_end = c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029;
    ASSERT_EQ(any.bytes.accepts(text), is_scalar) << c;
    ASSERT_EQ(dot.bytes.accepts(text), is_scalar && !is_end) << c;
    ASSERT_EQ(space.bytes.accepts(text), is_space(c)) << c;
    ASSERT_EQ(no_space.bytes.accepts(text), is_scalar && !is_space(c)) << c;
    ASSERT_EQ(word.bytes.accepts(text), is_word(c)) << c;
  }
  for (const std::string_view overlong : {"\xC0\x80",
                                          "\xC1\xBF",
                                          "\xE0\x80\x80",
                                          "\xF0\x80\x80\x80",
                                          "\xF4\x90\x80\x80",
                                          "\x80",
                                          "\xC3"}) {
    EXPECT_FALSE(any.bytes.accepts(overlong));
  }
}

TEST(expression, costs_what_its_automaton_costs) {
  struct size {
    std::string_view expression;
    std::size_t states;
  };
  const size sizes[] = {
      {"[a-z_][a-z0-9_]{0,62}", 64},
      {"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", 125},
      {"(a?){30}a{30}", 61},
      {"(x+x+)+y", 4},
      {"a[ab]{16}", 18},
      {"[a-z]{0,1000}", 1001},
      {"([ab]*a[ab]{3})*", 16},
      {"\\p{Any}*", 8},
  };
  for (const size& s : sizes) {
    expression_options options;
    options.limits.milliseconds = 2000;
    const compiled got = compile_expression(s.expression, options);
    ASSERT_TRUE(got) << s.expression << ": " << got.refused->message;
    EXPECT_EQ(got.bytes.states(), s.states) << s.expression;
  }
}

TEST(expression, writes_json_strings_with_one_spelling) {
  expression_options options;
  options.form = text_form::json_string;
  const compiled any = compile_expression("[^]", options);
  ASSERT_TRUE(any);
  for (const std::string_view text : {"\"a\"",
                                      "\"\\n\"",
                                      "\"\\\"\"",
                                      "\"\\\\\"",
                                      "\"/\"",
                                      "\"\\u0000\"",
                                      "\"\\u001f\"",
                                      "\"\x7F\"",
                                      "\"\xC3\xA4\""}) {
    EXPECT_TRUE(any.bytes.accepts(text)) << text;
  }
  for (const std::string_view text : {"a",
                                      "\"\"",
                                      "\"\n\"",
                                      "\"\\/\"",
                                      "\"\\u000a\"",
                                      "\"\\u001F\"",
                                      "\"\\u0061\"",
                                      "\"\\\"",
                                      "\"\"\"",
                                      "\"ab\""}) {
    EXPECT_FALSE(any.bytes.accepts(text)) << text;
  }
  options.unicode_escapes = false;
  EXPECT_FALSE(compile_expression("[^]", options).bytes.accepts("\"\\u0000\""));
}

TEST(expression, is_a_table_of_the_same_strings) {
  const compiled got = compile_expression("(ab|\\p{Lu}+)c{2,3}");
  ASSERT_TRUE(got);
  const byte_table table = got.bytes.table();
  ASSERT_EQ(table.accepting.size(), got.bytes.states());
  for (std::uint32_t q = 0; q < got.bytes.states(); ++q) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      EXPECT_EQ(table.next[256 * q + b], got.bytes.after(q, b));
    }
  }
  validate(table);
}

TEST(expression, is_refused_with_the_column) {
  struct refusal_of {
    std::string_view expression;
    std::size_t column;
    std::string_view message;
  };
  const refusal_of refusals[] = {
      {"a(?P<n>b)", 2, "a group cannot begin with '(?' and 'P'"},
      {"(a)\\1", 4, "back references (\\1) are not supported"},
      {"\\k<a>", 1, "back references (\\k) are not supported"},
      {"a**", 3, "'*' repeats a repetition"},
      {"a{2}{3}", 5, "a count repeats a repetition"},
      {"*", 1, "'*' repeats nothing"},
      {"{2}", 1, "a count repeats nothing"},
      {"^*", 2, "an anchor cannot be repeated"},
      {"(a", 1, "this group is not closed"},
      {"a)", 2, "')' closes no group"},
      {"[a", 1, "this class is not closed"},
      {"[b-a]", 2, "the range is in the wrong order"},
      {"a{3,2}", 2, "the counts are in the wrong order"},
      {"\\q", 1, "unknown escape \\q"},
      {"\\01", 1, "octal escapes are not supported"},
      {"\xC3\xA4\\p{Script=Greek}",
       2,
       "\\p{Script=Greek} is not a general category; scripts and other properties are not "
       "supported"},
      {"\\u{110000}", 1, "a code point is at most 10FFFF"},
      {"a\\", 2, "'\\' escapes nothing"},
      {"a(?=b", 2, "this group is not closed"},
      {"(?=b)*", 6, "a look-ahead or look-behind cannot be repeated"},
      {"\\b+", 3, "a word boundary cannot be repeated"},
      {"(?<=a(?=b))", 6, "look-ahead in look-behind is not supported"},
      {"(?<=a$)", 6, "'$' in look-behind is not supported"},
      {"(?<=a\\b)", 6, "word boundaries in look-behind are not supported"},
  };
  const std::string long_name = "\\p{" + std::string(10'000, 'L') + "}";
  EXPECT_EQ(compile_expression(long_name).refused->message,
            "column 1: the name of this property is longer than any");
  for (const refusal_of& r : refusals) {
    const compiled got = compile_expression(r.expression);
    ASSERT_FALSE(got) << r.expression;
    EXPECT_EQ(got.refused->column, r.column) << r.expression;
    EXPECT_EQ(got.refused->message,
              "column " + std::to_string(r.column) + ": " + std::string(r.message));
    EXPECT_TRUE(got.bytes.empty());
  }
  expression_options strict;
  strict.strict = true;
  for (const std::string_view loose : {"\\-", "{", "}", "]", "[\\w-x]"}) {
    EXPECT_TRUE(compile_expression(loose)) << loose;
    EXPECT_FALSE(compile_expression(loose, strict)) << loose;
  }
}

TEST(expression, is_refused_for_what_it_is) {
  EXPECT_EQ(compile_expression("a^b").refused->message, "the expression matches no text");
  EXPECT_EQ(compile_expression("a\xFF").refused->message, "the expression is not UTF-8 at byte 2");
  const std::string deep = std::string(201, '(') + std::string(201, ')');
  EXPECT_NE(compile_expression(deep).refused->message.find("200 deep"), std::string::npos);
  EXPECT_TRUE(compile_expression(deep.substr(1, 400)));
}

TEST(expression, obeys_its_limits) {
  expression_options few;
  few.limits.states = 100;
  EXPECT_EQ(compile_expression("a{200}", few).refused->message,
            "it needs over 100 states, the limit `states`");
  EXPECT_TRUE(compile_expression("a{99}", few));
  few = {};
  few.limits.positions = 1000;
  EXPECT_EQ(compile_expression("a{1000}", few).refused->message,
            "it needs over 1000 positions, the limit `positions`");
  few = {};
  few.limits.positions = 50'000;  // a letter of any script has 657 runs
  EXPECT_EQ(compile_expression("\\p{L}{100}", few).refused->message,
            "it needs over 50000 positions, the limit `positions`");
  EXPECT_TRUE(compile_expression("[a-z]{100}", few));
  few = {};
  few.limits.milliseconds = 20;
  few.limits.states = few.limits.positions = 0xFFFFFFFF;
  EXPECT_EQ(compile_expression(".*a.{30}", few).refused->message,
            "it takes over 20 ms, the limit `milliseconds`");
}

}  // namespace
}  // namespace unmask::testing::expression_test
