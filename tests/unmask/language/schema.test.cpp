// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/language.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace unmask::testing::schema_test {
namespace {

using language::compile_schema;
using language::compiled;
using language::schema_options;

struct example {
  std::string_view schema;
  std::vector<std::string_view> in;
  std::vector<std::string_view> out;
};

void check(const example& e, const schema_options& options = {}) {
  const compiled got = compile_schema(e.schema, options);
  ASSERT_TRUE(got) << e.schema << ": " << got.refused->message;
  for (const std::string_view text : e.in) {
    EXPECT_TRUE(got.bytes.accepts(text)) << e.schema << " and " << text;
  }
  for (const std::string_view text : e.out) {
    EXPECT_FALSE(got.bytes.accepts(text)) << e.schema << " and " << text;
  }
}

TEST(schema, keeps_its_keywords) {
  const example examples[] = {
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]})",
       {R"({"a":1})", R"({"a": -7, "b": "x"})"},
       {R"({})",
        R"({"b":"x"})",
        R"({"b":"x","a":1})",
        R"({"a":1,"c":2})",
        R"({"a":1.0})",
        R"({"a":1,})"}},
      {R"({"required":["b"],"properties":{"a":true,"b":true}})",
       {R"({"a":1,"b":2})", "1"},
       {R"({"a":1})"}},
      {R"({"minimum":-1.5,"exclusiveMaximum":100,"type":"number"})",
       {"-1.5", "0", "99.99", "-0.5"},
       {"-1.51", "100", "100.0", "-0", "1e1"}},
      {R"({"type":"number","multipleOf":0.05,"minimum":0})",
       {"0", "0.15", "3", "1.250"},
       {"0.01", "-1"}},
      {R"({"type":"string","minLength":2,"maxLength":3,"pattern":"^[^\\s]+$"})",
       {R"("ab")", "\"\xC3\xA4\xC3\xA4\""},
       {R"("a")", R"("abcd")", "\"a\xE3\x80\x80\""}},
      {R"({"enum":[1,"a",[1,{"b":null}],117.63331139400017]})",
       {"1", R"("a")", R"([1, {"b" : null}])", "117.63331139400017"},
       {"2", "117.63331139400016", R"([1])"}},
      {R"({"const":12345678901234567890123})",
       {"12345678901234567890123"},
       {"1.2345678901234568e+22"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2})",
       {"[1]", "[1, 2]"},
       {"[]", "[1,2,3]", R"(["a"])"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"items":false})",
       {"[]", "[1]"},
       {"[1,1]", "[2]"}},
      {R"({"type":"array","contains":{"const":1},"maxContains":1,"items":{"enum":[1,2]}})",
       {"[1]", "[2,1,2]"},
       {"[]", "[2]", "[1,1]"}},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2]}})", {"[]", "[2,1]"}, {"[1,1]"}},
      {R"({"not":{"const":{"a":1}},"type":"object"})",
       {"{}", R"({"a":2})", R"({"b":1})"},
       {R"({"a":1})", R"({"a": 1 })"}},
      {R"({"not":{"const":[1]},"type":"array"})", {"[]", "[2]", "[1,1]"}, {"[1]"}},
      {R"({"oneOf":[{"multipleOf":2},{"multipleOf":3}],"type":"integer"})",
       {"2", "3", "-4"},
       {"6", "1"}},
      {R"({"if":{"type":"string"},"then":{"maxLength":1},"else":{"type":"null"}})",
       {R"("a")", "null"},
       {R"("ab")", "1"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"null"}},"additionalProperties":false})",
       {"{}", R"({"x":null,"xy":null})"},
       {R"({"y":null})", R"({"x":1})"}},
      {R"({"allOf":[{"properties":{"a":{"const":1}}}],"properties":{"b":{"const":2}},"unevaluatedProperties":false,"type":"object"})",
       {"{}", R"({"b":2,"a":1})"},
       {R"({"c":1})", R"({"a":2})"}},
      {R"({"$defs":{"list":{"anyOf":[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#/$defs/list"}},"required":["next"]}]}},"$ref":"#/$defs/list"})",
       {"null", R"({"next":null})", R"({"next":{"next":null}})"},
       {R"({})", R"({"next":1})"}},
      {R"({"type":"array","allOf":[{"contains":{"const":1}},{"contains":{"const":2}}],"unevaluatedItems":{"const":3}})",
       {"[1,2]", "[3,2,1]", "[2,1,1]"},
       {"[1]", "[1,2,4]", "[2,3]"}},
      {R"({"type":"string","format":"ipv4"})", {R"("127.0.0.1")"}, {R"("256.0.0.1")"}},
      {R"({"type":"string","format":"nobody-knows"})", {R"("a")"}, {"1"}},
      {"true", {"1", "[1, {\"a\": 2 }]", "null"}, {"", "[", "01"}},
  };
  for (const example& e : examples) {
    check(e);
  }
}

