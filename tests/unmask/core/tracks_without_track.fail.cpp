// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Room for tracked tokens without a function that names them.
// expect: this part declares how many tokens it tracks and has no track\(list, context\)
#include <unmask/unmask.hpp>

struct says_tracks_only {
  static constexpr unmask::statistics required = unmask::stat::none;
  static constexpr unmask::index_t tracks = 1;
  void wacht(auto& list, const auto&) const { list.add(3); }
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, says_tracks_only{}};
