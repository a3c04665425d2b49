// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/grammar_compiler.hpp>
#include <unmask/language/json_value.hpp>
#include <unmask/language/schema_compiler.hpp>
#include <unmask/language/structural_tag.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Definitions of structural_tag.hpp.
namespace UNMASK_NAMESPACE {

namespace detail::languages {

/// The text of a value, for messages.
[[nodiscard]] inline std::string json_text_of(const json_value& v) {
  switch (v.is) {
  case json_value::kind::null:
    return "null";
  case json_value::kind::boolean:
    return v.truth ? "true" : "false";
  case json_value::kind::number:
    return v.text;
  case json_value::kind::string:
    return json_string_of(v.text);
  default:
    break;
  }
  std::string out = v.is_list() ? "[" : "{";
  for (std::size_t i = 0; i < v.items.size(); ++i) {
    out += i == 0 ? "" : ",";
    out += v.is_object() ? json_string_of(v.names[i]) + ":" : "";
    out += json_text_of(v.items[i]);
  }
  return out + (v.is_list() ? "]" : "}");
}

/// A structural tag as one automaton over bytes, with copies of the automata of its parts.
class structural_tag_compiler {
 public:
  structural_tag_compiler(const language::schema_options& options, budget& left)
      : options_(options)
      , left_(left)
      , nfa_(left) {}

  [[nodiscard]] automaton compile(std::string_view text) {
    const json_value tag = json_document_reader(text, "the structural tag", left_).read();
    const std::uint32_t start = nfa_.add();
    const std::uint32_t final = nfa_.add();
    const place root{"", tag};
    if (const json_value* const type = given(root, "type")) {
      check_value(root.at("type"),
                  type->is_string() && type->text == "structural_tag",
                  "must be \"structural_tag\"");
    }
    std::uint32_t end = 0;
    if (given(root, "format") != nullptr) {
      members(root, {"type", "format"});
      end = build(root.at("format"), start, {});
    } else {
      check_value(root,
                  given(root, "structures") != nullptr && given(root, "triggers") != nullptr,
                  "must be an object with `format`, or with `structures` and `triggers`");
      members(root, {"type", "structures", "triggers", "at_least_one"});
      end = tags(root, "structures", start, {}, false);
    }
    nfa_.link(end, final);
    automaton out = smallest(nfa_, start, final, left_);
    if (out.empty()) {
      throw refused("the structural tag: no text obeys it");
    }
    return out;
  }

 private:
  using texts = std::vector<std::string>;

  // A value and its place.
  struct place {
    std::string pointer;
    const json_value& value;

    [[nodiscard]] place at(std::string_view name) const {
      return {pointer + "/" + pointer_part(name), *value.find(name)};
    }
    [[nodiscard]] place at(std::size_t i) const {
      return {pointer + "/" + std::to_string(i), value.items[i]};
    }
  };

