// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <string>

namespace unmask::testing {

/// Checks values against a schema that uses the keywords below; throws std::logic_error for a
/// schema with another one.
class json_schema {
 public:
  explicit json_schema(nlohmann::json schema)
      : root_(std::move(schema)) {}

  /// The first rule that the value breaks, with its place; empty if there is none.
  [[nodiscard]] std::string complaint(const nlohmann::json& value) const {
    return complaint(root_, value, "$");
  }

 private:
  using json = nlohmann::json;

  [[nodiscard]] static bool is(const json& value, const std::string& type) {
    return type == "integer"  ? value.is_number_integer()
           : type == "number" ? value.is_number()
           : type == "string" ? value.is_string()
           : type == "array"  ? value.is_array()
           : type == "object" ? value.is_object()
           : type == "null"   ? value.is_null()
                              : throw std::logic_error("type " + type);
  }

  [[nodiscard]] std::string
  complaint(const json& schema, const json& value, const std::string& at) const {
    for (const auto& [word, rule] : schema.items()) {
      std::string found;
      if (word == "$ref") {
        const auto name = rule.get<std::string>();
        found = complaint(root_.at(json::json_pointer(name.substr(1))), value, at);
      } else if (word == "oneOf") {
        std::string all;
        const auto fitting = std::count_if(rule.begin(), rule.end(), [&](const json& one) {
          const std::string why = complaint(one, value, at);
          all += why + "; ";
          return why.empty();
        });
        found = fitting == 1 ? "" : at + " fits " + std::to_string(fitting) + ": " + all;
      } else if (word == "type") {
        const json types = rule.is_array() ? rule : json::array({rule});
        const bool fits = std::any_of(types.begin(), types.end(), [&](const json& type) {
          return is(value, type.get<std::string>());
        });
        found = fits ? "" : at + " is no " + rule.dump();
      } else if (word == "const" || word == "enum") {
        const json values = word == "enum" ? rule : json::array({rule});
        const bool fits = std::find(values.begin(), values.end(), value) != values.end();
        found = fits ? "" : at + " is not " + rule.dump();
      } else if (word == "minimum") {
        found = !value.is_number() || value >= rule ? "" : at + " is below " + rule.dump();
      } else if (word == "minItems" || word == "maxItems") {
        const bool fits = word == "minItems" ? value.size() >= rule : value.size() <= rule;
        found = fits ? "" : at + " has " + std::to_string(value.size()) + " items";
      } else if (word == "pattern") {
        const std::regex pattern(rule.get<std::string>());
        found =
            std::regex_match(value.get<std::string>(), pattern) ? "" : at + " is " + value.dump();
      } else if (word == "items") {
        for (std::size_t i = 0; value.is_array() && i < value.size() && found.empty(); ++i) {
          found = complaint(rule, value[i], at + '[' + std::to_string(i) + ']');
        }
      } else if (word == "required") {
        for (const json& name : rule) {
          if (value.is_object() && !value.contains(name.get<std::string>())) {
            found = at + " has no " + name.dump();
          }
        }
      } else if (word == "properties") {
        for (const auto& [name, inner] : rule.items()) {
          if (found.empty() && value.is_object() && value.contains(name)) {
            found = complaint(inner, value[name], at + '.' + name);
          }
        }
      } else if (word == "additionalProperties") {
        for (const auto& [name, inner] : value.items()) {
          found = found.empty() ? complaint(rule, inner, at + '.' + name) : found;
        }
      } else if (word != "$schema" && word != "$defs" && word != "title" && word != "description") {
        throw std::logic_error("keyword " + word);
      }
      if (!found.empty()) {
        return found;
      }
    }
    return {};
  }

  json root_;
};

}  // namespace unmask::testing
