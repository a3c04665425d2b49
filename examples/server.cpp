// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The scheduler of a server: each request names its policy and its temperature, a pass runs as many
// requests as its limit of positions allows, and a pass that fails is requested again.

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

struct request {
  std::string prompt;
  std::string policy;
  std::uint64_t seed = 0;            // equal prompts draw equal tokens unless it differs
  std::vector<std::int32_t> tokens;  // the engine owns them
};

class server {
 public:
  server(example::llada_model& engine, const example::char_tokenizer& text, int most_positions)
      : engine_(engine)
      , text_(text)
      , most_positions_(most_positions) {}

  // [serve]
  void serve(std::queue<request> waiting) {
    for (int pass = 0;; ++pass) {
      for (std::size_t slot = 0; slot < running_.size(); ++slot) {
        const unmask::plan& next = session_.planned(int(slot));
        if (next.started && !next.active() && !running_[slot].prompt.empty()) {
          finish(running_[slot], session_.report(int(slot)));
        }
        for (; !waiting.empty() && !session_.planned(int(slot)).active(); waiting.pop()) {
          start(int(slot), waiting.front());
        }
      }
      const auto wanted = session_.next(chosen(pass));
      if (!wanted) {
        return;
      }
      try {
        session_.supply(forward(*wanted));
      } catch (const std::bad_alloc&) {  // no memory for so large a pass: a smaller one
        if (most_positions_ <= length) {
          fail("the engine is out of memory");
        } else {
          most_positions_ = std::max(most_positions_ / 2, length);
          session_.abandon();
        }
      } catch (const std::exception& e) {
        fail(e.what());
      }
    }
  }
  // [/serve]

 private:
  static constexpr int answer = 40;
  static constexpr int length = 128;  // positions of a request at most

  // A policy comes from anyone: it names no file of this machine, and none that needs hooks in the
  // layers is decoded by an engine without.
  void start(int slot, const request& r) {
    request& place = running_[std::size_t(slot)] = r;
    place.tokens = text_.canvas(r.prompt, answer);
    const int count = int(place.tokens.size());
    try {
      const unmask::named_policy policy = unmask::read_policy(r.policy, unmask::no_files);
      if (policy.layered_now()) {
        throw std::invalid_argument("policy '" + r.policy + "' needs hooks in the layers");
      }
      session_.start(
          slot,
          policy,
          place.tokens,
          {.prompt_length = count - answer, .length = count, .block_length = 20, .seed = r.seed});
    } catch (const std::invalid_argument& e) {
      std::printf("%-40s %s\n", r.prompt.c_str(), e.what());
      place.prompt.clear();
    }
  }

  // Slots in turn, as long as their positions fit the pass; the others wait.
  std::vector<int> chosen(int first) {
    std::vector<int> slots;
    int positions = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const int slot = (first + int(i)) % int(running_.size());
      const unmask::plan& next = session_.planned(slot);
      const int more = next.query.size() * (1 + next.branches);
      if (next.active() && (slots.empty() || positions + more <= most_positions_)) {
        slots.push_back(slot);
        positions += more;
      }
    }
    return slots;
  }

  // One forward pass for all segments of the request.
  unmask::host_logits<float> forward(const unmask::forward_request& wanted) {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<example::sequence_window> batch;
    for (const unmask::segment& s : wanted.segments) {
      tokens.push_back(running_[std::size_t(s.slot)].tokens);
      for (const auto& placed : s.placed) {
        tokens.back()[std::size_t(placed.position)] = placed.token;
      }
      batch.push_back({tokens.back(), std::size_t(s.rows.first), std::size_t(s.rows.last)});
    }
    return {engine_.forward(batch).data, wanted.rows, vocab_};
  }

  // The engine failed: the requests of the pass end and say so, the others go on.
  void fail(const char* why) {
    for (const unmask::segment& s : session_.cancel_request()) {
      request& r = running_[std::size_t(s.slot)];
      if (!r.prompt.empty()) {  // a slot with branches has several segments
        std::printf("%-40s the engine failed: %s\n", r.prompt.c_str(), why);
        r.prompt.clear();
      }
    }
  }

  void finish(request& r, const unmask::sequence_report& report) {
    std::printf("%-40s %-38s %s (%d passes)\n",
                r.prompt.c_str(),
                r.policy.c_str(),
                text_.decode(std::span(r.tokens).last(answer)).c_str(),
                report.forwards);
    r.prompt.clear();
  }

  example::llada_model& engine_;
  const example::char_tokenizer& text_;
  int most_positions_;
  int vocab_ = int(text_.vocabulary());
  unmask::named_session session_{{.vocab = vocab_,
                                  .mask_token = text_.mask(),
                                  .eos_token = text_.end(),
                                  .layers = int(engine_.config().layers)},
                                 {.sequences = 3, .length = length, .window = answer}};
  std::vector<request> running_ = std::vector<request>(3);
};
int main() {
  const example::gguf_file file(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf");
  const example::char_tokenizer text(file);
  example::llada_model engine(file);
  std::queue<request> waiting;
  const std::string question = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?";
  for (const char* policy : {"threshold(0.9) + stop_at_eos",
                             "credit_decoding + stop_at_eos",
                             "tokens_per_step + sampling(0) + stop_at_eos",
                             "threshold(0.9) + sampling(0.7) + top_p(0.95)",
                             "lookahead(3) + threshold(0.95) + stop_at_eos",
                             "es_dllm + stop_at_eos",
                             "calibrated_threshold('profile.json')"}) {
    waiting.push({question, policy, waiting.size(), {}});
  }
  server(engine, text, 200).serve(std::move(waiting));
}
