// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions on the host for `fast_math.py --host`: the policies that the kernels are tested with.

#include <unmask/unmask.hpp>

#include "unmask/device/policies.hpp"
#include "unmask/device/texts.hpp"

namespace unmask::testing {

template <class Policy>
void decode(const Policy& p, std::span<token_id> tokens, const float* logits) {
  session<Policy> s(p,
                    {.vocab = 9000, .mask_token = 1, .eos_token = 2},
                    tokens,
                    {.prompt_length = 3, .length = 40, .block_length = 8});
  while (const auto request = s.next()) {
    s.supply(host_logits<float>(logits, request->rows, 9000));
  }
}

void decode_all(std::span<token_id> tokens, const float* logits);
void decode_all(std::span<token_id> tokens, const float* logits) {
  for (const char* const text : decoded_texts) {
    decode(read_policy(text), tokens, logits);
  }
  for_each_of(composed{}, [&](const auto& p) { decode(p, tokens, logits); });
}

}  // namespace unmask::testing
