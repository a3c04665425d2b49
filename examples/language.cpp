// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schema and an expression as automata over bytes, without another program. [language]
#include <unmask/language.hpp>

#include <cstdio>

int main() {
  const auto person = unmask::language::compile_schema(
      R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})");
  std::printf("%d %d\n", person.bytes.accepts(R"({"age": 73})"), person.bytes.accepts("{}"));

  const auto broken = unmask::language::compile_expression("[0-9]{4}-(\\d");
  std::puts(broken.refused->message.c_str());
}
// [/language]
