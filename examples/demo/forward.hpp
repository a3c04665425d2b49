// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// engine::forward() for sessions of any policy; the demo's own is compiled once (engine.cpp).

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "demo/engine.hpp"
#include "demo/hooked_pass.hpp"
#include "engine/llada_pass.hpp"

namespace demo {

template <class Session>
std::span<const unmask::host_logits<float>>
engine::forward(Session& session,
                const unmask::forward_request& request,
                std::span<const std::vector<token_id>> tokens) {
  const std::size_t vocabulary = text_.vocabulary();
  make_room(request);

  // Each thread has a model of its own and takes the next free segment.
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> computed{0};
  std::mutex using_session;
  std::mutex failing;
  std::exception_ptr failure;
  auto work = [&](index_t thread) noexcept {
    try {
      example::llada_model& model = models_[static_cast<std::size_t>(thread)];
      std::vector<token_id>& branch = branches_[static_cast<std::size_t>(thread)];
      for (std::size_t i = next++; i < request.segments.size(); i = next++) {
        const unmask::segment& s = request.segments[i];
        if (s.attention == unmask::attention_kind::shadow) {
          continue;  // the thread of its sequence has it
        }
        auto sequence = std::span(tokens[static_cast<std::size_t>(s.slot)]);
        if (!s.placed.empty()) {
          branch.assign(sequence.begin(), sequence.end());
          for (const unmask::placement& placed : s.placed) {
            branch.at(static_cast<std::size_t>(placed.position)) = placed.token;
          }
          sequence = branch;
        }
        float* const place = logits_.data() + static_cast<std::size_t>(s.first_row) * vocabulary;
        std::vector<token_id> key;
        if (shared_capacity_ > 0) {
          key.assign(sequence.begin(), sequence.end());
          key.insert(key.end(), {s.rows.first, s.rows.last, s.keys.last});
          const std::lock_guard lock(using_session);
          if (const auto found = shared_.find(key); found != shared_.end()) {
            const std::vector<float>& rows = found->second.rows;
            std::copy(rows.begin(), rows.end(), place);
            answers_[i] = {place,
                           static_cast<index_t>(rows.size() / vocabulary),
                           static_cast<index_t>(vocabulary)};
            computed += found->second.computed;
            continue;
          }
        }
        hooked_pass pass(session.pass(i), [&](auto& of, const auto&... at) {
          const std::lock_guard lock(using_session);  // one thread at a time may use a session
          return of.at_layer(at...);
        });
        example::sequence_memory& memory = memory_of(s);
        const std::int64_t before = memory.computed;
        const unmask::range blocks = session.planned(s.slot).score;
        memory.window = opens_window_ ? static_cast<std::size_t>(blocks.first) : SIZE_MAX;
        const bool is_causal = s.attention == unmask::attention_kind::causal;
        const example::logits_view rows =
            model.forward(pass,
                          sequence,
                          memory,
                          {blocks.first, blocks.last, dropping_.keep, dropping_.pool},
                          is_causal);
        computed += memory.computed - before;
        std::copy_n(rows.data, rows.rows * vocabulary, place);
        answers_[i] = {place, static_cast<index_t>(rows.rows), static_cast<index_t>(vocabulary)};
        if (i + 1 < request.segments.size() &&
            request.segments[i + 1].shadow_of == static_cast<index_t>(i)) {
          run_shadow(model, request.segments[i + 1], sequence, memory, answers_[i + 1]);
          computed += std::int64_t{request.segments[i + 1].query.size()} * info().layers;
        }
        if (shared_bytes_ < shared_capacity_) {
          const std::lock_guard lock(using_session);
          shared_bytes_ += key.size() * sizeof(token_id) + rows.rows * vocabulary * sizeof(float);
          shared_.insert_or_assign(
              std::move(key),
              shared_logits{{place, place + rows.rows * vocabulary}, memory.computed - before});
        }
      }
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  pool_.run(threads(), work);
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  computed_ += computed;
  for (const unmask::segment& s : request.segments) {
    in_full_ += std::int64_t{s.keys.size()} * info().layers;
  }
  return answers_;
}

}  // namespace demo
