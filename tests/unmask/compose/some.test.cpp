// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/composed_policies.hpp"
#include "support/decode_composed.hpp"

namespace unmask::testing::some_test {
namespace {

TEST(composition, some_policies_of_many_parts_decode) {
  for_some_compositions(decode_composed);
}

}  // namespace
}  // namespace unmask::testing::some_test
