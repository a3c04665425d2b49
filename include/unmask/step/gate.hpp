// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/step/outcome.hpp>

#include <type_traits>

/// The gate: tests the tokens that a step is about to write one after the other, each with the
/// tokens that passed before it, so that all of them fit together.
///
/// A token has to be allowed by the parts that gate and by the constraints of the sequence, which a
/// backend gives as `answer`, null for a sequence without any. Tokens that a part names are not
/// tested: tokens of a replay were tested when they were recorded.
namespace UNMASK_NAMESPACE::step {

/// The constraints of a backend that has none.
struct no_constraints {};

using detail::placed_token;
using detail::placed_tokens;

namespace phase {

/// True if a sequence has constraints.
template <class Answer>
[[nodiscard]] UNMASK_HD bool is_constrained(const Answer* answer) {
  return !std::is_same_v<Answer, no_constraints> && answer != nullptr;
}

/// sequence_view::ends_from.
UNMASK_CALLS_HOST
template <class Answer>
[[nodiscard]] UNMASK_HD index_t ends_from([[maybe_unused]] const Answer* answer) {
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    return answer != nullptr ? answer->last_field().first : 0;
  } else {
    return 0;
  }
}

/// True if the commits of a step are tested.
template <class Policy>
[[nodiscard]] UNMASK_HD bool has_gate(const auto* answer) {
  return Policy::gates || is_constrained(answer);
}

/// Writes the proposal of scored position i, as the gate sees it, if it passes. Returns whether it
/// does. All lanes of `t`, or one with serial.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
[[nodiscard]] UNMASK_HD bool admit(const deciding_group auto& t,
                                   const slot_memory<Policy>& m,
                                   index_t i,
                                   [[maybe_unused]] Answer* answer) {
  const index_t position = m.status->next.score.first + i;
  const token_id token = proposal(m, i);
  bool is_in = true;
  if constexpr (Policy::gates) {
    if (t.lane() == 0) {  // parts may count
      is_in = admits(m, position, token, info_of(*m.state, m.status->next, position));
    }
    is_in = t.any(is_in ? 0 : 1) == 0;
  }
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    if (is_in && answer != nullptr) {
      is_in = answer->admits(t, position, token);
      if (is_in && t.lane() == 0) {
        answer->write(position, token);
      }
    }
  }
  is_in = is_in || forces_now(m);
  if constexpr (Policy::gates) {
    if (is_in && t.lane() == 0) {
      m.state->tokens[position] = token;
    }
  }
  t.sync();
  return is_in;
}

/// Lane 0: if the gate has refused every candidate of the step, makes it commit all the same:
/// constraints place a token of theirs at the position of the best candidate, which needs no row;
/// otherwise that candidate is committed.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void
commit_refused(const slot_memory<Policy>& m, index_t i, [[maybe_unused]] Answer* answer) {
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    if (answer != nullptr && answer->place(m.status->next.score.first + i)) {
      return;
    }
  }
  if constexpr (Policy::gates) {
    m.roles[i] = role::forced;
    m.note_forced(i);
    ++m.status->report.forced;
    --m.status->report.refused;
  }
}

/// Visit n of a walk over the `count` candidates with a rank, in its order, and then over all
/// scored positions.
[[nodiscard]] UNMASK_HD inline index_t
ranked_first(const slot_arrays& m, index_t count, index_t n) {
  return n < count ? key_index(m.keys[n]) : n - count;
}

/// Lane 0: reads the row of scored position i again. A device has none left.
UNMASK_CALLS_HOST
template <class Answer>
UNMASK_HD void read_row_again(const slot_arrays& m, index_t i, Answer* answer) {
  if constexpr (requires { answer->rows; }) {
    answer->rows.read(answer->rows.backend, m.slot, i);
  }
}

/// Lane 0: reads a refused candidate again where constrained_field::read_again asks for it, and
/// accepts it with the token that it has then. Returns whether it passes.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
[[nodiscard]] UNMASK_HD bool
passes_second_read(const slot_memory<Policy>& m, index_t i, Answer* answer) {
  if (!is_refused(m.roles[i]) || !answer->reads_again(m.status->next.score.first + i)) {
    return false;
  }
  read_row_again(m, i, answer);
  if (!admit(serial{}, m, i, answer)) {
    return false;
  }
  const bool is_forced = m.roles[i] == role::refused_forced;
  m.roles[i] = is_forced ? role::forced : role::accepted;
  m.status->report.forced += is_forced ? 1 : 0;
  --m.status->report.refused;
  return true;
}

