// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/validate.hpp>
#include <unmask/cuda/device_view.hpp>
#include <unmask/step/decide.hpp>

#include <new>

namespace UNMASK_NAMESPACE::device {

/// Arguments of the start of a sequence. A kernel's argument: with the policy's knobs at most
/// 32,764 bytes, the limit of CUDA 12.1 and newer.
template <class Policy>
struct start_arguments {
  Policy policy;
  model_info model;
  sequence_shape geometry;
  token_id* tokens = nullptr;
  /// Null masks the whole answer. Device memory.
  const std::uint8_t* editable = nullptr;
  /// Null for a sequence that asks for no soft tokens. Device memory.
  step::soft_rows* soft = nullptr;
  index_t soft_count = 0;
  /// slot_state::read.
  std::uint32_t read = 0;
  index_t suppressed_count = 0;
  token_id suppressed[max_suppressed] = {};
};

/// Sets the lists of a slot to those of the constraints of its sequence, if it has some, and its
/// soft tokens.
template <class Policy>
UNMASK_HD void use_lists(step::slot_memory<Policy>& m,
                         const session_device_view<Policy>& device_view,
                         index_t slot) {
  if (const step::answer_walk* const answer = device_view.answer_of(slot)) {
    m.entries = answer->entries;
    m.traced = answer->traced;
  }
  m.soft = device_view.soft_of(slot);
}

/// Sets the outcomes of rows with soft tokens, or forgets them if no step was decided. Called
/// after the barrier of step_phase::plan(), before which the marks are written.
template <class Policy>
UNMASK_HD void finish_soft(const auto& t, const step::slot_memory<Policy>& m, bool was_step) {
  if (Policy::varies && m.soft != nullptr) {
    step::apart<Policy>([&] {
      if (was_step) {
        m.soft->finish(t, m.marks);
      } else {
        m.soft->forget(t);
      }
    });
  }
}

/// Tests the answer of a sequence with constraints that has ended. Called after the barrier of
/// step_phase::plan(), and before that of show().
template <class Policy>
UNMASK_HD void
finish_answer(const auto& t, const step::slot_memory<Policy>& m, step::answer_walk* answer) {
  if (answer != nullptr && !m.status->next.active()) {
    step::apart<Policy>([&] {
      const bool is_met = answer->finish(t, m.state->tokens, m.marks);
      if (t.lane() == 0) {
        m.status->report.constraint_met = is_met;
      }
    });
  }
}

/// Writes a slot's state and plans its first step, as on_host::workspace::start().
template <class Policy>
UNMASK_HD void start_slot(const auto& t,
                          const start_arguments<Policy>& a,
                          const session_device_view<Policy>& device_view,
                          index_t slot) {
  step::slot_memory<Policy> m = device_view.slots[slot];
  use_lists(m, device_view, slot);
  m.soft = a.soft;
  step::answer_walk* const answer = device_view.answer_of(slot);
  if (t.lane() == 0) {
    ::new (static_cast<void*>(m.policy)) Policy(a.policy);
    ::new (static_cast<void*>(m.sequence)) sequence_states<Policy>();
    ::new (static_cast<void*>(m.step_reductions)) step_reductions_of<Policy>();
    ::new (static_cast<void*>(m.state)) step::slot_state();
    m.state->model = a.model;
    m.state->geometry = a.geometry;
    m.state->tokens = a.tokens;
    m.state->read = a.read;
    if (device_view.soft != nullptr) {
      device_view.soft[slot] = a.soft;
    }
    if (a.soft != nullptr) {
      a.soft->count = a.soft_count;
    }
    m.state->suppressed_count = a.suppressed_count;
    for (index_t i = 0; i < a.suppressed_count; ++i) {
      m.suppressed[i] = a.suppressed[i];
    }
    *m.status = {};
  }
  if (a.soft != nullptr) {
    a.soft->forget(t);
  }
  t.sync();
  step::begin(t, m, a.editable, answer);
  finish_answer(t, m, answer);
  show(t, device_view, slot);
}

/// Moves the data that only one step uses to `base`, which is faster memory; returns their size in
/// bytes. With null it only computes the size.
template <class Policy>
UNMASK_HD std::size_t use_scratch(step::slot_memory<Policy>& m, std::byte* base) {
  step::slot_layout at{base};
  m.keys = at.take<std::uint64_t>(step::sort_size(m.window));
  m.roles = at.take<step::role>(m.window);
  m.cost_before = at.take<float>(m.window);
  m.largest_before = at.take<float>(m.window);
  return at.used();
}

/// Size of the shared memory for the scratch of a slot; 0 if it is too large and stays in global
/// memory.
template <class Policy>
[[nodiscard]] std::size_t scratch_bytes(index_t window) {
  step::slot_memory<Policy> m;
  m.window = window;
  const std::size_t bytes = use_scratch(m, nullptr);
  return bytes <= shared_bytes ? bytes : 0;
}

/// Decides one step of one slot, whose memory is `m`.
///
/// No effect unless the logits of every row of the step were given: a captured graph may be
/// replayed after the sequence needs other rows than at the capture.
template <class Policy>
UNMASK_HD void decide_in(const auto& t,
                         const session_device_view<Policy>& device_view,
                         index_t slot,
                         const step::slot_memory<Policy>& m) {
  bool complete = true;
  for (index_t b = 0; b < m.status->next.segments(); ++b) {
    complete = complete && device_view.supplied[device_view.line(slot, b)] != 0;
  }
  t.sync();
  for (index_t b = t.lane(); b <= device_view.branches; b += t.lanes()) {
    device_view.supplied[device_view.line(slot, b)] = 0;
  }
  if (complete || !m.status->next.active()) {
    step::answer_walk* const answer = device_view.answer_of(slot);
    const bool was_active = m.status->next.active();
    step::decide(t, m, answer);
    finish_answer(t, m, was_active ? answer : nullptr);
    finish_soft(t, m, was_active);
  } else {
    step::begin_report(t, m);
    finish_soft(t, m, false);
    if constexpr (Policy::layered) {
      if (step::layered_now(m) && m.layers.state->next == step::layers::refused(m)) {
        step::apart<Policy>([&] { step::enter_layers(t, m); });  // writes after a barrier
      }
    }
  }
  show(t, device_view, slot);
}

/// Shared memory of a block that decides a policy by name: the memory of its slot, which is too
/// much for registers.
template <class Policy>
struct decide_space {
  step::slot_memory<Policy> slot;
};
template <class Policy>
  requires(!Policy::varies)
struct decide_space<Policy> {};

/// Decides one step of one slot, with `scratch` of scratch_bytes(), or null.
template <class Policy>
UNMASK_HD void decide_slot(const auto& t,
                           const session_device_view<Policy>& device_view,
                           index_t slot,
                           std::byte* scratch,
                           [[maybe_unused]] decide_space<Policy>& space) {
  const auto complete = [&](step::slot_memory<Policy>& m) {
    use_lists(m, device_view, slot);
    if (scratch != nullptr) {
      static_cast<void>(use_scratch(m, scratch));
    }
  };
  if constexpr (Policy::varies) {
    copy_objects(t, device_view.slots + slot, &space.slot, 1);
    t.sync();
    if (t.lane() == 0) {
      complete(space.slot);
    }
    t.sync();  // decide_in() has read the status alone when it comes to its own
    decide_in(t, device_view, slot, space.slot);
  } else {
    step::slot_memory<Policy> m = device_view.slots[slot];
    complete(m);
    decide_in(t, device_view, slot, m);
  }
}

}  // namespace unmask::device
