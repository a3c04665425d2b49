// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// decode() for sessions of any policy; the demo's own is compiled once (decode.cpp).

#include <unmask/trace.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include "demo/decode.hpp"
#include "demo/forward.hpp"
#include "demo/terminal.hpp"

namespace demo {

/// Calls a function and adds the time it took.
template <class F>
auto timed(double& seconds, F&& function) {
  struct clock {
    double& seconds;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~clock() {
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  } running{seconds};
  return std::forward<F>(function)();
}

template <class Session>
decoding decode(Session& session,
                index_t batch,
                engine& model,
                std::span<const problem> problems,
                const geometry& g,
                const observer& observe,
                unmask::trace_writer* trace) {
  decoding result;
  result.answers.resize(problems.size());
  const auto slots = static_cast<std::size_t>(batch);
  std::vector<std::vector<token_id>> tokens(slots);
  std::vector<std::size_t> problem_in(slots);
  std::vector<index_t> prompt_of(slots);    // tokens in front of the answer
  std::vector<index_t> segments_in(slots);  // run for that problem so far
  std::size_t waiting = 0;                  // the first problem that has not been started

  const auto answer_in = [&](std::size_t slot) {
    return std::span<const token_id>(tokens[slot])
        .subspan(static_cast<std::size_t>(prompt_of[slot]));
  };
  const auto take = [&](index_t slot) {
    const auto s = static_cast<std::size_t>(slot);
    decoded& d = result.answers[problem_in[s]];
    d = result_of(answer_in(s), session.report(slot), model.text(), problems[problem_in[s]]);
    d.segments = segments_in[s];
  };
  const auto start_next = [&](index_t slot) {
    bool runs = false;
    while (!runs && waiting < problems.size()) {
      const auto s = static_cast<std::size_t>(slot);
      const problem& p = problems[waiting];
      tokens[s] = model.canvas(p.prompt, answer_length(p, g), p.given);
      prompt_of[s] = model.prompt_length(p.prompt);
      const unmask::sequence_shape shape{.prompt_length = prompt_of[s],
                                         .length = static_cast<index_t>(tokens[s].size()),
                                         .block_length = g.block_length,
                                         .seed = g.seed,
                                         .sequence = static_cast<std::uint32_t>(waiting)};
      const std::vector<std::uint8_t> editable = editable_of(p, model, tokens[s]);
      session.start(
          slot, tokens[s], shape, {.editable = editable, .suppressed = model.text().never()});
      if (trace != nullptr) {
        trace->start(
            {.slot = slot, .shape = shape, .tokens = tokens[s], .options = {.editable = editable}},
            session);
      }
      segments_in[s] = 0;
      problem_in[s] = waiting++;
      runs = session.report(slot).end == unmask::ending::running;
      if (!runs) {
        take(slot);
      }
    }
  };
  for (index_t slot = 0; slot < batch; ++slot) {
    start_next(slot);
  }

  const std::int64_t computed_before = model.computed();
  const std::int64_t in_full_before = model.in_full();
  std::vector<unmask::segment> segments;  // the request's own are valid until decide() only
  while (const auto request = timed(result.policy_seconds, [&] { return session.next(); })) {
    check_interrupt();
    segments.assign(request->segments.begin(), request->segments.end());
    if (trace != nullptr) {
      trace->request(*request, session);
    }
    const double seconds_before = result.engine_seconds;
    const auto logits =
        timed(result.engine_seconds, [&] { return model.forward(session, *request, tokens); });
    timed(result.policy_seconds, [&] {
      for (std::size_t i = 0; i < logits.size(); ++i) {
        session.read(i, logits[i]);
      }
      session.decide();
    });
    if (trace != nullptr) {
      trace->step(session, 1000.0 * (result.engine_seconds - seconds_before));
    }

    result.segments += static_cast<std::int64_t>(segments.size());
    for (const unmask::segment& s : segments) {
      ++segments_in[static_cast<std::size_t>(s.slot)];
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const unmask::segment& s = segments[i];
      if (s.branch > 0) {
        continue;  // a slot is looked at once, whatever branches it ran
      }
      model.keep(s.slot, session.planned(s.slot).winner);
      const auto slot = static_cast<std::size_t>(s.slot);
      const unmask::sequence_report& report = session.report(s.slot);
      const std::span<const token_id> answer = answer_in(slot);
      if (observe) {
        observe({.problem = problem_in[slot],
                 .last_of_forward = s.slot == segments.back().slot,
                 .answer = answer,
                 .prompt_length = prompt_of[slot],
                 .committed = session.committed(s.slot),
                 .report = report,
                 .rows = logits[i].rows == s.rows.size() ? s.rows : unmask::range{},
                 .logits = logits[i]});
      }
      if (report.end != unmask::ending::running) {
        take(s.slot);
        start_next(s.slot);
      }
    }
  }
  result.computed = model.computed() - computed_before;
  result.in_full = model.in_full() - in_full_before;
  return result;
}

}  // namespace demo
