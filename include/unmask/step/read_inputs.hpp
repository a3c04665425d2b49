// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/candidate.hpp>

/// Inputs of the read of a row: the transforms of its logits, the draw, and the tokens that may be
/// proposed.
namespace UNMASK_NAMESPACE::step {

/// Applies a part's transform.
template <class Part>
struct part_transform {
  Part part;
  [[nodiscard]] UNMASK_HD float operator()(float logit, token_id token) const {
    return part.transform(logit, token);
  }
};

/// The logits transform of a part as a function object. Those of a family's parts are factors, 1 if
/// none of them is chosen.
template <class Part>
[[nodiscard]] UNMASK_HD auto transform_of_part(const Part& part, const step_info& at) {
  if constexpr (is_family<Part>) {
    static_assert(Part::capacity == 1);
    logit_factor chosen;
    part.template each<&part_traits::transforms>(
        [&](const auto& value, index_t) { chosen = value.transform_at(at); });
    return chosen;
  } else if constexpr (requires { part.transform_at(at); }) {
    return part.transform_at(at);
  } else {
    return part_transform<Part>{part};
  }
}

/// The logits transforms of parts I and later of a policy, in written order; identity without any.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD auto transforms_from([[maybe_unused]] const Policy& p,
                                             [[maybe_unused]] const step_info& at) {
  if constexpr (I == Policy::part_total) {
    return identity{};
  } else if constexpr (!traits_of<typename Policy::template part_type<I>>.transforms) {
    return transforms_from<I + 1>(p, at);
  } else {
    const auto own = transform_of_part(p.template part_at<I>(), at);
    const auto others = transforms_from<I + 1>(p, at);
    if constexpr (std::is_same_v<decltype(others), const identity>) {
      return own;  // a type of the part alone: kernels are shared by policies with that transform
    } else {
      return transforms_in_turn{own, others};
    }
  }
}

/// The logits transforms of the slot's policy as a functor for the kernel that reads its rows.
template <class Policy>
[[nodiscard]] UNMASK_HD auto transform_of(const slot_memory<Policy>& m) {
  return transforms_from(*m.policy, info_of(*m.state));
}

/// Inputs of the draw of a scored position's token, in one branch.
template <class Policy>
[[nodiscard]] UNMASK_HD draw_request draw_of(const slot_memory<Policy>& m, index_t i) {
  draw_request draw;
  if constexpr (Policy::required.contains(stat::sampled)) {
    const slot_state& s = *m.state;
    draw.key = {
        s.geometry.seed, s.geometry.sequence, s.view.step, m.status->next.score.first + i, 0};
    draw.temperature = detail::draw_temperature(*m.policy);
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
    row.token = apart<Policy>([&] { return lowest_allowed(m, position, columns, allowed); });
  }
}

/// Writes the lowest tracked token among `columns` that may be proposed at scored position i after
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
    if (m.tracked_places() == 0) {
      return;  // no part restricts
    }
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
    if (w.logits == nullptr) {
      return no_token;
    }
    const float name = w.logits[w.count];
    return name == -math::infinity() ? no_token : static_cast<token_id>(math::bits_of(name));
  } else {
    static_cast<void>(m);
    static_cast<void>(i);
    return no_token;
  }
}

}  // namespace unmask::step
