// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/fixed_array.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/host/drift.hpp>
#include <unmask/host/executor.hpp>
#include <unmask/host/on_instruction_set.hpp>
#include <unmask/host/row_reader.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/host/shard_workspace.hpp>
#include <unmask/host/slot_edit.hpp>
#include <unmask/step/decide.hpp>
#include <unmask/step/layer_choice.hpp>
#include <unmask/step/truncate.hpp>

#include <new>
#include <span>

namespace UNMASK_NAMESPACE {

/// The CPU backend: reference kernels over the engine's host memory.
struct on_host {
  static constexpr memory space = memory::host;  ///< Memory of logits and tokens.

  /// Threads that read rows: serial by default; otherwise a host::thread_pool or the engine's own
  /// pool, which must outlive the session.
  host::executor_ref executor = {};
  /// Instruction set; the best one of this machine by default.
  host::instruction_set instruction_set = host::best_instruction_set();

  template <class Policy>
  class workspace;

  /// For sharded_session.
  template <class Policy>
  using shard_workspace = host::shard_workspace<Policy>;
};

/// Slots and scratch of a session on the host.
template <class Policy>
class on_host::workspace {
 public:
  workspace(const model_info& model, const session_capacity& capacity, const on_host& where)
      : model_(model)
      , where_(where)
      , memory_(step::slot_bytes<Policy>(capacity) / sizeof(line) *
                static_cast<std::size_t>(capacity.sequences))
      , statuses_(static_cast<std::size_t>(capacity.sequences))
      , slots_(statuses_.size(),
               [&](std::size_t slot) {
                 const std::size_t lines = memory_.size() / statuses_.size();
                 auto memory = step::slot_at<Policy>(
                     memory_[slot * lines].bytes, capacity, static_cast<index_t>(slot));
                 memory.status = &statuses_[slot];
                 return memory;
               })
      , rows_(step::most_rows<Policy>(capacity), where.executor, where.instruction_set)
      , targets_(step::most_rows<Policy>(capacity))
      , again_(Policy::truncates ? targets_.size() : 0) {}

  void start(index_t slot,
             const Policy& policy,
             tokens_view<memory::host> tokens,
             const sequence_shape& geometry,
             const start_options& options) {
    const step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(slot)];
    token_id suppressed[max_suppressed];
    const index_t count = suppressed_tokens(model_, options, suppressed);
    for (index_t k = 0; k < count; ++k) {
      m.suppressed[k] = suppressed[k];
    }
    ::new (const_cast<void*>(static_cast<const void*>(m.policy))) Policy(policy);
    *m.sequence = {};
    *m.step_reductions = {};
    *m.state = {};
    m.state->model = model_;
    m.state->geometry = geometry;
    m.state->tokens = tokens.data;
    m.state->suppressed_count = count;
    *m.status = {};
    step::begin(serial{}, m, options.editable.empty() ? nullptr : options.editable.data());
  }

