// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/host/drift.hpp>
#include <unmask/host/executor.hpp>
#include <unmask/host/on_tier.hpp>
#include <unmask/host/read_rows.hpp>
#include <unmask/host/second_read.hpp>
#include <unmask/host/shard_workspace.hpp>
#include <unmask/step/decide.hpp>
#include <unmask/step/layer_choice.hpp>
#include <unmask/step/truncate.hpp>

#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <vector>

namespace UNMASK_NAMESPACE {

/// The CPU backend: reference kernels over the engine's host memory.
struct on_host {
  static constexpr memory space = memory::host;

  /// Threads that read rows: serial by default; a host::thread_pool or the engine's own pool. Must
  /// outlive the session.
  host::executor_ref executor = {};
  /// Instruction set; the best one of this machine by default.
  host::tier tier = host::best_tier();

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
  workspace(const model_info& model, const limits& capacity, const on_host& where)
      : model_(model)
      , where_(where)
      , slot_bytes_(step::slot_bytes<Policy>(capacity))
      , memory_(allocate(slot_bytes_ * static_cast<std::size_t>(capacity.sequences)))
      , statuses_(static_cast<std::size_t>(capacity.sequences))
      , scratch_(host::scratch_records(where.executor.concurrency())) {
    const auto rows = static_cast<std::size_t>(capacity.sequences) *
                      static_cast<std::size_t>(capacity.window) *
                      (1 + static_cast<std::size_t>(Policy::branches ? capacity.branches : 0));
    std::get<pending<float>>(pending_).reserve(rows);
    std::get<pending<bfloat16>>(pending_).reserve(rows);
    std::get<pending<float16>>(pending_).reserve(rows);
    targets_.reserve(rows);
    records_.resize(rows);
    if constexpr (Policy::truncates) {
      held_.resize(rows);
      held_scratch_.resize(scratch_.size());
      again_.resize(rows);
    }
    slots_.reserve(static_cast<std::size_t>(capacity.sequences));
    for (index_t slot = 0; slot < capacity.sequences; ++slot) {
      std::size_t bytes = 0;
      std::byte* const base = memory_.get() + slot_bytes_ * static_cast<std::size_t>(slot);
      slots_.push_back(step::slot_memory_at<Policy>(base, slot, capacity, bytes));
      slots_.back().status = &statuses_[static_cast<std::size_t>(slot)];
    }
  }

  void start(index_t slot,
             const Policy& policy,
             tokens_view<memory::host> tokens,
             const layout& geometry,
             const start_options& options) {
    const step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(slot)];
    token_id suppressed[max_suppressed];
    const index_t count = suppressed_tokens(model_, options, suppressed);
    std::copy(suppressed, suppressed + count, m.suppressed);
    std::construct_at(m.policy, policy);
    std::construct_at(m.sequence);
    std::construct_at(m.tallies);
    std::construct_at(m.state);
    m.state->model = model_;
    m.state->geometry = geometry;
    m.state->tokens = tokens.data;
    m.state->suppressed_count = count;
    *m.status = {};
    step::begin(solo{}, m, options.editable.empty() ? nullptr : options.editable.data());
  }

  /// Notes the open rows of one segment; decide() reads them. Row r of `logits` is wanted row r.
  template <element T>
  void
  read(const segment& s, const rows_view<T, memory::host>& logits, const row_riders<T>& riders) {
    const step::slot_memory<Policy>& m = slots_[static_cast<std::size_t>(s.slot)];
    const range read = m.read_range();
    pending<T>& rows = std::get<pending<T>>(pending_);
    read_pending_ = &workspace::read_pending<T>;
    for (index_t i = 0; i < read.size(); ++i) {
      const index_t position = read.first + i;
      if (!m.reads(s.branch, i)) {
        continue;
      }
      const index_t r = row_of(m, s, position, i);
      const row_riders<T> rider = riders.from_row(r);
      row_input<T>& in = rows.emplace_back();
      in.logits = logits.row(r);
      in.columns = model_.vocab;
      in.allowed = rider.allowed;
      in.unconditional = rider.unconditional;
      in.cfg_scale = rider.cfg_scale;
      m.blank(in, s.branch, i);
      in.draw = step::draw_of(m, i);
      m.recall(in, i);
      targets_.push_back({s.slot, s.branch * m.window + i});
    }
  }

  /// Reads the rows noted so far, of all sequences at once.
  void flush() {
    if (!targets_.empty()) {
      (this->*read_pending_)();
      targets_.clear();
    }
  }

