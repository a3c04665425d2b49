// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random texts of languages, from the pieces of their notations, for the promises of the fuzz
// target:
//
//   clang++ -std=c++20 -O1 -fsanitize=address,undefined -Iinclude -Itests
//     tests/languages/hostile.cpp tests/fuzz/language.cpp
//   a.out SEED COUNT
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "fuzz/target.hpp"

namespace {

using pieces = std::vector<std::string>;

// Each kind is the first byte of the target, modulo 4.
const pieces notations[4] = {
    {"a",          "b",     "(",       ")",       "(?:",   "|",   "*",   "+",        "?",
     "{2}",        "{0,3}", "{1,}",    "{9,200}", "[",     "]",   "[^",  "-",        "\\d",
     "\\s",        "\\W",   "\\p{Lu}", "\\b",     "\\B",   "(?=", "(?!", "(?<=",     "(?<!",
     "^",          "$",     ".",       "\\",      "\\u",   "{",   "}",   "\xC3\xA4", "\xFF",
     "\\u{1F600}", "[a-z]", "\\1",     "(?<n>",   "\\x41", "\"",  "\n"},
    {"root",        " ::= ",
     "\nroot ::= ", "\na ::= ",
     "\nb ::= ",    "a ",
     "b ",          "root ",
     "\"x\" ",      "[a-c] ",
     "[^x] ",       "| ",
     "( ",          ") ",
     "* ",          "+ ",
     "? ",          "{2} ",
     "{0,3} ",      "{7,90} ",
     ". ",          "# c\n",
     "\"",          "[",
     "]",           "\\n",
     "\\x41",       "\\uD800",
     "a.b ",        "\na.b ::= ",
     "<t> ",        "(= ",
     "Regex(",      "\xF0\x9F\x98\x80",
     "\xFF",        "\n"},
    {"{",
     "}",
     "[",
     "]",
     ",",
     ":",
     "\"type\":\"object\",",
     "\"type\":[\"string\",\"integer\"],",
     "\"properties\":{\"a\":",
     "\"b\":{\"minLength\":2},",
     "\"additionalProperties\":false,",
     "\"patternProperties\":{\"^a\":",
     "\"required\":[\"a\"],",
     "\"items\":{",
     "\"prefixItems\":[true,",
     "\"contains\":{",
     "\"minContains\":2,",
     "\"maxItems\":3,",
     "\"uniqueItems\":true,",
     "\"anyOf\":[{",
     "\"oneOf\":[{",
     "\"allOf\":[{",
     "\"not\":{",
     "\"if\":{",
     "\"then\":{",
     "\"$ref\":\"#\",",
     "\"$ref\":\"#/$defs/t\",",
     "\"$defs\":{\"t\":{",
     "\"enum\":[1,\"x\",[2]],",
     "\"const\":1.50,",
     "\"pattern\":\"^(?!a)b+$\",",
     "\"maxLength\":40,",
     "\"minimum\":-1e3,",
     "\"multipleOf\":0.7,",
     "\"format\":\"date\",",
     "\"propertyNames\":{",
     "\"minProperties\":2,",
     "\"maxProperties\":4,",
     "\"dependentRequired\":{\"a\":[\"b\"]},",
     "\"unevaluatedProperties\":{",
     "\"unevaluatedItems\":false,",
     "true",
     "null",
     "1",
     "\"z\\u0001\":",
     "\xFF"},
    {"{",
     "}",
     "[",
     "]",
     ",",
     "\"format\":{",
     "\"type\":\"sequence\",",
     "\"type\":\"or\",",
     "\"elements\":[{",
     "\"type\":\"any_text\",",
     "\"excludes\":[\"ab\"],",
     "\"max_chars\":9,",
     "\"type\":\"const_string\",",
     "\"value\":\"a\",",
     "\"type\":\"tag\",",
     "\"begin\":\"ab\",",
     "\"content\":{",
     "\"end\":[\"b\",\"\"],",
     "\"end\":\"ba\",",
     "\"type\":\"triggered_tags\",",
     "\"triggers\":[\"a\"],",
     "\"tags\":[{",
     "\"at_least_one\":true,",
     "\"stop_after_first\":true,",
     "\"type\":\"dispatch\",",
     "\"rules\":[[\"a\",{",
     "\"type\":\"repeat\",",
     "\"min\":1,",
     "\"max\":-1,",
     "\"max\":90,",
     "\"type\":\"star\",",
     "\"type\":\"regex\",",
     "\"pattern\":\"a|b\",",
     "\"type\":\"json_schema\",",
     "\"json_schema\":{\"type\":\"integer\"},",
     "\"type\":\"grammar\",",
     "\"grammar\":\"root ::= 'a'\",",
     "\"structures\":[{",
     "\"schema\":true,",
     "true",
     "\xFF"},
};

// A text of pieces; of JSON also what closes it, so that half of the texts are read to the end.
std::string drawn(std::mt19937_64& random, std::size_t kind) {
  const pieces& from = notations[kind];
  std::string out = kind == 1 ? "root ::= " : kind >= 2 ? "{" : "";
  for (std::size_t n = 1 + random() % 24; n > 0; --n) {
    out += from[random() % from.size()];
  }
  if (kind < 2 || random() % 4 == 0) {
    return out;
  }
  std::string open;
  std::string closed;
  bool is_text = false;
  for (const char c : out) {
    is_text = is_text != (c == '"');
    if (!is_text && (c == '{' || c == '[')) {
      open += c == '{' ? '}' : ']';
    } else if (!is_text && (c == '}' || c == ']')) {
      if (open.empty() || open.back() != c) {
        continue;  // a bracket that closes nothing
      }
      open.pop_back();
    }
    if ((c == '}' || c == ']') && !is_text && !closed.empty() && closed.back() == ',') {
      closed.pop_back();
    }
    closed += c;
  }
  for (; !open.empty(); open.pop_back()) {
    if (closed.back() == ',') {
      closed.pop_back();
    }
    closed += closed.back() == ':' ? "true" : "";
    closed += open.back();
  }
  return closed;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::puts("usage: hostile SEED COUNT");
    return 2;
  }
  std::mt19937_64 random(std::strtoull(arguments[1], nullptr, 10));
  double longest = 0;
  for (long left = std::atol(arguments[2]); left > 0; --left) {
    const std::size_t kind = random() % 4;
    const std::string text =
        std::string(1, static_cast<char>(kind + 4 * (random() % 4))) + drawn(random, kind);
    const auto begin = std::chrono::steady_clock::now();
    try {
      unmask::fuzz::targets().front().run(
          {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    } catch (const unmask::fuzz::violation& v) {
      std::printf("broken: %s\n%s\n", v.what.c_str(), text.c_str());
      return 1;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    longest = took.count() > longest ? took.count() : longest;
  }
  std::printf("no promise broken; the longest took %.2f s\n", longest);
  return 0;
}
