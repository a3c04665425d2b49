// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>
#include <unmask/language/decimal.hpp>
#include <unmask/language/json_value.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// A schema, or a value in one.
using schema_ptr = const json_value*;

/// Kinds of values, as bits.
enum value_kinds : unsigned {
  null_kind = 1,
  false_kind = 2,
  true_kind = 4,
  integer_kind = 8,
  fraction_kind = 16,  ///< Numbers that are not whole.
  string_kind = 32,
  list_kind = 64,
  object_kind = 128,
  number_kinds = integer_kind | fraction_kind,
  all_kinds = 255,
};

/// The document of a schema: places for messages, references, values of keywords.
class schema_document {
 public:
  schema_document(std::string_view text, budget& left)
      : schema_document(json_document_reader(text, "the schema", left).read(), left) {}
  schema_document(json_value root, budget& left)
      : left_(left)
      , root_(std::move(root)) {
    next_id_ = 0x80000000U;
    true_.is = json_value::kind::boolean;
    true_.truth = true;
    read_draft();
    visit(root_, "", nullptr, position::schema);
  }
  schema_document(const schema_document&) = delete;
  schema_document& operator=(const schema_document&) = delete;

  [[nodiscard]] schema_ptr root() const { return &root_; }
  /// The schema `true`.
  [[nodiscard]] schema_ptr anything() const { return &true_; }
  /// Whether $ref excludes other keywords, and `id` and `items` mean what they did.
  [[nodiscard]] bool is_old() const { return is_old_; }
  [[nodiscard]] budget& left() const { return left_; }

  /// Throws refused with the place of a value in front.
  [[noreturn]] void refuse(schema_ptr at, const std::string& why) const {
    const auto found = places_.find(at);
    const std::string place = found == places_.end() ? "" : found->second;
    throw refused(refusal{(place.empty() ? "the schema" : place) + ": " + why, place, 0});
  }
  /// Calls use(), and puts the place in front of what it throws without one.
  template <class Use>
  auto at_place(schema_ptr at, const Use& use) const {
    try {
      return use();
    } catch (const refused& error) {
      const bool has_place =
          !error.why().place.empty() || error.why().message.starts_with("the schema");
      if (has_place || places_.find(at) == places_.end()) {
        throw;
      }
      refusal why = error.why();
      why.place = places_.at(at);
      why.message = (why.place.empty() ? "the schema" : why.place) + ": " + why.message;
      throw refused(why);
    }
  }
  /// Keeps a value that the compiler made; messages name it by the place of another.
  [[nodiscard]] schema_ptr keep(json_value value, schema_ptr place_of) {
    made_.push_back(std::move(value));
    name(made_.back(), place_of);
    return &made_.back();
  }

