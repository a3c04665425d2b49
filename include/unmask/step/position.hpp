// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/call.hpp>

/// Helpers shared by the phases of a step: a position as given to the parts, and the writing of a
/// token.
namespace UNMASK_NAMESPACE::step {

/// The active block with which a position is decided: its own, or the first active one for a
/// position that an earlier block left masked, or the last one for a position that is read ahead.
[[nodiscard]] UNMASK_HD inline index_t
block_of(const sequence_view& q, const plan& now, index_t position) {
  // Usually there is only one block, and the division is the most expensive operation.
  return now.last_block - now.first_block == 1
             ? now.first_block
             : math::min(math::max(q.block_of(position), now.first_block), now.last_block - 1);
}

/// The step as given to the parts outside any block.
[[nodiscard]] UNMASK_HD inline step_info info_of(const slot_state& s) {
  step_info at;
  at.seed = s.geometry.seed;
  at.sequence = s.geometry.sequence;
  at.step = s.view.step;
  at.view = &s.view;
  return at;
}

/// The step and block of a decision about a scored position.
[[nodiscard]] UNMASK_HD inline step_info
info_of(const slot_state& s, const plan& now, index_t position) {
  step_info at = info_of(s);
  at.position = position;
  at.block_index = block_of(s.view, now, position);
  const index_t cell = at.block_index & (max_active_blocks - 1);
  at.block_step = s.view.step - s.block_step[cell];
  at.block_masked_at_first = s.block_masked_at_first[cell];
  at.block_masked = s.block_masked[cell];
  at.block_length = s.view.block(at.block_index).size();
  return at;
}

/// Lane 0: stores the step in which the blocks of a plan are first scored, and their masked
/// positions.
UNMASK_HD inline void masked_blocks(const slot_arrays& m, const plan& next) {
  slot_state& s = *m.state;
  for (index_t b = next.first_block; b < next.last_block; ++b) {
    const index_t cell = b % max_active_blocks;
    s.block_masked[cell] = s.view.masked_in(s.view.block(b));
    if (b >= s.blocks_seen) {
      s.block_step[cell] = s.view.step;
      s.block_masked_at_first[cell] = s.block_masked[cell];
      if (m.drafts != nullptr) {
        m.drafts->spared_before[cell] = m.drafts->spared;
      }
    }
  }
  s.blocks_seen = math::max(s.blocks_seen, next.last_block);
}

/// The worst possible record: the same token with confidence 0, margin 0 and infinite entropy.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> worst_record(record<S> row) {
  if constexpr (provides_v<S, stat::confidence>) {
    row.rest = math::infinity();
  }
  if constexpr (provides_v<S, stat::entropy>) {
    row.weighted = 0.0F;
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    row.square = 0.0F;
  }
  if constexpr (provides_v<S, stat::truncated>) {
    static_cast<field::truncated&>(row) = {};
  }
  return row;
}

/// True if a part names the tokens that are drawn.
template <class Policy>
inline constexpr bool forces_tokens = [] {
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::draws>;
  if constexpr (I < Policy::part_total) {
    return forcing<typename Policy::template part_type<I>>;
  } else {
    return false;
  }
}();

/// The token that a part names for scored position i; no_token if it names none.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id forced_token(const slot_memory<Policy>& m, index_t i) {
  if constexpr (forces_tokens<Policy>) {
    const auto& part = m.policy->template part_at<detail::part_that<Policy, &part_traits::draws>>();
    return part.forced_token(info_of(*m.state, m.status->next, m.status->next.score.first + i));
  } else {
    static_cast<void>(m);
    static_cast<void>(i);
    return no_token;
  }
}

/// The candidate at scored position i, in the branch with which the step continues.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate<Policy::required> candidate_at(const slot_memory<Policy>& m,
                                                                 index_t i) {
  const index_t position = m.status->next.score.first + i;
  const token_id current = m.state->tokens[position];
  if constexpr (forces_tokens<Policy>) {
    const token_id forced = forced_token(m, i);
    if (forced != no_token) {
      auto c = candidate<Policy::required>::of(m.row(i), position, current);
      if (c.token != forced) {  // the row excludes it
        c.token = forced;
        c.logit = -math::infinity();
      }
      return c;
    }
  }
  if constexpr (filters_any<Policy>) {
    if (m.roles[i] == role::ranked_last) {
      return candidate<Policy::required>::of(worst_record(m.row(i)), position, current);
    }
  }
  return candidate<Policy::required>::of(m.row(i), position, current);
}

