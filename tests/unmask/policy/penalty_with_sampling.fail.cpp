// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy that draws tokens cannot watch any
#include <unmask/core/policy.hpp>
#include <unmask/policy/admission.hpp>
#include <unmask/policy/edit.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/repetition.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::top_k{1}, unmask::sampling{},
                         unmask::neighbour_guard{}};
  static_cast<void>(p);
}
