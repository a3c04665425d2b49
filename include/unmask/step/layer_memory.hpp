// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

namespace UNMASK_NAMESPACE::step {

/// Progress of a pass through the layers.
struct layer_state {
  index_t entered = 0;  ///< positions that entered
  index_t fresh = 0;    ///< those of them that no pass computed before
  index_t active = 0;   ///< positions that reach the next layer
  index_t chosen = 0;   ///< positions that the last hook selected
  index_t rows = 0;     ///< rows of logits to return
  index_t next = 0;     ///< the next layer with a hook; the number of layers behind the last
  layer_info info;
};

/// Memory of a slot for its pass through the layers; empty unless the policy is layered.
struct layer_memory {
  layer_state* state = nullptr;
  /// [length]: the positions that reach the next layer, ascending; those that the last hook
  /// selected; and the indices of the selected rows among the rows given to the hook.
  index_t* active = nullptr;
  index_t* chosen = nullptr;
  index_t* chosen_rows = nullptr;
  /// [length]: measurements of the rule, and the keys of its importances.
  float* drift = nullptr;
  std::uint32_t* keys = nullptr;
  /// [layers], for a rule with allocate().
  float* means = nullptr;
  index_t* budgets = nullptr;
  /// [window]: index among the active positions of each row of logits to return.
  index_t* rows = nullptr;
  /// [window], by position - score.first: index of its row among those to return; -1 if its row was
  /// dropped.
  index_t* row_of = nullptr;

  /// With the arrays taken from an array_layout.
  [[nodiscard]] UNMASK_HD static constexpr layer_memory
  taken(auto& at, const session_capacity& capacity, bool layered) {
    layer_memory m;
    if (layered) {
      m.state = at.template take<layer_state>(1);
      m.active = at.template take<index_t>(capacity.length);
      m.chosen = at.template take<index_t>(capacity.length);
      m.chosen_rows = at.template take<index_t>(capacity.length);
      m.drift = at.template take<float>(capacity.length);
      m.keys = at.template take<std::uint32_t>(capacity.length);
      m.means = at.template take<float>(capacity.layers);
      m.budgets = at.template take<index_t>(capacity.layers);
      m.rows = at.template take<index_t>(capacity.window);
      m.row_of = at.template take<index_t>(capacity.window);
    }
    return m;
  }
};

}  // namespace unmask::step
