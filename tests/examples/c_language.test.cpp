// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/c_language.h>
#include <unmask/language.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "support/c_calls.hpp"
#include "support/dice.hpp"

namespace unmask::testing::c_language_test {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view person =
    R"({"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]})";

unmask_language* language_of(std::int32_t kind,
                             std::string_view text,
                             const unmask_language_options* options = nullptr) {
  unmask_language* l = nullptr;
  lent<char> copy(text);
  EXPECT_EQ(unmask_language_new(kind, copy.data(), text.size(), options, &l), UNMASK_OK)
      << unmask_last_error();
  return l;
}

bool accepts(const unmask_language* l, std::string_view text) {
  std::int32_t answer = 7;
  EXPECT_EQ(unmask_language_accepts(l, text.data(), text.size(), &answer), UNMASK_OK);
  return answer == 1;
}

// The message that compiling the text ends with.
std::string refusal(std::int32_t kind,
                    std::string_view text,
                    const unmask_language_options* options = nullptr) {
  int placed = 0;
  auto* l = reinterpret_cast<unmask_language*>(&placed);
  EXPECT_EQ(unmask_language_new(kind, text.data(), text.size(), options, &l),
            UNMASK_INVALID_ARGUMENT)
      << text;
  EXPECT_EQ(l, nullptr);
  return unmask_last_error();
}

TEST(c_language, accepts_what_the_language_in_cpp_does) {
  const std::string_view expressions[] = {
      "[0-9]{4}-[0-9]{2}", "(ab)*c?", "\\p{L}+", "^a|b$", "\"", "[^\\s]{0,3}"};
  const std::string_view schemas[] = {
      person,
      R"({"type":"string","maxLength":3})",
      R"({"enum":["a",1.50,null]})",
      R"({"type":"array","items":{"type":"integer","minimum":-7}})"};
  const std::string_view texts[] = {"",
                                    "2026-11",
                                    "c",
                                    "ababc",
                                    "\xc3\xa9",
                                    "\xc3",
                                    "b",
                                    "\"",
                                    "\"\\\"\"",
                                    R"({"age": 73})",
                                    R"({"age":-1})",
                                    "{}",
                                    R"("abc")",
                                    R"("abcd")",
                                    "1.50",
                                    "1.5",
                                    "null",
                                    "[1, -7]",
                                    "[-8]"};
  int accepted = 0;
  for (const std::string_view e : expressions) {
    for (std::uint32_t flags = 0; flags < 16; ++flags) {
      unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
      o.flags = flags;
      const language::compiled cpp = language::compile_expression(
          e,
          {.limits = {},
           .form = (flags & UNMASK_JSON_STRING) != 0 ? language::text_form::json_string
                                                     : language::text_form::utf8,
           .search = (flags & UNMASK_SEARCH) != 0,
           .strict = (flags & UNMASK_STRICT) != 0,
           .unicode_escapes = (flags & UNMASK_UNICODE_ESCAPES) != 0});
      unmask_language* const l = language_of(UNMASK_EXPRESSION, e, &o);
      EXPECT_EQ(unmask_language_states(l), cpp.bytes.states()) << e << ' ' << flags;
      for (const std::string_view t : texts) {
        EXPECT_EQ(accepts(l, t), cpp.bytes.accepts(t)) << e << ' ' << flags << ' ' << t;
        accepted += accepts(l, t) ? 1 : 0;
      }
      unmask_language_free(l);
    }
  }
  for (const std::string_view s : schemas) {
    for (std::uint32_t bits = 0; bits < 16; ++bits) {
      unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
      o.flags = 8 * bits;
      const language::compiled cpp = language::compile_schema(
          s,
          {.limits = {},
           .closed_objects = (o.flags & UNMASK_OPEN_OBJECTS) == 0,
           .unicode_escapes = (o.flags & UNMASK_UNICODE_ESCAPES) != 0,
           .integer_fractions = (o.flags & UNMASK_INTEGER_FRACTIONS) != 0,
           .refuse_unknown_formats = (o.flags & UNMASK_REFUSE_UNKNOWN_FORMATS) != 0});
      unmask_language* const l = language_of(UNMASK_JSON_SCHEMA, s, &o);
      EXPECT_EQ(unmask_language_states(l), cpp.bytes.states()) << s << ' ' << o.flags;
      for (const std::string_view t : texts) {
        EXPECT_EQ(accepts(l, t), cpp.bytes.accepts(t)) << s << ' ' << o.flags << ' ' << t;
        accepted += accepts(l, t) ? 1 : 0;
      }
      unmask_language_free(l);
    }
  }
  EXPECT_GT(accepted, 200);
}

