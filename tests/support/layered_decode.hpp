// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The loop of an engine that runs single positions, over the toy transformer.

#include <unmask/session.hpp>
#include <unmask/unmask.hpp>

#include <vector>

#include "support/toy_transformer.hpp"

namespace unmask::testing {

/// Result of a decode.
struct layered_result {
  std::vector<token_id> tokens;
  std::vector<commit_entry> commits;
  long computed = 0;  ///< layer-positions
  sequence_report report;
};

/// A sequence of random prompt tokens below the mask token, which is the last of the vocabulary.
inline std::vector<token_id> prompted(const toy_transformer& model, const sequence_shape& g) {
  std::vector<token_id> tokens(static_cast<std::size_t>(g.length), model.vocab - 1);
  dice d(g.seed + 77);
  for (index_t p = 0; p < g.prompt_length; ++p) {
    tokens[static_cast<std::size_t>(p)] = d.within(0, model.vocab - 2);
  }
  return tokens;
}

inline model_info info_of(const toy_transformer& model, index_t logits_shift = 0) {
  return {.vocab = model.vocab,
          .mask_token = model.vocab - 1,
          .eos_token = no_token,
          .logits_shift = logits_shift,
          .suppress_mask = true,
          .layers = model.layers};
}

/// Decodes sequences side by side, each in a slot of its own. `observe(session, pass,
/// logits, tokens)` is called for each pass behind its last layer.
template <class Policy, class Observe>
std::vector<layered_result> decode_layered(const toy_transformer& model,
                                           const Policy& p,
                                           const std::vector<sequence_shape>& shapes,
                                           index_t logits_shift,
                                           const Observe& observe) {
  session_capacity capacity{
      .sequences = static_cast<index_t>(shapes.size()), .length = 1, .window = 1};
  for (const sequence_shape& g : shapes) {
    capacity.length = std::max(capacity.length, g.length);
    capacity.window = std::max(capacity.window, unmask::detail::policy_reach(p, g));
  }
  session<Policy> session(info_of(model, logits_shift), capacity);
  std::vector<layered_result> results(shapes.size());
  std::vector<toy_memory> memories;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    results[i].tokens = prompted(model, shapes[i]);
    memories.emplace_back(model.layers, shapes[i].length, toy_transformer::width);
    session.start(static_cast<index_t>(i), p, results[i].tokens, shapes[i]);
  }
  while (const auto request = session.next()) {
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const auto slot = static_cast<std::size_t>(request->segments[i].slot);
      auto pass = session.pass(i);
      const std::vector<float> logits =
          model.forward(pass, results[slot].tokens.data(), memories[slot]);
      observe(session, pass, logits, results[slot].tokens);
      const auto rows = static_cast<index_t>(pass.rows().size());
      session.read(i, host_logits<float>(logits.data(), rows, model.vocab));
    }
    session.decide();
    for (std::size_t slot = 0; slot < shapes.size(); ++slot) {
      for (const commit_entry& c : session.committed(static_cast<index_t>(slot))) {
        results[slot].commits.push_back(c);
      }
    }
  }
  for (std::size_t slot = 0; slot < shapes.size(); ++slot) {
    results[slot].computed = memories[slot].computed;
    results[slot].report = session.report(static_cast<index_t>(slot));
  }
  return results;
}

template <class Policy>
layered_result decode_layered(const toy_transformer& model,
                              const Policy& p,
                              const sequence_shape& shape,
                              index_t logits_shift = 0) {
  return decode_layered(model, p, {shape}, logits_shift, [](auto&, auto&, auto&, auto&) {})[0];
}

/// Equality of decodes: every commit with its step and log-probability.
inline bool same_decode(const layered_result& a, const layered_result& b) {
  const auto same = [](const commit_entry& x, const commit_entry& y) {
    return x.position == y.position && x.token == y.token && x.step == y.step &&
           x.log_probability == y.log_probability;
  };
  return a.tokens == b.tokens &&
         std::equal(a.commits.begin(), a.commits.end(), b.commits.begin(), b.commits.end(), same);
}

}  // namespace unmask::testing
