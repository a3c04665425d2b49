// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Controls that the library does not have. Of layer rules, one token a pass: budgets dealt out
// evenly, to the wrong layers and at random, and positions skipped at random. Of thresholds that
// move: one that falls with the passes and with nothing else. Decodes problems of one task and
// prints one JSON object as the demo does with --json. judge.py calls it:
//
//     layer_controls MODEL PROBLEMS TASK LIMIT RULE VALUE [MORE]
//
// RULE is change, even, reversed or random with a budget of VALUE positions a layer and a window of
// MORE, 0 unless given (the paper's is the budget); or skip, skip_drift, skip_confidence,
// skip_random with VALUE as the share of what entered that is kept from an eighth of the layers on,
// and MORE, if given, that from a quarter on; or falling, a threshold of VALUE in the first pass
// that falls by MORE with each further one.
#include <unmask/unmask.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "demo/problems.hpp"
#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"

namespace {

using namespace unmask;

/// A number in [0, 1) that depends on its arguments only.
float dice(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t x = a * 0x9E3779B9U ^ b * 0x85EBCA6BU ^ c * 0xC2B2AE35U ^ 0x27D4EB2FU;
  for (int i = 0; i < 3; ++i) {
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
  }
  return static_cast<float>(x >> 8) / 16777216.0F;
}

enum class dealing { by_change, evenly, reversed, at_random };

/// cache_budget with the budgets of the layers dealt out in other ways; their sum is the same.
struct dealt_budget : cache_budget {
  dealing how = dealing::by_change;

  void allocate(const float* means, index_t* budgets, index_t layers, const auto& context) const {
    const index_t total = std::min(budget, max_rows / layers) * layers;
    const auto count = static_cast<std::size_t>(layers);
    std::vector<float> weights(means, means + layers);
    if (how == dealing::evenly) {
      std::fill(weights.begin(), weights.end(), 1.0F);
    } else if (how == dealing::at_random) {
      for (std::size_t i = 0; i < count; ++i) {
        weights[i] =
            dice(static_cast<std::uint32_t>(context.at.step), 7, static_cast<std::uint32_t>(i));
      }
    } else if (how == dealing::reversed) {  // the most for the layer that changed least
      std::vector<std::size_t> order(count);
      for (std::size_t i = 0; i < count; ++i) {
        order[i] = i;
      }
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return means[a] < means[b];
      });
      for (std::size_t i = 0; i < count; ++i) {
        weights[order[i]] = means[order[count - 1 - i]];
      }
    }
    share_out(weights.data(), layers, total, budgets);
  }
};

/// A threshold that falls by the same amount with each pass.
struct falling_threshold {
  float start = 0.9F;
  float fall = 0.0F;
  static constexpr statistics required = stat::confidence;

  bool commits(const auto& c, const rank_info&, const auto& context) const {
    return c.confidence() > start - fall * static_cast<float>(context.at.step);
  }
};

/// early_skip whose positions are ranked by chance.
struct random_skip : early_skip {
  float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    return dice(static_cast<std::uint32_t>(row.position),
                static_cast<std::uint32_t>(l.layer),
                static_cast<std::uint32_t>(context.at.step));
  }
};

template <class Policy>
nlohmann::json
measured(const Policy& p, const std::string& weights, const std::vector<demo::problem>& problems) {
  const example::gguf_file file(weights);
  const example::char_tokenizer text(file);
  example::llada_model model(
      std::make_shared<const example::llada_weights>(example::llada_weights::load(file)));
  const model_info info{.vocab = static_cast<index_t>(text.vocabulary()),
                        .mask_token = text.mask(),
                        .eos_token = text.end(),
                        .layers = static_cast<index_t>(model.config().layers)};
  std::string right;
  std::vector<index_t> forwards;
  std::int64_t computed = 0, all = 0;
  for (const demo::problem& problem : problems) {
    std::vector<token_id> tokens = text.canvas(problem.prompt, text.encode_masked(problem.given));
    const std::vector<std::uint8_t> editable = text.masked(tokens);
    const auto length = static_cast<index_t>(tokens.size());
    example::sequence_memory memory;
    const auto answer = static_cast<index_t>(problem.given.size());
    const index_t first = length - answer;
    session<Policy> session(info, {.sequences = 1, .length = length, .window = answer});
    session.start(0,
                  p,
                  tokens,
                  {.prompt_length = first, .length = length, .block_length = answer},
                  {.editable = editable});
    while (session.next()) {
      auto pass = session.pass(0);
      const example::logits_view z = model.forward(pass, tokens, memory);
      session.supply(host_logits<float>(
          z.data, static_cast<index_t>(z.rows), static_cast<index_t>(z.vocabulary)));
    }
    right += demo::is_right(problem, text.decode(std::span(tokens).last(problem.given.size())))
                 ? '1'
                 : '0';
    forwards.push_back(session.report(0).forwards);
    all += forwards.back();
    computed += memory.computed;
  }
  return {{"right", right},
          {"forwards", all},
          {"forwards_each", forwards},
          {"segments", all},
          {"segments_each", forwards},
          {"layer_positions", computed}};
}

nlohmann::json measured(const std::string& rule,
                        double value,
                        const double* more,
                        const std::string& weights,
                        const std::vector<demo::problem>& problems) {
  const auto one = [&](const auto& layer_rule, const auto& cache) {
    const policy p{by_confidence{}, tokens_per_step{1}, layer_rule, cache};
    return measured(p, weights, problems);
  };
  const std::vector<std::string> dealings{"change", "even", "reversed", "random"};
  if (const auto found = std::ranges::find(dealings, rule); found != dealings.end()) {
    dealt_budget b;
    b.budget = static_cast<index_t>(value);
    b.window = more != nullptr ? static_cast<index_t>(*more) : 0;
    b.how = static_cast<dealing>(found - dealings.begin());
    return one(b, interval_cache{1, 0});
  }
  if (rule == "falling") {
    const policy p{by_confidence{},
                   falling_threshold{static_cast<float>(value),
                                     static_cast<float>(more != nullptr ? *more : 0.0)}};
    return measured(p, weights, problems);
  }
  random_skip chance;
  chance.stages[0] = {0.125, value};
  chance.stage_count = 1;
  if (more != nullptr) {
    chance.stages[chance.stage_count++] = {0.25, *more};
  }
  if (rule == "skip_random") {
    return one(chance, block_cache{});
  }
  early_skip s = chance;
  if (rule != "skip" && rule != "skip_drift" && rule != "skip_confidence") {
    throw std::invalid_argument("RULE must be one of those in the head of this file, got '" + rule +
                                "'");
  }
  s.weight = rule == "skip" ? 0.5F : rule == "skip_drift" ? 0.0F : 1.0F;
  return one(s, block_cache{});
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 7 && count != 8) {
      throw std::invalid_argument(
          "usage: layer_controls MODEL PROBLEMS TASK LIMIT RULE VALUE [MORE]");
    }
    const auto problems =
        demo::choose(demo::read_problems(arguments[2]), {{arguments[3]}}, std::atoi(arguments[4]));
    const double more = count == 8 ? std::atof(arguments[7]) : 0.0;
    const nlohmann::json one = measured(arguments[5],
                                        std::atof(arguments[6]),
                                        count == 8 ? &more : nullptr,
                                        arguments[1],
                                        problems);
    std::cout << nlohmann::json{{"policies", {one}}}.dump() << '\n';
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "layer_controls: " << e.what() << '\n';
    return 2;
  }
}
