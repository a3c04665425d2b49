// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unmask/session/naive_rankings.hpp"

namespace unmask::testing {

using by_margin_alone = ::testing::Types<seeded<by_margin, 1012>>;
INSTANTIATE_TYPED_TEST_SUITE_P(by_margin_beside_the_naive_decoder, Ranks, by_margin_alone);

}  // namespace unmask::testing
