// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes every prompt twice in step, with llama.cpp and with the example engine, under every
// policy of the demo: the logits of each step, the tokens it commits, and the number of steps.
//
// If the engines commit different tokens, all tokens before were the same, so the difference is in
// the logits of that step (or in the policy's state from earlier ones): it prints how large the
// difference is, and the commits of each engine.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "demo/engine.hpp"
#include "demo/policies.hpp"
#include "demo/problems.hpp"
#include "demo/terminal.hpp"
#include "hosts/llama_cpp/llama_cpp_host.hpp"
#include "hosts/llama_cpp/text.hpp"

namespace {

using unmask::index_t;
using unmask::token_id;
using logits = unmask::host_logits<float>;

constexpr index_t answer_length = 40, block_length = 20;

/// The largest difference between two rows of logits; not a number if one of them holds such.
float difference(const logits& a, const logits& b) {
  float most = 0.0F;
  for (index_t r = 0; r < a.rows; ++r) {
    for (index_t v = 0; v < a.columns; ++v) {
      const float d = std::abs(a.row(r)[v] - b.row(r)[v]);
      most = d <= most ? most : d;
    }
  }
  return most;
}

/// One engine with a session of its own.
struct side {
  explicit side(std::unique_ptr<unmask::named_session> made)
      : session(std::move(made)) {}

  std::unique_ptr<unmask::named_session> session;
  std::vector<std::vector<token_id>> tokens;  // of the one slot
  std::vector<unmask::segment> segments;
  std::span<const logits> rows;

  void start(std::vector<token_id> sequence) {
    tokens = {std::move(sequence)};
    const auto length = static_cast<index_t>(tokens[0].size());
    session->start(
        0,
        tokens[0],
        {.prompt_length = length - answer_length, .length = length, .block_length = block_length});
  }
  bool running() { return session->report(0).end == unmask::ending::running; }

  void forward(auto&& engine) {
    const auto request = session->next();
    segments.assign(request->segments.begin(), request->segments.end());
    rows = engine(*request);
  }
  void decide(auto& engine) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      session->read(i, rows[i]);
    }
    session->decide();
    engine.keep(0, session->planned(0).winner);
  }
};

struct counts {
  int prompts = 0, equal = 0, same_text = 0;
  int exact_here = 0, exact_there = 0;
  std::int64_t steps = 0;
  float most = 0.0F;  // largest difference of a logit while the tokens were equal
  std::vector<std::string> flips;
};

class comparison {
 public:
  comparison(const std::string& model, std::string cache)
      : cache_(std::move(cache))
      , here_(model, {.cache = !cache_.empty()})
      , there_(model, 1) {}

  counts run(const demo::chosen_policy& policy, std::span<const demo::problem> problems) {
    std::size_t longest = 0;
    for (const demo::problem& p : problems) {
      longest = std::max(longest, there_.canvas(p.prompt, answer_length).size());
    }
    const unmask::session_capacity capacity{.sequences = 1,
                                            .length = static_cast<index_t>(longest),
                                            .window = answer_length,
                                            .branches = 7};
    here_.reserve(capacity);
    const demo::session_setup setup{.model = here_.info(),
                                    .capacity = capacity,
                                    .block_length = block_length,
                                    .stop_at_eos = false};
    const demo::chosen_policy chosen =
        cache_.empty() ? policy : policy.with(demo::chosen_cache(cache_));
    side a(chosen.make(setup)), b(chosen.make(setup));
    counts c;
    demo::progress shown(chosen.label(), problems.size());
    for (const demo::problem& p : problems) {
      decode(a, b, p, c);
      shown.done(static_cast<std::size_t>(c.prompts));
    }
    return c;
  }

 private:
  void decode(side& a, side& b, const demo::problem& p, counts& c) {
    a.start(there_.canvas(p.prompt, answer_length));
    b.start(a.tokens[0]);
    bool equal = true;
    while (a.running() || b.running()) {
      if (a.running()) {
        a.forward([&](const auto& request) { return here_.forward(request, a.tokens); });
      }
      if (b.running()) {
        b.forward([&](const auto& r) { return there_.forward(*b.session, r, b.tokens); });
      }
      float most = 0.0F;
      for (std::size_t i = 0; equal && i < std::min(a.rows.size(), b.rows.size()); ++i) {
        const auto here = a.segments[i].placed, there = b.segments[i].placed;
        const auto same = [](const unmask::placement& x, const unmask::placement& y) {
          return x.position == y.position && x.token == y.token;
        };
        if (std::equal(here.begin(), here.end(), there.begin(), there.end(), same)) {
          const float d = difference(a.rows[i], b.rows[i]);
          most = d <= most ? most : d;
        }
      }
      c.most = equal && !(most <= c.most) ? most : c.most;
      c.steps += equal ? 1 : 0;
      if (a.running()) {
        a.decide(here_);
      }
      if (b.running()) {
        b.decide(there_);
      }
      if (equal && (a.tokens != b.tokens || a.running() != b.running())) {
        equal = false;
        c.flips.push_back(flip(a, b, p, most));
      }
    }
    const auto text = [&](const side& s) {
      return example::text_of(here_.vocab(), std::span(s.tokens[0]).last(answer_length));
    };
    ++c.prompts;
    c.equal += equal && a.session->report(0).forwards == b.session->report(0).forwards ? 1 : 0;
    c.same_text += text(a) == text(b) ? 1 : 0;
    c.exact_here += text(a) == p.answer ? 1 : 0;
    c.exact_there += text(b) == p.answer ? 1 : 0;
  }