/// Lane 0: the same for each refused candidate: those with a rank in its order, then the others by
/// position. Returns whether any passes.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
[[nodiscard]] UNMASK_HD bool pass_second_reads([[maybe_unused]] const slot_memory<Policy>& m,
                                               [[maybe_unused]] index_t count,
                                               [[maybe_unused]] Answer* answer) {
  bool any = false;
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    if (answer != nullptr && answer->reads_again()) {
      for (index_t n = 0; n < count + m.status->next.score.size(); ++n) {
        any = passes_second_read(m, ranked_first(m, count, n), answer) || any;
      }
    }
  }
  return any;
}

/// Tests the accepted candidates: those with a rank in its order, then the others by position. A
/// canvas writes nothing before its end.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void
gate(const deciding_group auto& t, const slot_memory<Policy>& m, index_t count, Answer* answer) {
  if (is_pass<pass_kind::canvas>(m)) {
    return;
  }
  const index_t size = m.status->next.score.size();
  index_t best = -1;  // the first that was refused
  bool any = false;
  for (index_t n = 0; n < count + size; ++n) {  // every lane
    const index_t i = ranked_first(m, count, n);
    const role before = m.roles[i];
    if (!is_accepted(before) || !wins(m, i)) {
      continue;
    }
    const bool is_in = admit(t, m, i, answer);
    if (t.lane() == 0) {
      const bool is_forced = before == role::forced;
      m.roles[i] = is_in ? (is_forced ? role::passed_forced : role::passed)
                         : (is_forced ? role::refused_forced : role::refused);
      m.status->report.refused += is_in ? 0 : 1;
      m.status->report.forced -= !is_in && is_forced ? 1 : 0;
    }
    t.sync();
    any = any || is_in;
    best = best < 0 && !is_in ? i : best;
  }
  t.sync();  // every lane has seen that they passed
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.roles[i] = m.roles[i] == role::passed          ? role::accepted
                 : m.roles[i] == role::passed_forced ? role::forced
                                                     : m.roles[i];
  }
  t.sync();
  if (t.lane() == 0) {
    any = pass_second_reads(m, count, answer) || any;
    if (!any && best >= 0) {
      commit_refused(m, best, answer);
    }
  }
  t.sync();
}

/// Tells the gate of positions that are masked after all: those that a part masks because they are
/// the least certain, which were committed or had passed. Seen after the barriers of edit_token().
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void gate_of_remasked([[maybe_unused]] const deciding_group auto& t,
                                [[maybe_unused]] const slot_memory<Policy>& m,
                                [[maybe_unused]] Answer* answer) {
  if constexpr (Policy::rewrites) {
    if (t.lane() == 0) {
      const range scored = m.status->next.score;
      for (index_t i = 0; i < scored.size(); ++i) {
        const index_t position = scored.first + i;
        const bool is_masked = m.marks[position] == mark::masked;
        if (m.roles[i] != role::remasked && !(is_masked && !is_accepted(m.roles[i]))) {
          continue;
        }
        if constexpr (!std::is_same_v<Answer, no_constraints>) {
          if (answer != nullptr) {
            answer->mask(position);
          }
        }
        if constexpr (Policy::gates) {
          m.state->tokens[position] =
              is_masked ? m.state->model.mask_token : m.state->tokens[position];
        }
      }
    }
  }
}

/// Lane 0: tests a replacement of the committed token at scored position i by its proposal, or that
/// it is remasked, which is refused only where no other token is possible. Returns the role.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
[[nodiscard]] UNMASK_HD role gate_of_edit(const slot_memory<Policy>& m,
                                          index_t i,
                                          role wanted,
                                          [[maybe_unused]] Answer* answer) {
  const index_t position = m.status->next.score.first + i;
  bool is_in = true;
  if (wanted == role::replaced) {
    const token_id token = proposal(m, i);
    const bool changes = token != m.state->tokens[position] && token != m.state->model.mask_token;
    is_in = !changes || admit(serial{}, m, i, answer);
  } else if constexpr (!std::is_same_v<Answer, no_constraints>) {
    if (wanted == role::remasked && answer != nullptr) {
      is_in = forces_now(m) || !answer->is_certain(serial{}, position);
      if (is_in) {
        answer->mask(position);
      }
    }
  }
  m.status->report.refused += is_in ? 0 : 1;
  return is_in ? wanted : role::refused;
}

