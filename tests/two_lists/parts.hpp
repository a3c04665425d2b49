// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A user-defined part that is larger than those of the library, for UNMASK_TEST_PART.

struct UNMASK_TEST_PART {
  float value = 0.6F;
  float more[UNMASK_TEST_SIZE] = {};
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{UNMASK_TEST_NAME, "a rule with a table"};
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info&) const {
    return c.confidence() > value + more[0];
  }
};

namespace unmask {
using own_parts = part_list<UNMASK_TEST_PART>;
}
