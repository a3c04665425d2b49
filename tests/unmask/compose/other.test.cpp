// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/composed_policies.hpp"
#include "support/decode_composed.hpp"

namespace unmask::testing::other_test {
namespace {

TEST(composition, other_policies_of_many_parts_decode) {
  for_other_compositions(decode_composed);
}

}  // namespace
}  // namespace unmask::testing::other_test
