// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/commit.hpp>
#include <unmask/step/drafts.hpp>

/// Beam search (policy/beam.hpp): the members of a beam, each decided from its own rows, and the
/// best of the states that they lead to.
///
/// The sequence itself has the tokens that all members have; a member has some in addition
/// (plan::placed). While a member is decided, its tokens are in the sequence.
namespace UNMASK_NAMESPACE::step {

/// The beam part.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& beam_of(const slot_memory<Policy>& m) {
  return m.policy->template part_at<detail::part_that<Policy, &part_traits::beams>>();
}

namespace beams {

/// Lane 0: writes tokens of a member into the sequence, or takes them out again.
UNMASK_HD inline void stand(const slot_arrays& m, const placement* placed, range which, bool in) {
  slot_state& s = *m.state;
  for (index_t k = which.first; k < which.last; ++k) {
    s.tokens[placed[k].position] = in ? placed[k].token : s.model.mask_token;
    m.marks[placed[k].position] = in ? mark::committed : mark::masked;
  }
  s.view.masked_count += in ? -which.size() : which.size();
  masked_blocks(m, m.status->next);
}

/// Number of tokens that a state has in addition to the sequence.
[[nodiscard]] UNMASK_HD inline index_t size_of(const slot_arrays& m, const beam_successor& to) {
  return m.status->next.placed(to.member).size() + (to.adds(m) ? 1 : 0);
}

/// Token k of those.
[[nodiscard]] UNMASK_HD inline const placement&
token_of(const slot_arrays& m, const beam_successor& to, index_t k) {
  const range placed = m.status->next.placed(to.member);
  return k < placed.size() ? m.status->next.branch[placed.first + k] : to.next;
}

/// True if a state has a token.
[[nodiscard]] UNMASK_HD inline bool
has(const slot_arrays& m, const beam_successor& to, const placement& p) {
  const index_t size = size_of(m, to);
  for (index_t k = 0; k < size; ++k) {
    const placement& own = token_of(m, to, k);
    if (own.position == p.position && own.token == p.token) {
      return true;
    }
  }
  return false;
}

/// True if two states have the same tokens. Of two whole steps that is not known.
[[nodiscard]] UNMASK_HD inline bool
are_same(const slot_arrays& m, const beam_successor& a, const beam_successor& b) {
  const index_t size = size_of(m, a);
  bool are = !a.is_whole() && !b.is_whole() && size == size_of(m, b);
  for (index_t k = 0; are && k < size; ++k) {
    are = has(m, b, token_of(m, a, k));
  }
  return are;
}

/// Lane 0: adds a state to the best ones, at most `width`.
UNMASK_HD inline void offer(const slot_arrays& m, const beam_successor& to, index_t width) {
  beam_state& beam = *m.beam;
  beam.is_whole = beam.is_whole || to.is_whole();
  for (index_t k = 0; k < beam.count; ++k) {
    if (are_same(m, beam.best[k], to)) {
      if (!(to.score > beam.best[k].score)) {
        return;
      }
      for (--beam.count; k < beam.count; ++k) {
        beam.best[k] = beam.best[k + 1];
      }
    }
  }
  index_t at = beam.count;
  while (at > 0 && to.score > beam.best[at - 1].score) {
    --at;
  }
  beam.count = math::min(beam.count + 1, width);
  for (index_t k = beam.count - 1; k > at; --k) {
    beam.best[k] = beam.best[k - 1];
  }
  if (at < width) {
    beam.best[at] = to;
  }
}

/// Lane 0: offers the states that member b leads to, of `count` candidates in rank order.
template <class Policy>
UNMASK_HD void offer_successors(const slot_memory<Policy>& m, index_t b, index_t count) {
  const auto& part = beam_of(m);
  constexpr statistics seen = std::remove_cvref_t<decltype(part)>::required;
  const index_t width = math::min(part.width, 1 + max_branches);
  const range scored = m.status->next.score;
  const auto score_at = [&](index_t r) {
    return part.score_of(candidate_at(m, key_index(m.keys[r])).template as<seen>());
  };
  beam_successor whole{.member = b, .score = m.beam->scores[b]};
  bool is_whole = false;
  for (index_t r = 0; r < count; ++r) {
    if (is_accepted(m.roles[key_index(m.keys[r])])) {
      is_whole = true;
      whole.score += score_at(r);
    }
  }
  for (index_t i = 0; count == 0 && i < scored.size(); ++i) {
    is_whole = is_whole || m.roles[i] != role::inactive;  // an invalid row, or an excluded token
  }
  if (is_whole) {
    offer(m, whole, width);
    return;
  }
  for (index_t r = 0; r < math::min(width, count); ++r) {
    const index_t i = key_index(m.keys[r]);
    if (r == 0 || m.roles[i] == role::candidate) {
      const auto c = candidate_at(m, i);
      offer(m,
            {.member = b,
             .next = {c.position, phase::proposal(m, i), 0.0F, log_probability_of(c)},
             .score = m.beam->scores[b] + score_at(r)},
            width);
    }
  }
}

/// Lane 0: commits tokens, ascending, and reports them.
template <class Policy>
UNMASK_HD void commit_tokens(const slot_memory<Policy>& m, placement* placed, index_t count) {
  for (index_t k = 0; k < count; ++k) {
    for (index_t j = k; j > 0 && placed[j - 1].position > placed[j].position; --j) {
      const placement left = placed[j - 1];
      placed[j - 1] = placed[j];
      placed[j] = left;
    }
  }
  sequence_report& report = m.status->report;
  for (index_t k = 0; k < count; ++k) {
    commit_token(m, placed[k].position, placed[k].token, placed[k].log_probability);
    if (m.traced != nullptr) {
      m.traced[report.last_candidates++] =
          phase::branch_entry(m, m.entries[report.last_commits - 1]);
    }
  }
}

/// Lane 0: makes the `members` best states the members of the next pass: commits what all of them
/// have. Returns false if their other tokens are more than a pass can place.
template <class Policy>
[[nodiscard]] UNMASK_HD bool spread(const slot_memory<Policy>& m, index_t members) {
  beam_state& beam = *m.beam;
  const auto is_common = [&](const placement& p) {
    index_t j = 0;
    while (j < members && has(m, beam.best[j], p)) {
      ++j;
    }
    return j == members;
  };
  index_t placed = 0;
  for (index_t j = 0; j < members; ++j) {
    for (index_t k = 0; k < size_of(m, beam.best[j]); ++k) {
      const placement& p = token_of(m, beam.best[j], k);
      if (!is_common(p)) {
        if (placed == max_placed) {
          return false;
        }
        beam.placed[placed++] = p;
      }
    }
    beam.placed_last[j] = static_cast<unsigned char>(placed);
    beam.scores[j] = beam.best[j].score;
  }
  placement common[1 + max_placed];
  index_t count = 0;
  for (index_t k = 0; k < size_of(m, beam.best[0]); ++k) {
    const placement& p = token_of(m, beam.best[0], k);
    if (is_common(p)) {
      common[count++] = p;
    }
  }
  commit_tokens(m, common, count);
  m.state->view.new_commits = count;
  return true;
}

/// Lane 0: continues with one member, whose tokens it commits and sets aside: its step is decided
/// next.
template <class Policy>
UNMASK_HD void go_on_with(const slot_memory<Policy>& m, index_t member) {
  const plan& now = m.status->next;
  const range placed = now.placed(member);
  placement own[max_placed];
  for (index_t k = placed.first; k < placed.last; ++k) {
    own[k - placed.first] = now.branch[k];
  }
  commit_tokens(m, own, placed.size());
  masked_blocks(m, now);
  set_aside(m);
  m.status->report.last_commits = 0;
  m.status->report.last_candidates = 0;
  m.state->winner = member;
  m.beam->scores[0] = 0.0F;
}

/// Lane 0: selects the states that continue.
template <class Policy>
UNMASK_HD void select(const slot_memory<Policy>& m) {
  beam_state& beam = *m.beam;
  const beam_successor& best = beam.best[0];
  const bool is_last =
      beam.count > 0 && size_of(m, best) == m.state->view.masked_count;  // nothing is masked then
  beam.members = beam.is_whole || is_last ? 1 : beam.count;
  while (beam.members > 1 && !spread(m, beam.members)) {
    --beam.members;
  }
  m.state->winner = 0;
  if (beam.members <= 1) {
    go_on_with(m, beam.count > 0 ? best.member : 0);
  }
}

}  // namespace beams

