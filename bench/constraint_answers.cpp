// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers of a model with constraints: the JSON prompts of the tiny LLaDA without a constraint,
// under the bitmasks of what is possible alone, with the gate, with gate and filling, and from left
// to right. Noise on the logits stands for a weaker model. Prints a table:
//
//     constraint_answers [PROMPTS]
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace {

using unmask::detail::constraints::running_field;
using unmask::detail::constraints::set_pool;

constexpr int length_of_answer = 40;
constexpr int block = 20;

/// An automaton over bytes that is written state by state.
struct byte_builder {
  unmask::byte_table table;

  byte_builder() { static_cast<void>(state()); }
  std::uint32_t state() {
    table.next.resize(table.next.size() + 256, unmask::dead_state);
    table.accepting.push_back(0);
    return std::uint32_t(table.accepting.size() - 1);
  }
  void add(std::uint32_t from, unsigned char first, unsigned char last, std::uint32_t to) {
    for (unsigned b = first; b <= last; ++b) {
      table.next[256 * std::size_t{from} + b] = to;
    }
  }
  std::uint32_t literal(std::uint32_t from, std::string_view text) {
    for (const char c : text) {
      const std::uint32_t to = state();
      add(from, static_cast<unsigned char>(c), static_cast<unsigned char>(c), to);
      from = to;
    }
    return from;
  }
  /// A whole number or a string without quotes in it, and `next` to either end of it.
  void value(std::uint32_t from, const auto& next) {
    const std::uint32_t number = state();
    const std::uint32_t text = state();
    const std::uint32_t end = state();
    add(from, '0', '9', number);
    add(number, '0', '9', number);
    add(from, '"', '"', text);
    add(text, ' ', '~', text);
    add(text, '"', '"', end);
    next(number);
    next(end);
  }
};

/// Any flat object, in the layout of the model.
unmask::byte_table flat_object() {
  byte_builder b;
  const std::uint32_t quote = b.literal(0, "{");
  const std::uint32_t first = b.literal(quote, "\"");
  const std::uint32_t key = b.state();
  const std::uint32_t end = b.state();
  b.add(first, 'a', 'z', key);
  b.add(key, 'a', 'z', key);
  b.value(b.literal(key, "\":"), [&](std::uint32_t from) {
    b.add(from, ',', ',', quote);
    b.add(from, '}', '}', end);
  });
  b.table.accepting[end] = 1;
  return b.table;
}

/// An object with these keys, in this order.
unmask::byte_table object_of(const std::vector<std::string>& keys) {
  byte_builder b;
  std::uint32_t at = b.literal(0, "{");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t after = b.state();
    b.value(b.literal(at, "\"" + keys[i] + "\":"), [&](std::uint32_t from) {
      const char c = i + 1 < keys.size() ? ',' : '}';
      b.add(from, static_cast<unsigned char>(c), static_cast<unsigned char>(c), after);
    });
    at = after;
  }
  b.table.accepting[at] = 1;
  return b.table;
}

enum class how { none, masks_alone, gate, gate_and_filling, left_to_right };
constexpr const char* names[] = {
    "none", "masks alone", "gate", "gate, filling", "gate, left to right"};

struct counts {
  int valid = 0;
  int right = 0;
  int passes = 0;
  int refused = 0;
  int filled = 0;
};

struct prompt {
  std::string text;
  std::string answer;
  std::vector<std::string> keys;
};

class judge {
 public:
  explicit judge(std::size_t most)
      : vocab_(int(text_.vocabulary())) {
    std::ifstream in(UNMASK_EXAMPLES_DIR "/tiny_llada/prompts.jsonl");
    for (std::string line; std::getline(in, line) && prompts_.size() < most;) {
      const auto problem = nlohmann::json::parse(line);
      if (problem["task"] == "json") {
        prompt p{problem["prompt"], problem["answer"], {}};
        std::istringstream words(p.text.substr(2));  // J:key value key value
        for (std::string key, value; words >> key >> value;) {
          p.keys.push_back(key);
        }
        prompts_.push_back(p);
      }
    }
    for (int v = 0; v < vocab_; ++v) {  // special tokens have no text
      const std::vector<int> one{v};
      words_.push_back(v < 3 ? "" : text_.decode(one));
    }
    const std::vector<std::string_view> views(words_.begin(), words_.end());
    vocabulary_ = std::make_unique<unmask::vocabulary>(views, model());
  }

  [[nodiscard]] std::size_t prompts() const { return prompts_.size(); }

