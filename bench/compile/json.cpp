// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The yardstick: what a program pays that reads a text with nlohmann/json and writes it again.
#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

int main(int count, char** arguments) {
  const std::string text = count > 1 ? arguments[1] : R"({"policy": ["credit", 0.9]})";
  const nlohmann::json value = nlohmann::json::parse(text);
  std::cout << value.dump(2) << '\n';
}
