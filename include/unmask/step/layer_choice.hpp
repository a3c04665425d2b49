// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/layers.hpp>

/// One hook: computes importances from the rule's measurements, and selects the best rows.
namespace UNMASK_NAMESPACE::step {

namespace layers {

/// Number of partial sums of a mean: row i belongs to sum i mod 32, and the sums are added by
/// halving, so that one lane and a warp of them give the same bits.
inline constexpr index_t mean_lanes = 32;

/// True if the drift of the active rows is read at a hook of this pass.
template <class Policy>
[[nodiscard]] UNMASK_HD bool measures(const slot_memory<Policy>& m) {
  bool allocates = false;
  visit_rule(*m.policy, [&allocates](const auto& v) {
    allocates = allocating<typename std::remove_cvref_t<decltype(v)>::type>;
  });
  return measured_terms<Policy> != drift_terms::none && (!m.status->next.refresh || allocates);
}

/// True if a row takes part in mean and maximum. Not a row that no pass has computed yet: its
/// stored row is from another sequence or uninitialised.
template <class Policy>
[[nodiscard]] UNMASK_HD bool counts(const slot_memory<Policy>& m, const layer_row& row) {
  if (row.position >= m.state->reached) {
    return false;
  }
  bool counts = true;
  visit_rule(*m.policy, [&](const auto& v) {
    if constexpr (counting<typename std::remove_cvref_t<decltype(v)>::type>) {
      counts = with_context(v, m, row, reduction_of_rows<Policy>{}, [&](const auto& context) {
        return v.part.counts(row, m.layers.state->info, context);
      });
    }
  });
  return counts;
}

/// Active row i with its measurement.
template <class Policy>
[[nodiscard]] UNMASK_HD layer_row measured_row(const slot_memory<Policy>& m,
                                               index_t i,
                                               index_t first) {
  layer_row row = row_at(m, m.layers.active[i], first);
  row.drift = m.layers.drift[i];
  return row;
}

/// Lane 0: mean and maximum of the measurements.
template <class Policy>
UNMASK_HD void fold(const slot_memory<Policy>& m, index_t first) {
  layer_info& info = m.layers.state->info;
  float sums[mean_lanes] = {};
  float largest = -math::infinity();
  index_t counted = 0;
  for (index_t i = 0; i < info.active; ++i) {
    const layer_row row = measured_row(m, i, first);
    if (counts(m, row)) {
      sums[counted++ % mean_lanes] += row.drift;
      largest = row.drift > largest ? row.drift : largest;  // a NaN is not
    }
  }
  for (index_t half = mean_lanes / 2; half > 0; half /= 2) {
    for (index_t k = 0; k < half; ++k) {
      sums[k] += sums[k + half];
    }
  }
  info.largest = largest > -math::infinity() ? largest + 0.0F : 0.0F;
  info.mean = counted > 0 ? math::divide(sums[0], static_cast<float>(counted)) : 0.0F;
}

/// Lane 0: adds index i to ascending indices.
UNMASK_HD inline void insert(index_t* indices, index_t& size, index_t i) {
  index_t at = size++;
  for (; at > 0 && indices[at - 1] > i; --at) {
    indices[at] = indices[at - 1];
  }
  indices[at] = i;
}

/// Lane 0: a commit needs logits, so each forced block keeps its most important masked position if
/// it would keep none; and a block that the schedule may end in this step (core/part/schedule.hpp)
/// its first masked position, after which it may end.
template <class Policy>
UNMASK_HD void ensure_progress(const slot_memory<Policy>& m, index_t& size) {
  const layer_memory& l = m.layers;
  const plan& now = m.status->next;
  const auto bit_of_row = [&](index_t i) {
    const layer_row row = row_at(m, l.active[i], -1);
    return row.masked
               ? std::uint64_t{1} << (block_of(m.state->view, now, row.target) - now.first_block)
               : std::uint64_t{0};
  };
  when<active_parts::ends_blocks_now>(m, [&](const auto&) {
    const index_t first = first_masked(m);
    index_t i = 0;
    while (i < l.state->active && !row_at(m, l.active[i], first).first_masked) {
      ++i;
    }
    index_t k = 0;
    while (k < size && l.chosen_rows[k] != i) {
      ++k;
    }
    if (i < l.state->active && k == size) {
      insert(l.chosen_rows, size, i);
    }
  });
  std::uint64_t served = 0;
  for (index_t k = 0; k < size && (now.forced & ~served) != 0; ++k) {
    served |= bit_of_row(l.chosen_rows[k]);
  }
  for (index_t b = 0; b < now.last_block - now.first_block; ++b) {
    const std::uint64_t bit = std::uint64_t{1} << b;
    if ((now.forced & ~served & bit) == 0) {
      continue;
    }
    index_t best = -1;
    for (index_t i = 0; i < l.state->active; ++i) {
      if (bit_of_row(i) == bit && (best < 0 || l.keys[i] < l.keys[best])) {
        best = i;
      }
    }
    if (best >= 0) {
      insert(l.chosen_rows, size, best);
    }
  }
}

/// Number of chunks of rows that look() reduces separately and merges in order: the same for thread
/// groups of any size.
inline constexpr index_t step_reduction_chunks = 32;

/// Reduction over the rows for rules with look(), returned in every lane. `step_reductions` has
/// room for step_reduction_chunks of them, shared by the thread group.
template <class Policy>
[[nodiscard]] UNMASK_HD reduction_of_rows<Policy>
look_at_rows(const auto& t,
             const slot_memory<Policy>& m,
             index_t first,
             reduction_of_rows<Policy>* step_reductions) {
  reduction_of_rows<Policy> all{};
  visit_rule(*m.policy, [&](const auto& v) {
    using visited = std::remove_cvref_t<decltype(v)>;
    if constexpr (looking<typename visited::type>) {
      using step_reduction = layer_reduction_of<typename visited::type>;
      const layer_info& info = m.layers.state->info;
      const index_t size = (info.active + step_reduction_chunks - 1) / step_reduction_chunks;
      for (index_t c = t.lane(); c * size < info.active; c += t.lanes()) {
        step_reduction sum{};
        for (index_t i = c * size; i < math::min((c + 1) * size, info.active); ++i) {
          const layer_row row = measured_row(m, i, first);
          sum.merge(with_context(v, m, row, reduction_of_rows<Policy>{}, [&](const auto& context) {
            return v.part.look(row, info, context);
          }));
        }
        reduction_for<visited>(step_reductions[c], v.none) = sum;
      }
      t.sync();
      for (index_t c = 0; c * size < info.active; ++c) {
        reduction_for<visited>(all, v.none)
            .merge(reduction_for<visited>(step_reductions[c], v.none));
      }
    }
  });
  return all;
}

/// Writes the key of each active row's importance; choose() reads it in the same lane, and has
/// barriers before others do.
template <class Policy>
UNMASK_HD void rank_rows(const auto& t,
                         const slot_memory<Policy>& m,
                         index_t first,
                         const reduction_of_rows<Policy>& step_reduction) {
  const layer_memory& l = m.layers;
  const layer_info& info = l.state->info;
  for (index_t i = t.lane(); i < info.active; i += t.lanes()) {
    const layer_row row = measured_row(m, i, first);
    float importance = 0.0F;
    visit_rule(*m.policy, [&](const auto& v) {
      importance = with_context(v, m, row, step_reduction, [&](const auto& context) {
        return v.part.importance(row, info, context);
      });
    });
    l.keys[i] = row.position < m.state->reached ? importance_key(importance) : always_key;
  }
}

/// True if the rule computes active row i whatever its importance.
template <class Policy>
[[nodiscard]] UNMASK_HD bool is_mandatory(const slot_memory<Policy>& m,
                                          index_t i,
                                          index_t first,
                                          const reduction_of_rows<Policy>& step_reduction) {
  bool is = false;
  visit_rule(*m.policy, [&](const auto& v) {
    if constexpr (mandating<typename std::remove_cvref_t<decltype(v)>::type>) {
      const layer_row row = measured_row(m, i, first);
      is = with_context(v, m, row, step_reduction, [&](const auto& context) {
        return v.part.mandatory(row, m.layers.state->info, context);
      });
    }
  });
  return is;
}

/// Number of rows that the rule selects in addition to those always computed.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t quota_of(const slot_memory<Policy>& m,
                                         const reduction_of_rows<Policy>& step_reduction) {
  const layer_row nowhere;
  index_t quota = 0;
  visit_rule(*m.policy, [&](const auto& v) {
    quota = with_context(v, m, nowhere, step_reduction, [&](const auto& context) {
      return v.part.quota(m.layers.state->info, context);
    });
  });
  return quota;
}

/// Completes a selection, the first `size` of m.layers.chosen_rows: adds rows that commits need,
/// writes the positions to m.layers.chosen and, if skipped rows are dropped, makes the selected
/// rows the active ones. `size` is lane 0's.
template <class Policy>
UNMASK_HD void complete_choice(const auto& t, const slot_memory<Policy>& m, index_t size) {
  const bool drops = layers::drops(*m.policy);
  const layer_memory& l = m.layers;
  if (t.lane() == 0) {
    if (drops && !l.state->info.refresh) {
      ensure_progress(m, size);
    }
    l.state->chosen = size;
  }
  t.sync();
  const index_t chosen = l.state->chosen;
  for (index_t k = t.lane(); k < chosen; k += t.lanes()) {
    l.chosen[k] = l.active[l.chosen_rows[k]];
  }
  t.sync();
  if (drops) {
    for (index_t k = t.lane(); k < chosen; k += t.lanes()) {
      l.active[k] = l.chosen[k];
    }
    if (t.lane() == 0) {
      l.state->active = chosen;
    }
    map_rows(t, m);
  }
}

}  // namespace layers

