// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table that the library's own compiler makes of an expression.
//
// usage: table EXPRESSION FILE
#include <unmask/language.hpp>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: table EXPRESSION FILE\n");
    return 2;
  }
  const unmask::language::compiled made = unmask::language::compile_expression(arguments[1]);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.refused->message.c_str());
    return 1;
  }
  unmask::write_byte_table(arguments[2], made.bytes.table().view());
}
