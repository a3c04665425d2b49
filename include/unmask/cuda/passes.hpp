// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/arrays.hpp>
#include <unmask/step/layers.hpp>

#include <bit>
#include <optional>
#include <vector>

namespace UNMASK_NAMESPACE::device {

/// Host-side knowledge of the passes through the layers, without synchronising inside one: the next
/// hook, and an upper bound on the number of rows. For layered policies.
///
/// Exact are the positions that enter a pass, the rows of logits to return then, and the rows of a
/// pass that refreshes; the device reports them with the plan. Behind a hook the bound is that of
/// the rule's most(), if it has one, plus the rows that the library may add.
template <class Policy>
class known_passes {
 public:
  known_passes(const session_capacity& capacity, const host_arrays& shown)
      : layers_(capacity.layers)
      , shown_(shown)
      , slots_(static_cast<std::size_t>(capacity.sequences)) {}

  /// Sets the device memory of a slot.
  void set_slot(index_t slot, const step::layer_memory& memory) { at(slot).memory = memory; }

  void start(index_t slot, const Policy& policy, const sequence_shape& geometry) {
    known& k = at(slot);
    k.policy.emplace(policy);
    k.geometry = geometry;
    k.begun = false;
  }
  /// To be called when a step was enqueued: every slot begins another pass.
  void forget() {
    for (known& k : slots_) {
      k.begun = false;
    }
  }

  // All functions below concern the pass that the device last reported to the host.

  /// True if the slot's sequence computes some of the positions of a layer only.
  [[nodiscard]] bool is_layered(index_t slot) {
    return at(slot).policy && step::layered_now(*at(slot).policy);
  }
  [[nodiscard]] bool hooks(index_t slot, index_t layer) {
    return step::layers::hooks(*at(slot).policy, layer, layers_);
  }
  [[nodiscard]] index_t next_hook(index_t slot) { return begun(slot).next; }
  [[nodiscard]] bool has_passed(index_t slot) { return begun(slot).next == layers_; }

  [[nodiscard]] device_list positions(index_t slot) {
    const known& k = begun(slot);
    return {k.memory.active, &k.memory.state->active, k.active};
  }
  [[nodiscard]] device_list rows(index_t slot) {
    const known& k = begun(slot);
    return {k.memory.rows, &k.memory.state->rows, k.rows};
  }
  [[nodiscard]] device_list chosen_rows(index_t slot, index_t most) {
    const step::layer_memory& l = at(slot).memory;
    return {l.chosen_rows, &l.state->chosen, most};
  }
  [[nodiscard]] device_list chosen(index_t slot, index_t most) {
    const step::layer_memory& l = at(slot).memory;
    return {l.chosen, &l.state->chosen, most};
  }

  /// Most rows that the hook of a layer selects.
  [[nodiscard]] index_t most_chosen(index_t slot, index_t layer) {
    const known& k = begun(slot);
    const step::layer_state& pass = shown_.passes[slot];
    if (!pass.info.refresh) {
      const plan& now = shown_.statuses[slot].next;
      layer_info info = pass.info;
      info.layer = layer;
      info.active = k.active;
      info.budget = shown_.budgets[std::ptrdiff_t{slot} * layers_ + layer];
      std::int64_t most = math::max(
          step::layers::most(*k.policy, info, k.geometry, now.query, k.active), index_t{0});
      most += pass.fresh;
      most += step::layers::drops(*k.policy) ? std::popcount(now.forced) : 0;
      return most < k.active ? static_cast<index_t>(most) : k.active;
    }
    return k.active;
  }

  /// Stores that a hook selected at most `most` rows.
  void pass_hook(index_t slot, index_t layer, index_t most) {
    known& k = begun(slot);
    k.next = next_from(k, layer + 1);
    if (step::layers::drops(*k.policy)) {
      k.active = most;
      k.rows = math::min(k.rows, most);
    }
  }

 private:
  struct known {
    step::layer_memory memory;
    std::optional<Policy> policy;
    sequence_shape geometry;
    bool begun = false;
    index_t forwards = 0;
    index_t next = 0;
    index_t active = 0;
    index_t rows = 0;
  };

  [[nodiscard]] known& at(index_t slot) { return slots_[static_cast<std::size_t>(slot)]; }

  [[nodiscard]] known& begun(index_t slot) {
    known& k = at(slot);
    const index_t forwards = shown_.statuses[slot].report.forwards;
    if (!k.begun || k.forwards != forwards) {  // called too early: for another step
      k.begun = true;
      k.forwards = forwards;
      k.next = next_from(k, 0);
      k.active = shown_.passes[slot].active;
      k.rows = shown_.passes[slot].rows;
    }
    return k;
  }

  [[nodiscard]] index_t next_from(const known& k, index_t layer) const {
    while (layer < layers_ && !step::layers::hooks(*k.policy, layer, layers_)) {
      ++layer;
    }
    return layer;
  }

  index_t layers_;
  host_arrays shown_;
  std::vector<known> slots_;
};

}  // namespace unmask::device