namespace phase {

/// Lane 0: writes the tokens of the best of several members into the sequence for the schedule, or
/// takes them out again.
template <class Policy>
UNMASK_HD void stand_best(const slot_memory<Policy>& m, bool in) {
  if (m.beam->members > 1) {
    beams::stand(m, m.beam->placed, {0, m.beam->placed_last[0]}, in);
  }
}

/// Lane 0: places the tokens of several members in the next pass.
template <class Policy>
UNMASK_HD void place_members(const slot_memory<Policy>& m, plan& next) {
  if (m.beam->members <= 1) {
    return;
  }
  const beam_state& beam = *m.beam;
  next.kind = pass_kind::beam;
  next.branches = beam.members - 1;
  for (index_t k = 0; k < max_placed; ++k) {
    next.branch[k] = beam.placed[k];
  }
  for (index_t b = 0; b < beam.members; ++b) {
    next.placed_last[b] = beam.placed_last[b];
    next.branch_last[b] = next.score.last;
  }
  next.freeze.last = math::min(next.freeze.last, m.state->view.committed_prefix);
}

/// Lane 0: ends a beam with its best member, whose tokens it commits, at the end of the sequence.
template <class Policy>
UNMASK_HD void end_beam(const slot_memory<Policy>& m) {
  if (m.beam->members > 1) {
    beam_state& beam = *m.beam;
    sequence_view& q = m.state->view;
    --q.step;
    set_aside(m);
    m.status->report.last_commits = 0;
    m.status->report.last_candidates = 0;
    beams::commit_tokens(m, beam.placed, beam.placed_last[0]);
    q.new_commits += m.status->report.last_commits;
    put_back(m);
    close_view(m);
    ++q.step;
    beam.members = 1;
  }
}

}  // namespace phase

}  // namespace unmask::step
