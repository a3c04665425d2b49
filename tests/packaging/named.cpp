// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#if !defined(UNMASK_COMPILED)
#  error "unmask::compiled does not say that it is"
#endif

// Decodes with a policy by name. Fails if the version is not the one given, or a token is missing.
int main(int count, char** arguments) {
  using namespace unmask;
  std::vector<token_id> tokens(6);
  const std::vector<float> logits(6 * 4);
  const named_policy policy = read_policy("trace_credit + tokens_per_step(2)");
  named_session session(policy, {.vocab = 4, .mask_token = 3}, {.length = 6, .window = 6});
  session.start(0, policy, tokens, {.length = 6});
  while (const auto request = session.next()) {
    session.supply(host_logits<float>(logits.data(), request->rows, 4));
  }
  std::cout << session.report(0) << '\n';  // with this header alone
  std::printf("unmask %d\n", UNMASK_VERSION);
  return count == 2 && std::atoi(arguments[1]) == UNMASK_VERSION && session.report(0).committed == 6
             ? 0
             : 1;
}
