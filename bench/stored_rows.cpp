// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The row that early_skip compares a position with: that of the pass which last chose it, as the
// library stores it, or that of the last pass which reached the layer, as ES-dLLM's algorithm 1
// does. Decodes the first prompts of each task of the tiny LLaDA, one token a pass, and counts the
// right answers: stored_rows [prompts of each task = 15] [weight = 0].
#include <unmask/unmask.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "demo/problems.hpp"
#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"

namespace {

using namespace unmask;

/// early_skip as algorithm 1 has it, line 8.
struct storing_every_row : early_skip {
  static constexpr bool stores_all = true;
};
static_assert(storing_all<storing_every_row> && !storing_all<early_skip>);

const std::string folder = UNMASK_EXAMPLES_DIR "/tiny_llada/";

/// Whether each problem is answered right under a rule.
template <class Rule>
std::vector<bool> right_answers(const std::vector<demo::problem>& problems, const Rule& rule) {
  const example::gguf_file file(folder + "tiny-f16.gguf");
  const example::char_tokenizer text(file);
  example::llada_model model(
      std::make_shared<const example::llada_weights>(example::llada_weights::load(file)));
  const model_info info{.vocab = static_cast<index_t>(text.vocabulary()),
                        .mask_token = text.mask(),
                        .eos_token = text.end(),
                        .layers = static_cast<index_t>(model.config().layers)};
  const policy p{by_confidence{}, tokens_per_step{1}, rule, block_cache{}};
  std::vector<bool> right;
  for (const demo::problem& problem : problems) {
    std::vector<token_id> tokens = text.canvas(problem.prompt, 40);
    const auto length = static_cast<index_t>(tokens.size());
    example::sequence_memory memory;
    session session(
        p, info, tokens, {.prompt_length = length - 40, .length = length, .block_length = 20});
    // [pass]
    while (session.next()) {
      auto pass = session.pass(0);  // of segment 0; one for each segment
      const example::logits_view z = model.forward(pass, tokens, memory);
      session.supply(host_logits<float>(
          z.data, static_cast<index_t>(z.rows), static_cast<index_t>(z.vocabulary)));
    }
    // [/pass]
    right.push_back(text.decode(std::span(tokens).last(40)) == problem.answer);
  }
  return right;
}

}  // namespace

int main(int count, char** arguments) {
  const int limit = count > 1 ? std::atoi(arguments[1]) : 15;
  const float weight = count > 2 ? std::strtof(arguments[2], nullptr) : 0.0F;
  const auto problems = demo::choose(demo::read_problems(folder + "prompts.jsonl"), {}, limit);
  const auto chosen = right_answers(problems, early_skip{.weight = weight});
  const auto reached = right_answers(problems, storing_every_row{{.weight = weight}});
  int lost = 0;
  int won = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    lost += chosen[i] && !reached[i] ? 1 : 0;
    won += !chosen[i] && reached[i] ? 1 : 0;
  }
  std::printf("weight %g, %zu prompts\n", static_cast<double>(weight), problems.size());
  std::printf("rows of the chosen stored: %td right\n", std::ranges::count(chosen, true));
  std::printf("rows of all stored: %td right (%d more, %d fewer)\n",
              std::ranges::count(reached, true),
              won,
              lost);
}
