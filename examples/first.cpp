// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

int main() {
  constexpr char answer[] = "commit what is certain, then look again";
  constexpr int length = 39, vocab = 128, mask = '_';
  int tokens[length];  // yours: the session writes masks into it, then the answer
  constexpr unmask::sequence_shape shape{.length = length, .block_length = length};
  constexpr unmask::policy fast{unmask::by_confidence{}, unmask::threshold{0.9F}};
  unmask::session session(fast, {.vocab = vocab, .mask_token = mask}, {tokens, length}, shape);
  const auto known = [&](int p) { return 0 <= p && p < length && tokens[p] != mask; };
  while (const auto request = session.next()) {
    const auto [first, last] = request->segments[0].rows;  // the positions whose logits are needed
    std::vector<float> logits(std::size_t(last - first) * vocab);
    for (int p = first; p < last; ++p) {  // a toy model: sure of vowels, and next to known letters
      const bool sure = std::strchr("aeiou", answer[p]) || known(p - 1) || known(p + 1);
      logits[std::size_t((p - first) * vocab + answer[p])] = sure ? 9.0F : 3.0F;
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
    std::puts(std::string(tokens, tokens + length).c_str());
  }
}