  /// Commits of both engines in the first step that differs.
  std::string flip(side& a, side& b, const demo::problem& p, float most) {
    std::string text = "    \"" + p.prompt + "\", forward " +
                       std::to_string(a.session->report(0).forwards) +
                       ": logits differ by at most " + std::to_string(most) + "\n";
    int shown = 0;
    for (std::size_t i = 0; i < a.tokens[0].size(); ++i) {
      if (a.tokens[0][i] != b.tokens[0][i] && shown++ < 3) {
        text += "      position " + std::to_string(i) + ": llama.cpp " + committed(a, i) +
                ", example engine " + committed(b, i) + "\n";
      }
    }
    return shown > 3 ? text + "      and " + std::to_string(shown - 3) + " more\n" : text;
  }
  std::string committed(side& s, std::size_t position) {
    for (const unmask::commit_entry& c : s.session->committed(0)) {
      if (c.position == static_cast<index_t>(position)) {
        char entry[64];
        std::snprintf(entry,
                      sizeof entry,
                      "'%s' (%.8f)",
                      example::text_of(here_.vocab(), {&c.token, 1}).c_str(),
                      std::exp(static_cast<double>(c.log_probability)));
        return entry;
      }
    }
    return s.tokens[0][position] == here_.info().mask_token ? "leaves it masked" : "as it was";
  }

  std::string cache_;
  example::llama_cpp_host here_;
  demo::engine there_;
};

int run(std::span<char*> arguments) {
  std::string model = UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf", cache;
  std::vector<demo::chosen_policy> policies;
  int limit = 1;
  float tolerance = 1e-3F;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    const std::string value = arguments[i + 1];
    if (name == "--model") {
      model = value;
    } else if (name == "--cache") {
      cache = value;
    } else if (name == "--policy") {
      policies.emplace_back(value);
    } else if (name == "--limit") {
      limit = std::stoi(value);
    } else if (name == "--tolerance") {
      tolerance = std::stof(value);
    }
  }
  if (policies.empty()) {
    policies = demo::all_policies();
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  comparison both(model, cache);
  const auto problems =
      demo::choose(demo::read_problems(UNMASK_EXAMPLES_DIR "/tiny_llada/prompts.jsonl"), {}, limit);

  std::printf("%-40s %7s %6s %6s %7s %13s %10s\n",
              "policy",
              "prompts",
              "equal",
              "text",
              "steps",
              "exact",
              "logits");
  counts sum;
  bool close = true;
  for (const demo::chosen_policy& policy : policies) {
    const counts c = both.run(policy, problems);
    std::printf("%-40s %7d %6d %6d %7lld %6d %6d %10.2g\n",
                policy.name().c_str(),
                c.prompts,
                c.equal,
                c.same_text,
                static_cast<long long>(c.steps),
                c.exact_here,
                c.exact_there,
                static_cast<double>(c.most));
    for (const std::string& flip : c.flips) {
      std::fputs(flip.c_str(), stdout);
    }
    std::fflush(stdout);
    sum.prompts += c.prompts;
    sum.equal += c.equal;
    close = close && c.most <= tolerance;  // not a number is not close
  }
  std::printf("%d of %d decodes equal in all tokens and forwards; logits %s %g of each other\n",
              sum.equal,
              sum.prompts,
              close ? "within" : "NOT within",
              static_cast<double>(tolerance));
  // A step decided otherwise on the same logits is rare: one decode in fifty is more than that.
  return close && 50 * (sum.prompts - sum.equal) <= sum.prompts ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run({arguments + 1, arguments + count});
  } catch (const std::exception& e) {
    std::cerr << "unmask_llama_cpp_compare: " << e.what() << '\n';
    return 2;
  }
}
