// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy that reads rows right of its active blocks cannot have lookahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

struct curious {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool reads_ahead() const { return true; }
  void process(auto&, auto&) const {}
};

int main() {
  const unmask::policy p{
      unmask::by_confidence{}, unmask::tokens_per_step{1}, curious{}, unmask::lookahead{}};
  static_cast<void>(p);
}
