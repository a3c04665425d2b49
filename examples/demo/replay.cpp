// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/replay.hpp"

#include <unmask/trace.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace demo {

namespace {

/// The differences between a trace and its replay.
struct comparison {
  std::size_t tokens = 0;     ///< written in the trace
  std::size_t missing = 0;    ///< of those, not in the replay's step, or with another token
  std::size_t identical = 0;  ///< log-probabilities, bit by bit
  float largest = 0.0F;       ///< largest difference of two, in nats
};

bool writes(unmask::candidate_outcome outcome) {
  using enum unmask::candidate_outcome;
  return outcome == committed || outcome == forced || outcome == replaced || outcome == from_branch;
}

/// Compares the tokens that a step wrote, in ascending positions.
void compare(const unmask::traced_step& traced,
             bool of_branches,
             std::span<const unmask::candidate_entry> now,
             comparison& all) {
  for (const unmask::candidate_entry& then : traced.candidates) {
    const bool is_branch = then.outcome == unmask::candidate_outcome::from_branch;
    if (!writes(then.outcome) || is_branch != of_branches) {
      continue;
    }
    ++all.tokens;
    const auto found = std::ranges::find_if(now, [&](const unmask::candidate_entry& e) {
      return e.committed && e.position == then.position && e.token == then.token;
    });
    if (found == now.end()) {
      ++all.missing;
      continue;
    }
    const float before = then.log_probability;
    all.identical += found->log_probability == before ? 1 : 0;
    if (found->log_probability != before) {
      all.largest = std::max(all.largest, std::fabs(found->log_probability - before));
    }
  }
}

}  // namespace

bool replay(const std::filesystem::path& file, const replay_engine& engine) {
  std::ifstream opened(file, std::ios::binary);
  if (!opened) {
    throw std::invalid_argument("the trace '" + file.string() + "' cannot be read");
  }
  const std::string text{std::istreambuf_iterator<char>(opened), {}};
  const unmask::trace trace = unmask::read_trace(text);
  bool is_equal = true;
  for (std::size_t i = 0; i < trace.sequences.size(); ++i) {
    const unmask::traced_sequence& sequence = trace.sequences[i];
    const unmask::loaded_replay again(trace, i);
    const unmask::replay_table& table = again.table();
    const auto length = static_cast<unmask::index_t>(sequence.tokens.size());
    engine.begin(again.recorded(), length);
    unmask::named_session session(
        again.policy(), engine.info, {.length = length, .window = length, .trace = true});
    std::vector<std::vector<unmask::token_id>> tokens{table.tokens()};
    session.start(0, tokens[0], sequence.shape, {.editable = table.editable()});
    comparison all;
    std::size_t step = 0;
    while (const auto request = session.next()) {
      const auto logits = engine.forward(session, *request, tokens);
      for (std::size_t k = 0; k < logits.size(); ++k) {
        session.read(k, logits[k]);
      }
      session.decide();
      // The token of a branch is in the step that proposed it.
      compare(sequence.steps[step], false, session.candidates(0), all);
      if (++step < sequence.steps.size()) {
        compare(sequence.steps[step], true, session.candidates(0), all);
      }
    }
    const bool has_end = !sequence.final_tokens.empty();
    const bool same = all.missing == 0 && step == sequence.steps.size() &&
                      (!has_end || tokens[0] == sequence.final_tokens);
    is_equal = is_equal && same;
    std::cout << "sequence " << i << ": " << step << " forwards, " << all.tokens << " tokens, "
              << (same ? "the same in the same steps" : "not all of them the same") << "; "
              << all.identical << " log-probabilities equal, largest difference " << all.largest
              << '\n';
  }
  return is_equal;
}

}  // namespace demo
