// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of a language, whatever it is: an expression, a schema, a grammar or a structural tag,
// by its first byte. Either a message in words, or an automaton within the limits that is well
// formed.

#include <unmask/language.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target.hpp"

namespace unmask::fuzz {
namespace {

constexpr language::compile_limits limits{
    .states = 2'000, .positions = 50'000, .milliseconds = 1'000};

language::compiled compile(std::uint8_t kind, std::string_view text) {
  const bool is_first = (kind & 4U) != 0;
  const bool is_second = (kind & 8U) != 0;
  if (kind % 4 == 0) {
    language::expression_options options;
    options.limits = limits;
    options.form = is_first ? language::text_form::json_string : language::text_form::utf8;
    options.search = is_second;
    return compile_expression(text, options);
  }
  if (kind % 4 == 1) {
    language::grammar_options options;
    options.limits = limits;
    options.recursion = is_first ? 2 : 6;
    return compile_grammar(text, options);
  }
  language::schema_options options;
  options.limits = limits;
  options.closed_objects = is_first;
  options.any_depth = is_second ? 0 : 2;
  return kind % 4 == 2 ? compile_schema(text, options) : compile_structural_tag(text, options);
}

}  // namespace

UNMASK_FUZZ_TARGET(language) {
  if (data.empty()) {
    return;
  }
  const language::compiled got = compile(data[0], text_of(data.subspan(1)));
  if (!got) {
    require(is_message(got.refused->message),
            "a message in words, got '" + got.refused->message + "'");
    require(got.refused->column <= data.size(), "a column of the text");
    require(got.bytes.empty(), "no automaton of a text that is refused");
    return;
  }
  const language::automaton& a = got.bytes;
  require(!a.empty() && a.states() <= limits.states, "states within the limit");
  require(a.runs.size() == a.states() && a.start < a.states(), "rows of the states");
  std::vector<std::uint8_t> leads_on(a.accepting);
  for (const std::vector<language::run>& runs : a.runs) {
    std::uint32_t from = 0;
    for (const language::run& r : runs) {
      require(r.first >= from && r.last >= r.first && r.last < 256 && r.next < a.states(),
              "runs of bytes that ascend");
      from = r.last + 1;
    }
  }
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (std::size_t s = a.states(); s-- > 0;) {
      if (leads_on[s] == 0 &&
          std::any_of(a.runs[s].begin(), a.runs[s].end(), [&](const language::run& r) {
            return leads_on[r.next] != 0;
          })) {
        leads_on[s] = 1;
        is_new = true;
      }
    }
  }
  require(std::count(leads_on.begin(), leads_on.end(), 0) == 0, "no state without an end");
}

}  // namespace unmask::fuzz
