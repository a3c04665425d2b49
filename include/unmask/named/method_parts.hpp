// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>
#include <unmask/named/named_policy.hpp>
#include <unmask/named/policy_text.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace UNMASK_NAMESPACE::detail {

// The first of a list with that name. (libc++ has std::ranges::find() from LLVM 15 on.)
[[nodiscard]] auto with_name(const auto& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& x) { return x.name == name; });
}

// True if the part has an argument of that name.
[[nodiscard]] inline bool
has_argument(std::span<const known_part> known, const part_text& written, std::string_view name) {
  const auto part = with_name(known, written.name);
  return part != known.end() && with_name(part->arguments, name) != part->arguments.end();
}

// Names the arguments that are given by place, up to the number that the part has.
inline void name_arguments(std::span<const known_part> known, part_text& written) {
  const auto part = with_name(known, written.name);
  if (part == known.end()) {
    return;
  }
  for (std::size_t i = 0; i < std::min(written.arguments.size(), part->arguments.size()); ++i) {
    argument_text& argument = written.arguments[i];
    argument.name = argument.name.empty() ? part->arguments[i].name : argument.name;
  }
}

// Lists the parts of a text that have arguments of their own, those inside any_of and so on too,
// and gives them and their arguments places: the column, and 0, of the method.
inline void list_parts(part_text& part, std::size_t column, std::vector<part_text*>& all) {
  part.column = column;
  const bool joins = part.name == "any_of" || part.name == "all_of" || part.name == "at_most";
  for (argument_text& argument : part.arguments) {
    argument.value.column = 0;
    if (joins && argument.value.part != nullptr) {
      list_parts(*argument.value.part, column, all);
    }
  }
  if (!joins) {
    all.push_back(&part);
  }
}

// The parts of a method. A written argument by place is one of the first part, by name one of the
// first part that has it; arguments that are not written keep the values of the method. Errors:
// std::invalid_argument for a name that no part has.
[[nodiscard]] inline std::vector<part_text>
parts_of(std::span<const known_part> known, const known_method& method, const part_text& written) {
  std::vector<part_text> parts = parse_policy_text(method.text);
  std::vector<part_text*> all;
  for (part_text& part : parts) {
    list_parts(part, written.column, all);
  }
  part_text given = written;
  given.name = all[0]->name;
  name_arguments(known, given);
  for (const argument_text& argument : given.arguments) {
    const auto to = std::find_if(all.begin(), all.end(), [&](const part_text* part) {
      return has_argument(known, *part, argument.name);
    });
    if (to == all.end() && !argument.name.empty()) {
      throw std::invalid_argument(std::string(method.name) + " has no argument '" +
                                  std::string(argument.name) +
                                  "', nor has a part of it: " + std::string(method.text));
    }
    part_text& part = to == all.end() ? *all[0] : **to;
    name_arguments(known, part);
    std::erase_if(part.arguments, [&](const argument_text& own) {
      return own.name == argument.name && own.value.column == 0;
    });
    part.arguments.push_back(argument);
  }
  return parts;
}

}  // namespace unmask::detail
