// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/nfa.hpp>
#include <unmask/language/schema_check.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// One alternative of a schema: values of some kinds, each with what holds for it. Schemas below,
/// of items and members, stay a conjunction.
struct value_case {
  static constexpr std::uint64_t no_bound = schema_document::no_bound;

  /// A member of a known name.
  struct member {
    std::string name;
    bool is_required = false;
    bool is_forbidden = false;
    conjunction obeys;
  };
  /// Members that neither a list of names nor patterns mention.
  struct other_members {
    std::vector<std::string> names;  // sorted
    std::vector<std::string> patterns;
    conjunction obeys;
  };
  /// A member of such a name and value must be there, or one of `missing` must not.
  struct witness {
    std::vector<std::pair<shared_automaton, conjunction>> ways;
    std::vector<std::string> missing;
  };
  /// The number of items from an index on that obey.
  struct some_items {
    std::uint64_t from = 0;
    conjunction obeys;
    std::uint64_t least = 0;
    std::uint64_t most = no_bound;
  };

  unsigned kinds = all_kinds;
  std::optional<std::vector<schema_ptr>> values;
  std::vector<std::pair<decimal, unsigned>> bounds;  // 1 below, 2 equal, 4 above
  std::vector<std::pair<decimal, bool>> multiples;   // true: of no
  std::vector<shared_automaton> texts;
  std::uint64_t min_length = 0;
  std::uint64_t max_length = no_bound;
  std::uint64_t min_items = 0;
  std::uint64_t max_items = no_bound;
  schema_ptr unique_items = nullptr;
  std::map<std::uint64_t, conjunction> items;
  std::vector<std::pair<std::uint64_t, conjunction>> items_from;
  std::vector<some_items> contains;
  std::uint64_t min_members = 0;
  std::uint64_t max_members = no_bound;
  std::vector<member> members;
  std::vector<other_members> others;
  std::vector<std::pair<std::string, conjunction>> by_pattern;
  std::vector<conjunction> names;
  std::vector<witness> witnesses;
  bool has_properties = false;
  bool is_open = false;
  // Members and items that unevaluated* leaves alone.
  std::vector<std::string> evaluated_names;
  std::vector<std::string> evaluated_patterns;
  bool evaluates_all_members = false;
  std::uint64_t evaluated_items = 0;
  std::vector<conjunction> evaluated_containing;

  [[nodiscard]] static value_case of_kinds(unsigned kinds) {
    value_case out;
    out.kinds = kinds;
    return out;
  }
  member& at(const std::string& name) {
    for (member& m : members) {
      if (m.name == name) {
        return m;
      }
    }
    members.push_back({name, false, false, {}});
    return members.back();
  }
};

using value_cases = std::vector<value_case>;

/// Schemas as cases: a disjunctive normal form, one level deep. A keyword, or its contradiction, is
/// a list of cases; keywords together multiply, `anyOf` adds, `not` changes the sign.
class schema_cases : public schema_check {
 public:
  using schema_check::schema_check;

 protected:
  static constexpr std::size_t most_cases = 2000;
  static constexpr int most_levels = 60;
  static constexpr int most_levels_of_names = 4;

