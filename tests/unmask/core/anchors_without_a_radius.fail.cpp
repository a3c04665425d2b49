// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Anchors need the radius within which candidates get their distance.
// expect: up to which distance: anchor_radius
#include <unmask/unmask.hpp>

struct beside_sure_ones {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool anchors(const auto& c) const { return c.confidence() > 0.9F; }
  bool commits(const auto&, const unmask::rank_info&) const { return true; }
};

constexpr unmask::policy p{unmask::by_confidence{}, beside_sure_ones{}};