/// Begins the hook of a layer: stores its layer_info.
template <class Policy>
UNMASK_HD void begin_layer(const slot_memory<Policy>& m, index_t layer) {
  const layer_memory& l = m.layers;
  layer_info& info = l.state->info;
  info.layer = layer;
  info.active = l.state->active;
  info.budget = l.budgets[layer];
  l.state->next = next_hook(m, layer + 1);
}

/// Selects among the active rows of a slot, whose drift is in m.layers.drift if it was read:
/// writes the indices of the selected rows, ascending, to m.layers.chosen_rows and their positions
/// to m.layers.chosen. If skipped rows are dropped, only the selected ones are active from then
/// on.
///
/// For one lane; device::choose_rows does the same with a thread block.
/// Cost: O(active).
template <class Policy>
void choose_rows(const slot_memory<Policy>& m) {
  constexpr serial alone;
  const layer_memory& l = m.layers;
  const layer_info& info = l.state->info;
  const index_t first = layers::first_masked(m);
  if (layers::measures(m)) {
    layers::fold(m, first);
    l.means[info.layer] = info.mean;
  }
  index_t size = info.active;
  if (info.refresh) {
    for (index_t i = 0; i < size; ++i) {
      l.chosen_rows[i] = i;
    }
  } else {
    layers::reduction_of_rows<Policy> step_reductions[layers::step_reduction_chunks];
    const auto step_reduction = layers::look_at_rows(alone, m, first, step_reductions);
    layers::rank_rows(alone, m, first, step_reduction);
    size = choose(
        l.keys, info.active, layers::quota_of(m, step_reduction), l.chosen_rows, [&](index_t i) {
          return layers::is_mandatory(m, i, first, step_reduction);
        });
  }
  layers::complete_choice(alone, m, size);
}

}  // namespace unmask::step