TEST(c_language, has_the_defaults_and_the_options_of_cpp) {
  const unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
  const language::schema_options cpp;
  EXPECT_EQ(o.states, cpp.limits.states);
  EXPECT_EQ(o.positions, cpp.limits.positions);
  EXPECT_EQ(o.milliseconds, cpp.limits.milliseconds);
  EXPECT_EQ(o.any_depth, cpp.any_depth);
  EXPECT_EQ(o.recursion, cpp.recursion);
  EXPECT_EQ(o.longest, cpp.longest);
  EXPECT_EQ(o.recursion, language::grammar_options().recursion);

  const auto states = [](std::string_view schema, const unmask_language_options& options) {
    unmask_language* const l = language_of(UNMASK_JSON_SCHEMA, schema, &options);
    const std::uint32_t count = unmask_language_states(l);
    unmask_language_free(l);
    return count;
  };
  unmask_language_options changed = o;
  changed.any_depth = 1;
  EXPECT_LT(states("true", changed), states("true", o));
  changed = o;
  changed.recursion = 1;
  constexpr std::string_view nested = R"({"type":"array","items":{"$ref":"#"}})";
  EXPECT_LT(states(nested, changed), states(nested, o));
  changed = o;
  changed.longest = 10;
  constexpr std::string_view bounded = R"({"type":"string","maxLength":40})";
  EXPECT_LT(states(bounded, changed), states(bounded, o));
  changed = o;
  changed.whitespace = "";
  unmask_language* const l = language_of(UNMASK_JSON_SCHEMA, person, &changed);
  EXPECT_TRUE(accepts(l, R"({"age":1})"));
  EXPECT_FALSE(accepts(l, R"({"age": 1})"));
  unmask_language_free(l);
}

TEST(c_language, has_grammars_and_structural_tags) {
  unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
  constexpr std::string_view sum = R"_(sum ::= term ("+" term)*
term ::= [0-9] | "(" sum ")")_";
  o.root = "sum";
  for (o.recursion = 1; o.recursion < 5; ++o.recursion) {
    unmask_language* const l = language_of(UNMASK_GRAMMAR, sum, &o);
    EXPECT_EQ(
        unmask_language_states(l),
        language::compile_grammar(sum, {.limits = {}, .root = "sum", .recursion = o.recursion})
            .bytes.states());
    for (std::uint32_t deep = 0; deep < 6; ++deep) {
      EXPECT_EQ(accepts(l, std::string(deep, '(') + "1+2" + std::string(deep, ')')),
                deep < o.recursion)
          << deep << ' ' << o.recursion;
    }
    unmask_language_free(l);
  }
  constexpr std::string_view tag =
      R"({"triggers":["<"],"structures":[{"begin":"<f>","schema":{"type":"array","items":{}},"end":"</f>"}]})";
  for (std::uint32_t bits = 0; bits < 16; ++bits) {
    o = UNMASK_LANGUAGE_OPTIONS_INIT;
    o.flags = 8 * bits;
    o.any_depth = 1;
    o.whitespace = "";
    const language::compiled cpp = language::compile_structural_tag(
        tag,
        {.limits = {},
         .whitespace = "",
         .any_depth = 1,
         .closed_objects = (o.flags & UNMASK_OPEN_OBJECTS) == 0,
         .unicode_escapes = (o.flags & UNMASK_UNICODE_ESCAPES) != 0,
         .integer_fractions = (o.flags & UNMASK_INTEGER_FRACTIONS) != 0,
         .refuse_unknown_formats = (o.flags & UNMASK_REFUSE_UNKNOWN_FORMATS) != 0});
    unmask_language* const l = language_of(UNMASK_STRUCTURAL_TAG, tag, &o);
    EXPECT_EQ(unmask_language_states(l), cpp.bytes.states()) << o.flags;
    for (const char* const text :
         {"so <f>[1]</f>!", "<f>[1, 2]</f>", "<f>[1,[2]]</f>", "<f>[1,[[2]]]</f>"}) {
      EXPECT_EQ(accepts(l, text), cpp.bytes.accepts(text)) << text;
    }
    EXPECT_TRUE(accepts(l, "so <f>[1]</f>!"));
    EXPECT_FALSE(accepts(l, "<f>[1, 2]</f>"));
    EXPECT_EQ(accepts(l, R"(<f>["\u001f"]</f>)"), (o.flags & UNMASK_UNICODE_ESCAPES) != 0);
    unmask_language_free(l);
  }
}

