// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/choose.hpp>
#include <unmask/step/context.hpp>

/// Per-layer position selection: which positions enter a pass, which each layer computes, which
/// have logits at its end. One implementation for every backend, as for the rest of a step; a
/// backend adds the read of the hidden states.
namespace UNMASK_NAMESPACE::step {

namespace layers {

template <class Part>
struct rules_in {
  using list = detail::type_list<Part>;
};
template <is_family Family>
struct rules_in<Family> {
  using list = typename Family::list;
};

/// Whether a policy may have a layer rule, the part that is or has it, and what the rules that it
/// may have need. (g++ 12 cannot mangle the trait in the type of a function's argument.)
template <class Policy>
inline constexpr bool has_rule = detail::has_part<Policy, &part_traits::skips>;
template <class Policy>
inline constexpr std::size_t rule_index = detail::part_that<Policy, &part_traits::skips>;
template <class Policy>
using rule_part = typename Policy::template part_type<rule_index<Policy>>;
template <class Policy>
using reduction_of_rows = layer_reduction_of<rule_part<Policy>>;
template <class Policy>
inline constexpr drift_terms measured_terms = []<class... Rule>(detail::type_list<Rule...>) {
  return (Rule::measures | ...);
}(typename rules_in<rule_part<Policy>>::list{});
template <class Policy>
inline constexpr bool all_store_all = []<class... Rule>(detail::type_list<Rule...>) {
  return (storing_all<Rule> && ...);
}(typename rules_in<rule_part<Policy>>::list{});
template <class Policy>
inline constexpr bool some_store_all = []<class... Rule>(detail::type_list<Rule...>) {
  return (storing_all<Rule> || ...);
}(typename rules_in<rule_part<Policy>>::list{});

/// Calls use(visited) for the layer rule of a policy, if it has one now.
UNMASK_CALLS_HOST
template <class Policy, class Use>
UNMASK_HD constexpr void visit_rule(const Policy& p, const Use& use) {
  detail::visit_parts<&part_traits::skips>(p, use);
}
/// True if positions that the rule does not select are dropped for the rest of the pass.
template <class Policy>
[[nodiscard]] UNMASK_HD bool drops(const Policy& p) {
  bool found = false;
  visit_rule(p, [&found](const auto& v) { found = v.part.skipped == skipping::dropped; });
  return found;
}
/// True if all rows given to the rule are stored, not only the selected ones.
template <class Policy>
[[nodiscard]] UNMASK_HD bool stores_all(const Policy& p) {
  bool found = false;
  visit_rule(p, [&found](const auto& v) {
    found = storing_all<typename std::remove_cvref_t<decltype(v)>::type>;
  });
  return found;
}
/// True if the rule has a hook at a layer.
template <class Policy>
[[nodiscard]] UNMASK_HD constexpr bool hooks(const Policy& p, index_t layer, index_t layers) {
  bool found = false;
  visit_rule(p, [&](const auto& v) { found = v.part.hooks(layer, layers); });
  return found;
}
/// The rule's measurement of a row.
template <class Policy>
[[nodiscard]] UNMASK_HD float measure(const Policy& p, const drift_sums& sums) {
  float found = 0.0F;
  visit_rule(p, [&](const auto& v) { found = v.part.measure(sums); });
  return found;
}
/// The most rows that the rule selects (bounding); `otherwise` without such a bound.
template <class Policy>
[[nodiscard]] index_t most(const Policy& p,
                           const layer_info& info,
                           const sequence_shape& geometry,
                           range query,
                           index_t otherwise) {
  index_t found = otherwise;
  visit_rule(p, [&](const auto& v) {
    if constexpr (bounding<typename std::remove_cvref_t<decltype(v)>::type>) {
      found = v.part.most(info, geometry, query);
    }
  });
  return found;
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

/// The reduction of the visited rule over the rows of a layer, among those of its family.
template <class At>
[[nodiscard]] UNMASK_HD auto& reduction_for(auto& all, [[maybe_unused]] no_state& none) {
  using part_type = typename At::type;
  if constexpr (std::is_same_v<layer_reduction_of<part_type>, no_state>) {
    return none;
  } else if constexpr (At::in_family) {
    return At::family_type::template reduction_of<part_type>(all);
  } else {
    return all;
  }
}

/// Calls `use(context)` with the context of the visited rule for a row, and returns its result.
template <class At, class Policy>
UNMASK_HD auto with_context(const At& v,
                            const slot_memory<Policy>& m,
                            const layer_row& row,
                            const auto& reduction,
                            const auto& use) {
  using part_type = typename At::type;
  const step_info at = info_of_row(m, row);
  position_state_of<part_type> start{};
  const position_state_of<part_type>& state =
      row.masked ? position_state_at(v, m, row.target % m.window) : start;
  const layer_context<part_type> context{
      state, sequence_state_at(v, m), reduction_for<At>(reduction, v.none), at};
  return use(context);
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
  return layers::hooks(*m.policy, layer, m.state->model.layers);
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
      layers::visit_rule(*m.policy, [&](const auto& v) {
        if constexpr (allocating<typename std::remove_cvref_t<decltype(v)>::type>) {
          const layer_row nowhere;
          layers::with_context(
              v, m, nowhere, layers::reduction_of_rows<Policy>{}, [&](const auto& context) {
                v.part.allocate(l.means, l.budgets, info.layers, context);
              });
        }
      });
    }
    layers::map_rows(t, m);
  } else {
    static_cast<void>(t);
    static_cast<void>(m);
  }
}

}  // namespace unmask::step