/// The candidate at scored position i as a neighbour: an invalid record if there is none.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate<Policy::required> neighbour_at(const slot_memory<Policy>& m,
                                                                 index_t i) {
  const range scored = m.status->next.score;
  const bool is_there =
      i >= 0 && i < scored.size() && m.marks[scored.first + i] == mark::masked && m.reads(i);
  const record<Policy::required> row = is_there ? m.row(i) : record<Policy::required>::empty();
  return candidate<Policy::required>::of(row, scored.first + i, no_token);
}

/// Result of the parts' filter() for the candidate at scored position i.
template <class Policy>
[[nodiscard]] UNMASK_HD decided<filter_result>
filter_at(const slot_memory<Policy>& m, index_t i, const step_info& at) {
  if constexpr (filters_any<Policy>) {
    if (filters_now(m)) {
      const neighbours<Policy::required> beside{neighbour_at(m, i - 1), neighbour_at(m, i + 1)};
      return filter_between(m, candidate_at(m, i), beside, at);
    }
  }
  return {filter_result::keep, -1};
}

/// True if a candidate without neighbours would be ranked last, rejected or excluded.
template <class Policy>
[[nodiscard]] UNMASK_HD bool is_ranked_last(const slot_memory<Policy>& m,
                                            const candidate<Policy::required>& c) {
  if constexpr (filters_any<Policy>) {
    if (filters_now(m)) {
      const auto no_neighbour =
          candidate<Policy::required>::of(record<Policy::required>::empty(), -1, no_token);
      const step_info at = info_of(*m.state, m.status->next, c.position);
      return filter_between(m, c, {no_neighbour, no_neighbour}, at).result != filter_result::keep;
    }
  }
  return false;
}

/// The logits transforms of a policy as one function of a logit, in written order.
template <class Policy>
struct policy_transform {
  const Policy* parts;
  step_info at;
  [[nodiscard]] UNMASK_HD float operator()(float logit, token_id token) const {
    return apply<0>(logit, token);
  }

 private:
  template <std::size_t I>
  [[nodiscard]] UNMASK_HD float apply(float logit, token_id token) const {
    if constexpr (I == Policy::part_total) {
      return logit;
    } else {
      using part_type = typename Policy::template part_type<I>;
      if constexpr (requires(const part_type& p) { p.transform(logit, token, at); }) {
        return apply<I + 1>(parts->template part_at<I>().transform(logit, token, at), token);
      } else if constexpr (logits_transform<part_type>) {
        return apply<I + 1>(parts->template part_at<I>().transform(logit, token), token);
      } else {
        return apply<I + 1>(logit, token);
      }
    }
  }
};

/// The only logits transform of a policy, as a type independent of the policy: kernels that read
/// rows are compiled once for all policies with that transform and the same statistics.
template <class Edit>
struct part_transform {
  Edit part;
  step_info at;
  [[nodiscard]] UNMASK_HD float operator()(float logit, token_id token) const {
    if constexpr (requires { part.transform(logit, token, at); }) {
      return part.transform(logit, token, at);
    } else {
      return part.transform(logit, token);
    }
  }
};

/// The first part with a logits transform.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& first_transform(const Policy& p) {
  return p.template part_at<detail::part_that<Policy, &part_traits::transforms>>();
}

/// The logits transforms of the slot's policy as a functor for the kernel that reads its rows;
/// identity without any.
template <class Policy>
[[nodiscard]] UNMASK_HD auto transform_of(const slot_memory<Policy>& m) {
  if constexpr (stages<Policy>::edits == 1) {
    const auto& part = first_transform(*m.policy);
    return part_transform<std::remove_cvref_t<decltype(part)>>{part, info_of(*m.state)};
  } else if constexpr (stages<Policy>::edits > 1) {
    return policy_transform<Policy>{m.policy, info_of(*m.state)};
  } else {
    static_cast<void>(m);
    return identity{};
  }
}

/// Inputs of the draw of a scored position's token, in one branch.
template <class Policy>
[[nodiscard]] UNMASK_HD draw_request draw_of(const slot_memory<Policy>& m, index_t i) {
  draw_request draw;
  if constexpr (Policy::required.contains(stat::sampled)) {
    const slot_state& s = *m.state;
    draw.key = {
        s.geometry.seed, s.geometry.sequence, s.view.step, m.status->next.score.first + i, 0};
    draw.temperature = draw_temperature(*m.policy);
    draw.forced = forced_token(m, i);
  }
  return draw;
}