TEST(c_language, is_refused_with_the_place) {
  EXPECT_EQ(refusal(UNMASK_GRAMMAR, "root ::= \"a\"\n\n  b ::= $").rfind("line 3, column 9: ", 0),
            0U);
  unmask_language_options rooted = UNMASK_LANGUAGE_OPTIONS_INIT;
  rooted.root = "none";
  EXPECT_NE(refusal(UNMASK_GRAMMAR, "root ::= \"a\"", &rooted).find("there is no rule 'none'"),
            std::string::npos);
  EXPECT_EQ(refusal(UNMASK_STRUCTURAL_TAG, R"({"format":{"type":"const_string","value":3}})"),
            "/format/value: must be a text, got 3");
  EXPECT_EQ(refusal(UNMASK_EXPRESSION, "[0-9]{4}-(\\d"), "column 10: this group is not closed");
  EXPECT_NE(refusal(UNMASK_EXPRESSION, "(a)\\1").find("back references"), std::string::npos);
  EXPECT_EQ(refusal(UNMASK_JSON_SCHEMA, R"({"properties":{"a/b":{"minimum":"x"}}})")
                .rfind("/properties/a~1b/minimum: ", 0),
            0U);
  EXPECT_FALSE(refusal(UNMASK_JSON_SCHEMA, "").empty());
  EXPECT_FALSE(refusal(UNMASK_JSON_SCHEMA, "{").empty());
  EXPECT_FALSE(refusal(UNMASK_EXPRESSION, "a\xff").empty());
  EXPECT_FALSE(refusal(UNMASK_EXPRESSION, "[^\\u{0}-\\u{10ffff}]").empty());
  // The text has a length, so that a zero in it is a character as others are.
  unmask_language* const zero = language_of(UNMASK_EXPRESSION, "a\0b"sv);
  EXPECT_TRUE(accepts(zero, "a\0b"sv));
  EXPECT_FALSE(accepts(zero, "a"));
  unmask_language_free(zero);
}

