// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>
#include <unmask/text/json_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// A name as a part of a JSON pointer.
[[nodiscard]] inline std::string pointer_part(std::string_view name) {
  std::string out;
  for (const char c : name) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

/// A value of JSON: numbers as they are written, members in their order.
struct json_value {
  enum class kind : std::uint8_t { null, boolean, number, string, list, object };
  kind is = kind::null;
  bool truth = false;
  std::uint32_t id = 0;                ///< Order of the values of a document.
  std::string text;                    ///< The digits of a number, or the characters of a string.
  std::vector<json_value> items;       ///< The items of a list, or the values of an object.
  std::vector<std::string> names;      ///< [items] of an object.
  std::vector<std::uint32_t> by_name;  ///< Members in the order of their names.

  [[nodiscard]] bool is_object() const { return is == kind::object; }
  [[nodiscard]] bool is_list() const { return is == kind::list; }
  [[nodiscard]] bool is_string() const { return is == kind::string; }
  [[nodiscard]] bool is_number() const { return is == kind::number; }
  [[nodiscard]] bool is_boolean() const { return is == kind::boolean; }
  [[nodiscard]] bool is_boolean(bool value) const { return is_boolean() && truth == value; }
  /// The member of that name, or nullptr; also if this is not an object.
  [[nodiscard]] const json_value* find(std::string_view name) const {
    const auto at = std::lower_bound(
        by_name.begin(), by_name.end(), name, [this](std::uint32_t i, std::string_view wanted) {
          return names[i] < wanted;
        });
    return at != by_name.end() && names[*at] == name ? &items[*at] : nullptr;
  }
  /// Adds a member; one of the same name must not be there. Call index() at the end.
  void add(std::string name, json_value value) {
    names.push_back(std::move(name));
    items.push_back(std::move(value));
  }
  /// Sorts the names. Of members with one name the last counts, as in other readers.
  void index() {
    by_name.resize(names.size());
    for (std::uint32_t i = 0; i < by_name.size(); ++i) {
      by_name[i] = i;
    }
    std::stable_sort(by_name.begin(), by_name.end(), [this](std::uint32_t a, std::uint32_t b) {
      return names[a] < names[b];
    });
    const auto is_repeated = [this](std::uint32_t a, std::uint32_t b) {
      return names[a] == names[b];
    };
    if (std::adjacent_find(by_name.begin(), by_name.end(), is_repeated) == by_name.end()) {
      return;
    }
    std::vector<std::uint8_t> is_last(names.size(), 1);
    for (std::size_t i = 0; i + 1 < by_name.size(); ++i) {
      is_last[by_name[i]] = is_repeated(by_name[i], by_name[i + 1]) ? 0 : 1;
    }
    json_value kept;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (is_last[i] != 0) {
        kept.add(std::move(names[i]), std::move(items[i]));
      }
    }
    names = std::move(kept.names);
    items = std::move(kept.items);
    index();
  }
};

/// Reads a document. Throws refused with the line and the column.
class json_document_reader {
 public:
  json_document_reader(std::string_view text, std::string_view source, budget& left)
      : reader_(text, source)
      , left_(left) {
    reader_.refuse_half_pairs();
  }

  [[nodiscard]] json_value read() {
    try {
      json_value out = value(0);
      reader_.finish();
      return out;
    } catch (const std::invalid_argument& error) {
      throw refused(error.what());
    }
  }

 private:
  static constexpr int most_levels = 200;

  json_value value(int level) {
    if (level == most_levels) {
      reader_.fail("values may be nested " + std::to_string(most_levels) + " deep, not deeper");
    }
    left_.check_positions(++count_);
    json_value out;
    out.id = count_;
    switch (reader_.next()) {
    case '{':
      out.is = json_value::kind::object;
      reader_.object([&](std::string_view name) { out.add(std::string(name), value(level + 1)); });
      out.index();
      break;
    case '[':
      out.is = json_value::kind::list;
      reader_.list([&] { out.items.push_back(value(level + 1)); });
      break;
    case '"':
      out.is = json_value::kind::string;
      out.text = reader_.string();
      break;
    case '-':
      out.is = json_value::kind::number;
      out.text = reader_.digits();
      break;
    case 't':
    case 'f':
      out.is = json_value::kind::boolean;
      out.truth = reader_.boolean();
      break;
    default:
      reader_.null();
    }
    return out;
  }

  json_reader reader_;
  budget& left_;
  std::uint32_t count_ = 0;
};

/// A string of JSON, as text_bytes spells it.
[[nodiscard]] inline std::string json_string_of(std::string_view text) {
  std::string out = "\"";
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view names = "\"\\bfnrt";
  for (const char c : text) {
    if (const std::size_t i = special.find(c); i != std::string_view::npos) {
      out += '\\';
      out += names[i];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4U];
      out += digits[static_cast<unsigned char>(c) & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace UNMASK_NAMESPACE::detail::languages
