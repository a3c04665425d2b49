// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reactions whose brackets and ring digits match, as a regular language of bounded depth: does a
// constraint help a masked language model to restore more of their masked tokens?
//
//     constraint_smiles RXNMAPPER.gguf REACTIONS.jsonl [LIMIT]
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace {

constexpr std::uint32_t most_depth = 4;  // parentheses within parentheses
constexpr std::uint32_t digits = 6;      // ring bonds are numbered from 1
constexpr std::uint32_t ring_sets = 1U << digits;

/// The state after a token, of a depth and a set of open ring bonds; dead_state if it does not fit.
std::uint32_t after(std::uint32_t state, const std::string& token) {
  const std::uint32_t depth = state / ring_sets;
  const std::uint32_t rings = state % ring_sets;
  if (token == "(") {
    return depth < most_depth ? state + ring_sets : unmask::dead_state;
  }
  if (token == ")") {
    return depth > 0 ? state - ring_sets : unmask::dead_state;
  }
  if (token == "." || token == ">" || token == ">>") {  // the end of a molecule
    return state == 0 ? state : unmask::dead_state;
  }
  if (token[0] == '%' || token == "0" || (token.size() == 1 && token[0] > '6' && token[0] <= '9')) {
    return unmask::dead_state;
  }
  if (token.size() == 1 && token[0] >= '1' && token[0] <= '6') {
    return depth * ring_sets + (rings ^ 1U << (token[0] - '1'));
  }
  return state;
}

struct totals {
  std::vector<double> restored = {};  // by problem
  int masked = 0;
  int right = 0;
  int matched = 0;  // in the language
  int passes = 0;
  int refused = 0;
  int filled = 0;
};

class judge {
 public:
  judge(const char* model, const char* problems, std::size_t limit)
      : file_(model)
      , text_(file_)
      , engine_(file_) {
    info_ = {.vocab = int(text_.vocabulary()), .mask_token = text_.mask()};
    never_.assign(text_.never().begin(), text_.never().end());
    std::ifstream in(problems);
    for (std::string line; std::getline(in, line);) {
      problems_.push_back(nlohmann::json::parse(line));
    }
    limit_ = limit;
  }

  [[nodiscard]] unmask::constraint matching() const {
    std::vector<unmask::token_transition> moves;
    const std::uint32_t states = (most_depth + 1) * ring_sets;
    for (std::uint32_t q = 0; q < states; ++q) {
      for (int v = 0; v < info_.vocab; ++v) {
        const std::string text = is_text(v) ? text_.text_of(v) : "";
        const std::uint32_t next = text.empty() ? unmask::dead_state : after(q, text);
        if (next != unmask::dead_state) {
          moves.push_back({q, v, next});
        }
      }
    }
    std::vector<std::uint8_t> accepting(states, 0);
    accepting[0] = 1;
    return unmask::constraint::from_transitions(moves, states, 0, accepting, info_);
  }

  template <class Policy>
  totals run(const Policy& p, const std::string& task, unmask::constraint* language, bool fill) {
    totals n;
    for (const nlohmann::json& problem : problems_) {
      if (problem["task"] == task && n.restored.size() < limit_) {
        decode(p, problem["given"], problem["answer"], language, fill, n);
      }
    }
    return n;
  }

 private:
  [[nodiscard]] bool is_text(int v) const {
    return v != text_.mask() && v != text_.begin() && v != text_.end() &&
           std::find(never_.begin(), never_.end(), v) == never_.end();
  }

  template <class Policy>
  void decode(const Policy& p,
              const std::string& given,
              const std::string& answer,
              unmask::constraint* language,
              bool fill,
              totals& n) {
    const std::vector<int> open = text_.encode_masked(given);
    const std::vector<int> wanted = text_.encode(answer);
    std::vector<int> tokens = text_.canvas("", open);
    const std::vector<std::uint8_t> editable = text_.masked(tokens);
    const int length = int(tokens.size());
    const int size = int(open.size());
    const int first = 1;  // after the begin token
    const unmask::constrained_field field{.language = language, .last = size, .fill = fill};
    unmask::session<Policy> session(info_, {.length = length, .window = length});
    std::vector<std::uint32_t> allowed(std::size_t(info_.vocab + 31) / 32, 0);
    for (int v = 0; v < info_.vocab; ++v) {
      allowed[std::size_t(v / 32)] |= is_text(v) ? 1U << v % 32 : 0U;
    }
    session.start(0,
                  p,
                  tokens,
                  {.prompt_length = first, .length = length, .block_length = length},
                  {.editable = editable, .constraints = {&field, language == nullptr ? 0U : 1U}});
    while (const auto request = session.next()) {
      const auto rows = request->segments[0].rows;
      const auto z = engine_.forward(tokens, std::size_t(rows.first), std::size_t(rows.last));
      session.supply(unmask::host_logits<float>(z.data, request->rows, info_.vocab),
                     {.allowed = allowed.data(), .allowed_stride = 0});
    }
    int restored = 0;
    int masked = 0;
    std::uint32_t state = 0;
    for (int i = 0; i < size; ++i) {
      const int token = tokens[std::size_t(first + i)];
      masked += editable[std::size_t(first + i)];
      restored += editable[std::size_t(first + i)] != 0 && token == wanted[std::size_t(i)] ? 1 : 0;
      state = state == unmask::dead_state ? state : after(state, text_.text_of(token));
    }
    n.restored.push_back(restored);
    n.masked += masked;
    n.right += restored == masked ? 1 : 0;
    n.matched += state == 0 ? 1 : 0;
    n.passes += session.report().forwards;
    n.refused += session.report().refused;
    n.filled += session.report().filled;
  }

  example::gguf_file file_;
  example::char_tokenizer text_;
  example::llada_model engine_;
  unmask::model_info info_;
  std::vector<int> never_;
  std::vector<nlohmann::json> problems_;
  std::size_t limit_ = 0;
};

void print(
    const char* task, const char* policy, const char* name, const totals& n, const totals& none) {
  const double size = double(n.restored.size());
  double sum = 0;
  double difference = 0;
  double squares = 0;
  for (std::size_t i = 0; i < n.restored.size(); ++i) {
    const double d = n.restored[i] - none.restored[i];
    sum += n.restored[i];
    difference += d;
    squares += d * d;
  }
  const double mean = difference / size;
  const double half = 1.96 * std::sqrt((squares / size - mean * mean) / size);
  std::printf("| %s | %s | %s | %.0f of %d | %.0f (%+.3f to %+.3f a reaction) | %d | %d | %.2f | "
              "%.1f | %.1f |\n",
              task,
              policy,
              name,
              sum,
              n.masked,
              difference,
              mean - half,
              mean + half,
              n.right,
              n.matched,
              n.passes / size,
              n.refused / size,
              n.filled / size);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s RXNMAPPER.gguf REACTIONS.jsonl [LIMIT]\n", arguments[0]);
    return 2;
  }
  judge all(arguments[1], arguments[2], count > 3 ? std::size_t(std::atoi(arguments[3])) : 200);
  unmask::constraint language = all.matching();
  std::printf("%u states, %u classes\n\n", language.states(), language.classes());
  std::printf("| masked | policy | constraint | restored | difference | right | matched | passes | "
              "refused | filled |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const char* const task : {"mask_15", "mask_30", "mask_50"}) {
    const auto compare = [&](const char* name, const auto& p) {
      const totals none = all.run(p, task, nullptr, false);
      print(task, name, "none", none, none);
      print(task, name, "gate", all.run(p, task, &language, false), none);
      print(task, name, "gate, filling", all.run(p, task, &language, true), none);
    };
    compare("threshold(0.9)", unmask::policy{unmask::by_confidence{}, unmask::threshold{0.9F}});
    compare("threshold(0.5)", unmask::policy{unmask::by_confidence{}, unmask::threshold{0.5F}});
    compare("threshold(0)", unmask::policy{unmask::by_confidence{}, unmask::threshold{0.0F}});
  }
}