  /// The cases of a conjunction.
  [[nodiscard]] value_cases cases_of(const conjunction& all) {
    value_cases out(1);
    for (const obligation& o : all) {
      out = both(out, expand(o.schema, o.is_not, 0), o.schema);
    }
    return out;
  }
  /// Strings that obey, over code points.
  [[nodiscard]] automaton texts_of(const conjunction& all) {
    if (++levels_of_names_ > most_levels_of_names) {
      document_.refuse(all[0].schema, "`propertyNames` lead to others over 4 deep");
    }
    automaton out;
    for (const value_case& c : cases_of(all)) {
      if ((c.kinds & string_kind) != 0) {
        out = product(out, texts_of(c, all), combination::either, left_);
      }
    }
    --levels_of_names_;
    return out;
  }
  /// Strings of a case, over code points.
  [[nodiscard]] automaton texts_of(const value_case& c, const conjunction& all) {
    if (c.values) {
      std::vector<std::string> texts;
      for (const schema_ptr v : *c.values) {
        if (v->is_string() && obeys(all, *v)) {
          texts.push_back(v->text);
        }
      }
      return words(std::move(texts), true);
    }
    automaton out;
    for (std::size_t i = 0; i < c.texts.size(); ++i) {
      out = i == 0 ? *c.texts[0] : product(out, *c.texts[i], combination::both, left_);
    }
    if (c.min_length > 0 || c.max_length != value_case::no_bound) {
      const automaton within = lengths(c.min_length, c.max_length);
      return c.texts.empty() ? within : product(out, within, combination::both, left_);
    }
    return c.texts.empty() ? *all_texts() : out;
  }
  /// Names that neither a list of names nor patterns mention.
  [[nodiscard]] automaton other_names(const value_case::other_members& o, schema_ptr at) {
    automaton out = product(*all_texts(), words(o.names, true), combination::first_only, left_);
    for (const std::string& p : o.patterns) {
      out = product(out, *pattern(at, p), combination::first_only, left_);
    }
    return out;
  }
  /// A conjunction of one schema.
  [[nodiscard]] static conjunction only(schema_ptr s, bool is_not = false) {
    const bool says_nothing = s->is_object() && s->items.empty() && !is_not;
    return s->is_boolean(!is_not) || says_nothing ? conjunction{} : conjunction{{s, is_not}};
  }