  template <class Policy>
  counts run(const Policy& p, how with, bool schema, double noise) {
    counts n;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const unmask::byte_table table = schema ? object_of(prompts_[i].keys) : flat_object();
      decode(p, with, prompts_[i], table, noise, unsigned(i), n);
    }
    return n;
  }

 private:
  [[nodiscard]] unmask::model_info model() const {
    return {.vocab = vocab_, .mask_token = text_.mask(), .eos_token = text_.end()};
  }

  template <class Policy>
  void decode(const Policy& p,
              how with,
              const prompt& q,
              const unmask::byte_table& table,
              double noise,
              unsigned seed,
              counts& n) {
    unmask::constraint language(table.view(), *vocabulary_, {.bytes = 1 << 20});
    std::vector<int> tokens = text_.canvas(q.text, length_of_answer);
    const int length = int(tokens.size());
    const int first = length - length_of_answer;
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, noise > 0 ? noise : 1);
    std::vector<float> errors(std::size_t(length_of_answer * vocab_));
    for (float& e : errors) {
      e = noise > 0 ? float(normal(random)) : 0.0F;
    }
    const unmask::constrained_field field{.language = &language,
                                          .fill = with == how::gate_and_filling};
    const bool gates = with >= how::gate;
    unmask::session<Policy> session(model(), {.length = length, .window = block});
    session.start(0,
                  p,
                  tokens,
                  {.prompt_length = first, .length = length, .block_length = block},
                  {.constraints = {&field, gates ? 1U : 0U}});
    // Masks alone: the tokens that are possible, by the tokens that stand.
    const auto pool = std::make_shared<set_pool>(
        std::make_shared<const unmask::detail::constraints::token_automaton>(
            unmask::detail::constraints::lift(table.view(), vocabulary_->data(), {})),
        unmask::constraint_limits{.bytes = 1 << 20});
    const std::vector<int> open(length_of_answer, unmask::no_token);
    unmask::detail::answer_start start;
    start.model = model();
    running_field possible(pool, {}, 0, open, start);
    while (const auto request = session.next()) {
      const auto rows = request->segments[0].rows;
      const auto z = engine_.forward(tokens, std::size_t(rows.first), std::size_t(rows.last));
      std::vector<float> logits(z.data, z.data + request->rows * vocab_);
      const auto words = std::size_t(vocab_ + 31) / 32;
      std::vector<std::uint32_t> allowed(std::size_t(request->rows) * words, ~0U);
      for (int row = rows.first; row < rows.last; ++row) {
        const auto r = std::size_t(row - rows.first);
        for (int v = 0; v < vocab_; ++v) {
          logits[r * std::size_t(vocab_) + std::size_t(v)] +=
              errors[std::size_t((row - first) * vocab_ + v)];
        }
        if (with == how::masks_alone && tokens[std::size_t(row)] == text_.mask()) {
          const std::uint32_t* const mask = possible.mask(row - first, nullptr);
          std::copy_n(mask, words, allowed.data() + r * words);
          possible.release();
        }
      }
      session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab_),
                     {.allowed = with == how::masks_alone ? allowed.data() : nullptr,
                      .allowed_stride = std::ptrdiff_t(words)});
      for (const unmask::commit_entry& e : session.committed()) {
        if (with == how::masks_alone &&
            possible.admits(unmask::serial{}, e.position - first, e.token)) {
          possible.write(e.position - first, e.token);  // one that does not fit is left out
        }
      }
    }
    const auto answer = std::span(tokens).last(length_of_answer);
    n.valid += language.accepts(answer) ? 1 : 0;
    n.right += text_.decode(answer) == q.answer ? 1 : 0;
    n.passes += session.report().forwards;
    n.refused += session.report().refused;
    n.filled += session.report().filled;
  }

  example::gguf_file file_{UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf"};
  example::char_tokenizer text_{file_};
  example::llada_model engine_{file_};
  int vocab_;
  std::vector<prompt> prompts_;
  std::vector<std::string> words_;
  std::unique_ptr<unmask::vocabulary> vocabulary_;
};

}  // namespace

int main(int count, char** arguments) {
  judge all(count > 1 ? std::size_t(std::atoi(arguments[1])) : 100);
  std::printf(
      "| noise | language | threshold | constraint | valid of %zu | right | passes | refused | "
      "filled |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      all.prompts());
  for (const double noise : {0.0, 2.0, 4.0}) {
    for (const bool schema : {false, true}) {
      for (const float value : {0.9F, 0.5F}) {
        for (const how with :
             {how::none, how::masks_alone, how::gate, how::gate_and_filling, how::left_to_right}) {
          const bool in_order = with == how::left_to_right;
          if (in_order && value != 0.9F) {
            continue;
          }
          const counts n =
              in_order
                  ? all.run(unmask::policy{unmask::left_to_right{}, unmask::tokens_per_step{1}},
                            with,
                            schema,
                            noise)
                  : all.run(unmask::policy{unmask::by_confidence{}, unmask::threshold{value}},
                            with,
                            schema,
                            noise);
          const double size = double(all.prompts());
          std::printf("| %g | %s | %s | %s | %d | %d | %.2f | %.1f | %.1f |\n",
                      noise,
                      schema ? "schema" : "flat",
                      in_order        ? "-"
                      : value == 0.9F ? "0.9"
                                      : "0.5",
                      names[int(with)],
                      n.valid,
                      n.right,
                      n.passes / size,
                      n.refused / size,
                      n.filled / size);
          std::fflush(stdout);
        }
      }
    }
  }
}
