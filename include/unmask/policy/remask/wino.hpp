// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/part/rewriting.hpp>

namespace UNMASK_NAMESPACE {

/// Commits at a low threshold, then masks the tokens that a check rejects: candidates with a
/// confidence above `threshold` commit, and a committed token is masked again when a shadow, which
/// sees all of the text but this token, gives it a probability below `threshold_back`. A step
/// commits at most min(max(floor(0.7 m), 5), 20) of the m masked positions, the best-ranked. A step
/// that commits one token masks none; another one masks fewer than the step before it committed,
/// the least probable first. So a pass gains a token on average, and wino takes no additional ones.
/// Tokens are tested from the step after their commit until their block is complete.
///
/// Needs an engine with shadow attention (core/part/attention.hpp), and logits shift 0.
/// Range: threshold in [0, 1], strict; threshold_back at least 0, strict, 0 masks nothing.
/// Ties: the lower position is masked first. A row of NaN keeps its token. The release ranks in
/// double precision; confidences within 2^-23 of each other may be equal here, and then the lower
/// position commits.
/// Cost: an additional row for each committed position of the block, and a sort of the block in
/// each pass. No state.
/// Example: `wino(0.5)`, rows a90 b80 c40d30 d30c30, then a95 e70b20 c95 d95, then a95 e90 c95 d95:
/// `ab__` `a_cd` `aecd`.
/// Source: F. Hong et al., Wide-in, narrow-out: revokable decoding for efficient and effective
/// DLLMs (2025), as its released code does it; the limit on the commits of a step is of that code.
struct wino {
  float threshold = 0.6F;
  float threshold_back = 0.9F;

  static constexpr statistics required = stat::confidence;
  static constexpr attention_kind attention = attention_kind::shadow;
  static constexpr bool tracks_current = true;
  static constexpr part_label label{
      "wino", "tokens above threshold, masked again when a shadow finds them improbable"};
  static constexpr knob<wino> knobs[] = {{"threshold", &wino::threshold, within(0, 1)},
                                         {"threshold_back", &wino::threshold_back, at_least(0)}};

  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return threshold_back > 0.0F; }
  [[nodiscard]] UNMASK_HD bool shadows_now() const { return threshold_back > 0.0F; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_remasks(const sequence_shape&) const { return 0; }

  UNMASK_HD bool commits(const auto& c, const rank_info& s, const auto& context) const {
    const index_t share = context.at.block_masked / 10 * 7 + context.at.block_masked % 10 * 7 / 10;
    return c.confidence() > threshold &&
           s.rank < math::min(math::max(share, index_t{5}), index_t{20});
  }
  [[nodiscard]] UNMASK_HD index_t remask_count(const auto& context) const {
    return context.at.commits > 1 ? context.at.view->new_commits - 1 : 0;
  }
  /// NaN for a token that stays or that the step commits.
  UNMASK_HD float remask_score(const auto& c, const auto& context) const {
    const bool falls =
        !context.at.view->is_masked(c.position) && context.at.current_probability < threshold_back;
    return falls ? context.at.current_probability : math::from_bits(0x7fc00000U);
  }
};
static_assert(commit_rule<wino> && remasking_least<wino> && attending<wino>);

}  // namespace unmask
