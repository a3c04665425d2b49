// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace.hpp>
#include <unmask/unmask.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hosts/llama_cpp/llama_cpp_host.hpp"

namespace example {

/// One sequence to decode, and what became of it.
struct job {
  std::vector<unmask::token_id> tokens;  ///< the prompt, then the answer: mask tokens at first
  unmask::sequence_shape shape;
  std::vector<std::uint8_t> editable = {};  ///< as in start_options; empty: every position
  unmask::constraint* language = nullptr;   ///< that the answer obeys; null: any
  unmask::sequence_report report = {};
  unmask::index_t segments = 0;      ///< forward passes, lookahead branches counted
  std::int64_t layer_positions = 0;  ///< positions that each layer computed, summed
  double forward_seconds = 0.0;      ///< in libllama; a pass is shared by the segments that it ran
  double policy_seconds = 0.0;
  unmask::index_t answer_length = 0;  ///< what is decoded beyond it is no part of the answer

  /// The position after the answer.
  unmask::index_t answer_end() const { return shape.prompt_length + answer_length; }
  std::span<const unmask::token_id> answer() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(shape.prompt_length),
                                     static_cast<std::size_t>(answer_length));
  }
};

/// The job that answers a prompt in the lengths of a model, and as that decodes it: in whole
/// blocks, for one.
inline job job_of(std::vector<unmask::token_id> prompt,
                  const llama_cpp_host& host,
                  const unmask::known_model& lengths) {
  job made;
  made.tokens = std::move(prompt);
  made.answer_length = lengths.answer_length;
  made.shape = unmask::shape_of(lengths, static_cast<unmask::index_t>(made.tokens.size()));
  made.tokens.resize(static_cast<std::size_t>(made.shape.length), host.info().mask_token);
  return made;
}

/// The job that answers a prompt with `length` tokens in blocks.
inline job job_of(std::vector<unmask::token_id> prompt,
                  const llama_cpp_host& host,
                  unmask::index_t length,
                  unmask::index_t block_length) {
  unmask::known_model lengths{};
  lengths.answer_length = length;
  lengths.block_length = block_length;
  return job_of(std::move(prompt), host, lengths);
}

/// True if passes reuse keys and values, which needs llama_cpp_settings::cache. Throws
/// std::invalid_argument, in the name of `policy`, for parts that llama.cpp cannot run.
inline bool uses_cache(const std::string& policy, const unmask::named_policy& parts) {
  if (parts.eviction.count > 0) {
    throw std::invalid_argument(policy + " must do without key_eviction: llama.cpp attends to all "
                                         "keys that it keeps");
  }
  if (parts.layered_now()) {
    throw std::invalid_argument(policy +
                                " must do without a layer rule, delayed_cache and entropy_cache: "
                                "llama.cpp runs ranges of positions through all layers");
  }
  return parts.cache.count > 0;
}

/// Decodes all jobs with a session of `slots` slots: a job takes a slot as soon as one is free.
/// `observe(job, session, slot)` is called after each step of each. `trace`, if it is not null,
/// records them, which needs a session with session_capacity::trace.
template <class Observe>
void decode(llama_cpp_host& host,
            auto& session,
            unmask::index_t slots,
            std::span<job> jobs,
            Observe&& observe,
            unmask::trace_writer* trace = nullptr) {
  using clock = std::chrono::steady_clock;
  const auto since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  std::vector<std::vector<unmask::token_id>> tokens(static_cast<std::size_t>(slots));
  std::vector<job*> running(tokens.size());
  std::size_t next = 0;
  const auto join = [&](unmask::index_t slot) {
    const auto s = static_cast<std::size_t>(slot);
    if (next < jobs.size()) {
      running[s] = &jobs[next++];
      tokens[s] = running[s]->tokens;
      const unmask::constrained_field whole_answer{.language = running[s]->language,
                                                   .last = running[s]->answer_length};
      session.start(slot,
                    tokens[s],
                    running[s]->shape,
                    {.editable = running[s]->editable,
                     .constraints = {&whole_answer, running[s]->language == nullptr ? 0U : 1U}});
      if (trace != nullptr) {
        trace->start({.slot = slot, .shape = running[s]->shape, .tokens = tokens[s]}, session);
      }
    }
  };
  for (unmask::index_t slot = 0; slot < slots; ++slot) {
    join(slot);
  }

  std::vector<unmask::segment> ran;  // the request's own are valid until decide()
  auto start = clock::now();
  while (const auto request = session.next()) {
    ran.assign(request->segments.begin(), request->segments.end());
    if (trace != nullptr) {
      trace->request(*request, session);
    }
    double policy = since(start);
    start = clock::now();
    const auto logits = host.forward(*request, tokens);
    const double forward = since(start);

    start = clock::now();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      session.read(i, logits[i]);
    }
    session.decide();
    policy += since(start);
    if (trace != nullptr) {
      trace->step(session, 1e3 * forward);
    }

    for (const unmask::segment& s : ran) {
      const auto slot = static_cast<std::size_t>(s.slot);
      job& j = *running[slot];
      ++j.segments;
      j.layer_positions += std::int64_t{host.computed(s).size()} * host.info().layers;
      j.forward_seconds += forward / static_cast<double>(ran.size());
      j.policy_seconds += policy / static_cast<double>(ran.size());
    }
    for (const unmask::segment& s : ran) {
      if (s.branch > 0) {
        continue;  // a slot is looked at once, whatever branches it ran
      }
      host.keep(s.slot, session.planned(s.slot).winner);
      job& j = *running[static_cast<std::size_t>(s.slot)];
      j.report = session.report(s.slot);
      j.tokens = tokens[static_cast<std::size_t>(s.slot)];
      observe(std::as_const(j), session, s.slot);
      if (j.report.end != unmask::ending::running) {
        join(s.slot);
      }
    }
    start = clock::now();
  }
}

}  // namespace example
