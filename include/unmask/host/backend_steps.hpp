// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/backend.hpp>
#include <unmask/step/begin_constraints.hpp>
#include <unmask/step/check_soft_tokens.hpp>

#include <utility>

/// Steps of a session on the host.
namespace UNMASK_NAMESPACE {

template <class Policy>
void on_host::workspace<Policy>::constrain(index_t slot,
                                           const Policy& policy,
                                           tokens_view<memory::host> tokens,
                                           const sequence_shape& geometry,
                                           const start_options& options) {
  step::check_soft_tokens(policy, options.soft_tokens);
  soft_[static_cast<std::size_t>(slot)].reserve(options.soft_tokens, capacity_.window);
  softens_ = softens_ || options.soft_tokens > 0;
  next_answer_ = step::begin_constraints(policy, model_, capacity_, tokens.data, geometry, options);
}

template <class Policy>
void on_host::workspace<Policy>::start(index_t slot,
                                       const Policy& policy,
                                       tokens_view<memory::host> tokens,
                                       const sequence_shape& geometry,
                                       const start_options& options) {
  step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(slot)];
  soft_[static_cast<std::size_t>(slot)].begin();
  m.soft = soft_[static_cast<std::size_t>(slot)].rows();
  token_id suppressed[max_suppressed];
  const index_t count = suppressed_tokens(model_, options, suppressed);
  for (index_t k = 0; k < count; ++k) {
    m.suppressed[k] = suppressed[k];
  }
  answers_[static_cast<std::size_t>(slot)] = std::move(next_answer_);
  ::new (const_cast<void*>(static_cast<const void*>(m.policy))) Policy(policy);
  *m.sequence = {};
  *m.step_reductions = {};
  *m.state = {};
  m.state->model = model_;
  m.state->geometry = geometry;
  m.state->tokens = tokens.data;
  m.state->suppressed_count = count;
  *m.status = {};
  const std::uint8_t* const editable = options.editable.empty() ? nullptr : options.editable.data();
  with_callbacks(slot, step::calls_back_now(policy), [&] {
    step::begin(serial{}, with_lists(slot), editable, answer_of(slot));
  });
  finish(slot, tokens.data);
}

template <class Policy>
const std::uint32_t* on_host::workspace<Policy>::mask_of(unmask::detail::constrained_answer& answer,
                                                         index_t position,
                                                         const std::uint32_t* given) {
  bool is_there = true;
  const std::uint32_t* mask = answer.mask(position, given, is_there);
  if (!is_there) {
    run();  // the masks of the rows that it reads are free then
    is_there = true;
    mask = answer.mask(position, given, is_there);
  }
  return mask;
}

template <class Policy>
template <element T>
void on_host::workspace<Policy>::enqueue(const segment& s,
                                         const rows_view<T, memory::host>& logits,
                                         const row_modifiers<T>& modifiers) {
  const step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(s.slot)];
  const range read = m.read_range();
  const index_t of_slot = segment_of_slot(s);
  const host::row_transform edit = host::slot_transform(m);
  auto* const answer = answer_of(s.slot);
  rows_.visit(step::row_kind_of(*m.policy), [&](auto& kind) {
    for (index_t i = 0; i < read.size(); ++i) {
      const index_t position = read.first + i;
      if (!m.reads_in(of_slot, i)) {
        continue;
      }
      const index_t r = row_of(m, s, position, i);
      row_modifiers<T> modifier = modifiers.from_row(r);
      const std::uint32_t* const given = modifier.allowed;
      if (answer != nullptr) {
        modifier.allowed = mask_of(*answer, position, modifier.allowed);
      }
      row_input<T>& in = kind.rows.template enqueue<T>(edit);
      in.logits = logits.row(r);
      in.unconditional = modifier.unconditional;
      in.allowed = modifier.allowed;
      in.cfg_scale = modifier.cfg_scale;
      set_options(kind, in, m, s, i, given);
    }
  });
}

template <class Policy>
template <statistics S>
void on_host::workspace<Policy>::take_row(host::rows_of_kind<S, Policy>& kind, std::size_t r) {
  const host::row_target& t = kind.targets[r];
  const step::slot_memory<Policy>& m = slots_[slot_of(t)];
  const range columns = {0, model_.vocab};
  record<Policy::required>& row = m.records[t.index];
  copy_statistics<S>(kind.rows[r], row);
  step::name_token(m, t.position, columns, t.allowed, row);
  step::name_listed(
      m, t.position - m.status->next.score.first, columns, t.allowed, t.excluded_logits);
}

