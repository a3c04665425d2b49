// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Policies as text, made at random from known_parts(): whatever part has a name takes part, but in
/// a record of decisions, which stays as it is when there are new parts.

#include <unmask/core/plan.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/dice.hpp"

namespace unmask::hostile {

/// A part as it is written. any_of and all_of hold parts instead of arguments.
struct written_part {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<written_part> inside;
};

using written_policy = std::vector<written_part>;

[[nodiscard]] std::string text_of(const written_policy& policy);

/// Whether a part of that name is in it, also inside another one.
[[nodiscard]] bool names(const written_policy& policy, std::string_view name);

/// Parts from which a policy is made.
enum class drawn_parts {
  all,
  recorded,  ///< the parts, arguments and words of recorded_parts.hpp, in its order
  newer,     ///< all, and at least one part or argument that is not in that list, if there is any
};

/// True if there are parts or arguments that recorded_parts.hpp does not list.
[[nodiscard]] bool has_newer_parts();

/// The list of known_parts() with their arguments, for recorded_parts.hpp.
[[nodiscard]] std::string list_of_parts();

/// A composition that the reader is likely to accept, its arguments often at the edges of their
/// ranges. Numbers of steps that a policy may let pass idly are small, so that a decode can be
/// waited for.
[[nodiscard]] written_policy
random_policy(testing::dice& d, const model_info& model, drawn_parts parts = drawn_parts::all);

/// The same policy less one part, one argument or one operand: all ways to shorten it by one.
[[nodiscard]] std::vector<written_policy> shorter(const written_policy& policy);

}  // namespace unmask::hostile
