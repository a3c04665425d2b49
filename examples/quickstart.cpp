// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One prompt, one policy, a real (if tiny) model.
// [quickstart]
#include <unmask/unmask.hpp>

#include <cstdio>
#include <span>

#include "engine/llada.hpp"  // any engine will do; this one is in examples/engine
#include "engine/tokenizer.hpp"

int main() {
  const example::gguf_file file(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf");
  const example::char_tokenizer text(file);
  example::llada_model engine(file);

  // After each forward pass, commit every token that is more than 90 % likely, or else the
  // likeliest one; end as soon as the answer has ended.
  constexpr unmask::policy fast{
      unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::stop_at_eos{}};

  // The engine owns the tokens: the prompt, then 40 masks, which the session replaces in place.
  auto tokens = text.canvas("Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?", 40);
  const int length = static_cast<int>(tokens.size());
  const int vocab = static_cast<int>(text.vocabulary());

  unmask::session session(fast,
                          {.vocab = vocab, .mask_token = text.mask(), .eos_token = text.end()},
                          tokens,
                          {.prompt_length = length - 40, .length = length, .block_length = 20});

  while (const auto request = session.next()) {  // which rows of logits the next decision needs
    const auto [first, last] = request->segments[0].rows;
    const auto logits = engine.forward(tokens, std::size_t(first), std::size_t(last));
    session.supply(unmask::host_logits<float>(logits.data, request->rows, vocab));
    std::puts(text.decode(std::span(tokens).last(40)).c_str());
  }

  const unmask::sequence_report& report = session.report();
  std::printf("%d tokens in %d forward passes\n", report.committed, report.forwards);
}
// [/quickstart]
