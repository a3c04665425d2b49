// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/schema_texts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// A schema that a value must obey, or must not.
struct obligation {
  schema_ptr schema = nullptr;
  bool is_not = false;

  friend bool operator==(const obligation&, const obligation&) = default;
  friend bool operator<(const obligation& a, const obligation& b) {
    return a.schema->id != b.schema->id ? a.schema->id < b.schema->id : a.is_not < b.is_not;
  }
};

/// Obligations that all hold, sorted.
using conjunction = std::vector<obligation>;

inline void add(conjunction& to, const conjunction& more) {
  to.insert(to.end(), more.begin(), more.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

/// Whether given values obey a schema: those that `enum` and `const` list.
class schema_check : public schema_texts {
 public:
  using schema_texts::schema_texts;

 protected:
  [[nodiscard]] bool obeys(const conjunction& all, const json_value& v) {
    return std::all_of(all.begin(), all.end(), [&](const obligation& o) {
      return is_valid(o.schema, v, 0) != o.is_not;
    });
  }
  /// All values, if a conjunction lists them.
  [[nodiscard]] std::optional<std::vector<schema_ptr>> listed(const conjunction& all) {
    for (const obligation& o : all) {
      std::optional<std::vector<schema_ptr>> values;
      if (!o.is_not && (values = listed(o.schema, 0))) {
        std::erase_if(*values, [&](schema_ptr v) { return !obeys(all, *v); });
        return values;
      }
    }
    return std::nullopt;
  }
  /// Kinds that a schema may have values of: an upper bound.
  [[nodiscard]] unsigned kinds(schema_ptr s, int level = 0) {
    if (!s->is_object() || level > 8) {
      return s->is_boolean(false) ? 0U : static_cast<unsigned>(all_kinds);
    }
    if (const auto known = kinds_.find(s); known != kinds_.end()) {
      return known->second;
    }
    left_.spend(64);
    unsigned all = all_kinds;
    for (std::size_t i = 0; i < s->items.size(); ++i) {
      const std::string& k = s->names[i];
      const json_value& x = s->items[i];
      if (!document_.counts(*s, k)) {
        continue;
      }
      if (k == "$ref") {
        all &= kinds(document_.follow(x), level + 1);
      } else if (k == "type") {
        all &= document_.types(x);
      } else if (k == "const") {
        all &= schema_document::kind_of(x);
      } else if ((k == "enum" || k == "anyOf" || k == "oneOf") && x.is_list()) {
        unsigned some = 0;
        for (const json_value& y : x.items) {
          some |= k == "enum" ? schema_document::kind_of(y) : kinds(&y, level + 1);
        }
        all &= some;
      }
    }
    if (level == 0) {
      kinds_[s] = all;
    }
    return all;
  }
  /// A schema that is not spelled in the document.
  [[nodiscard]] static json_value schema_with(std::string keyword, json_value value) {
    json_value out;
    out.is = json_value::kind::object;
    out.add(std::move(keyword), std::move(value));
    out.index();
    return out;
  }

 private:
  [[nodiscard]] std::optional<std::vector<schema_ptr>> listed(schema_ptr s, int level) {
    left_.spend();
    if (!s->is_object() || level > 8) {
      return std::nullopt;
    }
    const auto counted = [&](const char* keyword) {
      const json_value* const x = s->find(keyword);
      return x != nullptr && document_.counts(*s, keyword) ? x : nullptr;
    };
    if (const json_value* const x = counted("const")) {
      return std::vector<schema_ptr>{x};
    }
    if (const json_value* const x = counted("enum"); x != nullptr && x->is_list()) {
      std::vector<schema_ptr> values;
      for (const json_value& y : x->items) {
        values.push_back(&y);
      }
      return values;
    }
    if (const json_value* const x = counted("$ref")) {
      if (auto values = listed(document_.follow(*x), level + 1)) {
        return values;
      }
    }
    if (const json_value* const x = counted("allOf"); x != nullptr && x->is_list()) {
      for (const json_value& y : x->items) {
        if (auto values = listed(&y, level + 1)) {
          return values;
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_valid(schema_ptr s, const json_value& v, int level) {
    left_.spend(8);
    if (level > 100) {
      document_.refuse(s, "references lead to themselves");
    }
    if (!s->is_object()) {
      return !s->is_boolean(false);
    }
    for (std::size_t i = 0; i < s->items.size(); ++i) {
      if (document_.counts(*s, s->names[i]) &&
          !is_valid_by(*s, s->names[i], s->items[i], v, level + 1)) {
        return false;
      }
    }
    return true;
  }
  // By one keyword.
  [[nodiscard]] bool is_valid_by(const json_value& s,
                                 const std::string& k,
                                 const json_value& x,
                                 const json_value& v,
                                 int level) {
    const auto holds = [&](const json_value& schema, const json_value& of) {
      return is_valid(&schema, of, level);
    };
    const auto here = [&](const json_value& schema) { return holds(schema, v); };
    if (schema_document::is_reference(k)) {
      return here(*document_.follow(x));
    }
    if (k == "type") {
      return (document_.types(x) & schema_document::kind_of(v)) != 0;
    }
    if (k == "const") {
      return canonical_text(x) == canonical_text(v);
    }
    if (k == "enum") {
      std::set<std::string>& known = enums_[&x];
      if (known.empty()) {
        for (const json_value& y : document_.list(x)) {
          left_.spend(32);
          known.insert(canonical_text(y));
        }
      }
      return known.count(canonical_text(v)) != 0;
    }
    if (k == "allOf" || k == "anyOf" || k == "oneOf") {
      const std::vector<json_value>& all = document_.list(x);
      const auto count = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), here));
      return k == "allOf" ? count == all.size() : k == "anyOf" ? count > 0 : count == 1;
    }
    if (k == "not") {
      return !here(x);
    }
    if (k == "if") {
      const json_value* const then = s.find(here(x) ? "then" : "else");
      return then == nullptr || here(*then);
    }
    switch (v.is) {
    case json_value::kind::number:
      return is_valid_number(s, k, x, v);
    case json_value::kind::string:
      return is_valid_string(k, x, v);
    case json_value::kind::list:
      return is_valid_list(s, k, x, v, holds);
    case json_value::kind::object:
      return is_valid_object(s, k, x, v, holds);
    default:
      return true;
    }
  }
  [[nodiscard]] bool is_valid_number(const json_value& s,
                                     const std::string& k,
                                     const json_value& x,
                                     const json_value& v) {
    const bool is_bound = k.ends_with("inimum") || k.ends_with("aximum");
    if (!x.is_number() || (!is_bound && k != "multipleOf")) {
      return true;
    }
    const decimal a = document_.number(v);
    const decimal b = document_.number(x);
    if (k == "multipleOf") {
      return document_.at_place(&x, [&] { return accepts_codes(multiples(b), a.plain()); });
    }
    const bool is_least = k.ends_with("inimum");
    const json_value* const beside = s.find(is_least ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool is_strict = k[0] == 'e' || (beside != nullptr && beside->is_boolean(true));
    const int order = is_least ? compare(a, b) : compare(b, a);
    return order > 0 || (order == 0 && !is_strict);
  }
  [[nodiscard]] bool
  is_valid_string(const std::string& k, const json_value& x, const json_value& v) {
    if (k == "pattern") {
      return accepts_codes(*pattern(&x, document_.string(x)), v.text);
    }
    if (k == "format") {
      const shared_automaton of = format(&x, document_.string(x));
      return of == nullptr || accepts_codes(*of, v.text);
    }
    if (k != "minLength" && k != "maxLength") {
      return true;
    }
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < v.text.size(); ++n) {
      static_cast<void>(next_code(v.text, i));
    }
    return k == "minLength" ? n >= document_.count(x) : n <= document_.count(x);
  }
  [[nodiscard]] bool is_valid_list(const json_value& s,
                                   const std::string& k,
                                   const json_value& x,
                                   const json_value& v,
                                   const auto& holds) {
    const std::vector<json_value>& items = v.items;
    const auto from = [&](std::size_t first, const json_value& schema) {
      for (std::size_t i = first; i < items.size(); ++i) {
        if (!holds(schema, items[i])) {
          return false;
        }
      }
      return true;
    };
    if (k == "minItems" || k == "maxItems") {
      return k == "minItems" ? items.size() >= document_.count(x)
                             : items.size() <= document_.count(x);
    }
    if (k == "prefixItems" || (k == "items" && x.is_list())) {
      for (std::size_t i = 0; i < std::min(items.size(), document_.list(x).size()); ++i) {
        if (!holds(x.items[i], items[i])) {
          return false;
        }
      }
      return true;
    }
    if (k == "items") {
      const json_value* const prefix = s.find("prefixItems");
      return from(prefix == nullptr ? 0 : prefix->items.size(), x);
    }
    if (k == "additionalItems") {
      const json_value* const prefix = s.find("items");
      return prefix == nullptr || !prefix->is_list() || from(prefix->items.size(), x);
    }
    if (k == "uniqueItems") {
      std::set<std::string> seen;
      for (const json_value& item : items) {
        if (!seen.insert(canonical_text(item)).second && x.is_boolean(true)) {
          return false;
        }
      }
      return true;
    }
    if (k == "contains") {
      const json_value* const least = s.find("minContains");
      const json_value* const most = s.find("maxContains");
      const auto count = static_cast<std::uint64_t>(std::count_if(
          items.begin(), items.end(), [&](const json_value& item) { return holds(x, item); }));
      return count >= (least == nullptr ? 1 : document_.count(*least)) &&
             (most == nullptr || count <= document_.count(*most));
    }
    if (k == "unevaluatedItems") {
      document_.refuse(&x, "is not kept together with constant lists");
    }
    return true;
  }
  [[nodiscard]] bool is_valid_object(const json_value& s,
                                     const std::string& k,
                                     const json_value& x,
                                     const json_value& v,
                                     const auto& holds) {
    if (k == "minProperties" || k == "maxProperties") {
      const std::uint64_t n = document_.count(x);
      return k == "minProperties" ? v.items.size() >= n : v.items.size() <= n;
    }
    if (k == "required") {
      return x.is_boolean() ||
             std::all_of(x.items.begin(), x.items.end(), [&](const json_value& n) {
               return v.find(document_.string(n)) != nullptr;
             });
    }
    const auto matches = [&](const json_value& at, const std::string& p, const std::string& name) {
      return accepts_codes(*pattern(&at, p), name);
    };
    if (k == "properties" || k.starts_with("depend")) {
      for (std::size_t i = 0; i < document_.object(x).items.size(); ++i) {
        const json_value* const member = v.find(x.names[i]);
        const json_value& y = x.items[i];
        if (member == nullptr) {
          continue;
        }
        const bool is_kept = k == "properties" ? holds(y, *member)
                             : !y.is_list()
                                 ? holds(y, v)
                                 : std::all_of(y.items.begin(), y.items.end(), [&](const auto& n) {
                                     return v.find(document_.string(n)) != nullptr;
                                   });
        if (!is_kept) {
          return false;
        }
      }
      return true;
    }
    if (k == "unevaluatedProperties") {
      document_.refuse(&x, "is not kept together with constant objects");
    }
    const json_value* const properties = s.find("properties");
    const json_value* const patterns = s.find("patternProperties");
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      const std::string& name = v.names[i];
      bool is_mentioned = properties != nullptr && properties->find(name) != nullptr;
      for (std::size_t p = 0; patterns != nullptr && p < patterns->items.size(); ++p) {
        const json_value& schema = patterns->items[p];
        if (matches(schema, patterns->names[p], name)) {
          is_mentioned = true;
          if (k == "patternProperties" && !holds(schema, v.items[i])) {
            return false;
          }
        }
      }
      if (k == "additionalProperties" && !is_mentioned && !holds(x, v.items[i])) {
        return false;
      }
      if (k == "propertyNames") {
        json_value text;
        text.is = json_value::kind::string;
        text.text = name;
        if (!holds(x, text)) {
          return false;
        }
      }
    }
    return true;
  }

  std::unordered_map<schema_ptr, std::set<std::string>> enums_;
  std::unordered_map<schema_ptr, unsigned> kinds_;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