/// The report entry of a token that the constraints of a sequence placed.
[[nodiscard]] UNMASK_HD inline commit_entry entry_of(const slot_arrays& m, const placed_token& p) {
  const slot_state& s = *m.state;
  const plan& now = m.status->next;
  commit_entry e{m.slot, p.position, p.token};
  e.log_probability = p.is_certain ? 0.0F : -math::infinity();
  e.step = s.view.step;
  e.block = s.view.block_of(p.position);
  const bool is_active = now.first_block <= e.block && e.block < now.last_block;
  e.block_step = is_active ? s.view.step - s.block_step[e.block & (max_active_blocks - 1)] : 0;
  return e;
}

/// The entry as a candidate. It had no row.
[[nodiscard]] UNMASK_HD inline candidate_entry candidate_of(const commit_entry& entry,
                                                            bool is_certain) {
  candidate_entry e{entry};
  e.committed = true;
  e.outcome = is_certain ? candidate_outcome::filled : candidate_outcome::forced;
  e.confidence = is_certain ? 1.0F : 0.0F;
  e.margin = math::from_bits(0x7fc00000U);
  e.entropy = math::from_bits(0x7fc00000U);
  return e;
}

/// Merges `count` entries of `placed`, ascending, into `list`, which has room for them: entries of
/// a position that is in the list replace it. Returns the new size.
template <class Entry>
[[nodiscard]] UNMASK_HD index_t
merge_placed(Entry* list, index_t size, index_t count, const auto& entry_at) {
  index_t repeats = 0;
  index_t k = 0;
  for (index_t p = 0; p < count; ++p) {
    const Entry e = entry_at(p);
    while (k < size && list[k].position < e.position) {
      ++k;
    }
    if (k < size && list[k].position == e.position) {
      list[k] = e;
      ++repeats;
    }
  }
  index_t to = size + count - repeats;
  const index_t total = to;
  k = size;
  for (index_t p = count - 1; p >= 0; --p) {
    const Entry e = entry_at(p);
    while (k > 0 && list[k - 1].position > e.position) {
      list[--to] = list[--k];
    }
    if (k == 0 || list[k - 1].position != e.position) {
      list[--to] = e;
    }
  }
  return total;
}

/// Lane 0: writes tokens that the constraints of a sequence place, and reports them. The entries of
/// the step have room for a position each.
template <class Policy>
UNMASK_HD void write_placed(const slot_memory<Policy>& m, const placed_tokens& placed) {
  slot_state& s = *m.state;
  sequence_report& report = m.status->report;
  const range scored = m.status->next.score;
  for (index_t k = 0; k < placed.count; ++k) {
    const placed_token& p = placed.first[k];
    s.tokens[p.position] = p.token;
    m.marks[p.position] = mark::committed;
    if (scored.contains(p.position)) {
      m.reset(m.cell_of(p.position));
      report.refused -= is_refused(m.roles[p.position - scored.first]) ? 1 : 0;
    }
    --s.view.masked_count;
    ++s.view.changed;
    ++s.view.new_commits;
    s.view.first_changed = math::min(s.view.first_changed, p.position);
    ++report.committed;
    ++(p.is_certain ? report.filled : report.forced);
  }
  const index_t count = placed.count;
  const auto at = [&](index_t i) { return placed.first[i]; };
  report.last_commits = merge_placed(
      m.entries, report.last_commits, count, [&](index_t i) { return entry_of(m, at(i)); });
  if (m.traced != nullptr) {
    report.last_candidates = merge_placed(m.traced, report.last_candidates, count, [&](index_t i) {
      return candidate_of(entry_of(m, at(i)), at(i).is_certain);
    });
  }
}

/// Writes the tokens that the constraints of a sequence place, in lane 0, which then plans.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void
place(const deciding_group auto& t, const slot_memory<Policy>& m, [[maybe_unused]] Answer* answer) {
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    placed_tokens placed = answer->place_tokens(t);
    detail::visit_parts<&part_traits::forces>(
        *m.policy, [&](const auto& v) { placed = v.part.filled_tokens(m.state->view.step); });
    if (t.lane() == 0 && placed.count > 0) {
      write_placed(m, placed);
    }
  }
}

}  // namespace phase

}  // namespace unmask::step
