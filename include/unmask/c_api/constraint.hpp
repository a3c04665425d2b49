// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api.h>
#include <unmask/c_api/translate.hpp>
#include <unmask/constraint.hpp>

#include <optional>
#include <vector>

/// A vocabulary of the C interface.
struct unmask_vocabulary {
  unmask::vocabulary words;
};

/// A constraint of the C interface.
struct unmask_constraint {
  mutable unmask::constraint language;  // a handle: a sequence shares its memory
};

namespace UNMASK_NAMESPACE::detail::c_api {

inline std::vector<unmask::constrained_field> fields_of(const unmask_sequence& q) {
  check_field(q.constraints != nullptr || q.constraint_count == 0,
              "sequence",
              "constraints",
              "null",
              "a pointer");
  std::vector<unmask::constrained_field> out;
  for (std::uint32_t i = 0; i < q.constraint_count; ++i) {
    const unmask_constrained_field& f = q.constraints[i];
    check_field(f.language != nullptr, "constraints", "language", "null", "a constraint");
    out.push_back({.language = &f.language->language,
                   .first = f.first,
                   .last = f.last,
                   .tokens_after = f.tokens_after,
                   .state = f.state - 1,
                   .fill = f.no_fill == 0,
                   .read_again = f.read_again != 0});
  }
  return out;
}

}  // namespace UNMASK_NAMESPACE::detail::c_api
