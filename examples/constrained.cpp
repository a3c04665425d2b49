// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A date, decoded in any order by a fake model that would rather write letters: every answer is
// one. [constrained]
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

int main() {
  // The tokens of the model: printable characters, a mask and an EOS token.
  constexpr int vocab = 97, mask = 95, eos = 96, length = 12;
  std::vector<std::string> words(vocab);  // "" for tokens without text
  for (int v = 0; v < mask; ++v) {
    words[v] = static_cast<char>(' ' + v);
  }
  const unmask::model_info model{.vocab = vocab, .mask_token = mask, .eos_token = eos};
  const std::vector<std::string_view> views(words.begin(), words.end());
  const unmask::vocabulary vocabulary(views, model);

  // [0-9]{4}-[0-9]{2}: from a compiler of regular expressions, read_byte_table(), or by hand.
  unmask::byte_table table{std::vector<std::uint32_t>(8 * 256, unmask::dead_state), {}, 0};
  for (std::uint32_t q = 0; q < 7; ++q) {
    for (char c = q == 4 ? '-' : '0'; c <= (q == 4 ? '-' : '9'); ++c) {
      table.next[256 * q + static_cast<unsigned char>(c)] = q + 1;
    }
  }
  table.accepting = {0, 0, 0, 0, 0, 0, 0, 1};
  unmask::constraint date(table, vocabulary);

  std::array<int, length> tokens{};
  constexpr unmask::policy fast{unmask::by_confidence{}, unmask::tokens_per_step{3}};
  const unmask::constrained_field whole_answer{.language = &date};
  unmask::session<decltype(fast)> session(fast, model, {.length = length, .window = length});
  session.start(0, tokens, {.length = length}, {.constraints = {&whole_answer, 1}});
  const auto show = [&] {
    for (const int v : tokens) {
      std::putchar(v == mask ? '_' : v == eos ? '.' : words[v][0]);
    }
    std::putchar('\n');
  };
  show();  // the hyphen and the end are certain before the first pass
  while (const auto request = session.next()) {
    std::vector<float> logits(std::size_t(request->rows) * vocab);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = float(i * 37 % 101) / 9.0F;
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
    show();
  }
  return session.report().constraint_met ? 0 : 1;
}
// [/constrained]