  // Values of keywords.
  [[nodiscard]] std::uint64_t count(const json_value& x) const {
    const decimal d = x.is_number() ? decimal::of(x.text) : decimal{};
    if (!x.is_number() || d.is_negative || !d.is_whole()) {
      refuse(&x, "must be a whole number of at least 0");
    }
    std::uint64_t n = 0;
    if (d.whole_size() > 15) {
      return many;
    }
    for (const char c : d.whole()) {
      n = n * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return n;
  }
  [[nodiscard]] decimal number(const json_value& x) const {
    if (!x.is_number()) {
      refuse(&x, "must be a number");
    }
    return at_place(&x, [&] { return decimal::of(x.text); });
  }
  [[nodiscard]] const std::vector<json_value>& list(const json_value& x) const {
    if (!x.is_list()) {
      refuse(&x, "must be a list");
    }
    return x.items;
  }
  [[nodiscard]] const json_value& object(const json_value& x) const {
    if (!x.is_object()) {
      refuse(&x, "must be an object");
    }
    return x;
  }
  [[nodiscard]] const std::string& string(const json_value& x) const {
    if (!x.is_string()) {
      refuse(&x, "must be a string");
    }
    return x.text;
  }
  /// The kinds that the value of `type` names.
  [[nodiscard]] unsigned types(const json_value& x) const {
    if (!x.is_list()) {
      return type(x);
    }
    unsigned all = 0;
    for (const json_value& y : x.items) {
      all |= type(y);
    }
    return all;
  }
  /// The kind of a value.
  [[nodiscard]] static unsigned kind_of(const json_value& v) {
    switch (v.is) {
    case json_value::kind::null:
      return null_kind;
    case json_value::kind::boolean:
      return v.truth ? true_kind : false_kind;
    case json_value::kind::number:
      return decimal::of(v.text).is_whole() ? integer_kind : fraction_kind;
    case json_value::kind::string:
      return string_kind;
    case json_value::kind::list:
      return list_kind;
    case json_value::kind::object:
      break;
    }
    return object_kind;
  }
  /// A bound that every count is below.
  static constexpr std::uint64_t no_bound = ~std::uint64_t{0};
  /// A count of more digits than are read.
  static constexpr std::uint64_t many = no_bound - 2;

  /// Whether a keyword is an annotation, or is read together with another keyword.
  [[nodiscard]] static bool says_something(std::string_view keyword) {
    static constexpr std::string_view keywords[] = {
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "type",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "properties",
        "required",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedItems",
        "unevaluatedProperties",
    };
    return std::find(std::begin(keywords), std::end(keywords), keyword) != std::end(keywords);
  }
  /// Whether a keyword is a reference of this draft.
  [[nodiscard]] static bool is_reference(std::string_view keyword) {
    return keyword == "$ref" || keyword == "$dynamicRef" || keyword == "$recursiveRef";
  }
  /// Whether a keyword of a schema counts: beside $ref of an old draft none does.
  [[nodiscard]] bool counts(const json_value& schema, std::string_view keyword) const {
    return says_something(keyword) &&
           (!is_old_ || keyword == "$ref" || schema.find("$ref") == nullptr);
  }
  /// The schema that a reference names.
  [[nodiscard]] schema_ptr follow(const json_value& reference) {
    const auto known = references_.find(&reference);
    if (known != references_.end()) {
      return known->second;
    }
    const schema_ptr found = find(reference);
    return references_[&reference] = found;
  }

 private:
  struct resource {
    schema_ptr schema;
    std::string uri;
  };

  [[nodiscard]] unsigned type(const json_value& x) const {
    struct named {
      std::string_view name;
      unsigned kinds;
    };
    static constexpr named names[] = {
        {"object", object_kind},
        {"array", list_kind},
        {"string", string_kind},
        {"integer", integer_kind},
        {"number", number_kinds},
        {"boolean", true_kind | false_kind},
        {"null", null_kind},
    };
    for (const named& n : names) {
      if (x.is_string() && x.text == n.name) {
        return n.kinds;
      }
    }
    refuse(&x, "must be object, array, string, integer, number, boolean or null");
  }

  void read_draft() {
    const json_value* const draft = root_.find("$schema");
    if (draft == nullptr || !draft->is_string()) {
      return;
    }
    for (const std::string_view old :
         {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}) {
      is_old_ = is_old_ || draft->text.find(old) != std::string::npos;
    }
    has_plain_id_ = draft->text.find("draft-04") != std::string::npos ||
                    draft->text.find("draft-03") != std::string::npos;
  }
  // The value of $id, or of `id` in draft 4; an anchor in old drafts is none.
  [[nodiscard]] const json_value* id_of(const json_value& v) const {
    const json_value* const id = v.find(has_plain_id_ ? "id" : "$id");
    const bool is_hidden = is_old_ && v.find("$ref") != nullptr;
    return id != nullptr && id->is_string() && !id->text.empty() && id->text[0] != '#' && !is_hidden
               ? id
               : nullptr;
  }
  // Role of a place: $id and anchors in constants and in unknown keywords are none.
  enum class position : std::uint8_t { schema, schemas, data };
  static position position_in(std::string_view keyword, const json_value& v) {
    static constexpr std::string_view of_schema[] = {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    };
    static constexpr std::string_view of_schemas[] = {
        "$defs",
        "allOf",
        "anyOf",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "properties",
    };
    const auto is_in = [&](const auto& names) {
      return std::find(std::begin(names), std::end(names), keyword) != std::end(names);
    };
    return is_in(of_schemas) || (keyword == "items" && v.is_list()) ? position::schemas
           : is_in(of_schema)                                       ? position::schema
                                                                    : position::data;
  }
  void visit(const json_value& v, const std::string& place, const resource* in, position is) {
    left_.spend(64 + place.size());
    places_[&v] = place;
    if (place.empty() || (v.is_object() && is == position::schema)) {
      const json_value* const id = id_of(v);
      if (place.empty() || id != nullptr) {
        std::string uri = id == nullptr ? "" : resolve(in == nullptr ? "" : in->uri, id->text);
        uri = uri.substr(0, uri.find('#'));
        resources_.push_back({&v, std::move(uri)});
        in = &resources_.back();
      }
      for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
        if (const json_value* const name = v.find(keyword); name != nullptr && name->is_string()) {
          anchors_.push_back({in, name->text, &v, keyword == "$dynamicAnchor"});
        }
      }
      for (const std::string_view keyword : {"$id", "id"}) {
        const json_value* const name = v.find(keyword);
        if (name != nullptr && name->is_string() && name->text.size() > 1 && name->text[0] == '#') {
          anchors_.push_back({in, name->text.substr(1), &v, false});
        }
      }
    }
    in_[&v] = in;
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      const std::string key = v.is_object() ? pointer_part(v.names[i]) : std::to_string(i);
      visit(v.items[i],
            place + "/" + key,
            in,
            is == position::schemas                   ? position::schema
            : is == position::schema && v.is_object() ? position_in(v.names[i], v.items[i])
                                                      : position::data);
    }
  }
  void name(json_value& v, schema_ptr place_of) {
    v.id = next_id_++;
    if (const auto place = places_.find(place_of); place != places_.end()) {
      places_[&v] = place->second;
    }
    for (json_value& item : v.items) {
      name(item, place_of);
    }
  }

  // RFC 3986, 5.2, as far as schemas need it.
  static std::string resolve(const std::string& base, const std::string& reference) {
    const std::size_t scheme = reference.find(':');
    if (base.empty() || (scheme != std::string::npos &&
                         scheme < std::min(reference.find_first_of("/?#"), reference.size()))) {
      return reference;
    }
    const std::string whole = base.substr(0, base.find('#'));
    if (reference.empty() || reference[0] == '#') {
      return whole + reference;
    }
    const std::size_t colon = whole.find(':');
    const bool has_host = colon != std::string::npos && whole.compare(colon, 3, "://") == 0;
    const std::size_t path =
        has_host ? std::min(whole.find('/', colon + 3), whole.size()) : colon + 1;
    if (reference.compare(0, 2, "//") == 0) {
      return whole.substr(0, colon + 1) + reference;
    }
    std::string joined;
    if (reference[0] == '/') {
      joined = reference;
    } else {
      const std::size_t slash = whole.rfind('/');
      joined = slash == std::string::npos || slash < path
                   ? (has_host ? "/" : "") + reference
                   : whole.substr(path, slash + 1 - path) + reference;
    }
    for (std::size_t at = joined.find("/./"); at != std::string::npos; at = joined.find("/./")) {
      joined.erase(at, 2);
    }
    for (std::size_t at = joined.find("/../"); at != std::string::npos; at = joined.find("/../")) {
      const std::size_t before = at == 0 ? 0 : joined.rfind('/', at - 1);
      joined.erase(before == std::string::npos ? 0 : before,
                   at + 3 - (before == std::string::npos ? 0 : before));
    }
    return whole.substr(0, path) + joined;
  }

  struct anchor {
    const resource* in;
    std::string name;
    schema_ptr schema;
    bool is_dynamic;
  };

  [[nodiscard]] schema_ptr find(const json_value& reference) {
    const std::string& text = string(reference);
    const auto here = in_.find(&reference);
    const resource* const from =
        here == in_.end() || here->second == nullptr ? &resources_.front() : here->second;
    const std::size_t hash = std::min(text.find('#'), text.size());
    const resource* to = from;
    if (hash > 0) {
      const std::string uri = resolve(from->uri, text.substr(0, hash));
      const auto is_meant = [&uri](const resource& r) { return r.uri == uri; };
      const auto found = std::find_if(resources_.begin(), resources_.end(), is_meant);
      if (found == resources_.end()) {
        refuse(&reference,
               "must be a place in this schema, \"#/...\", got " +
                   json_string_of(text.substr(0, 60)));
      }
      to = &*found;
    }
    const std::string pointer = unescaped(text.substr(std::min(hash + 1, text.size())));
    const schema_ptr found = pointer.empty()     ? to->schema
                             : pointer[0] == '/' ? pointed(*to, pointer)
                                                 : anchored(*to, pointer, reference);
    if (found == nullptr) {
      refuse(&reference, json_string_of(text.substr(0, 60)) + " is not a place in this schema");
    }
    return found;
  }
  // %XX of a fragment.
  static std::string unescaped(const std::string& text) {
    const auto digit = [](char c) {
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
          digit(text[i + 2]) >= 0) {
        out += static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2]));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  }
  [[nodiscard]] schema_ptr pointed(const resource& in, const std::string& pointer) {
    schema_ptr at = in.schema;
    for (std::size_t i = 0; at != nullptr && i < pointer.size();) {
      left_.spend(16);
      const std::size_t end = std::min(pointer.find('/', i + 1), pointer.size());
      std::string key;
      for (std::size_t j = i + 1; j < end; ++j) {
        if (pointer[j] == '~' && j + 1 < end && (pointer[j + 1] == '0' || pointer[j + 1] == '1')) {
          key += pointer[++j] == '1' ? '/' : '~';
        } else {
          key += pointer[j];
        }
      }
      i = end;
      if (at->is_list()) {
        const bool is_index = !key.empty() && key.size() < 9 &&
                              key.find_first_not_of("0123456789") == std::string::npos;
        const std::size_t index = is_index ? static_cast<std::size_t>(std::stoul(key)) : 0;
        at = is_index && index < at->items.size() ? &at->items[index] : nullptr;
      } else {
        at = at->find(key);
      }
      if (at != nullptr && i < pointer.size() && in_.at(at)->schema == at) {
        refuse(at, "a reference leads through another $id");
      }
    }
    return at;
  }
  [[nodiscard]] schema_ptr
  anchored(const resource& in, const std::string& name, const json_value& reference) const {
    schema_ptr found = nullptr;
    std::size_t dynamic = 0;
    bool is_dynamic = false;
    for (const anchor& a : anchors_) {
      if (a.name != name) {
        continue;
      }
      dynamic += a.is_dynamic ? 1 : 0;
      if (a.in == &in) {
        found = a.schema;
        is_dynamic = a.is_dynamic;
      }
    }
    // Which of several a dynamic reference means depends on the way that led there.
    if (is_dynamic && dynamic > 1 && is_dynamic_reference(reference)) {
      refuse(&reference, "several schemas have this $dynamicAnchor; refer to one of them by $ref");
    }
    return found;
  }
  [[nodiscard]] bool is_dynamic_reference(const json_value& reference) const {
    const std::string& place = places_.at(&reference);
    return place.ends_with("/$dynamicRef") || place.ends_with("/$recursiveRef");
  }

  budget& left_;
  json_value root_;
  json_value true_;
  bool is_old_ = false;
  bool has_plain_id_ = false;
  std::uint32_t next_id_ = 0;
  std::deque<json_value> made_;
  std::deque<resource> resources_;
  std::vector<anchor> anchors_;
  std::unordered_map<schema_ptr, std::string> places_;
  std::unordered_map<schema_ptr, const resource*> in_;
  std::unordered_map<schema_ptr, schema_ptr> references_;
};

/// A text that two values share exactly if they are equal.
[[nodiscard]] inline std::string canonical_text(const json_value& v) {
  switch (v.is) {
  case json_value::kind::null:
    return "null";
  case json_value::kind::boolean:
    return v.truth ? "true" : "false";
  case json_value::kind::number: {
    const decimal d = decimal::of(v.text);
    return (d.is_negative ? "-" : "") + d.digits + "e" + std::to_string(d.exponent);
  }
  case json_value::kind::string:
    return json_string_of(v.text);
  case json_value::kind::list: {
    std::string out = "[";
    for (const json_value& item : v.items) {
      out += canonical_text(item) + ",";
    }
    return out + "]";
  }
  case json_value::kind::object:
    break;
  }
  std::string out = "{";
  for (const std::uint32_t i : v.by_name) {
    out += json_string_of(v.names[i]) + ":" + canonical_text(v.items[i]) + ",";
  }
  return out + "}";
}

}  // namespace UNMASK_NAMESPACE::detail::languages