TEST(schema, has_options) {
  schema_options options;
  options.whitespace = "";
  check({R"({"const":[1,2]})", {"[1,2]"}, {"[1, 2]"}}, options);
  options.whitespace = "[ \\n]*";
  check({R"({"const":[1,2]})", {"[1,2]", "[ \n1 ,\n  2]"}, {"[1,\t2]"}}, options);
  options.whitespace = "x?";
  EXPECT_EQ(compile_schema("true", options).refused->message,
            "the option `whitespace`: it has \"x\", which is not white space of JSON");
  options = {};
  options.integer_fractions = true;
  check({R"({"type":"integer"})", {"1.0", "1", "0.00"}, {"1.5", "-0"}}, options);
  options = {};
  options.closed_objects = false;
  check(
      {R"({"properties":{"a":{"const":1}},"type":"object"})", {R"({"a":1,"b":2})"}, {R"({"a":2})"}},
      options);
  options = {};
  options.refuse_unknown_formats = true;
  EXPECT_EQ(compile_schema(R"({"format":"x"})", options).refused->message,
            R"(/format: "x" is not known)");
  options = {};
  options.longest = 64;
  EXPECT_LT(compile_schema(R"({"type":"string","maxLength":4000})", options).bytes.states(), 20U);
}

TEST(schema, costs_what_its_automaton_costs) {
  schema_options options;
  options.limits.milliseconds = 4000;
  struct size {
    std::string_view schema;
    std::size_t most;
  };
  for (const size& s : {size{R"({"type":"string","maxLength":1000})", 10'000},
                        size{R"({"type":"integer","maximum":9007199254740992})", 60},
                        size{R"({"type":"string","pattern":"^[a-z_][a-z0-9_]{0,62}$"})", 80}}) {
    const compiled got = compile_schema(s.schema, options);
    ASSERT_TRUE(got) << s.schema << ": " << got.refused->message;
    EXPECT_LT(got.bytes.states(), s.most) << s.schema;
  }
  std::string words = R"({"enum":[)";
  for (int i = 0; i < 20000; ++i) {
    words += (i > 0 ? ",\"w" : "\"w") + std::to_string(i * 7919 % 1000003) + "x\"";
  }
  EXPECT_TRUE(compile_schema(words + "]}", options));
}

TEST(schema, counts_the_runs_of_products) {
  schema_options options;
  options.limits.positions = 50'000;
  const compiled got =
      compile_schema(R"({"type":"string","pattern":"^\\p{L}*$","maxLength":100})", options);
  ASSERT_FALSE(got);
  EXPECT_NE(got.refused->message.find("over 50000 positions"), std::string::npos);
  EXPECT_TRUE(compile_schema(R"({"type":"string","pattern":"^[a-z]*$","maxLength":100})", options));
}

TEST(schema, is_refused_with_the_place) {
  struct refusal_of {
    std::string_view schema;
    std::string_view place;
    std::string_view message;
  };
  const refusal_of refusals[] = {
      {R"({"properties":{"a/b":{"pattern":"(a)\\1"}}})",
       "/properties/a~1b/pattern",
       "/properties/a~1b/pattern: column 4: back references (\\1) are not supported"},
      {R"({"$defs":{"a":{"minimum":"1"}},"$ref":"#/$defs/a"})",
       "/$defs/a/minimum",
       "/$defs/a/minimum: must be a number"},
      {R"({"$ref":"#/nope"})", "/$ref", R"(/$ref: "#/nope" is not a place in this schema)"},
      {R"({"$ref":"https://example.com/a"})",
       "/$ref",
       R"(/$ref: must be a place in this schema, "#/...", got "https://example.com/a")"},
      {R"({"type":"bogus"})",
       "/type",
       "/type: must be object, array, string, integer, number, boolean or null"},
      {R"({"uniqueItems":true})",
       "/uniqueItems",
       "/uniqueItems: is kept for items of at most 10 constants"},
      {R"({"not":{"format":"date"}})",
       "/not/format",
       "/not/format: is not kept where it must not hold"},
      {"false", "", "the schema: no finite JSON value obeys it"},
      {"1", "", "the schema: a schema must be an object, true or false"},
      {R"({"a":)", "", "the schema, line 1, column 6: expected a value"},
      {R"({"const":"\ud800"})",
       "",
       "the schema, line 1, column 17: half of a pair of \\u escapes is alone"},
  };
  for (const refusal_of& r : refusals) {
    const compiled got = compile_schema(r.schema);
    ASSERT_FALSE(got) << r.schema;
    EXPECT_EQ(got.refused->place, r.place) << r.schema;
    EXPECT_EQ(got.refused->message, r.message) << r.schema;
  }
  const std::string deep = std::string(100000, '[');
  EXPECT_FALSE(compile_schema(deep));
  EXPECT_FALSE(compile_schema(
      R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"));
}

TEST(schema, has_the_usual_regular_expressions_as_a_format) {
  check({R"({"type":"string","format":"regex"})",
         {R"("^[a-zA-Z0-9_]{3,16}$")", R"x("a+b*(?:c|d?)\\.\\d{2}")x", R"("")", R"("^[^a-z-]+$")"},
         {R"x("(")x",
          R"("a**")",
          R"("[z")",
          R"("a{3,2}")",
          R"("*")",
          R"("[]")",
          R"x("a|)")x",
          R"("\\q")"}});
}

TEST(schema, has_uris_of_any_scheme_as_a_format) {
  const std::vector<std::string_view> uris{R"("https://a.example:80/b?c#d")",
                                           R"("irc://irc.example.com/channel")",
                                           R"("git+ssh://example.com/a.git")",
                                           R"("urn:oasis:names:4.1.2")",
                                           R"("mailto:John.Doe@example.com")"};
  check({R"({"type":"string","format":"uri"})",
         uris,
         {R"("//a.example/b")",
          R"("a")",
          R"("/a:b")",
          R"("http:")",
          R"("1a:b")",
          R"("bar,baz:foo")",
          R"("http:// a")",
          R"("http://a.example:80x/")"}});
  std::vector<std::string_view> references(uris);
  references.insert(references.end(), {R"("/a:b")", R"("a/b:c")", R"("#d")"});
  check({R"({"type":"string","format":"uri-reference"})", references, {R"("1a:b")", R"("a b")"}});
}

TEST(schema, has_no_names_whose_schema_is_the_whole) {
  const compiled got = compile_schema(R"({"not":{"propertyNames":{"not":{"$ref":"#"}}}})");
  ASSERT_FALSE(got);
  EXPECT_NE(got.refused->message.find("`propertyNames` lead to others over 4 deep"),
            std::string::npos)
      << got.refused->message;
}

}  // namespace
}  // namespace unmask::testing::schema_test
