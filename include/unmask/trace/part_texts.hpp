// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/named/method_parts.hpp>
#include <unmask/named/read_policy.hpp>

#include <string>
#include <string_view>
#include <vector>

/// Host only: the parts of a policy as texts, in the order that candidate_entry::part counts.
namespace UNMASK_NAMESPACE {

namespace detail {

inline void add_part_texts(const part_text& written, std::vector<std::string>& all) {
  const bool limits = written.name == "at_most";
  if (limits && !written.arguments.empty()) {
    all.push_back("at_most(" + std::string(written.arguments[0].value.text) + ")");
  }
  if (limits || written.name == "any_of" || written.name == "all_of") {
    for (const argument_text& a : written.arguments) {
      if (a.value.part != nullptr) {
        add_part_texts(*a.value.part, all);
      }
    }
    return;
  }
  if (const std::optional<known_method> method = find_method(written.name)) {
    for (const part_text& part : parts_of(known_parts(), *method, written)) {
      add_part_texts(part, all);
    }
    return;
  }
  std::string text(written.name);
  for (const argument_text& a : written.arguments) {
    text += &a == written.arguments.data() ? "(" : ", ";
    text += a.name.empty() ? std::string() : std::string(a.name) + "=";
    text += a.value.text;
  }
  all.push_back(text + (written.arguments.empty() ? "" : ")"));
}

}  // namespace detail

/// The parts of a policy given as text: methods are replaced by their parts, and parts inside
/// any_of, all_of and at_most are counted one by one; an at_most counts before the parts of its
/// rule.
/// Errors: policy_text_error where the text does not follow the grammar.
///
/// Example: `part_texts("any_of(threshold(0.9), tokens_per_step(2)) + stop_at_eos")`:
/// threshold(0.9), tokens_per_step(2), stop_at_eos.
[[nodiscard]] inline std::vector<std::string> part_texts(std::string_view policy) {
  std::vector<std::string> all;
  for (const part_text& part : parse_policy_text(policy)) {
    detail::add_part_texts(part, all);
  }
  return all;
}

/// Overload for a policy composed of types: the names of the parts; "part" for one without a label.
template <class... Parts>
[[nodiscard]] std::vector<std::string> part_texts(const policy<Parts...>&) {
  return []<class... Part>(detail::type_list<Part...>) {
    const auto name_of = []<class P>(std::type_identity<P>) {
      if constexpr (requires { P::label.name; }) {
        return std::string(P::label.name);
      } else {
        return std::string("part");
      }
    };
    return std::vector<std::string>{name_of(std::type_identity<Part>{})...};
  }(typename policy<Parts...>::part_list{});
}

}  // namespace unmask