 private:
  static bool merge(value_case& a, const value_case& b) {
    a.kinds &= b.kinds;
    if (a.kinds == 0) {
      return false;
    }
    if (b.values && !a.values) {
      a.values = b.values;
    } else if (b.values) {
      std::set<std::string> also;
      for (const schema_ptr v : *b.values) {
        also.insert(canonical_text(*v));
      }
      std::erase_if(*a.values, [&](schema_ptr v) { return also.count(canonical_text(*v)) == 0; });
    }
    const auto append = [](auto& to, const auto& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    append(a.bounds, b.bounds);
    append(a.multiples, b.multiples);
    append(a.texts, b.texts);
    append(a.items_from, b.items_from);
    append(a.contains, b.contains);
    append(a.others, b.others);
    append(a.by_pattern, b.by_pattern);
    append(a.names, b.names);
    append(a.witnesses, b.witnesses);
    append(a.evaluated_names, b.evaluated_names);
    append(a.evaluated_patterns, b.evaluated_patterns);
    append(a.evaluated_containing, b.evaluated_containing);
    a.evaluates_all_members = a.evaluates_all_members || b.evaluates_all_members;
    a.evaluated_items = std::max(a.evaluated_items, b.evaluated_items);
    a.min_length = std::max(a.min_length, b.min_length);
    a.max_length = std::min(a.max_length, b.max_length);
    a.min_items = std::max(a.min_items, b.min_items);
    a.max_items = std::min(a.max_items, b.max_items);
    a.min_members = std::max(a.min_members, b.min_members);
    a.max_members = std::min(a.max_members, b.max_members);
    a.unique_items = a.unique_items != nullptr ? a.unique_items : b.unique_items;
    a.has_properties = a.has_properties || b.has_properties;
    a.is_open = a.is_open || b.is_open;
    for (const auto& [i, obeys] : b.items) {
      add(a.items[i], obeys);
    }
    bool has_contradiction = a.min_members > a.max_members;
    for (const value_case::member& m : b.members) {
      value_case::member& to = a.at(m.name);
      to.is_required = to.is_required || m.is_required;
      to.is_forbidden = to.is_forbidden || m.is_forbidden;
      add(to.obeys, m.obeys);
      has_contradiction = has_contradiction || (to.is_required && to.is_forbidden);
    }
    a.kinds &= a.min_length > a.max_length ? ~unsigned{string_kind} : ~0U;
    a.kinds &= a.min_items > a.max_items ? ~unsigned{list_kind} : ~0U;
    a.kinds &= has_contradiction ? ~unsigned{object_kind} : ~0U;
    return a.kinds != 0;
  }
  // Certainly without a value.
  [[nodiscard]] bool is_hopeless(const value_case& c) {
    if (c.kinds == 0) {
      return true;
    }
    if (c.values && std::none_of(c.values->begin(), c.values->end(), [&](schema_ptr v) {
          return (schema_document::kind_of(*v) & c.kinds) != 0;
        })) {
      return true;
    }
    if (c.kinds != object_kind) {
      return false;
    }
    return std::any_of(c.members.begin(), c.members.end(), [&](const value_case::member& m) {
      if (!m.is_required || m.obeys.empty()) {
        return false;
      }
      const auto values = listed(m.obeys);
      unsigned some = all_kinds;
      for (const obligation& o : m.obeys) {
        some &= o.is_not ? static_cast<unsigned>(all_kinds) : kinds(o.schema);
      }
      return some == 0 || (values && values->empty());
    });
  }
  [[nodiscard]] value_cases both(const value_cases& a, const value_cases& b, schema_ptr at) {
    value_cases out;
    for (const value_case& x : a) {
      for (const value_case& y : b) {
        left_.spend(256 + 32 * (x.members.size() + y.members.size()));
        value_case z = x;
        if (merge(z, y) && !is_hopeless(z)) {
          left_.check_positions(weight_ += z.members.size());
          out.push_back(std::move(z));
        }
        check_count(out, at);
      }
    }
    return out;
  }
  void check_count(const value_cases& cases, schema_ptr at) const {
    if (cases.size() > most_cases) {
      document_.refuse(at, "makes over " + std::to_string(most_cases) + " cases");
    }
  }
  static void append(value_cases& to, value_cases more) {
    for (value_case& c : more) {
      to.push_back(std::move(c));
    }
  }
  [[nodiscard]] static value_cases one(value_case c) {
    value_cases out;
    out.push_back(std::move(c));
    return out;
  }
  [[nodiscard]] static value_cases one_of_kinds(unsigned kinds) {
    return one(value_case::of_kinds(kinds));
  }
  // A keyword that says nothing, or its contradiction.
  [[nodiscard]] static value_cases nothing_said(bool is_not) { return value_cases(is_not ? 0 : 1); }

  [[nodiscard]] value_cases expand(schema_ptr s, bool is_not, int level) {
    left_.spend(64);
    if (level > most_levels) {
      document_.refuse(s, "references and combinations lead to others over 60 deep");
    }
    if (!s->is_object()) {
      if (!s->is_boolean()) {
        document_.refuse(s, "a schema must be an object, true or false");
      }
      return nothing_said(s->truth == is_not);
    }
    value_cases out = nothing_said(is_not);
    value_cases against;
    // `properties` first, which orders the members; what is unevaluated last.
    const auto order_of = [](const std::string& k) {
      return k == "properties" ? 0 : k.starts_with("unevaluated") ? 2 : 1;
    };
    for (int order = 0; order < 3; ++order) {
      for (std::size_t i = 0; i < s->items.size(); ++i) {
        const std::string& k = s->names[i];
        if (order_of(k) != order || !document_.counts(*s, k)) {
          continue;
        }
        if (order == 2 && !is_not) {
          for (value_case& c : out) {
            leave_unevaluated(c, k, s->items[i]);
          }
          continue;
        }
        value_cases more = keyword(*s, k, s->items[i], is_not, level);
        const bool is_of_members = k == "properties" || k == "required" ||
                                   k == "additionalProperties" || k == "patternProperties" ||
                                   k == "propertyNames";
        if (!is_not) {
          out = both(out, more, &s->items[i]);
        } else {
          append(is_of_members ? against : out, std::move(more));
        }
        check_count(out, &s->items[i]);
      }
    }
    if (against.size() == 1) {
      out.push_back(std::move(against[0]));
    } else if (!against.empty()) {
      out.push_back(any_of(against));
    }
    return out;
  }
  // A contradiction of the keywords of members as one case: a member or an absence of several.
  [[nodiscard]] static value_case any_of(const value_cases& against) {
    value_case out = value_case::of_kinds(object_kind);
    value_case::witness w;
    for (const value_case& c : against) {
      for (const value_case::witness& other : c.witnesses) {
        w.ways.insert(w.ways.end(), other.ways.begin(), other.ways.end());
      }
      for (const value_case::member& m : c.members) {
        out.at(m.name);
        if (m.is_forbidden) {
          w.missing.push_back(m.name);
        } else if (m.is_required) {
          w.ways.emplace_back(word(m.name), m.obeys);
        }
      }
    }
    out.witnesses.push_back(std::move(w));
    return out;
  }
  // unevaluatedItems or unevaluatedProperties of a case that knows what it evaluates.
  void leave_unevaluated(value_case& c, const std::string& k, const json_value& x) {
    if (k == "unevaluatedProperties") {
      if (!c.evaluates_all_members) {
        value_case::other_members o{c.evaluated_names, c.evaluated_patterns, only(&x)};
        std::sort(o.names.begin(), o.names.end());
        for (const std::string& name : o.names) {
          c.at(name);
        }
        c.others.push_back(std::move(o));
        c.is_open = c.is_open || !x.is_boolean(false);
        c.evaluates_all_members = true;
      }
      return;
    }
    if (c.evaluated_items == value_case::no_bound) {
      return;
    }
    // Values that obey x, or one of the schemas of `contains`.
    const auto says_nothing = [](const conjunction& of) { return of.empty(); };
    conjunction obeys = only(&x);
    if (std::any_of(c.evaluated_containing.begin(), c.evaluated_containing.end(), says_nothing)) {
      obeys.clear();
    } else if (!obeys.empty() && !c.evaluated_containing.empty()) {
      json_value either;
      either.is = json_value::kind::list;
      for (const conjunction& containing : c.evaluated_containing) {
        either.items.push_back(*containing[0].schema);
      }
      either.items.push_back(x);
      obeys = only(document_.keep(schema_with("anyOf", either), &x));
    }
    c.items_from.emplace_back(c.evaluated_items, std::move(obeys));
    c.evaluated_items = value_case::no_bound;
  }

  // A keyword of a schema, or what contradicts it.
  [[nodiscard]] value_cases
  keyword(const json_value& s, const std::string& k, const json_value& x, bool is_not, int level) {
    if (schema_document::is_reference(k)) {
      return expand(document_.follow(x), is_not, level + 1);
    }
    if (k == "type") {
      const unsigned types = document_.types(x);
      return one_of_kinds(is_not ? all_kinds & ~types : types);
    }
    if (k == "enum" || k == "const") {
      return constants(k, x, is_not, level);
    }
    if (k == "allOf" || k == "anyOf" || k == "oneOf" || k == "not" || k == "if") {
      return combined(s, k, x, is_not, level);
    }
    if (k.ends_with("Length") || k == "pattern" || k == "format") {
      return of_strings(s, k, x, is_not);
    }
    if (k == "multipleOf" || ((k.ends_with("inimum") || k.ends_with("aximum")))) {
      return of_numbers(s, k, x, is_not);
    }
    if (k.ends_with("tems") || k == "contains") {
      return of_lists(s, k, x, is_not);
    }
    return of_objects(s, k, x, is_not, level);
  }
  [[nodiscard]] value_cases
  constants(const std::string& k, const json_value& x, bool is_not, int level) {
    std::vector<schema_ptr> values;
    if (k == "const") {
      values.push_back(&x);
    } else {
      for (const json_value& y : document_.list(x)) {
        values.push_back(&y);
      }
    }
    value_case c;
    if (!is_not) {
      c.kinds = 0;
      for (const schema_ptr v : values) {
        left_.spend();
        c.kinds |= document_.at_place(v, [&] { return schema_document::kind_of(*v); });
      }
      c.values = std::move(values);
      return one(std::move(c));
    }
    value_cases out = one(value_case{});
    std::vector<std::string> texts;
    for (const schema_ptr v : values) {
      left_.spend();
      switch (v->is) {
      case json_value::kind::null:
      case json_value::kind::boolean:
        c.kinds &= ~schema_document::kind_of(*v);
        break;
      case json_value::kind::number:
        c.bounds.emplace_back(document_.number(*v), 5U);
        break;
      case json_value::kind::string:
        texts.push_back(v->text);
        break;
      case json_value::kind::list:
      case json_value::kind::object:
        out = both(out, expand(document_.keep(spelled(*v), v), true, level + 1), v);
      }
    }
    if (!texts.empty()) {
      c.texts.push_back(complement_of(share(words(std::move(texts), true))));
    }
    return both(out, one(std::move(c)), &x);
  }
  // A constant list or object as a schema of its parts.
  [[nodiscard]] static json_value spelled(const json_value& v) {
    const auto text = [](std::string of) {
      json_value out;
      out.is = json_value::kind::string;
      out.text = std::move(of);
      return out;
    };
    json_value count;
    count.is = json_value::kind::number;
    count.text = std::to_string(v.items.size());
    json_value no;
    no.is = json_value::kind::boolean;
    json_value parts;
    json_value names;
    parts.is = v.is_list() ? json_value::kind::list : json_value::kind::object;
    names.is = json_value::kind::list;
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      json_value part = schema_with("const", v.items[i]);
      if (v.is_list()) {
        parts.items.push_back(std::move(part));
      } else {
        names.items.push_back(text(v.names[i]));
        parts.add(v.names[i], std::move(part));
      }
    }
    parts.index();
    json_value out;
    out.is = json_value::kind::object;
    out.add("type", text(v.is_list() ? "array" : "object"));
    if (v.is_list()) {
      out.add("prefixItems", std::move(parts));
      out.add("minItems", count);
      out.add("maxItems", count);
    } else {
      out.add("properties", std::move(parts));
      out.add("required", std::move(names));
      out.add("additionalProperties", no);
    }
    out.index();
    return out;
  }
  [[nodiscard]] value_cases
  combined(const json_value& s, const std::string& k, const json_value& x, bool is_not, int level) {
    if (k == "not") {
      value_cases out = expand(&x, !is_not, level + 1);
      for (value_case& c : out) {
        forget_evaluated(c);
      }
      return out;
    }
    if (k == "if") {
      value_cases out;
      for (const bool is_else : {false, true}) {
        const json_value* const then = s.find(is_else ? "else" : "then");
        value_cases when = expand(&x, is_else, level + 1);
        if (then != nullptr) {
          when = both(when, expand(then, is_not, level + 1), then);
        }
        if (then != nullptr || !is_not) {
          append(out, std::move(when));
        }
      }
      return out;
    }
    const std::vector<json_value>& parts = document_.list(x);
    if (k == "oneOf") {
      return exactly_one(parts, is_not, level, &x);
    }
    const bool is_all = (k == "allOf") != is_not;
    value_cases out(is_all ? 1 : 0);
    std::vector<value_cases> kept;
    for (const json_value& part : parts) {
      value_cases more = expand(&part, is_not, level + 1);
      if (is_all) {
        out = both(out, more, &part);
      } else {
        if (!is_not && s.find("unevaluatedProperties") != nullptr && parts.size() <= 4) {
          kept.push_back(more);
        }
        append(out, std::move(more));
        check_count(out, &part);
      }
    }
    // Where several hold, they evaluate more together.
    for (unsigned set = 3; set < 1U << kept.size(); ++set) {
      if ((set & (set - 1)) == 0) {
        continue;
      }
      value_cases together(1);
      for (std::size_t i = 0; i < kept.size(); ++i) {
        together = (set >> i & 1U) != 0 ? both(together, kept[i], &x) : together;
      }
      append(out, std::move(together));
      check_count(out, &x);
    }
    return out;
  }
  static void forget_evaluated(value_case& c) {
    c.evaluated_names.clear();
    c.evaluated_patterns.clear();
    c.evaluated_containing.clear();
    c.evaluates_all_members = false;
    c.evaluated_items = 0;
  }
  [[nodiscard]] value_cases
  exactly_one(const std::vector<json_value>& parts, bool is_not, int level, schema_ptr at) {
    std::vector<value_cases> yes;
    for (const json_value& part : parts) {
      yes.push_back(expand(&part, false, level + 1));
    }
    std::vector<std::optional<value_cases>> no(parts.size());
    const auto without = [&](std::size_t i) -> const value_cases& {
      if (!no[i]) {
        no[i] = expand(&parts[i], true, level + 1);
        for (value_case& c : *no[i]) {
          forget_evaluated(c);
        }
      }
      return *no[i];
    };
    const auto are_apart = [&](std::size_t i, std::size_t j) {
      for (const value_case& a : yes[i]) {
        for (const value_case& b : yes[j]) {
          left_.spend(64 + 32 * (a.members.size() + b.members.size()));
          value_case z = a;
          if (merge(z, b) && !is_hopeless(z)) {
            return false;
          }
        }
      }
      return true;
    };
    value_cases out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      value_cases alone = yes[i];
      for (std::size_t j = 0; j < (is_not ? i : parts.size()); ++j) {
        if (j == i || are_apart(i, j)) {
          continue;
        }
        if (is_not) {
          append(out, both(yes[i], yes[j], at));
          check_count(out, at);
        } else {
          alone = both(alone, without(j), at);
        }
      }
      if (!is_not) {
        append(out, std::move(alone));
        check_count(out, at);
      }
    }
    if (is_not) {
      value_cases none(1);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        none = both(none, without(i), at);
      }
      append(out, std::move(none));
    }
    return out;
  }
  [[nodiscard]] value_cases
  of_numbers(const json_value& s, const std::string& k, const json_value& x, bool is_not) {
    value_case c = value_case::of_kinds(is_not ? number_kinds : all_kinds);
    if (k == "multipleOf") {
      c.multiples.emplace_back(document_.number(x), is_not);
      const decimal& m = c.multiples[0].first;
      if (m.is_negative || m.is_zero()) {
        document_.refuse(&x, "must be above 0");
      }
      return one(std::move(c));
    }
    if (k[0] == 'e' && x.is_boolean()) {
      return nothing_said(is_not);  // draft 4: read beside minimum and maximum
    }
    const bool is_least = k.ends_with("inimum");
    const json_value* const beside = s.find(is_least ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool is_strict = k[0] == 'e' || (beside != nullptr && beside->is_boolean(true));
    const unsigned mask = (is_least ? 4U : 1U) | (is_strict ? 0U : 2U);
    c.bounds.emplace_back(document_.number(x), is_not ? 7U & ~mask : mask);
    return one(std::move(c));
  }
  [[nodiscard]] value_cases
  of_strings(const json_value& s, const std::string& k, const json_value& x, bool is_not) {
    value_case c = value_case::of_kinds(is_not ? string_kind : all_kinds);
    if (k == "pattern") {
      const shared_automaton of = pattern(&x, document_.string(x));
      c.texts.push_back(is_not ? complement_of(of) : of);
      return one(std::move(c));
    }
    if (k == "format") {
      const std::string& name = document_.string(x);
      const shared_automaton of = format(&x, name);
      if (of == nullptr) {
        if (options_.refuse_unknown_formats && (kinds(&s) & string_kind) != 0) {
          document_.refuse(&x, json_string_of(name.substr(0, 40)) + " is not known");
        }
        return nothing_said(is_not);
      }
      if (is_not && !known_formats().find(name)->second.is_exact) {
        document_.refuse(&x, "is not kept where it must not hold");
      }
      c.texts.push_back(is_not ? complement_of(of) : of);
      return one(std::move(c));
    }
    const std::uint64_t n = document_.count(x);
    const bool is_least = k == "minLength";
    if (is_not && is_least && n == 0) {
      return {};
    }
    const std::uint64_t bound = !is_not ? n : is_least ? n - 1 : n + 1;
    (is_least != is_not ? c.min_length : c.max_length) = bound;
    return one(std::move(c));
  }
  [[nodiscard]] value_cases
  of_lists(const json_value& s, const std::string& k, const json_value& x, bool is_not) {
    value_case c = value_case::of_kinds(is_not ? list_kind : all_kinds);
    if (k == "minItems" || k == "maxItems") {
      const std::uint64_t n = document_.count(x);
      const bool is_least = k == "minItems";
      if (is_not && is_least && n == 0) {
        return {};
      }
      (is_least != is_not ? c.min_items : c.max_items) = !is_not ? n : is_least ? n - 1 : n + 1;
      return one(std::move(c));
    }
    if (k == "uniqueItems") {
      if (!x.is_boolean()) {
        document_.refuse(&x, "must be true or false");
      }
      if (!x.truth) {
        return nothing_said(is_not);
      }
      if (is_not) {
        document_.refuse(&x, "is not kept where it must not hold");
      }
      c.unique_items = &x;
      return one(std::move(c));
    }
    if (k == "prefixItems" || (k == "items" && x.is_list())) {
      value_cases out;
      const std::vector<json_value>& parts = document_.list(x);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (is_not) {
          value_case d = c;
          d.min_items = i + 1;
          add(d.items[i], only(&parts[i], true));
          out.push_back(std::move(d));
        } else {
          add(c.items[i], only(&parts[i]));
        }
      }
      c.evaluated_items = parts.size();
      return is_not ? out : one(std::move(c));
    }
    if (k == "contains") {
      return containing(s, x, is_not);
    }
    const json_value* const prefix = s.find("prefixItems");
    const json_value* const items = s.find("items");
    const bool has_list = items != nullptr && items->is_list();
    if (k == "unevaluatedItems") {  // not of it: of a case it is seen to elsewhere
      for (const char* beside :
           {"allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "contains", "not"}) {
        if (s.find(beside) != nullptr) {
          document_.refuse(
              &x, std::string("is not kept together with ") + beside + " where it must not hold");
        }
      }
    }
    const bool is_void = (k == "additionalItems" && !has_list) ||
                         (k == "unevaluatedItems" && ((items != nullptr && !has_list) ||
                                                      s.find("additionalItems") != nullptr));
    if (is_void) {
      return nothing_said(is_not);
    }
    const std::uint64_t from = k != "items" && has_list                 ? items->items.size()
                               : prefix != nullptr && prefix->is_list() ? prefix->items.size()
                                                                        : 0;
    if (is_not) {
      c.contains.push_back({from, only(&x, true), 1, value_case::no_bound});
      if (x.is_boolean(true)) {
        return {};
      }
      return one(std::move(c));
    }
    c.items_from.emplace_back(from, only(&x));
    c.evaluated_items = value_case::no_bound;
    return one(std::move(c));
  }
  [[nodiscard]] value_cases containing(const json_value& s, const json_value& x, bool is_not) {
    const json_value* const min = s.find("minContains");
    const json_value* const max = s.find("maxContains");
    const std::uint64_t least = min == nullptr ? 1 : document_.count(*min);
    const std::uint64_t most = max == nullptr ? value_case::no_bound : document_.count(*max);
    if (!is_not) {
      value_case c;
      if (least > 0 || most != value_case::no_bound) {
        c.contains.push_back({0, only(&x), least, most});
      }
      c.evaluated_containing.push_back(only(&x));
      return one(std::move(c));
    }
    value_cases out;
    if (least > 0) {
      value_case c = value_case::of_kinds(list_kind);
      if (least == 1) {
        c.items_from.emplace_back(0, conjunction{{&x, true}});
      } else {
        c.contains.push_back({0, only(&x), 0, least - 1});
      }
      out.push_back(std::move(c));
    }
    if (most != value_case::no_bound) {
      value_case c = value_case::of_kinds(list_kind);
      c.contains.push_back({0, only(&x), most + 1, value_case::no_bound});
      out.push_back(std::move(c));
    }
    return out;
  }
  [[nodiscard]] value_cases of_objects(
      const json_value& s, const std::string& k, const json_value& x, bool is_not, int level) {
    value_case c = value_case::of_kinds(is_not ? object_kind : all_kinds);
    value_cases out;
    if (k == "minProperties" || k == "maxProperties") {
      const std::uint64_t n = document_.count(x);
      const bool is_least = k == "minProperties";
      if (is_not && is_least && n == 0) {
        return {};
      }
      (is_least != is_not ? c.min_members : c.max_members) = !is_not ? n : is_least ? n - 1 : n + 1;
      return one(std::move(c));
    }
    if (k == "properties") {
      c.has_properties = !document_.object(x).items.empty();
      for (std::size_t i = 0; i < x.items.size(); ++i) {
        left_.spend(16 * c.members.size() / 64 + 1);
        if (is_not) {
          value_case d = c;
          value_case::member& m = d.at(x.names[i]);
          m.is_required = true;
          m.obeys = {{&x.items[i], true}};
          out.push_back(std::move(d));
        } else {
          c.members.push_back({x.names[i], false, false, only(&x.items[i])});
        }
      }
      c.evaluated_names = x.names;
      return is_not ? out : one(std::move(c));
    }
    if (k == "required") {
      if (x.is_boolean()) {
        return nothing_said(is_not);  // draft 3
      }
      for (const json_value& name : document_.list(x)) {
        if (is_not) {
          value_case d = c;
          d.at(document_.string(name)).is_forbidden = true;
          out.push_back(std::move(d));
        } else {
          c.at(document_.string(name)).is_required = true;
        }
      }
      return is_not ? out : one(std::move(c));
    }
    if (k == "patternProperties") {
      for (std::size_t i = 0; i < document_.object(x).items.size(); ++i) {
        const shared_automaton of = pattern(&x.items[i], x.names[i]);
        if (is_not) {
          value_case d = c;
          d.witnesses.push_back({{{of, only(&x.items[i], true)}}, {}});
          if (!x.items[i].is_boolean(true)) {
            out.push_back(std::move(d));
          }
        } else {
          c.by_pattern.emplace_back(x.names[i], only(&x.items[i]));
        }
      }
      c.evaluated_patterns = x.names;
      return is_not ? out : one(std::move(c));
    }
    if (k == "propertyNames") {
      if (is_not) {
        c.witnesses.push_back({{{share(texts_of(only(&x, true))), {}}}, {}});
        return x.is_boolean(true) ? value_cases{} : one(std::move(c));
      }
      c.names.push_back(only(&x));
      return one(std::move(c));
    }
    if (k == "additionalProperties" || k == "unevaluatedProperties") {
      return of_other_members(s, k, x, is_not);
    }
    return dependent(x, is_not, level);
  }
  [[nodiscard]] value_cases
  of_other_members(const json_value& s, const std::string& k, const json_value& x, bool is_not) {
    if (k[0] == 'u') {
      for (const char* beside : {"allOf",
                                 "anyOf",
                                 "oneOf",
                                 "if",
                                 "$ref",
                                 "$dynamicRef",
                                 "not",
                                 "dependentSchemas",
                                 "additionalProperties"}) {
        if (s.find(beside) != nullptr) {
          document_.refuse(
              &x, std::string("is not kept together with ") + beside + " where it must not hold");
        }
      }
    }
    value_case::other_members o{{}, {}, only(&x)};
    if (const json_value* const properties = s.find("properties")) {
      o.names = document_.object(*properties).names;
      std::sort(o.names.begin(), o.names.end());
    }
    if (const json_value* const patterns = s.find("patternProperties")) {
      o.patterns = document_.object(*patterns).names;
    }
    if (is_not) {
      if (x.is_boolean(true)) {
        return {};
      }
      value_case c = value_case::of_kinds(object_kind);
      const conjunction violates = x.is_boolean() ? conjunction{} : conjunction{{&x, true}};
      c.witnesses.push_back({{{share(other_names(o, &x)), violates}}, {}});
      return one(std::move(c));
    }
    value_case c;
    c.is_open = !x.is_boolean(false);
    c.evaluates_all_members = true;
    c.others.push_back(std::move(o));
    return one(std::move(c));
  }
  [[nodiscard]] value_cases dependent(const json_value& x, bool is_not, int level) {
    value_cases out = nothing_said(is_not);
    for (std::size_t i = 0; i < document_.object(x).items.size(); ++i) {
      const json_value& y = x.items[i];
      value_case present = value_case::of_kinds(object_kind);
      present.at(x.names[i]).is_required = true;
      value_cases then;
      if (!y.is_list()) {
        then = expand(&y, is_not, level + 1);
      } else if (is_not) {
        for (const json_value& name : y.items) {
          value_case d = value_case::of_kinds(object_kind);
          d.at(document_.string(name)).is_forbidden = true;
          then.push_back(std::move(d));
        }
      } else {
        value_case d;
        for (const json_value& name : y.items) {
          d.at(document_.string(name)).is_required = true;
        }
        then.push_back(std::move(d));
      }
      value_cases more = both(one(std::move(present)), then, &y);
      if (is_not) {
        append(out, std::move(more));
        continue;
      }
      value_case absent = value_case::of_kinds(object_kind);
      absent.at(x.names[i]).is_forbidden = true;
      more.push_back(std::move(absent));
      append(more, one_of_kinds(all_kinds & ~unsigned{object_kind}));
      out = both(out, more, &y);
    }
    return out;
  }

  std::size_t weight_ = 0;
  int levels_of_names_ = 0;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
