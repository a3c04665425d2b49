// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/commit.hpp>

/// Passes in which committed tokens are hidden (core/part/rewriting.hpp).
namespace UNMASK_NAMESPACE::step::phase {

/// Puts back the tokens that the pass hid or, with `masks`, hides the tokens of the next pass.
/// Nothing if there are none.
UNMASK_HD inline void swap_hidden(const auto& t, const slot_arrays& m, bool masks) {
  if (m.status->next.kind != pass_kind::hiding) {
    return;
  }
  const range scored = m.status->next.score;
  for (index_t i = t.lane(); i < scored.size(); i += t.lanes()) {
    if (m.hidden[i].token != no_token) {
      m.state->tokens[scored.first + i] = masks ? m.state->model.mask_token : m.hidden[i].token;
    }
  }
  t.sync();
}

/// Sorts the scored positions i with is(i) by score(part, candidate, context), the lowest first.
/// Returns their number; NaN is not counted.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t
sort_lowest(const auto& t, const slot_memory<Policy>& m, const auto& is, const auto& score) {
  const range scored = m.status->next.score;
  const index_t size = sort_size(scored.size());
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.keys[i] = no_key;
    if (i < scored.size() && is(i) && m.row(i).valid()) {
      step_info at = info_of(*m.state, m.status->next, scored.first + i);
      at.current_probability = current_probability(m, m.row(i), i);
      float s = 0.0F;
      detail::visit_parts<&part_traits::reconsiders>(*m.policy, [&](const auto& v) {
        using part_type = typename std::remove_cvref_t<decltype(v)>::type;
        auto context = context_of(v, m, m.cell_of(scored.first + i), at);
        s = score(v.part, candidate_at(m, i).template as<part_type::required>(), context);
      });
      m.keys[i] = math::is_nan(s) ? no_key : order_key(-s, i);
    }
  }
  sort(t, m.keys, size);
  return candidates(m);
}

/// count(part, context) for the scored range.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t count_of(const slot_memory<Policy>& m, const auto& count) {
  const index_t first = m.status->next.score.first;
  const step_info at = info_of(*m.state, m.status->next, first);
  index_t found = 0;
  detail::visit_parts<&part_traits::reconsiders>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, m.cell_of(first), at);
    found = count(v.part, context);
  });
  return found;
}

/// After the commit rule of a pass that hid no tokens: selects the committed positions that the
/// next one hides and reads. They are seen after the barriers of the commits and of the plan.
template <class Policy>
UNMASK_HD void hide_lowest(const deciding_group auto& t, const slot_memory<Policy>& m) {
  if (m.status->next.kind == pass_kind::hiding) {
    return;
  }
  const range scored = m.status->next.score;
  const bool is_again = m.state->decides_again;
  t.sync();
  for (index_t i = t.lane(); i < scored.size(); i += t.lanes()) {
    m.hidden[i] = {};
  }
  if (t.lane() == 0) {
    m.state->hidden_count = 0;
    m.state->decides_again = false;
  }
  const index_t wanted =
      is_again ? 0
               : count_of(m, [](const auto& p, auto& context) { return p.hide_count(context); });
  if (wanted <= 0) {
    return;
  }
  const index_t found = sort_lowest(
      t,
      m,
      [&](index_t i) {
        return m.roles[i] == role::inactive && m.reads(i) &&
               m.marks[scored.first + i] == mark::committed;
      },
      [](const auto& p, const auto& c, auto& context) { return p.hide_score(c, context); });
  const index_t hidden = math::min(wanted, found);
  for (index_t r = t.lane(); r < hidden; r += t.lanes()) {
    const index_t i = key_index(m.keys[r]);
    m.hidden[i] = {m.state->tokens[scored.first + i], true};
  }
  if (t.lane() == 0) {
    m.state->hidden_count = hidden;
  }
}

/// Lane 0: the next step looks at the same blocks again, which counts as no step of theirs.
UNMASK_HD inline void repeat_blocks(const slot_arrays& m) {
  const plan& now = m.status->next;
  for (index_t b = now.first_block; b < now.last_block; ++b) {
    ++m.state->block_step[b % max_active_blocks];
  }
}

/// Lane 0: plans a pass that hides tokens, those of this step among them, if the step has selected
/// some. Returns whether it has. A step that is to be decided again is not counted.
template <class Policy>
[[nodiscard]] UNMASK_HD bool plan_hiding(const slot_memory<Policy>& m, plan& next) {
  const plan& now = m.status->next;
  if (m.status->next.kind == pass_kind::hiding) {
    if (m.state->decides_again) {
      repeat_blocks(m);
    }
    return false;
  }
  if (m.state->hidden_count == 0) {
    return false;
  }
  for (index_t k = 0; k < m.status->report.last_commits; ++k) {
    const commit_entry& e = m.entries[k];
    m.hidden[e.position - now.score.first] = {e.token, false};
  }
  next = now;
  next.kind = pass_kind::hiding;
  next.forced = 0;
  repeat_blocks(m);
  return true;
}

/// Sets the roles of a step whose pass hid tokens.
template <class Policy>
UNMASK_HD void reconsider(const deciding_group auto& t, const slot_memory<Policy>& m) {
  const range scored = m.status->next.score;
  const index_t wanted =
      count_of(m, [](const auto& p, auto& context) { return p.reconsider_count(context); });
  const index_t found = sort_lowest(
      t,
      m,
      [&](index_t i) { return m.hidden[i].checked; },
      [](const auto& p, const auto& c, auto& context) { return p.reconsider_score(c, context); });
  index_t reconsidering_part = -1;
  bool redecides = false;
  detail::visit_parts<&part_traits::reconsiders>(*m.policy, [&](const auto& v) {
    reconsidering_part = v.text_index;
    redecides = v.part.redecides();
  });
  const index_t replaced = math::max(math::min(wanted, found), index_t{0});
  const bool is_again = replaced > 0 && redecides;
  for (index_t r = t.lane(); r < replaced; r += t.lanes()) {
    const index_t i = key_index(m.keys[r]);
    m.roles[i] = role::replaced;
    m.note(i, {reconsidering_part});
  }
  for (index_t i = t.lane(); is_again && i < scored.size(); i += t.lanes()) {
    if (m.hidden[i].token != no_token && !m.hidden[i].checked) {
      m.roles[i] = role::remasked;
      m.note(i, {reconsidering_part});
    }
  }
  if (t.lane() == 0 && is_again) {
    m.state->decides_again = true;
  }
  t.sync();
}

}  // namespace unmask::step::phase