  /// Reads what is left to read and decides every running slot.
  void decide() {
    flush();
    for (const step::slot_memory<Policy>& m : slots_) {
      step::decide(solo{}, m);
    }
  }

  [[nodiscard]] std::span<const step::slot_status> statuses() const { return statuses_; }

  [[nodiscard]] std::span<const commit_entry> committed(index_t slot, index_t count) const {
    return {slots_[static_cast<std::size_t>(slot)].entries, static_cast<std::size_t>(count)};
  }

  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot, index_t count) const {
    return {slots_[static_cast<std::size_t>(slot)].traced, static_cast<std::size_t>(count)};
  }

  /// What is kept of a slot.
  [[nodiscard]] const step::slot_memory<Policy>& memory_of(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  /// Where the slot's pass through the layers stands: whether the rule hooks a layer, which hook is
  /// next, whether there is none any more, who is present, whose logits are wanted.
  [[nodiscard]] bool hooks(index_t slot, index_t layer) const requires(Policy::layered) {
    return step::hooks(memory_of(slot), layer);
  }
  [[nodiscard]] index_t next_hook(index_t slot) const requires(Policy::layered) {
    return memory_of(slot).layers.state->next;
  }
  [[nodiscard]] bool has_passed(index_t slot) const requires(Policy::layered) {
    return step::has_passed(memory_of(slot));
  }
  [[nodiscard]] index_t logits_rows(index_t slot) const requires(Policy::layered) {
    return memory_of(slot).layers.state->rows;
  }
  [[nodiscard]] std::span<const index_t> positions(index_t slot) const requires(Policy::layered) {
    const step::layer_memory& l = memory_of(slot).layers;
    return {l.present, static_cast<std::size_t>(l.state->present)};
  }
  [[nodiscard]] std::span<const index_t> rows(index_t slot) const requires(Policy::layered) {
    const step::layer_memory& l = memory_of(slot).layers;
    return {l.rows, static_cast<std::size_t>(l.state->rows)};
  }

  /// Chooses which of the segments' present rows go on from a layer, and stores rows for the next
  /// pass.
  template <element T>
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<T, memory::host>> hooks) requires(Policy::layered) {
    for (layer_hook<T, memory::host>& h : hooks) {
      h.chosen = at_layer(segments[h.segment].slot, layer, h.now, h.previous);
    }
  }

  /// The same of one slot.
  template <element T>
  layer_choice at_layer(index_t slot,
                        index_t layer,
                        const rows_view<T, memory::host>& now,
                        const state_view<T, memory::host>& stored) requires(Policy::layered) {
    using rule = step::layers::rule_of<Policy>;
    const step::slot_memory<Policy>& m = memory_of(slot);
    step::begin_layer(m, layer);
    const index_t* const present = m.layers.present;
    const index_t count = m.layers.state->present;
    const auto before = [&](index_t position) {
      return stored.positions.contains(position) ? stored.row(position) : nullptr;
    };
    const rule& part = step::layers::rule_in(m);
    if (step::layers::measures(m)) {
      const auto measure = [&](index_t i) noexcept {
        m.layers.drift[i] = part.measure(host::drift<rule::measures>(
            now.row(i), static_cast<const T*>(before(present[i])), now.columns, where_.tier));
      };
      host::for_each_row(count, now.columns, measure, where_.executor);
    }
    if (unmask::detail::rule_stores_all(part)) {
      store(
          now, count, [&](index_t i) { return i; }, [&](index_t i) { return before(present[i]); });
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
    return {slots_[static_cast<std::size_t>(slot)].answers, static_cast<std::size_t>(count)};
  }

  void cancel(index_t slot) {
    step::slot_status& status = statuses_[static_cast<std::size_t>(slot)];
    if (status.next.active()) {
      status.next.end = ending::cancelled;
      status.report.end = ending::cancelled;
    }
  }

 private:
  /// The row of a segment's logits that scored position i reads.
  [[nodiscard]] index_t
  row_of(const step::slot_memory<Policy>& m, const segment& s, index_t position, index_t i) const {
    if constexpr (Policy::layered) {
      return m.layers.row_of[i];
    } else {
      return math::max(position - model_.row_shift, index_t{0}) - s.rows.first;
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
        std::copy_n(now.row(row_of(k)), now.columns, place);
      }
    }
  }

  struct release {
    void operator()(std::byte* p) const {
      ::operator delete (p, std::align_val_t{step::slot_layout::alignment});
    }
  };
  using block = std::unique_ptr<std::byte, release>;

  [[nodiscard]] static block allocate(std::size_t count) {
    auto* const p = static_cast<std::byte*>(
        ::operator new (count, std::align_val_t{step::slot_layout::alignment}));
    std::uninitialized_value_construct_n(p, count);
    return block{p};
  }

  // Where the record of a row read goes: slot_memory::records[index].
  struct target {
    index_t slot = 0;
    index_t index = 0;
  };
  template <class T>  // not `element T`: clang 14 does not survive that here
  using pending = std::vector<row_input<T>>;

  // One call of supply() has one element type, so at most one list is in use.
  template <element T>
  void read_pending() {
    pending<T>& rows = std::get<pending<T>>(pending_);
    const auto edit_of = [this](index_t r) {
      return step::edit_of(slots_[slot_of(targets_[static_cast<std::size_t>(r)])]);
    };
    if constexpr (Policy::truncates) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const Policy& policy = *slots_[slot_of(targets_[r])].policy;
        const bool cuts = !step::truncation_of(policy).keeps_all(model_.vocab);
        rows[r].held = cuts ? &held_[r] : nullptr;
      }
    }
    host::read_rows<Policy::required, T>(
        rows, edit_of, records_.data(), where_.executor, where_.tier, scratch_, held_scratch_);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const step::slot_memory<Policy>& m = slots_[slot_of(targets_[r])];
      const index_t position = m.status->next.score.first + targets_[r].index % m.window;
      const range columns = {0, model_.vocab};
      step::name_token(m, position, columns, rows[r].allowed, records_[r]);
      step::name_listed(m,
                        targets_[r].index % m.window,
                        columns,
                        rows[r].allowed,
                        rows[r].blanked_logits);
      m.records[targets_[r].index] = records_[r];
    }
    if constexpr (Policy::truncates) {
      truncate(rows);
    }
    rows.clear();
  }

  // Cuts off the rows just read, each from what is held of it or, where that is not enough, by a
  // second read; the logits are still there.
  template <element T>
  void truncate(const pending<T>& rows) {
    const auto cut_off = [&](index_t r) noexcept {
      const auto at = static_cast<std::size_t>(r);
      again_[at] = keep_held(at) ? 0 : 1;
      if (again_[at] != 0) {
        const step::slot_memory<Policy>& m = slots_[slot_of(targets_[at])];
        const index_t branch = targets_[at].index / m.window;
        const index_t i = targets_[at].index % m.window;
        host::call_on_tier(where_.tier, [&] {
          host::read_again(m.row(branch, i),
                           rows[at],
                           step::edit_of(m),
                           m.kept_apart(branch, i),
                           step::truncation_of(*m.policy));
        });
      }
    };
    where_.executor.run(static_cast<index_t>(rows.size()), cut_off);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      statuses_[slot_of(targets_[r])].report.second_reads += again_[r];
    }
  }

  // The same for one row from what is held alone, whatever it was read from: false if that is not
  // enough.
  [[nodiscard]] bool keep_held(std::size_t r) {
    const step::slot_memory<Policy>& m = slots_[slot_of(targets_[r])];
    const index_t branch = targets_[r].index / m.window;
    const index_t i = targets_[r].index % m.window;
    bool proved = false;
    host::call_on_tier(where_.tier, [&] {
      step::keep_space<Policy> space;
      proved = step::keep_held(solo{}, m, branch, i, held_[r], space);
    });
    return proved;
  }

  [[nodiscard]] static std::size_t slot_of(const target& t) {
    return static_cast<std::size_t>(t.slot);
  }

  model_info model_;
  on_host where_;
  std::size_t slot_bytes_;
  block memory_;
  std::vector<step::slot_status> statuses_;
  std::vector<step::slot_memory<Policy>> slots_;
  std::tuple<pending<float>, pending<bfloat16>, pending<float16>> pending_;
  // read_pending of the list in use: only the element types that an engine supplies are compiled.
  void (workspace::*read_pending_)() = nullptr;
  std::vector<target> targets_;
  std::vector<record<Policy::required>> records_;
  std::vector<record<Policy::required>> scratch_;
  // Of a truncating policy: what is held of each row and of each piece of work, and whether a row
  // was read again.
  std::vector<held_tokens> held_;
  std::vector<held_tokens> held_scratch_;
  std::vector<std::uint8_t> again_;
};

}  // namespace unmask