TEST(c_language, ends_at_its_limits) {
  unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.states = 100;
  EXPECT_NE(refusal(UNMASK_EXPRESSION, "a{200}", &o).find("100 states"), std::string::npos);
  o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.positions = 1000;
  EXPECT_NE(refusal(UNMASK_EXPRESSION, "(a{0,50}b){0,50}", &o).find("1000 positions"),
            std::string::npos);
  o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.milliseconds = 20;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(refusal(UNMASK_EXPRESSION, ".*a.{24}", &o).find("20 ms"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (const std::string_view open : {"["sv, "(?:"sv, "{\"a\":"sv, R"({"items":)"sv}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) {
      deep += open;
    }
    EXPECT_FALSE(refusal(UNMASK_JSON_SCHEMA, deep).empty());
    EXPECT_FALSE(refusal(UNMASK_EXPRESSION, deep).empty());
    EXPECT_FALSE(refusal(UNMASK_GRAMMAR, "root ::= " + deep).empty());
    EXPECT_FALSE(refusal(UNMASK_STRUCTURAL_TAG, R"({"format":)" + deep).empty());
  }
}

TEST(c_language, refuses_arguments_by_name) {
  unmask_language* l = nullptr;
  EXPECT_EQ(unmask_language_new(0, "a", 1, nullptr, nullptr), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "language must be a pointer, got null");
  EXPECT_EQ(unmask_language_new(0, nullptr, 1, nullptr, &l), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "text must be a pointer, got null");
  EXPECT_EQ(unmask_language_new(9, "a", 1, nullptr, &l), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "kind must be one of unmask_language_kinds, got 9");
  unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.flags = UNMASK_SEARCH;
  EXPECT_EQ(refusal(UNMASK_JSON_SCHEMA, "true", &o),
            "options->flags must be a sum of the unmask_language_flags of this kind, which is at "
            "most 120, got 1");
  EXPECT_EQ(refusal(UNMASK_STRUCTURAL_TAG, "{}", &o).rfind("options->flags must be a sum", 0), 0U);
  o.flags = UNMASK_OPEN_OBJECTS;
  EXPECT_EQ(refusal(UNMASK_EXPRESSION, "a", &o).rfind("options->flags must be a sum", 0), 0U);
  EXPECT_EQ(refusal(UNMASK_GRAMMAR, "root ::= \"a\"", &o).rfind("options->flags must be a sum", 0),
            0U);
  o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.reserved = 1;
  EXPECT_EQ(refusal(UNMASK_EXPRESSION, "a", &o), "options->reserved must be 0, got 1");
  o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.struct_size = 4;
  EXPECT_EQ(refusal(UNMASK_EXPRESSION, "a", &o).rfind("options->struct_size", 0), 0U);
  o = UNMASK_LANGUAGE_OPTIONS_INIT;
  o.whitespace = "x";
  EXPECT_NE(refusal(UNMASK_JSON_SCHEMA, person, &o).find("whitespace"), std::string::npos);
  std::int32_t answer = 7;
  EXPECT_EQ(unmask_language_accepts(nullptr, "a", 1, &answer), UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(answer, 7);
  EXPECT_EQ(unmask_language_states(nullptr), 0U);
  unmask_language_free(nullptr);
  unmask_language* const a = language_of(UNMASK_EXPRESSION, "a");
  EXPECT_EQ(unmask_language_accepts(a, nullptr, 1, &answer), UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(unmask_language_accepts(a, "a", 1, nullptr), UNMASK_INVALID_ARGUMENT);
  std::vector<std::uint32_t> next(512, 5);
  std::vector<std::uint8_t> accepting(2, 5);
  unmask_byte_automaton table = UNMASK_BYTE_AUTOMATON_INIT;
  table.struct_size = 2;
  EXPECT_EQ(unmask_language_table(a, next.data(), accepting.data(), &table),
            UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(unmask_language_table(a, nullptr, accepting.data(), &table), UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(next, std::vector<std::uint32_t>(512, 5));
  unmask_language_free(a);
}

struct letters {
  unmask_vocabulary* words = nullptr;

  letters() {
    const unmask_token_bytes tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {nullptr, 0}, {nullptr, 0}};
    unmask_options o = UNMASK_OPTIONS_INIT;
    o.vocab = 5;
    o.mask_token = 3;
    o.eos_token = 4;
    o.length = 1;
    o.window = 1;
    EXPECT_EQ(unmask_vocabulary_new(tokens, 5, &o, nullptr, 0, &words), UNMASK_OK);
  }
  ~letters() { unmask_vocabulary_free(words); }
  letters(const letters&) = delete;
  letters& operator=(const letters&) = delete;
};

bool allows(const unmask_constraint* c, const std::vector<std::int32_t>& tokens) {
  std::int32_t answer = 7;
  EXPECT_EQ(unmask_constraint_accepts(
                c, tokens.data(), static_cast<std::int32_t>(tokens.size()), &answer),
            UNMASK_OK);
  return answer == 1;
}

TEST(c_language, becomes_a_constraint_by_its_table_and_at_once) {
  const letters of;
  dice d(3);
  for (const std::string_view expression : {"a*b"sv, "(ab|ba)+"sv, "b{2,5}a?"sv}) {
    unmask_language* const l = language_of(UNMASK_EXPRESSION, expression);
    const std::size_t states = unmask_language_states(l);
    std::vector<std::uint32_t> next(256 * states);
    std::vector<std::uint8_t> accepting(states);
    unmask_byte_automaton table = UNMASK_BYTE_AUTOMATON_INIT;
    ASSERT_EQ(unmask_language_table(l, next.data(), accepting.data(), &table), UNMASK_OK);
    EXPECT_EQ(table.states, states);
    unmask_constraint* by_table = nullptr;
    unmask_constraint* at_once = nullptr;
    ASSERT_EQ(unmask_constraint_new(&table, of.words, nullptr, &by_table), UNMASK_OK);
    ASSERT_EQ(unmask_language_constraint(l, of.words, nullptr, &at_once), UNMASK_OK);
    int accepted = 0;
    for (int i = 0; i < 3000; ++i) {
      std::vector<std::int32_t> tokens;
      std::string text;
      for (int k = d.within(0, 6); k > 0; --k) {
        tokens.push_back(d.within(0, 2));
        text +=
            std::string_view("a\0b\0ab", 6)
                .substr(2 * static_cast<std::size_t>(tokens.back()), tokens.back() == 2 ? 2 : 1);
      }
      EXPECT_EQ(allows(by_table, tokens), accepts(l, text)) << text;
      EXPECT_EQ(allows(at_once, tokens), accepts(l, text)) << text;
      accepted += accepts(l, text) ? 1 : 0;
    }
    EXPECT_GT(accepted, 20);
    unmask_language_free(l);
    unmask_constraint_free(by_table);
    unmask_constraint_free(at_once);
  }
  unmask_language* const l = language_of(UNMASK_EXPRESSION, "a{30}");
  unmask_constraint_limits limits = UNMASK_CONSTRAINT_LIMITS_INIT;
  limits.states = 20;
  unmask_constraint* c = nullptr;
  EXPECT_EQ(unmask_language_constraint(l, of.words, &limits, &c), UNMASK_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(unmask_last_error(), "unmask_constraint_limits::states = 20"), nullptr)
      << unmask_last_error();
  EXPECT_EQ(c, nullptr);
  EXPECT_EQ(unmask_language_constraint(l, nullptr, nullptr, &c), UNMASK_INVALID_ARGUMENT);
  unmask_language_free(l);
}

}  // namespace
}  // namespace unmask::testing::c_language_test
