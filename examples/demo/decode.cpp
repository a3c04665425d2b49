// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "demo/decode_problems.hpp"

namespace demo {

decoded result_of(std::span<const token_id> answer,
                  const unmask::sequence_report& report,
                  const example::char_tokenizer& text,
                  const problem& p) {
  decoded d;
  const std::vector<token_id> right = right_tokens(text, p);
  const std::vector<token_id> given = text.encode_masked(p.given);
  for (std::size_t i = 0; i < right.size(); ++i) {
    d.masked += given[i] != right[i] ? 1 : 0;
    d.restored += given[i] != right[i] && answer[i] == right[i] ? 1 : 0;
    d.wrong += answer[i] != right[i] ? 1 : 0;
  }
  d.tokens.assign(answer.begin(), answer.end());
  d.text = text.decode(answer);
  d.forwards = report.forwards;
  d.committed = report.committed;
  d.forced = report.forced;
  const auto end = std::ranges::find(answer, text.end());
  d.answer_tokens = static_cast<index_t>(end - answer.begin());
  d.clean_end = std::all_of(end, answer.end(), [&](token_id t) { return t == text.end(); });
  return d;
}

std::vector<std::uint8_t>
editable_of(const problem& p, const engine& model, std::span<const token_id> tokens) {
  std::vector<std::uint8_t> marks = model.text().masked(tokens);
  const auto first = static_cast<std::size_t>(model.prompt_length(p.prompt));
  const std::size_t given = p.edit ? model.text().encode_masked(p.given).size() : 0;
  for (std::size_t i = first; i < first + given; ++i) {
    marks[i] = marks[i] == 0 ? std::uint8_t{2} : marks[i];
  }
  return marks;
}

std::vector<token_id> right_tokens(const example::char_tokenizer& text, const problem& p) {
  if (p.given.empty() || p.answer.empty()) {
    return {};
  }
  std::vector<token_id> right = text.encode(p.answer);
  const std::vector<token_id> given = text.encode_masked(p.given);
  const bool fits = std::ranges::equal(
      given, right, [&](token_id a, token_id b) { return a == b || a == text.mask() || p.edit; });
  if (!fits) {
    throw std::invalid_argument("answer '" + p.answer + "' must be the given one" +
                                (p.edit ? ", token by token, '" : " with its '_' filled, '") +
                                p.given + "'");
  }
  return right;
}

void decoding::add(decoding more) {
  answers.insert(answers.end(),
                 std::make_move_iterator(more.answers.begin()),
                 std::make_move_iterator(more.answers.end()));
  segments += more.segments;
  computed += more.computed;
  in_full += more.in_full;
  engine_seconds += more.engine_seconds;
  policy_seconds += more.policy_seconds;
}

index_t answer_length(const problem& p, const geometry& g) {
  return g.own_length && !p.given.empty() ? static_cast<index_t>(p.given.size()) : g.answer_length;
}

unmask::session_capacity capacity_for(const engine& model,
                                      std::span<const problem> problems,
                                      const geometry& g,
                                      index_t batch) {
  index_t longest = 0;
  index_t window = 1;
  for (const problem& p : problems) {
    const auto length =
        static_cast<index_t>(model.canvas(p.prompt, answer_length(p, g), p.given).size());
    longest = std::max(longest, length);
    window = std::max(window, length - model.prompt_length(p.prompt));
  }
  return {
      .sequences = batch, .length = longest, .window = window, .branches = unmask::max_branches};
}

template decoding decode(unmask::named_session&,
                         index_t,
                         engine&,
                         std::span<const problem>,
                         const geometry&,
                         const observer&,
                         unmask::trace_writer*);

}  // namespace demo
