// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The loop of a small engine for targets that are not about engines.

#include <unmask/named_policy.hpp>

#include <map>

#include "fuzz/target.hpp"
#include "hostile/engine.hpp"
#include "support/bound_session.hpp"

namespace unmask::fuzz {

/// Decodes the sequence in slot 0 with made-up rows, for at most `most` steps; checks that it goes
/// on only while it runs, and that its tokens are of the vocabulary. Returns the number of steps.
inline index_t decode(testing::bound_session<named_policy>& session,
                      const model_info& model,
                      const std::vector<token_id>& tokens,
                      index_t most) {
  constexpr index_t width = 4;
  hostile::hostile_engine engine;
  engine.moods = {1.0, 1.0, 0.1};
  const auto vocab = static_cast<std::size_t>(model.vocab);
  std::map<index_t, std::vector<float>> stored;
  index_t steps = 0;
  for (; steps < most; ++steps) {
    const auto request = session.next();
    if (!request) {
      require(session.report(0).end != ending::running, "a running sequence has a request");
      break;
    }
    for (std::size_t k = 0; k < request->segments.size(); ++k) {
      auto pass = session.pass(k);
      std::vector<token_id> x = tokens;
      for (const auto& placed : pass.about().placed) {
        x[static_cast<std::size_t>(placed.position)] = placed.token;
      }
      hostile::row_place where{0, steps, 0, x};
      for (index_t layer = 0; layer < model.layers; ++layer) {
        if (!pass.hooks(layer)) {
          continue;
        }
        const auto here = pass.positions();
        std::vector<float> hidden(here.size() * width);
        for (std::size_t i = 0; i < here.size(); ++i) {
          where.row = here[i];
          write_hidden(engine, where, layer, std::span(hidden).subspan(i * width, width));
        }
        std::vector<float>& before = stored[layer];
        before.resize(tokens.size() * width);
        pass.at_layer(
            layer,
            rows_view<float, memory::host>(hidden.data(), static_cast<index_t>(here.size()), width),
            state_view<float, memory::host>(
                before.data(), static_cast<index_t>(tokens.size()), width));
      }
      const auto here = pass.positions();
      std::vector<float> logits;
      for (const index_t r : pass.rows()) {
        where.row = here[static_cast<std::size_t>(r)];
        logits.resize(logits.size() + vocab);
        write_row(engine, model, where, std::span(logits).last(vocab));
      }
      session.read(k,
                   rows_view<float, memory::host>(
                       logits.data(), static_cast<index_t>(logits.size() / vocab), model.vocab));
    }
    session.decide();
    for (const token_id v : tokens) {
      require(v >= 0 && v < model.vocab, "a token of the vocabulary, got " + std::to_string(v));
    }
  }
  return steps;
}

}  // namespace unmask::fuzz
