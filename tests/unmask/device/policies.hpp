// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The policies that the kernels are tested with composed in C++; texts.hpp has those that are
/// tested by name, with every part.

#include <unmask/core/policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/presets/released/lopa.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/stop.hpp>

#include <type_traits>

#include "support/gated_parts.hpp"
#include "support/relative_change.hpp"
#include "support/stop_at_any_eos.hpp"
#include "support/three_hold.hpp"

namespace unmask::testing {

/// Decoded with constraints: candidates and edits pass their gate.
inline constexpr policy constrained{by_confidence{}, threshold{0.3F}, edit_committed{0.4F}};
inline constexpr policy sure_ones{by_confidence{}, threshold{0.3F}, stop_at_any_end{}};
inline constexpr policy in_steps{by_margin{}, steps_per_block{4}, temperature{0.7F}};
inline constexpr policy bounded{
    by_entropy{}, entropy_bound{0.4F} || tokens_per_step{1}, max_steps{9}};
inline constexpr policy credited{by_confidence{}, threshold{0.3F, true}, trace_credit<8>{}};
inline constexpr policy branching_out{by_confidence{},
                                      threshold{0.4F},
                                      lookahead{.branches = 2, .lowest_share = 0.5F},
                                      released::d2f_blocks{.add = 0.2F, .activate = 0.6F},
                                      stop_at_eos{}};
inline constexpr policy gated{by_confidence{},
                              calibrated_threshold<16>{.threshold = 0.3F},
                              takes_turns{},
                              odd_tokens{},
                              suffix_window{.window = 2}};
inline constexpr policy drawn{by_confidence{}, steps_per_block{4}, sampling{.temperature = 0.8F}};
inline constexpr policy drawn_edited{
    by_confidence{},
    tokens_per_step{2},
    sampling{.temperature = 0.9F},
    presence_frequency_penalty<4>{.presence = 0.4F, .frequency = 0.2F},
    trace_credit<4>{}};
inline constexpr policy patient{by_confidence{}, adaptive_threshold{.start = 0.4F, .raise = 0.3F}};
inline constexpr policy stable{by_confidence{},
                               stable_and_confident{.confidence = 0.2F, .divergence = 0.5F}};
inline constexpr policy rewriting{by_confidence{},
                                  threshold{0.3F},
                                  edit_committed{.threshold = 0.2F},
                                  edited_blocks{.most_edits = 2}};
inline constexpr policy redrawn{
    by_entropy{}, entropy_bound{0.5F}, canvas{.vocab = 7, .steps = 5, .certain = 0.1F}};

inline constexpr policy asking{by_confidence{},
                               tokens_per_step{2},
                               probability_of<3>{.tokens = {1, 3, 6}, .first = 1},
                               allowed_tokens<4>{.tokens = {1, 3, 4, 5}},
                               sampling{}};

inline constexpr policy of_kept_three{by_entropy{},
                                      three_hold{0.8F} || tokens_per_step{1},
                                      sampling{},
                                      top_k{.k = 5},
                                      confidence_after_truncation{}};

inline constexpr policy skipping_rows{by_confidence{},
                                      threshold{0.4F},
                                      early_skip{.floor = true, .cap = true, .confident = 0.3F},
                                      block_cache{.prompt_period = 5, .block_period = 3},
                                      trace_credit<4>{}};
inline constexpr policy changing_rows{by_margin{}, tokens_per_step{2}, relative_change{}};

/// One of them as a type, for typed tests.
template <const auto& P>
struct with {
  using policy_type = std::remove_cvref_t<decltype(P)>;
  [[nodiscard]] static const policy_type& value() { return P; }
};

/// A list of them.
template <class... Cases>
struct policy_list {};

/// Those that parity suite and block emulator decode composed, too.
/// sure_ones and of_kept_three have parts that no text names, the second the statistics of a
/// truncated row; a session test has the kernels of credited. gated has parts of the tests, and a
/// rule whose text would need a file; branching_out plans each branch, which may end before the
/// others, and has the memory of branches as a constant of the type, as stable has that of previous
/// rows.
using composed = policy_list<with<sure_ones>,
                             with<of_kept_three>,
                             with<credited>,
                             with<branching_out>,
                             with<gated>,
                             with<stable>>;

/// Calls use(policy) for each of a list.
template <class... Cases>
void for_each_of(policy_list<Cases...>, const auto& use) {
  (use(Cases::value()), ...);
}

}  // namespace unmask::testing
