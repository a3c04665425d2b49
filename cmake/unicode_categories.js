// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes include/unmask/language/unicode_categories.hpp from the Unicode data of this Node:
//
//   node cmake/unicode_categories.js > include/unmask/language/unicode_categories.hpp
"use strict";
const names = ["Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"];
const tests = names.map((name) => new RegExp(`^\\p{${name}}$`, "u"));
const of = (code) => tests.findIndex((test) => test.test(String.fromCodePoint(code)));
const bytes = [];
let runs = 0, last = -1, length = 0;
const put = () => {
  if (length === 0) return;
  ++runs;
  if (length < 8) {
    bytes.push(last | (length << 5));
    return;
  }
  bytes.push(last);
  for (; length > 127; length >>= 7) bytes.push((length & 127) | 128);
  bytes.push(length);
};
for (let code = 0; code <= 0x10ffff; ++code) {
  const category = of(code);
  if (category !== last) {
    put();
    [last, length] = [category, 0];
  }
  ++length;
}
put();
const lines = [];
for (let i = 0; i < bytes.length; i += 24) lines.push("    " + bytes.slice(i, i + 24).join(", ") + ",");
console.log(`// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <cstdint>
#include <string_view>

// Made by cmake/unicode_categories.js of Unicode ${process.versions.unicode}: ${runs} runs, ${bytes.length} bytes.
namespace UNMASK_NAMESPACE::detail::languages {

/// General categories by number.
inline constexpr std::string_view category_names[] = {
    ${names.map((name) => `"${name}"`).join(", ")}};

/// The category of every code point in runs: 5 bits for the category and 3 bits for the length, 1 .. 7,
/// or 0 where the length follows in bytes of 7 bits, low bits first.
// clang-format off
inline constexpr std::uint8_t category_runs[] = {
${lines.join("\n")}
};
// clang-format on

}  // namespace UNMASK_NAMESPACE::detail::languages`);