  /// Enqueues the masked rows of one segment; decide() reads them. Row r of `logits` is row r of
  /// the request's segment.
  template <element T>
  void enqueue(const segment& s,
               const rows_view<T, memory::host>& logits,
               const row_modifiers<T>& modifiers) {
    const step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(s.slot)];
    const range read = m.read_range();
    const host::row_edit edit = host::slot_edit(m);
    for (index_t i = 0; i < read.size(); ++i) {
      const index_t position = read.first + i;
      if (!m.reads(s.branch, i)) {
        continue;
      }
      const index_t r = row_of(m, s, position, i);
      const row_modifiers<T> modifier = modifiers.from_row(r);
      row_input<T>& in = rows_.template enqueue<T>(edit);
      in.logits = logits.row(r);
      in.unconditional = modifier.unconditional;
      in.allowed = modifier.allowed;
      in.cfg_scale = modifier.cfg_scale;
      set_options(in, m, s, i);
    }
  }

  /// Reads the rows enqueued so far, of all sequences together.
  void run() {
    rows_.run();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const target& t = targets_[r];
      const step::slot_memory<Policy>& m = slots_[slot_of(t)];
      const range columns = {0, model_.vocab};
      step::name_token(m, t.position, columns, t.allowed, rows_[r]);
      step::name_listed(
          m, t.position - m.status->next.score.first, columns, t.allowed, t.excluded_logits);
      m.records[t.index] = rows_[r];
    }
    if constexpr (Policy::truncates) {
      truncate();
    }
    rows_.clear();
  }

  /// Reads the remaining rows and decides the slots of these segments.
  void decide(std::span<const segment> segments) {
    run();
    for (const step::slot_memory<Policy>& m : slots_) {
      step::begin_report(serial{}, m);
    }
    for (const segment& s : segments) {
      if (s.branch == 0) {
        step::decide(serial{}, slots_[static_cast<std::size_t>(s.slot)]);
      }
    }
  }

  [[nodiscard]] std::span<const step::slot_status> statuses() const {
    return {statuses_.data(), statuses_.size()};
  }

  [[nodiscard]] std::span<const commit_entry> committed(index_t slot, index_t count) const {
    return {slots_[static_cast<std::size_t>(slot)].entries, static_cast<std::size_t>(count)};
  }

  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot, index_t count) const {
    return {slots_[static_cast<std::size_t>(slot)].traced, static_cast<std::size_t>(count)};
  }

  /// The memory of a slot.
  [[nodiscard]] const step::slot_memory<Policy>& memory_of(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  /// Progress of the slot's pass through the layers: whether the rule has a hook at a layer, the
  /// next hook, whether all are passed, the active positions, the rows of logits to return.
  [[nodiscard]] bool hooks(index_t slot, index_t layer) const
    requires(Policy::layered) {
    return step::hooks(memory_of(slot), layer);
  }
  [[nodiscard]] index_t next_hook(index_t slot) const
    requires(Policy::layered) {
    return memory_of(slot).layers.state->next;
  }
  [[nodiscard]] bool has_passed(index_t slot) const
    requires(Policy::layered) {
    return step::has_passed(memory_of(slot));
  }
  [[nodiscard]] index_t logits_rows(index_t slot) const
    requires(Policy::layered) {
    return memory_of(slot).layers.state->rows;
  }
  [[nodiscard]] std::span<const index_t> positions(index_t slot) const
    requires(Policy::layered) {
    const step::layer_memory& l = memory_of(slot).layers;
    return {l.active, static_cast<std::size_t>(l.state->active)};
  }
  [[nodiscard]] std::span<const index_t> rows(index_t slot) const
    requires(Policy::layered) {
    const step::layer_memory& l = memory_of(slot).layers;
    return {l.rows, static_cast<std::size_t>(l.state->rows)};
  }

  /// Selects the active rows of the segments that are kept at a layer, and stores rows for the
  /// next pass.
  template <element T>
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<T, memory::host>> hooks)
    requires(Policy::layered) {
    for (layer_hook<T, memory::host>& h : hooks) {
      h.chosen = at_layer(segments[h.segment].slot, layer, h.now, h.previous);
    }
  }

  /// at_layer() of one slot.
  template <element T>
  layer_choice at_layer(index_t slot,
                        index_t layer,
                        const rows_view<T, memory::host>& now,
                        const state_view<T, memory::host>& stored)
    requires(Policy::layered) {
    using rule = step::layers::rule_of<Policy>;
    const step::slot_memory<Policy>& m = memory_of(slot);
    step::begin_layer(m, layer);
    const index_t* const active = m.layers.active;
    const index_t count = m.layers.state->active;
    const auto before = [&](index_t position) {
      return stored.positions.contains(position) ? stored.row(position) : nullptr;
    };
    const rule& part = step::layers::rule_in(m);
    if (step::layers::measures(m)) {
      const auto measure = [&](index_t i) noexcept {
        m.layers.drift[i] =
            part.measure(host::drift<rule::measures>(now.row(i),
                                                     static_cast<const T*>(before(active[i])),
                                                     now.columns,
                                                     where_.instruction_set));
      };
      host::for_each_row(count, now.columns, measure, where_.executor);
    }
    if (unmask::detail::rule_stores_all(part)) {
      store(now, count, [&](index_t i) { return i; }, [&](index_t i) { return before(active[i]); });
    }
    step::choose_rows(m);
    if (!unmask::detail::rule_stores_all(part)) {
      const index_t* const rows = m.layers.chosen_rows;
      store(
          now,
          m.layers.state->chosen,
          [&](index_t k) { return rows[k]; },
          [&](index_t k) { return before(m.layers.chosen[k]); });
    }
    const auto size = static_cast<std::size_t>(m.layers.state->chosen);
    return {{m.layers.chosen_rows, size}, {m.layers.chosen, size}};
  }

  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot,
                                                                 index_t count) const {
    return {slots_[static_cast<std::size_t>(slot)].probe_results, static_cast<std::size_t>(count)};
  }

  void cancel(index_t slot) {
    step::slot_status& status = statuses_[static_cast<std::size_t>(slot)];
    if (status.next.active()) {
      status.next.end = ending::cancelled;
      status.report.end = ending::cancelled;
    }
  }

 private:
  /// The row of a segment's logits for scored position i.
  [[nodiscard]] index_t
  row_of(const step::slot_memory<Policy>& m, const segment& s, index_t position, index_t i) const {
    if constexpr (Policy::layered) {
      return m.layers.row_of[i];
    } else {
      return math::max(position - model_.logits_shift, index_t{0}) - s.rows.first;
    }
  }

  template <element T>
  static void store(const rows_view<T, memory::host>& now,
                    index_t count,
                    const auto& row_of,
                    const auto& place_of) {
    for (index_t k = 0; k < count; ++k) {
      T* const place = place_of(k);
      if (place != nullptr) {
        host::detail::copy_row(now.row(row_of(k)), now.columns, place);
      }
    }
  }

  // Slots begin at cache lines of their own.
  struct alignas(step::slot_layout::alignment) line {
    std::byte bytes[step::slot_layout::alignment];
  };

  // Destination of a row's record, slot_memory::records[index], and inputs of step::name_token()
  // and step::name_listed().
  struct target {
    index_t slot = 0;
    index_t index = 0;
    index_t position = 0;
    const std::uint32_t* allowed = nullptr;
    float* excluded_logits = nullptr;
  };

  // Completes the options of the row of scored position i.
  void
  set_options(row_options& in, const step::slot_memory<Policy>& m, const segment& s, index_t i) {
    in.columns = model_.vocab;
    m.exclude_tokens(in, s.branch, i);
    in.draw = step::draw_of(m, i);
    m.load_previous_row(in, i);
    if constexpr (Policy::truncates) {
      const bool cuts = !step::truncation_of(*m.policy).keeps_all(model_.vocab);
      in.held = cuts ? &rows_.held(rows_.size() - 1) : nullptr;
    }
    targets_[rows_.size() - 1] = {s.slot,
                                  s.branch * m.window + i,
                                  m.status->next.score.first + i,
                                  in.allowed,
                                  in.excluded_logits};
  }

  // Truncates the rows just read, each from its held columns or, if these are not enough, by a
  // second read; the logits are still available.
  void truncate() {
    const auto cut_off = [&](index_t r) noexcept {
      const auto at = static_cast<std::size_t>(r);
      const step::slot_memory<Policy>& m = slots_[slot_of(targets_[at])];
      const index_t branch = targets_[at].index / m.window;
      const index_t i = targets_[at].index % m.window;
      const bool proved = step::keep_held(
          serial{}, m, branch, i, rows_.held(at), [&](auto& row, const auto&... how) {
            return rows_.template cut_held<step::cut_room<Policy>>(at, row, how...);
          });
      again_[at] = proved ? 0 : 1;
      if (!proved) {
        rows_.read_again(
            at, m.row(branch, i), m.kept_apart(branch, i), step::truncation_of(*m.policy));
      }
    };
    where_.executor.run(static_cast<index_t>(rows_.size()), cut_off);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      statuses_[slot_of(targets_[r])].report.second_reads += again_[r];
    }
  }

  [[nodiscard]] static std::size_t slot_of(const target& t) {
    return static_cast<std::size_t>(t.slot);
  }

  model_info model_;
  on_host where_;
  fixed_array<line> memory_;
  fixed_array<step::slot_status> statuses_;
  fixed_array<step::slot_memory<Policy>> slots_;
  host::row_reader<Policy::required> rows_;
  // Of row r of `rows_`: where its record goes, and whether it was read again by a truncating
  // policy.
  fixed_array<target> targets_;
  fixed_array<std::uint8_t> again_;
};

}  // namespace unmask