template <class Policy>
void on_host::workspace<Policy>::truncate_from(auto& kind, std::size_t first) {
  const auto cut_off = [&](index_t k) noexcept {
    truncate(kind, first + static_cast<std::size_t>(k));
  };
  where_.executor.run(static_cast<index_t>(kind.rows.size() - first), cut_off);
  for (std::size_t r = first; r < kind.rows.size(); ++r) {
    statuses_[slot_of(kind.targets[r])].report.second_reads += kind.again[r];
  }
}

template <class Policy>
void on_host::workspace<Policy>::soften_from(auto& kind, std::size_t first) {
  const auto hold = [&](index_t k) noexcept {
    const std::size_t r = first + static_cast<std::size_t>(k);
    const host::row_target& t = kind.targets[r];
    const step::slot_memory<Policy>& m = slots_[slot_of(t)];
    if (m.soft != nullptr && m.status->next.score.contains(t.position) &&
        m.marks[t.position] == mark::masked) {
      kind.rows.hold(r, soft_[slot_of(t)].note(t.index));
    }
  };
  where_.executor.run(static_cast<index_t>(kind.rows.size() - first), hold);
}

template <class Policy>
void on_host::workspace<Policy>::run() {
  rows_.for_each([&]<statistics S>(host::rows_of_kind<S, Policy>& kind) {
    const std::size_t first = kind.rows.read_count();
    kind.rows.run();
    for (std::size_t r = first; r < kind.rows.size(); ++r) {
      take_row(kind, r);
    }
    if (softens_) {
      soften_from(kind, first);
    }
    if constexpr (host::rows_of_kind<S, Policy>::truncates) {
      truncate_from(kind, first);
    }
  });
  for (const auto& answer : answers_) {
    if (answer.get() != nullptr) {
      answer.get()->release();
    }
  }
  if (!keeps_rows()) {
    clear_rows();
  }
}

template <class Policy>
void on_host::workspace<Policy>::clear_rows() {
  rows_.for_each([](auto& kind) { kind.rows.clear(); });
}

template <class Policy>
void on_host::workspace<Policy>::read_again(index_t slot, index_t i) {
  const step::slot_memory<Policy>& m = memory_of(slot);
  auto& answer = *answer_of(slot);
  const index_t position = m.status->next.score.first + i;
  rows_.visit(step::row_kind_of(*m.policy), [&](auto& kind) {
    const std::size_t r = kind.find(slot, m.place_of(0, i));
    if (r == kind.rows.size()) {
      return;  // nothing was read there: a candidate of a step before
    }
    answer.release();  // all masks were read; there is room for one
    bool is_there = true;
    kind.targets[r].allowed = answer.mask(position, kind.targets[r].given, is_there);
    kind.rows.run(r, kind.targets[r].allowed);
    take_row(kind, r);
    if constexpr (std::remove_cvref_t<decltype(kind)>::truncates) {
      truncate(kind, r);
    }
    m.reset(m.cell_of(position));  // what parts know of it was of the first read
    step::phase::process_again(m, i);
    ++m.status->report.second_reads;
  });
  record<Policy::required>& row = m.row(i);
  if (!row.valid() && !answer.admits(position, step::phase::proposal(m, i))) {
    row.token = answer.lowest(position);
  }
}

template <class Policy>
template <class Work>
void on_host::workspace<Policy>::with_callbacks([[maybe_unused]] index_t slot,
                                                [[maybe_unused]] bool has_some,
                                                const Work& work) {
  if constexpr (Policy::calls_back) {
    if (has_some) {
      unmask::detail::callback_scope scope(slot);
      work();
      if (scope.failure()) {
        failure_ = failure_ ? failure_ : scope.failure();
        step::slot_status& status = statuses_[static_cast<std::size_t>(slot)];
        if (status.next.active()) {
          status.cancel();
        }
      }
      return;
    }
  }
  work();
}

template <class Policy>
void on_host::workspace<Policy>::decide(std::span<const segment> segments) {
  run();
  for (const step::slot_memory<Policy>& m : slots_) {
    step::begin_report(serial{}, m);
  }
  for (const segment& s : segments) {
    if (segment_of_slot(s) == 0) {
      auto* const answer = answer_of(s.slot);
      if (answer != nullptr) {
        answer->rows = {this, [](void* self, index_t slot, index_t i) {
                          static_cast<workspace*>(self)->read_again(slot, i);
                        }};
      }
      with_callbacks(s.slot, step::calls_back_now(memory_of(s.slot)), [&] {
        step::decide(serial{}, with_lists(s.slot), answer);
      });
      finish(s.slot, memory_of(s.slot).state->tokens);
    }
  }
  for (std::size_t slot = 0; softens_ && slot < soft_.size(); ++slot) {
    soft_[slot].finish(slots_[slot].marks);
  }
  clear_rows();
}

}  // namespace unmask
