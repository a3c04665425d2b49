// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Reading JSON lines with errors that say where: file, line number, path inside the line, key.

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace unmask::goldens {

using json = nlohmann::json;

/// A line that does not have the shape of its schema.
class schema_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A JSON value with its place in the text. It keeps the whole line alive.
class node {
 public:
  node(std::shared_ptr<const json> line, std::string where)
      : line_(std::move(line))
      , value_(line_.get())
      , where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const json& raw() const noexcept { return *value_; }
  [[nodiscard]] bool is_null() const noexcept { return value_->is_null(); }
  [[nodiscard]] bool is_array() const noexcept { return value_->is_array(); }

  /// Whether the key is there and not null.
  [[nodiscard]] bool has(const std::string& key) const {
    const auto found = value_->find(key);
    return found != value_->end() && !found->is_null();
  }

  /// The value of a key that the schema requires.
  [[nodiscard]] node at(const std::string& key) const {
    if (!value_->is_object()) {
      fail("expected an object that holds \"" + key + "\"");
    }
    const auto found = value_->find(key);
    if (found == value_->end()) {
      fail("missing key \"" + key + "\"");
    }
    return {line_, *found, where_ + ": " + key};
  }

  /// Element k of an array.
  [[nodiscard]] node at(std::size_t k) const {
    if (k >= size()) {
      fail("missing element " + std::to_string(k));
    }
    return {line_, (*value_)[k], where_ + "[" + std::to_string(k) + "]"};
  }

  [[nodiscard]] std::size_t size() const {
    if (!value_->is_array()) {
      fail("expected an array");
    }
    return value_->size();
  }

  template <class T>
  [[nodiscard]] T get() const {
    try {
      return value_->template get<T>();
    } catch (const json::exception& error) {
      fail(error.what());
    }
  }

  template <class T>
  [[nodiscard]] T get(const std::string& key) const {
    return at(key).template get<T>();
  }

  /// The value of a key, or `otherwise` where it is missing or null.
  template <class T>
  [[nodiscard]] T get_or(const std::string& key, T otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }

  /// A 64-bit guard, written as hexadecimal digits.
  [[nodiscard]] std::uint64_t hex(const std::string& key) const {
    const auto digits = get<std::string>(key);
    if (digits.empty() || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      at(key).fail("expected hexadecimal digits");
    }
    return std::stoull(digits, nullptr, 16);
  }

  /// An array of arrays or numbers, each read by `read(element)`.
  template <class Read>
  [[nodiscard]] auto list(const std::string& key, Read&& read) const {
    const node array = at(key);
    std::vector<decltype(read(array))> result;
    result.reserve(array.size());
    for (std::size_t k = 0; k < array.size(); ++k) {
      result.push_back(read(array.at(k)));
    }
    return result;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw schema_error(where_ + ": " + what);
  }

 private:
  node(std::shared_ptr<const json> line, const json& value, std::string where)
      : line_(std::move(line))
      , value_(&value)
      , where_(std::move(where)) {}

  std::shared_ptr<const json> line_;
  const json* value_;
  std::string where_;
};

/// Every line of a file of JSON lines, in order. Empty lines are skipped.
[[nodiscard]] inline std::vector<node> read_json_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw schema_error(path + ": cannot be opened");
  }
  std::vector<node> lines;
  std::string text;
  for (std::size_t number = 1; std::getline(file, text); ++number) {
    if (text.empty()) {
      continue;
    }
    const std::string where = path + ":" + std::to_string(number);
    try {
      lines.emplace_back(std::make_shared<const json>(json::parse(text)), where);
    } catch (const json::exception& error) {
      throw schema_error(where + ": " + error.what());
    }
  }
  return lines;
}

}  // namespace unmask::goldens
