// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/rank.hpp>

/// Effect of a step on a scored position, and its report as a candidate.
namespace UNMASK_NAMESPACE::step::phase {

/// proposal() of a row without a drawn token, or without a finite logit.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id proposal_without_candidate(const slot_memory<Policy>& m,
                                                            index_t i) {
  token_id token = m.row(i).token;
  token = token == no_token ? listed_name(m, i) : token;
  if (token == no_token) {
    const range all = {0, m.state->model.vocab};
    token = lowest_allowed(m, m.status->next.score.first + i, all, nullptr);
  }
  if (token == no_token) {
    token = 0;
    for (index_t k = 0; k < m.state->suppressed_count && m.suppressed[k] == token; ++k) {
      ++token;
    }
  }
  return token;
}

/// The token that scored position i gets if it is committed. An invalid row commits its best token
/// or, without a finite logit, the lowest that may be proposed; if row mask, suppressed tokens and
/// parts exclude every token, first the row mask and then the parts are ignored.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id proposal(const slot_memory<Policy>& m, index_t i) {
  const token_id token = candidate_at(m, i).token;
  return token != no_token ? token
                           : apart<Policy>([&] { return proposal_without_candidate(m, i); });
}

/// True if the commit rule accepts scored position i. A position that proposes the mask token,
/// which is possible only if that is not suppressed, is never accepted.
template <class Policy>
[[nodiscard]] UNMASK_HD bool wins(const slot_memory<Policy>& m, index_t i) {
  return is_accepted(m.roles[i]) && proposal(m, i) != m.state->model.mask_token;
}

/// True if scored position i gets another token: a committed candidate may win with the token that
/// it has.
template <class Policy>
[[nodiscard]] UNMASK_HD bool writes(const slot_memory<Policy>& m, index_t i) {
  return wins(m, i) && proposal(m, i) != m.state->tokens[m.status->next.score.first + i];
}

/// Effect of a step on a scored position.
enum class outcome : std::uint8_t {
  none,     ///< no candidate, and not changed by a part
  stays,    ///< a candidate without a change: masked, or committed with its proposal
  commits,  ///< a masked position gets its token
  rewins,   ///< a committed candidate gets another token
  loses,    ///< a committed candidate is remasked
  edited,   ///< a part replaces a committed token
  remasked  ///< a part remasks a committed position
};

/// Returns the effect of the step on scored position i.
template <class Policy>
[[nodiscard]] UNMASK_HD outcome outcome_of(const slot_memory<Policy>& m, index_t i) {
  const role is = m.roles[i];
  if (is == role::inactive) {
    return outcome::none;
  }
  if (is_refused(is)) {
    return outcome::stays;
  }
  if (Policy::rewrites && rewrites_now(m)) {
    const index_t position = m.status->next.score.first + i;
    if (is == role::remasked) {
      return outcome::remasked;
    }
    const token_id token = proposal(m, i);
    const bool changes = token != m.state->tokens[position] && token != m.state->model.mask_token;
    if (is == role::replaced) {
      return changes ? outcome::edited : outcome::none;
    }
    if (Policy::remasks && m.marks[position] == mark::committed) {
      return !wins(m, i) ? outcome::loses : changes ? outcome::rewins : outcome::stays;
    }
  }
  return wins(m, i) ? outcome::commits : outcome::stays;
}

/// The outcome of scored position i as reported, from the effect `o` of the step on it.
[[nodiscard]] UNMASK_HD inline candidate_outcome
reported_outcome(const slot_arrays& m, index_t i, bool is_valid, outcome o) {
  switch (o) {
  case outcome::commits:
    return m.reasons[i].forced ? candidate_outcome::forced : candidate_outcome::committed;
  case outcome::rewins:
  case outcome::edited:
    return candidate_outcome::replaced;
  case outcome::loses:
  case outcome::remasked:
    return candidate_outcome::remasked;
  default:
    break;
  }
  return is_refused(m.roles[i])                                       ? candidate_outcome::refused
         : m.marks[m.status->next.score.first + i] == mark::committed ? candidate_outcome::kept
         : m.roles[i] == role::excluded                               ? candidate_outcome::excluded
         : !is_valid                                                  ? candidate_outcome::invalid
                                                                      : candidate_outcome::held;
}

/// The part that makes committed positions candidates again, as candidate_entry::part.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t remasking_part(const slot_memory<Policy>& m) {
  return text_index_of<detail::part_that<Policy, &part_traits::remasks>>(*m.policy);
}

/// The report entry of scored position i, on which the step has the effect `o`. Before any write.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate_entry candidate_entry_of(const slot_memory<Policy>& m,
                                                           index_t i,
                                                           outcome o) {
  const candidate<Policy::required> c = candidate_at(m, i);
  candidate_entry e{entry_of(m, c.position, proposal(m, i), log_probability_of(c), m.ranks[i])};
  e.outcome = reported_outcome(m, i, m.row(i).valid(), o);
  e.committed = o == outcome::commits || o == outcome::rewins || o == outcome::edited;
  const bool is_by_none =
      e.outcome == candidate_outcome::forced || e.outcome == candidate_outcome::refused;
  e.part = is_by_none ? -1 : m.reasons[i].part;
  if constexpr (Policy::remasks) {
    // A committed candidate: why it is one.
    const bool competed =
        o == outcome::rewins || o == outcome::loses || e.outcome == candidate_outcome::kept;
    e.part = competed && remasks_now(m) ? remasking_part(m) : e.part;
  }
  const float none = math::from_bits(0x7fc00000U);
  e.confidence = c.valid() ? c.confidence() : 0.0F;
  e.margin = none;
  e.entropy = none;
  if constexpr (provides_v<Policy::required, stat::margin>) {
    e.margin = m.row(i).valid() ? c.margin() : none;
  }
  if constexpr (provides_v<Policy::required, stat::entropy>) {
    e.entropy = m.row(i).valid() ? c.entropy() : none;
  }
  return e;
}

/// The report entry of the token with which the winning branch was created.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate_entry branch_entry([[maybe_unused]] const slot_memory<Policy>& m,
                                                     const commit_entry& placed) {
  candidate_entry e{placed};
  e.outcome = candidate_outcome::from_branch;
  e.committed = true;
  if constexpr (Policy::looks_ahead) {
    e.part = text_index_of<detail::part_that<Policy, &part_traits::looks_ahead>>(*m.policy);
  }
  if constexpr (Policy::beams) {
    e.part = beams_now(m) ? text_index_of<detail::part_that<Policy, &part_traits::beams>>(*m.policy)
                          : e.part;
  }
  e.confidence = math::exp_nonpositive(placed.log_probability);
  e.margin = math::from_bits(0x7fc00000U);
  e.entropy = math::from_bits(0x7fc00000U);
  return e;
}

}  // namespace unmask::step::phase
