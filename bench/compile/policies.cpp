// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop of examples/quickstart.cpp around an engine of one line, with UNMASK_POLICIES policies.
#include <unmask/unmask.hpp>

#include <cstdio>
#include <vector>

namespace {

constexpr int vocab = 64;

template <class Policy>
void decode(const Policy& policy) {
  std::vector<unmask::token_id> tokens(40);
  std::vector<float> logits(tokens.size() * vocab);
  unmask::session session(policy,
                          {.vocab = vocab, .mask_token = 0, .end_token = 1},
                          tokens,
                          {.prompt = 8, .length = 40, .block_length = 16});
  while (const auto request = session.next()) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(i * 2654435761U % 1024U);
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
  }
  std::printf("%d tokens in %d forward passes\n",
              session.report().committed,
              session.report().forwards);
}

}  // namespace

int main() {
  using namespace unmask;
  decode(policy{by_confidence{}, confidence_above{0.9F}, stop_at_end{}});
#if UNMASK_POLICIES > 1
  decode(policy{by_confidence{}, top_k{2}, stop_at_end{}});
#endif
#if UNMASK_POLICIES > 2
  decode(policy{by_margin{}, top_k{1}});
  decode(policy{by_entropy{}, entropy_bound{0.1F}});
  decode(policy{by_confidence{}, trace_credit<>{}, confidence_above{0.9F}});
  decode(policy{left_to_right{}, confidence_above{0.8F}, dual_cache{}});
  decode(policy{by_confidence{}, factor{1.0F}, temperature{0.7F}, sampling{}});
  decode(policy{by_confidence{}, confidence_above{0.9F} || top_k{1}, lookahead{3}});
#endif
}