  [[noreturn]] static void refuse(const place& at, const std::string& why) {
    throw refused(refusal{
        (at.pointer.empty() ? "the structural tag" : at.pointer) + ": " + why, at.pointer, 0});
  }
  static void check(const place& at, bool holds, const std::string& why) {
    if (!holds) {
      refuse(at, why);
    }
  }
  static void check_value(const place& at, bool holds, const std::string& rule) {
    if (!holds) {
      refuse(at, rule + ", got " + shown(at.value));
    }
  }
  // The beginning of a value, in whole characters.
  static std::string shown(const json_value& value) {
    std::string text = json_text_of(value);
    std::size_t end = 80;
    if (text.size() <= end) {
      return text;
    }
    while ((static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
      --end;
    }
    return text.substr(0, end) + "...";
  }
  // The member of that name; null means that it is not there.
  static const json_value* given(const place& of, std::string_view name) {
    const json_value* const value = of.value.find(name);
    return value != nullptr && value->is != json_value::kind::null ? value : nullptr;
  }
  // Refuses other members than these.
  static void members(const place& of, std::initializer_list<std::string_view> known) {
    for (const std::string& name : of.value.names) {
      check(of.at(name),
            std::find(known.begin(), known.end(), name) != known.end(),
            "is not a known member");
    }
  }
  static place required(const place& of, const std::string& name) {
    check_value(of, given(of, name) != nullptr, "needs the member `" + name + "`");
    return of.at(name);
  }
  static const std::string& string(const place& at) {
    check_value(at, at.value.is_string(), "must be a text");
    return at.value.text;
  }
  static bool flag(const place& of, std::string_view name, bool otherwise) {
    const json_value* const value = given(of, name);
    if (value == nullptr) {
      return otherwise;
    }
    check_value(of.at(name), value->is_boolean(), "must be true or false");
    return value->truth;
  }
  static const place& list(const place& at) {
    check_value(
        at, at.value.is_list() && !at.value.items.empty(), "must be a list that is not empty");
    return at;
  }
  static texts strings(const place& of, std::string_view name) {
    texts out;
    if (const json_value* const value = given(of, name)) {
      check_value(of.at(name), value->is_list(), "must be a list of texts");
      for (std::size_t i = 0; i < value->items.size(); ++i) {
        out.push_back(string(of.at(name).at(i)));
        check(of.at(name).at(i), !out.back().empty(), "must not be empty");
      }
    }
    return out;
  }
  // A count, or no bound for -1, where that is allowed.
  static std::uint32_t number(const place& at, bool may_be_open) {
    const std::string& digits = at.value.text;
    if (may_be_open && at.value.is_number() && digits == "-1") {
      return dead_state;
    }
    check_value(at,
                at.value.is_number() &&
                    digits.find_first_not_of("0123456789") == std::string::npos &&
                    digits.size() < 10,
                may_be_open ? "must be a whole number under 10^9, or -1"
                            : "must be a whole number under 10^9");
    return static_cast<std::uint32_t>(std::stoul(digits));
  }

  // Calls use(), and puts the place in front of the message of what it throws.
  template <class Use>
  static auto at_place(const place& at, const Use& use) {
    try {
      return use();
    } catch (const refused& error) {
      refusal why = error.why();
      const bool has_place = !why.place.empty();
      why.place = at.pointer + why.place;
      why.message = has_place ? at.pointer + why.message : at.pointer + ": " + why.message;
      throw refused(std::move(why));
    }
  }

  std::uint32_t put(const automaton& bytes, std::uint32_t from) {
    const std::uint32_t to = nfa_.add();
    nfa_.put(bytes, from, to);
    return to;
  }
  std::uint32_t put_codes(const automaton& codes, std::uint32_t from) {
    return put(bytes_of(codes, text_form::utf8, true, left_), from);
  }

  // Adds a format after a state and returns the state after it. `ends` are those of the tag that it
  // stands in.
  std::uint32_t build(const place& at, std::uint32_t from, const texts& ends) {
    left_.spend(64);
    check_value(at, at.value.is_object(), "must be an object");
    const bool is_tag = given(at, "type") == nullptr && given(at, "begin") != nullptr;
    const std::string type = is_tag ? "tag" : string(required(at, "type"));
    if (type == "const_string") {
      members(at, {"type", "value"});
      return nfa_.text(from, string(required(at, "value")));
    }
    if (type == "json_schema") {
      return schema(at, from);
    }
    if (type == "grammar") {
      members(at, {"type", "grammar"});
      const place text = required(at, "grammar");
      return at_place(text, [&] {
        return put_codes(grammar_codes(string(text), "root", options_.recursion, left_), from);
      });
    }
    if (type == "regex") {
      members(at, {"type", "pattern"});
      const place text = required(at, "pattern");
      return at_place(text, [&] {
        return put_codes(expression_codes(string(text), false, false, left_), from);
      });
    }
    if (type == "any_text") {
      return any_text(at, from, ends);
    }
    if (type == "sequence" || type == "or") {
      return elements(at, type == "or", from, ends);
    }
    if (type == "optional" || type == "plus" || type == "star" || type == "repeat") {
      const bool is_counted = type == "repeat";
      if (is_counted) {
        members(at, {"type", "content", "min", "max"});
      } else {
        members(at, {"type", "content"});
      }
      const place content = required(at, "content");
      const std::uint32_t least = is_counted       ? number(required(at, "min"), false)
                                  : type == "plus" ? 1
                                                   : 0;
      const std::uint32_t most = is_counted           ? number(required(at, "max"), true)
                                 : type == "optional" ? 1
                                                      : dead_state;
      check(at, least <= most, "`max` must be at least `min`, or -1");
      return repeated(content, from, least, most, ends);
    }
    if (type == "tag") {
      return tag(at, nfa_.text(from, begin_of(at, false)), false);
    }
    if (type == "triggered_tags") {
      members(at, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
      texts excludes = strings(at, "excludes");
      excludes.insert(excludes.end(), ends.begin(), ends.end());
      return tags(at, "tags", from, excludes, flag(at, "stop_after_first", false));
    }
    if (type == "dispatch") {
      members(at, {"type", "rules", "loop", "excludes"});
      return dispatch(at, "rules", from, strings(at, "excludes"), !flag(at, "loop", true), ends);
    }
    if (type == "tags_with_separator") {
      return separated(at, from);
    }
    refuse(at.at("type"),
           "is not a known format, got " + json_string_of(type) +
               "; tokens are not texts, and have none");
  }
  std::uint32_t repeated(const place& content,
                         std::uint32_t from,
                         std::uint32_t least,
                         std::uint32_t most,
                         const texts& ends) {
    nfa outer = std::exchange(nfa_, nfa(left_));
    const std::uint32_t start = nfa_.add();
    const std::uint32_t final = nfa_.add();
    nfa_.link(build(content, start, ends), final);
    automaton part = smallest(nfa_, start, final, left_);
    nfa_ = std::move(outer);
    drop_empty(part, least, most);
    return repeat(nfa_, from, least, most, [&](std::uint32_t before) { return put(part, before); });
  }
  // Members are in the order of the schema, also with `any_order`, and the options have at most
  // one blank.
  std::uint32_t schema(const place& at, std::uint32_t from) {
    members(at, {"type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"});
    if (given(at, "style") != nullptr) {
      check_value(at.at("style"), string(at.at("style")) == "json", "only \"json\" is supported");
    }
    static_cast<void>(flag(at, "any_order", false));
    if (given(at, "max_whitespace_cnt") != nullptr) {
      check_value(at.at("max_whitespace_cnt"),
                  number(at.at("max_whitespace_cnt"), false) > 0,
                  "must be at least 1");
    }
    return schema_of(required(at, "json_schema"), from, strings(at, "excludes"));
  }
  std::uint32_t schema_of(const place& at, std::uint32_t from, const texts& excludes) {
    check_value(at, at.value.is_object() || at.value.is_boolean(), "must be a schema");
    return at_place(at, [&] {
      schema_document document(at.value, left_);
      automaton made = schema_compiler(document, options_).compile();
      if (!excludes.empty()) {
        made = product(made,
                       bytes_of(with(excludes, false), text_form::utf8, true, left_),
                       combination::first_only,
                       left_);
      }
      return put(made, from);
    });
  }
  std::uint32_t elements(const place& at, bool is_choice, std::uint32_t from, const texts& ends) {
    members(at, {"type", "elements"});
    const place all = list(required(at, "elements"));
    const std::uint32_t to = nfa_.add();
    std::uint32_t behind = from;
    for (std::size_t i = 0; i < all.value.items.size(); ++i) {
      if (is_choice) {
        behind = nfa_.add();
        nfa_.link(from, behind);
      }
      behind = build(all.at(i), behind, ends);
      if (is_choice) {
        nfa_.link(behind, to);
      }
    }
    if (!is_choice) {
      nfa_.link(behind, to);
    }
    return to;
  }
  // The text with which a tag begins, or a structure of the older form.
  static const std::string& begin_of(const place& at, bool is_old) {
    check_value(at, at.value.is_object(), "must be an object");
    if (is_old) {
      members(at, {"begin", "schema", "end"});
    } else {
      members(at, {"type", "begin", "content", "end"});
      if (given(at, "type") != nullptr) {
        check_value(at.at("type"), string(at.at("type")) == "tag", "must be \"tag\"");
      }
    }
    return string(required(at, "begin"));
  }
  // Its content and its end.
  std::uint32_t tag(const place& at, std::uint32_t from, bool is_old) {
    const place end = required(at, "end");
    texts ends;
    if (end.value.is_list()) {
      for (std::size_t i = 0; i < list(end).value.items.size(); ++i) {
        ends.push_back(string(end.at(i)));
      }
    } else {
      ends.push_back(string(end));
    }
    texts excludes = ends;
    std::erase(excludes, std::string());
    std::uint32_t behind = 0;
    if (!is_old) {
      behind = build(required(at, "content"), from, excludes);
    } else if (given(at, "schema") != nullptr) {
      behind = schema_of(at.at("schema"), from, {});
    } else {
      json_value any;
      any.is = json_value::kind::boolean;
      any.truth = true;
      behind = schema_of({at.pointer + "/schema", any}, from, {});
    }
    const std::uint32_t to = nfa_.add();
    for (const std::string& text : ends) {
      nfa_.link(nfa_.text(behind, text), to);
    }
    return to;
  }
  std::uint32_t any_text(const place& at, std::uint32_t from, const texts& ends) {
    members(at, {"type", "excludes", "max_chars", "max_tokens"});
    if (given(at, "max_tokens") != nullptr) {
      refuse(at.at("max_tokens"), "a number of tokens is not kept: write `max_chars`");
    }
    texts excludes = strings(at, "excludes");
    excludes.insert(excludes.end(), ends.begin(), ends.end());
    automaton codes = free_text(excludes);
    if (given(at, "max_chars") != nullptr) {
      codes = product(codes, up_to(number(at.at("max_chars"), false)), combination::both, left_);
    }
    return put_codes(codes, from);
  }
  // Free text and the tags, or structures, that triggers begin.
  std::uint32_t tags(const place& at,
                     const std::string& name,
                     std::uint32_t from,
                     const texts& excludes,
                     bool is_single) {
    if (!flag(at, "at_least_one", false)) {
      return dispatch(at, name, from, excludes, is_single);
    }
    const bool is_old = name == "structures";
    const place parts = list(required(at, name));
    const texts triggers = triggers_of(at);
    const std::uint32_t to = nfa_.add();
    for (std::size_t i = 0; i < parts.value.items.size(); ++i) {
      const std::string& begin = begin_of(parts.at(i), is_old);
      static_cast<void>(trigger_of(parts.at(i), begin, triggers));
      const std::uint32_t start = nfa_.add();
      nfa_.link(from, start);
      nfa_.link(tag(parts.at(i), nfa_.text(start, begin), is_old), to);
    }
    return is_single ? to : dispatch(at, name, to, excludes, false);
  }
  static texts triggers_of(const place& at) {
    static_cast<void>(list(required(at, "triggers")));
    return strings(at, "triggers");
  }
  // Free text up to a trigger, the rest of what begins with it, and so on; then free text.
  std::uint32_t dispatch(const place& at,
                         const std::string& name,
                         std::uint32_t from,
                         const texts& excludes,
                         bool is_single,
                         const texts& ends = {}) {
    const place parts = list(required(at, name));
    texts triggers;
    if (name == "rules") {
      for (std::size_t i = 0; i < parts.value.items.size(); ++i) {
        const place rule = parts.at(i);
        check_value(
            rule, rule.value.is_list() && rule.value.items.size() == 2, "must be [text, format]");
        triggers.push_back(string(rule.at(std::size_t{0})));
        check(rule.at(std::size_t{0}), !triggers.back().empty(), "must not be empty");
      }
    } else {
      triggers = triggers_of(at);
    }
    texts nowhere = triggers;
    nowhere.insert(nowhere.end(), excludes.begin(), excludes.end());
    const automaton text = free_text(nowhere);
    const std::uint32_t again = nfa_.add();
    nfa_.link(from, again);
    const std::uint32_t to = put_codes(text, again);
    std::vector<std::uint32_t> after;  // [triggers]
    for (const std::string& t : triggers) {
      after.push_back(put_codes(first(t, text, excludes), again));
    }
    for (std::size_t i = 0; i < parts.value.items.size(); ++i) {
      const place part = parts.at(i);
      std::uint32_t end = 0;
      if (name == "rules") {
        end = build(part.at(std::size_t{1}), after[i], ends);
      } else {
        const bool is_old = name == "structures";
        const std::string& begin = begin_of(part, is_old);
        const std::size_t trigger = trigger_of(part, begin, triggers);
        end = tag(part, nfa_.text(after[trigger], begin.substr(triggers[trigger].size())), is_old);
      }
      nfa_.link(end, is_single ? to : again);
    }
    return to;
  }
  static std::size_t
  trigger_of(const place& part, const std::string& begin, const texts& triggers) {
    std::size_t found = triggers.size();
    for (std::size_t t = 0; t < triggers.size(); ++t) {
      if (begin.starts_with(triggers[t])) {
        check_value(
            part.at("begin"), found == triggers.size(), "begins with several of `triggers`");
        found = t;
      }
    }
    check_value(part.at("begin"), found < triggers.size(), "must begin with one of `triggers`");
    return found;
  }
  std::uint32_t separated(const place& at, std::uint32_t from) {
    members(at, {"type", "tags", "separator", "at_least_one", "stop_after_first"});
    const place parts = list(required(at, "tags"));
    const std::string& separator = string(required(at, "separator"));
    const std::uint32_t first = nfa_.add();
    const std::uint32_t last = nfa_.add();
    const std::uint32_t to = nfa_.add();
    nfa_.link(from, first);
    for (std::size_t i = 0; i < parts.value.items.size(); ++i) {
      const std::uint32_t begin = nfa_.add();
      nfa_.link(first, begin);
      nfa_.link(tag(parts.at(i), nfa_.text(begin, begin_of(parts.at(i), false)), false), last);
    }
    nfa_.link(last, to);
    if (!flag(at, "stop_after_first", false)) {
      nfa_.link(nfa_.text(last, separator), first);
    }
    if (!flag(at, "at_least_one", false)) {
      nfa_.link(from, to);
    }
    return to;
  }

  // Texts with one of some words, at the end only or anywhere.
  [[nodiscard]] automaton with(const texts& words, bool is_at_end) {
    nfa n(left_);
    const std::uint32_t start = n.add();
    const std::uint32_t final = n.add();
    n.any_code(start, start);
    for (const std::string& word : words) {
      std::uint32_t s = start;
      for (std::size_t i = 0; i < word.size();) {
        const std::uint32_t code = next_code(word, i);
        const std::uint32_t to = n.add();
        n.arc(s, code, code, to);
        s = to;
      }
      n.link(s, final);
    }
    if (!is_at_end) {
      n.any_code(final, final);
    }
    return smallest(n, start, final, left_, is_at_end ? dead_state : final);
  }
  [[nodiscard]] automaton free_text(const texts& excludes) {
    nfa n(left_);
    const std::uint32_t all = n.add();
    n.any_code(all, all);
    return product(smallest(n, all, all, left_),
                   excludes.empty() ? automaton{} : with(excludes, false),
                   combination::first_only,
                   left_);
  }
  // Texts that end with the first trigger in them, which is this one.
  [[nodiscard]] automaton
  first(const std::string& trigger, const automaton& text, const texts& excludes) {
    nfa n(left_);
    const std::uint32_t start = n.add();
    const std::uint32_t last = n.add();
    const std::uint32_t final = n.add();
    n.put(text, start, last);
    n.any_code(last, final);
    automaton out =
        product(smallest(n, start, final, left_), with({trigger}, true), combination::both, left_);
    return excludes.empty() ? out
                            : product(out, with(excludes, false), combination::first_only, left_);
  }
  [[nodiscard]] automaton up_to(std::uint32_t most) {
    nfa n(left_);
    const std::uint32_t start = n.add();
    const std::uint32_t end = repeat(n, start, 0, most, [&](std::uint32_t from) {
      const std::uint32_t to = n.add();
      n.any_code(from, to);
      return to;
    });
    return smallest(n, start, end, left_);
  }

  const language::schema_options& options_;
  budget& left_;
  nfa nfa_;
};

}  // namespace detail::languages

namespace language {

UNMASK_LIBRARY compiled compile_structural_tag(std::string_view tag,
                                               const schema_options& options) {
  namespace inner = detail::languages;
  return inner::guarded(options.limits, [&](inner::budget& left) {
    inner::check_utf8(tag, "the structural tag");
    return inner::structural_tag_compiler(options, left).compile(tag);
  });
}

}  // namespace language

}  // namespace UNMASK_NAMESPACE
