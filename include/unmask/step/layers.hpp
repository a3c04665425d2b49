// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/choose.hpp>
#include <unmask/step/context.hpp>

/// Per-layer position selection: which positions enter a pass, which each layer computes, which
/// have logits at its end. One implementation for every backend, as for the rest of a step; a
/// backend adds the read of the hidden states.
namespace UNMASK_NAMESPACE::step {

namespace layers {

template <class Policy>
inline constexpr std::size_t cache_index = detail::part_that<Policy, &part_traits::caches>;
template <class Policy>
inline constexpr std::size_t rule_index = detail::part_that<Policy, &part_traits::skips>;

/// Whether the policy has a layer rule, and its type.
template <class Policy>
inline constexpr bool has_rule = rule_index<Policy> < Policy::part_total;
template <class Policy>
using rule_of = typename Policy::template part_type<rule_index<Policy>>;

template <class Policy>
[[nodiscard]] UNMASK_HD const rule_of<Policy>& rule_in(const slot_memory<Policy>& m) {
  return m.policy->template part_at<rule_index<Policy>>();
}

/// The first masked position that this step decides; -1 if there is none. Cost: O(window).
template <class Policy>
[[nodiscard]] UNMASK_HD index_t first_masked(const slot_memory<Policy>& m) {
  const range score = m.status->next.score;
  const index_t first = m.state->view.first_masked_in(score);
  return first < score.last ? first : -1;
}

/// A position of the pass as given to the parts. Position 0 of a model with shifted rows is also
/// the row of target 0; it then counts as the row of whichever of the two targets is masked.
template <class Policy>
[[nodiscard]] UNMASK_HD layer_row row_at(const slot_memory<Policy>& m,
                                         index_t position,
                                         index_t first) {
  const range score = m.status->next.score;
  const auto is_masked = [&](index_t p) { return score.contains(p) && m.marks[p] == mark::masked; };
  layer_row row;
  row.position = position;
  row.target = position + m.status->next.logits_shift;
  if (position == 0 && row.target == 1 && is_masked(0)) {
    row.target = 0;
  }
  row.masked = is_masked(row.target);
  row.first_masked = row.masked && row.target == first;
  const sequence_view& q = m.state->view;
  row.committed = q.wrote_in({row.target, row.target + 1});
  row.written = row.target == position ? row.committed : q.wrote_in({position, position + 1});
  return row;
}

template <class Policy>
[[nodiscard]] UNMASK_HD step_info info_of_row(const slot_memory<Policy>& m, const layer_row& row) {
  const bool scored = m.status->next.score.contains(row.target);
  step_info at = scored ? info_of(*m.state, m.status->next, row.target) : info_of(*m.state);
  at.position = row.target;
  return at;
}

/// Calls `use(part, context)` with the context of part I for a row.
template <std::size_t I, class Policy>
UNMASK_HD auto with_context(const slot_memory<Policy>& m,
                            const layer_row& row,
                            const auto& step_reduction,
                            const auto& use) {
  using part_type = typename Policy::template part_type<I>;
  const step_info at = info_of_row(m, row);
  const position_state_of<part_type> start{};
  const position_state_of<part_type>& state =
      row.masked ? m.template state_at<I, position_state_of<part_type>>(row.target % m.window)
                 : start;
  const layer_context<part_type> context{
      state, detail::get_indexed<I, sequence_state_of<part_type>>(*m.sequence), step_reduction, at};
  return use(m.policy->template part_at<I>(), context);
}

/// Value of layer_state::next for a pass that did not fit into its captured size.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t refused(const slot_memory<Policy>& m) {
  return m.state->model.layers + 1;
}

/// The index of a position among the active ones; -1 if it was dropped. Cost: O(log active).
[[nodiscard]] UNMASK_HD inline index_t index_of(const layer_memory& l, index_t position) {
  index_t low = 0;
  index_t high = l.state->active;
  while (low < high) {
    const index_t middle = (low + high) / 2;
    if (l.active[middle] < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < l.state->active && l.active[low] == position ? low : -1;
}

/// Finds the rows of logits to return among the positions still active. Two scored positions share
/// a row only at the beginning of a sequence with shifted rows.
template <class Policy>
UNMASK_HD void map_rows(const deciding_group auto& t, const slot_memory<Policy>& m) {
  const layer_memory& l = m.layers;
  const range read = m.read_range();
  const index_t shift = m.status->next.logits_shift;
  for (index_t i = t.lane(); i < read.size(); i += t.lanes()) {
    l.row_of[i] = 0;  // read by reads()
  }
  t.sync();
  index_t rows = 0;
  for_each_in_rounds(t, read.size(), [&](index_t i, bool is_there) {
    const bool is_read = is_there && m.reads(i);
    const index_t at =
        is_read ? index_of(l, math::max(read.first + i - shift, index_t{0})) : index_t{-1};
    const bool shares = is_read && read.first + i <= shift && i > 0 && m.reads(i - 1);
    const lane_count found = t.count(at >= 0 && !shares);
    if (at >= 0 && !shares) {
      l.rows[rows + found.before] = at;
    }
    if (is_read) {
      l.row_of[i] = at < 0 ? -1 : rows + found.before - (shares ? 1 : 0);
    }
    rows += found.all;
  });
  if (t.lane() == 0) {
    l.state->rows = rows;
  }
}

}  // namespace layers

/// Lane 0: calls the cache for the positions that enter the next pass, and for the eviction of
/// keys. Positions that were never computed enter it, and so do those that are decided.
template <class Policy>
UNMASK_HD void
set_query(const slot_memory<Policy>& m, plan& next, [[maybe_unused]] const step_info& at) {
  next.refresh = !layered_now(m) || m.state->reached == 0;
  if constexpr (Policy::caches) {
    if (caches_now(m)) {
      apart<Policy>([&] {
        next.refresh = true;
        detail::visit_parts<&part_traits::caches>(*m.policy, [&](const auto& v) {
          auto context = context_of(v, m, 0, at);
          v.part.set_query(m.state->view, next, context);
        });
        const index_t shift = next.logits_shift;
        range& r = next.query;
        r.first = math::min(r.first, math::max(next.score.first - shift, index_t{0}));
        r.last = math::max(r.last, next.score.last - shift);
        if (m.state->reached < next.keys.last) {
          r.first = math::min(r.first, m.state->reached);
          r.last = next.keys.last;
        }
        r.first = math::max(r.first, next.keys.first);
        r.last = math::min(r.last, next.keys.last);
        next.refresh = next.refresh || m.state->reached == 0;
      });
    }
  }
  if constexpr (detail::has_part<Policy, &part_traits::evicts>) {
    if (evicts_now(m)) {
      apart<Policy>([&] {
        detail::visit_parts<&part_traits::evicts>(*m.policy, [&](const auto& v) {
          auto context = context_of(v, m, 0, at);
          next.evict = v.part.evicts(m.state->view, next, context);
        });
        next.refresh = next.refresh || next.evict == eviction::choose;
      });
    }
  }
}

/// True if the rule has a hook at a layer. False without a rule.
template <class Policy>
[[nodiscard]] UNMASK_HD bool hooks(const slot_memory<Policy>& m, index_t layer) {
  if constexpr (layers::has_rule<Policy>) {
    return layers::rule_in(m).hooks(layer, m.state->model.layers);
  } else {
    static_cast<void>(m);
    static_cast<void>(layer);
    return false;
  }
}

/// The first layer from `layer` on at which the rule has a hook; the number of layers if there is
/// none. Cost: O(layers).
template <class Policy>
[[nodiscard]] UNMASK_HD index_t next_hook(const slot_memory<Policy>& m, index_t layer) {
  while (layer < m.state->model.layers && !hooks(m, layer)) {
    ++layer;
  }
  return layer;
}

/// True if the rule has no further hook in this pass.
template <class Policy>
[[nodiscard]] UNMASK_HD bool has_passed(const slot_memory<Policy>& m) {
  return m.layers.state->next == m.state->model.layers;
}

/// Lane 0: clears measurements of the previous sequence in the slot.
template <class Policy>
UNMASK_HD void forget_layers(const slot_memory<Policy>& m) {
  if constexpr (Policy::layered) {
    if (m.layers.state == nullptr) {
      return;
    }
    *m.layers.state = {};
    for (index_t l = 0; l < m.state->model.layers; ++l) {
      m.layers.means[l] = -1.0F;
      m.layers.budgets[l] = 0;
    }
  }
}

namespace layers {

/// True if a position enters the pass of plan m.status->next.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
enters(const slot_memory<Policy>& m, index_t position, [[maybe_unused]] index_t first) {
  const plan& next = m.status->next;
  bool is_in = true;
  detail::visit_parts<&part_traits::picks>(*m.policy, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    const layer_row row = row_at(m, position, first);
    const step_info at = info_of_row(m, row);
    const no_state none;
    const layer_reduction_of<part_type> of_layer{};
    const layer_context<part_type> context{none, sequence_state_at(v, m), of_layer, at};
    is_in =
        next.refresh || row.masked || position >= m.state->reached || v.part.in_query(row, context);
  });
  return is_in;
}

}  // namespace layers

/// Lists the positions that enter the pass of plan m.status->next.
template <class Policy>
UNMASK_HD void enter_layers(const deciding_group auto& t, const slot_memory<Policy>& m) {
  if constexpr (Policy::layered) {
    const plan& next = m.status->next;
    const layer_memory& l = m.layers;
    const index_t first = layers::first_masked(m);
    index_t count = 0;
    index_t fresh = 0;
    for_each_in_rounds(t, next.query.size(), [&](index_t n, bool is_there) {
      const index_t position = next.query.first + n;
      const bool enters = is_there && layers::enters(m, position, first);
      const lane_count entering = t.count(enters);
      if (enters) {
        l.active[count + entering.before] = position;
      }
      count += entering.all;
      fresh += t.count(enters && position >= m.state->reached).all;
    });
    if (t.lane() == 0) {
      layer_info info;
      info.layers = m.state->model.layers;
      info.entered = count;
      info.commits = m.state->view.commit_count;
      info.block_length = m.state->view.block(next.first_block).size();
      info.refresh = next.refresh;
      *l.state = {count, fresh, count, 0, 0, next_hook(m, 0), info};
      if constexpr (layers::has_rule<Policy>) {
        using rule = layers::rule_of<Policy>;
        if constexpr (allocating<rule>) {
          const layer_row nowhere;
          layers::with_context<layers::rule_index<Policy>>(
              m, nowhere, layer_reduction_of<rule>{}, [&](const rule& part, const auto& context) {
                part.allocate(l.means, l.budgets, info.layers, context);
              });
        }
      }
    }
    layers::map_rows(t, m);
  } else {
    static_cast<void>(t);
    static_cast<void>(m);
  }
}

}  // namespace unmask::step