/// The lowest of the tokens `columns` that may be proposed at a position: not suppressed, allowed
/// by all parts and by `allowed`, the row's bitmask (row_modifiers); null allows everything.
/// no_token if there is none. Cost: O(columns) in the worst case.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id lowest_allowed(const slot_memory<Policy>& m,
                                                index_t position,
                                                range columns,
                                                const std::uint32_t* allowed) {
  const step_info at = info_of(*m.state, m.status->next, position);
  for (token_id v = columns.first; v < columns.last; ++v) {
    const std::uint32_t rest = allowed == nullptr ? 1U : allowed[v / 32] >> v % 32;
    if (rest == 0) {
      v |= 31;  // no bit of this word is left
    } else if ((rest & 1U) != 0 && find_token(m.suppressed, m.state->suppressed_count, v) < 0 &&
               allows(*m.policy, v, at)) {
      return v;
    }
  }
  return no_token;
}

/// Writes lowest_allowed() into the record of `columns` without a finite logit. Merges of records
/// keep the lowest of such tokens.
template <class Policy>
UNMASK_HD void name_token(const slot_memory<Policy>& m,
                          index_t position,
                          range columns,
                          const std::uint32_t* allowed,
                          record<Policy::required>& row) {
  if (row.token == no_token) {
    row.token = lowest_allowed(m, position, columns, allowed);
  }
}

/// Writes the lowest tracked token among `columns` that may be proposed at scored position i behind
/// the tracked logits `logits`, as bits; -inf if there is none. The row commits it if the parts
/// exclude all untracked tokens and no finite logit is left: only the read has the bitmask. When
/// the logits of ranks are merged, so are these: that of the lower columns wins.
template <class Policy>
UNMASK_HD void name_listed(const slot_memory<Policy>& m,
                           index_t i,
                           range columns,
                           const std::uint32_t* allowed,
                           float* logits) {
  if constexpr (stages<Policy>::restricts > 0) {
    const index_t count = m.tracked_count[i];
    float name = -math::infinity();
    for (index_t k = 0; k < count && !math::is_finite(name); ++k) {
      const token_id v = m.tracked_of(i)[k];
      if (columns.contains(v)) {
        const index_t position = m.status->next.score.first + i;
        const token_id found = lowest_allowed(m, position, {v, v + 1}, allowed);
        name = found == no_token ? name : math::from_bits(static_cast<std::uint32_t>(v));
      }
    }
    logits[count] = name;
  } else {
    static_cast<void>(m);
    static_cast<void>(i);
    static_cast<void>(columns);
    static_cast<void>(allowed);
    static_cast<void>(logits);
  }
}

/// The token that name_listed() wrote for scored position i of the branch with which the step
/// continues, or no_token.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id listed_name(const slot_memory<Policy>& m, index_t i) {
  if constexpr (stages<Policy>::restricts > 0) {
    index_t branch = 0;
    if constexpr (Policy::branches) {
      branch = m.state->winner;
    }
    const tracked_logits w = m.kept_apart(branch, i);
    const float name = w.logits[w.count];
    return name == -math::infinity() ? no_token : static_cast<token_id>(math::bits_of(name));
  } else {
    static_cast<void>(m);
    static_cast<void>(i);
    return no_token;
  }
}

/// The log-probability of a token in reports: -inf if its row was invalid.
template <statistics S>
[[nodiscard]] UNMASK_HD float log_probability_of(const candidate<S>& c) {
  return c.valid() ? c.log_probability() : -math::infinity();
}

/// The report entry of a token at a scored position.
[[nodiscard]] UNMASK_HD inline commit_entry entry_of(
    const slot_arrays& m, index_t position, token_id token, float log_probability, index_t rank) {
  const step_info at = info_of(*m.state, m.status->next, position);
  return {m.slot,
          position,
          token,
          log_probability,
          at.step - m.spared(),
          at.block_index,
          at.block_step - m.spared_in(at.block_index),
          rank};
}

/// Lane 0: writes a token to a masked position, and reports it.
template <class Policy>
UNMASK_HD void commit_token(const slot_memory<Policy>& m,
                            index_t position,
                            token_id token,
                            float log_probability) {
  m.entries[m.status->report.last_commits++] = entry_of(m, position, token, log_probability, -1);
  m.state->tokens[position] = token;
  m.marks[position] = mark::committed;
  m.reset(m.cell_of(position));
  --m.state->view.masked_count;
  ++m.state->view.changed;
  m.state->view.first_changed = math::min(m.state->view.first_changed, position);
  ++m.status->report.committed;
}

/// Lane 0: completes the view of the step that ends.
UNMASK_HD inline void close_view(const slot_arrays& m) {
  sequence_view& q = m.state->view;
  const plan& now = m.status->next;
  const index_t end = now.drafts ? now.score.first : q.length;
  q.committed_prefix = q.first_masked_in({math::min(q.committed_prefix, end), end});
  q.commit_count = m.status->report.last_commits;
  if (q.commit_count > 0) {
    q.latest = m.entries[q.commit_count - 1].position;
  }
  m.state->reached = math::max(m.state->reached, m.status->next.query.last);
}

}  // namespace unmask::step
