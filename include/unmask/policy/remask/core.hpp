// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// Divides the tokens of a block evenly among `steps` steps, as steps_per_block does, and asks the
/// model now and then for the committed tokens that it is least sure of, without showing them.
///
/// In the steps i = floor(steps / 4), ..., floor(3 steps / 4) - 1 that are multiples of `every`,
/// the `candidates` committed tokens of the smallest margin in the step's rows, none of them at the
/// last `tail` positions of the block, are hidden in one more pass, and so are those that the step
/// commits. Where the row of a position then proposes another token with a confidence of 0.3 or
/// more, that token replaces it: at most `count` tokens of a step, no more than the step commits,
/// the least probable present token first. With `redecide`, a step that has replaced some decides
/// its commits again, in a pass with the new ones in place.
///
/// Combines with any ranking; the release ranks by confidence or by margin.
/// Range: steps >= 1; every >= 0, 0 replaces nothing; candidates >= 0; count >= 0;
/// tail >= 0.
/// Ties: the lower position first. A row of NaN keeps its token.
/// State: 8 bytes a position of the window.
/// Cost: reads the rows of committed positions in each step; one pass more in the steps above, with
/// `redecide` up to two.
/// Example: `core(4, every=1, candidates=1, tail=0)`, rows a90 b80 c70 d60, then a60 b80 c70 d60,
/// then e90 b80 c70 d60: `a___` `____` `eb__` `e___` `ebc_` `ebcd`.
/// Source: Y. Zhai et al., CORE: context-robust remasking for diffusion language models (2026), as
/// its released code does it: a token that is remasked gets another one in the same step.
struct core {
  index_t steps = 32;
  index_t every = 8;
  index_t candidates = 32;
  index_t count = 1;
  bool redecide = false;
  index_t tail = 16;

  static constexpr statistics required = stat::confidence | stat::margin;
  static constexpr bool counts_steps = true;
  static constexpr bool tracks_current = true;
  static constexpr part_label label{
      "core", "asks for the least certain committed tokens without them, and replaces some"};
  static constexpr knob<core> knobs[] = {{"steps", &core::steps, at_least(1)},
                                         {"every", &core::every, at_least(0)},
                                         {"candidates", &core::candidates, at_least(0)},
                                         {"count", &core::count, at_least(0)},
                                         {"redecide", &core::redecide},
                                         {"tail", &core::tail, at_least(0)}};

  [[nodiscard]] UNMASK_HD bool reconsiders_now() const { return every > 0; }
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return every > 0; }
  [[nodiscard]] UNMASK_HD bool redecides() const { return redecide; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_checks(const sequence_shape& g) const {
    const std::int64_t checks = every > 0 ? first_after() / every - first() / every + 1 : 0;
    return detail::blocks_of(g) * checks * (redecide ? 2 : 1);
  }

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    return s.rank < quota(context.at);
  }

  [[nodiscard]] UNMASK_HD index_t hide_count(const auto& context) const {
    const index_t i = context.at.block_step;
    return every > 0 && i % every == 0 && first() <= i && i < first_after() ? candidates : 0;
  }
  UNMASK_HD float hide_score(const auto& c, const auto& context) const {
    const index_t last = context.at.view->block(context.at.block_index).last;
    return c.position < last - tail ? c.margin() : math::from_bits(0x7fc00000U);
  }
  [[nodiscard]] UNMASK_HD index_t reconsider_count(const auto& context) const {
    return math::min(count, quota(context.at));
  }
  UNMASK_HD float reconsider_score(const auto& c, const auto& context) const {
    const bool differs = c.token != c.current && c.confidence() >= 0.3F;
    return differs ? context.at.current_probability : math::from_bits(0x7fc00000U);
  }

 private:
  // Steps of a block in which tokens may be replaced: from the first to one before the second.
  [[nodiscard]] UNMASK_HD std::int64_t first() const { return steps / 4; }
  [[nodiscard]] UNMASK_HD std::int64_t first_after() const { return std::int64_t{3} * steps / 4; }
  // Tokens that a step commits.
  [[nodiscard]] UNMASK_HD index_t quota(const step_info& at) const {
    const index_t n = at.block_masked_at_first;
    return at.block_step >= steps ? 0 : n / steps + (at.block_step < n % steps ? 1 : 0);
  }
};
static_assert(commit_rule<core> && reconsidering<core>);

}  // namespace unmask
