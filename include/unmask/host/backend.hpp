// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/fixed_array.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/host/drift.hpp>
#include <unmask/host/executor.hpp>
#include <unmask/host/on_instruction_set.hpp>
#include <unmask/host/row_readers.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/host/shard_workspace.hpp>
#include <unmask/host/slot_transform.hpp>
#include <unmask/host/soft_memory.hpp>
#include <unmask/step/decide.hpp>
#include <unmask/step/layer_choice.hpp>
#include <unmask/step/state_bytes.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <utility>
#include <vector>

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
      , capacity_(capacity)
      , where_(where)
      , memory_(static_cast<std::size_t>(capacity.sequences))
      , statuses_(static_cast<std::size_t>(capacity.sequences))
      , slots_(statuses_.size(), [this](std::size_t i) { return slot_at(i, nullptr, {}); })
      , rows_(where.executor, where.instruction_set)
      , answers_(statuses_.size())
      , soft_(statuses_.size()) {
    if constexpr (!Policy::varies) {
      for (index_t slot = 0; slot < capacity.sequences; ++slot) {
        reserve(slot, step::needs_of<Policy>(capacity), 0);
      }
    }
  }

  /// Makes room for a sequence of this policy in a slot. Allocates if the slot has none; the
  /// sequence in it is then lost.
  void reserve(index_t slot, const Policy& policy) {
    if constexpr (Policy::varies) {
      reserve(slot, step::needs_of(policy, capacity_), step::row_kind_of(policy));
    }
  }

  /// Prepares the constraints of the sequence that start() begins next in the slot, and the memory
  /// of its soft tokens. Errors: std::invalid_argument, before anything is changed.
  void constrain(index_t slot,
                 const Policy& policy,
                 tokens_view<memory::host> tokens,
                 const sequence_shape& geometry,
                 const start_options& options);

  void start(index_t slot,
             const Policy& policy,
             tokens_view<memory::host> tokens,
             const sequence_shape& geometry,
             const start_options& options);

  /// Enqueues the masked rows of one segment; decide() reads them. Row r of `logits` is row r of
  /// the request's segment.
  template <element T>
  void enqueue(const segment& s,
               const rows_view<T, memory::host>& logits,
               const row_modifiers<T>& modifiers);

  /// Reads the rows enqueued so far, of all sequences together.
  void run();

  /// Errors: std::logic_error if the rows of a segment must stay until the step is decided.
  void check_read(const segment& s) const {
    auto* const answer = answer_of(s.slot);
    check_order(answer == nullptr || !answer->reads_again(),
                "read() of a sequence whose constraints read refused candidates again: their rows "
                "must stay until the step is decided, so supply() the whole request");
  }

  /// Reads the remaining rows and decides the slots of these segments.
  void decide(std::span<const segment> segments);

  [[nodiscard]] std::span<const step::slot_status> statuses() const {
    return {statuses_.data(), statuses_.size()};
  }

  [[nodiscard]] std::span<const commit_entry> committed(index_t slot, index_t count) const {
    return {with_lists(slot).entries, static_cast<std::size_t>(count)};
  }

  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot, index_t count) const {
    return {with_lists(slot).traced, static_cast<std::size_t>(count)};
  }

  /// The state of a constrained field after its committed prefix.
  [[nodiscard]] std::uint32_t constraint_state(index_t slot, std::size_t field) const {
    auto* const answer = answer_of(slot);
    check_order(answer != nullptr, "constraint_state() of a sequence without constraints");
    return answer->state_of(field, nullptr);
  }

  [[nodiscard]] std::span<const token_probability> soft_tokens(index_t slot) const {
    return soft_[static_cast<std::size_t>(slot)].entries();
  }
  [[nodiscard]] std::span<const token_probability> alternatives(index_t slot) const {
    return soft_[static_cast<std::size_t>(slot)].alternatives();
  }

  /// The memory of a slot.
  [[nodiscard]] const step::slot_memory<Policy>& memory_of(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  /// True if the slot's sequence computes some of the positions of a layer only.
  [[nodiscard]] bool is_layered(index_t slot) const { return step::layered_now(memory_of(slot)); }
  /// Bytes of the slots.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }
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
    const step::slot_memory<Policy>& m = memory_of(slot);
    step::begin_layer(m, layer);
    const index_t* const active = m.layers.active;
    const index_t count = m.layers.state->active;
    const auto before = [&](index_t position) {
      return stored.positions.contains(position) ? stored.row(position) : nullptr;
    };
    const bool stores_all = step::layers::stores_all(*m.policy);
    if (step::layers::measures(m)) {
      const auto measure = [&](index_t i) noexcept {
        m.layers.drift[i] = step::layers::measure(*m.policy,
                                                  host::drift<step::layers::measured_terms<Policy>>(
                                                      now.row(i),
                                                      static_cast<const T*>(before(active[i])),
                                                      now.columns,
                                                      where_.instruction_set));
      };
      host::for_each_row(count, now.columns, measure, where_.executor);
    }
    if (stores_all) {
      store(now, count, [&](index_t i) { return i; }, [&](index_t i) { return before(active[i]); });
    }
    step::choose_rows(m);
    if (!stores_all) {
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

  /// Throws the callback_error of the last start() or decide(), if there is one.
  void check_callbacks() {
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

  void cancel(index_t slot) {
    step::slot_status& status = statuses_[static_cast<std::size_t>(slot)];
    if (status.next.active()) {
      status.cancel();
      finish(slot, nullptr);
    }
  }

 private:
  /// work() about a slot, whose policy has functions of the host or not. If one fails, the sequence
  /// is cancelled.
  template <class Work>
  void with_callbacks(index_t slot, bool has_some, const Work& work);
  /// The constraints of the sequence in a slot; null without.
  [[nodiscard]] unmask::detail::constrained_answer* answer_of(index_t slot) const {
    return answers_[static_cast<std::size_t>(slot)].get();
  }
  /// The memory of a slot, with the lists of its constraints if it has some.
  [[nodiscard]] step::slot_memory<Policy> with_lists(index_t slot) const {
    step::slot_memory<Policy> m = memory_of(slot);
    if (auto* const answer = answer_of(slot)) {
      m.entries = answer->entries();
      m.traced = answer->traced();
    }
    return m;
  }
  /// The mask of a row of a constrained sequence. Reads the rows that are enqueued if there is no
  /// memory for it.
  [[nodiscard]] const std::uint32_t*
  mask_of(unmask::detail::constrained_answer& answer, index_t position, const std::uint32_t* given);
  /// Reads the row of scored position i of a slot once more, under the tokens that are possible by
  /// now; a row without a finite logit then has the lowest of them.
  void read_again(index_t slot, index_t i);
  /// True if a sequence with constraints may read rows again.
  [[nodiscard]] bool keeps_rows() const {
    return std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) {
      return answer.get() != nullptr && answer.get()->reads_again();
    });
  }
  /// Removes the rows of a step.
  void clear_rows();
  /// Ends the constraints of a slot whose sequence has ended with `tokens`; null for one that was
  /// cancelled, whose tokens may no longer exist.
  void finish(index_t slot, const token_id* tokens) {
    step::slot_status& status = statuses_[static_cast<std::size_t>(slot)];
    auto* const answer = answer_of(slot);
    if (answer != nullptr && !status.next.active()) {
      status.report.constraint_met = answer->finish(tokens, memory_of(slot).marks);
    }
  }

  /// The row of a segment's logits for scored position i.
  [[nodiscard]] index_t
  row_of(const step::slot_memory<Policy>& m, const segment& s, index_t position, index_t i) const {
    if constexpr (Policy::layered) {
      if (step::layered_now(m)) {
        return m.layers.row_of[i];
      }
    }
    return math::max(position - s.logits_shift, index_t{0}) - s.rows.first;
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

  void reserve(index_t slot, const step::slot_needs& wanted, index_t kind) {
    const auto i = static_cast<std::size_t>(slot);
    const step::slot_needs needs =
        slots_[i].state == nullptr ? wanted : wanted.joined(slots_[i].needs);
    std::size_t rows = step::most_rows(needs, capacity_);
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const bool counts = k != i && slots_[k].state != nullptr;
      rows += counts ? step::most_rows(slots_[k].needs, capacity_) : 0;
    }
    rows_.reserve(kind, rows);
    if (slots_[i].state == nullptr || needs != slots_[i].needs) {
      const std::size_t bytes = step::slot_bytes<Policy>(needs, capacity_);
      std::byte* const base = memory_.replace(i, bytes);
      std::memset(base, 0, bytes);
      ::new (static_cast<void*>(&slots_[i])) step::slot_memory<Policy>(slot_at(i, base, needs));
    }
  }
  /// The memory of a slot with these needs at `base`; without needs its status alone.
  [[nodiscard]] auto slot_at(std::size_t slot, std::byte* base, const step::slot_needs& needs) {
    auto m = step::slot_at<Policy>(base, needs, capacity_, static_cast<index_t>(slot));
    m.status = &statuses_[slot];
    return m;
  }

  // Completes the options of the row of scored position i.
  void set_options(auto& kind,
                   row_options& in,
                   const step::slot_memory<Policy>& m,
                   const segment& s,
                   index_t i,
                   const std::uint32_t* given) {
    const std::size_t r = kind.rows.size() - 1;
    in.columns = model_.vocab;
    m.exclude_tokens(in, segment_of_slot(s), i);
    in.draw = step::draw_of(m, i);
    m.load_previous_row(in, i);
    if constexpr (std::remove_cvref_t<decltype(kind)>::truncates) {
      const bool cuts = !step::truncation_of(*m.policy).keeps_all(model_.vocab);
      in.held = cuts ? &kind.rows.held(r) : nullptr;
    }
    kind.targets[r] = {s.slot,
                       m.place_of(segment_of_slot(s), i),
                       m.status->next.score.first + i,
                       in.allowed,
                       in.excluded_logits,
                       given};
  }

  // Copies the record of row r to its slot.
  template <statistics S>
  void take_row(host::rows_of_kind<S, Policy>& kind, std::size_t r);

  // Truncates a row just read from its held columns or, if these are not enough, by a second read;
  // the logits are still available.
  void truncate(auto& kind, std::size_t r) {
    const step::slot_memory<Policy>& m = slots_[slot_of(kind.targets[r])];
    kind.again[r] = 0;
    if (!step::truncates_now(m)) {
      return;
    }
    const index_t branch = kind.targets[r].index / m.window;
    const index_t i = kind.targets[r].index % m.window;
    const bool proved = step::keep_held(
        serial{}, m, branch, i, kind.rows.held(r), [&](auto& row, const auto&... how) {
          return kind.rows.template cut_held<step::cut_room<Policy>>(r, row, how...);
        });
    if (!proved) {
      kind.again[r] = 1;
      kind.rows.read_again(
          r, m.row(branch, i), m.kept_apart(branch, i), step::truncation_of(*m.policy));
    }
  }
  // Truncates the rows from `first` on.
  void truncate_from(auto& kind, std::size_t first);
  // Holds the columns of rows from `first` on whose sequences ask for soft tokens.
  void soften_from(auto& kind, std::size_t first);

  [[nodiscard]] static std::size_t slot_of(const host::row_target& t) {
    return static_cast<std::size_t>(t.slot);
  }

  model_info model_;
  session_capacity capacity_;
  on_host where_;
  memory_blocks memory_;
  fixed_array<step::slot_status> statuses_;
  fixed_array<step::slot_memory<Policy>> slots_;
  host::row_readers<Policy> rows_;
  std::vector<unmask::detail::owned_answer> answers_;
  unmask::detail::owned_answer next_answer_;  // of start()
  std::vector<host::soft_memory> soft_;
  bool softens_ = false;        // a sequence has asked for soft tokens
  std::exception_ptr failure_;  // of a function of the host
};

}  // namespace unmask

#include <unmask/host/backend_steps.hpp>
