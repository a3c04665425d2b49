// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// A result, and the part that it is from: an index into the parts in written order, -1 if none.
template <class Result>
struct decided {
  Result result = {};  ///< The result.
  index_t part = -1;   ///< Index of the part that it is from.
};

/// A part whose place in the text of a policy is not its index in the type of the policy.
template <class Part>
struct placed : Part {
  index_t text_index = -1;  ///< Index into the parts as written; -1 if not known.
};

}  // namespace unmask
