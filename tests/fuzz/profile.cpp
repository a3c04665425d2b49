// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of a profile, whatever it is: an error with line and rule, or a profile whose text reads
// back as the same.

#include <unmask/policy/commit/profile_json.hpp>

#include "fuzz/target.hpp"

namespace unmask::fuzz {

UNMASK_FUZZ_TARGET(profile) {
  calibrated_threshold<8> profile;
  if (!accepted([&] { profile = profile_from_json<8>(text_of(data)); })) {
    return;
  }
  const std::string text = to_json(profile);
  require(to_json(profile_from_json<8>(text)) == text, "the text of a profile reads back");
  for (index_t b = 0; b < profile.blocks; ++b) {
    require(0 <= profile.first_cell(b) && profile.first_cell(b) <= profile.first_cell(b + 1) &&
                profile.first_cell(b + 1) <= 8,
            "cells of a block");
  }
}

}  // namespace unmask::fuzz
