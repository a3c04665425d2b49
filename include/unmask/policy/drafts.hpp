// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/branches.hpp>
#include <unmask/core/part/knob.hpp>

namespace UNMASK_NAMESPACE {

/// Drafts: several steps from one forward pass, with the tokens of one step a pass.
///
/// After a step, the best-ranked candidates that it did not commit become up to `branches` drafts:
/// draft 1 is the sequence with the best `tokens` of them placed, draft j the one before it with
/// the next `tokens`. The next pass runs the sequence and its drafts, in one batch. The step is
/// decided from the rows of the sequence itself; if its commits lead to the state of a draft, that
/// state has been run, and the next step is decided at once from its rows. This repeats until a
/// step leads to a state that is not a draft.
///
/// Every step is the one that a decode without drafts takes: the tokens are the same, whatever the
/// model, the ranking, the commit rule, the schedule and the cache, and the passes never more.
/// (With a part that reads the text, such as repetition_penalty, sums are rounded otherwise.) A
/// draft that would complete the scored range is not run, because it leaves nothing to decide.
/// `max_steps` and rules that count steps count those, not passes; reports count passes.
///
/// `tokens` is best the number that the commit rule commits in a step, and 1 for rules that commit
/// what is certain: drafts of another size are rarely reached. A pass runs up to 1 + branches
/// sequences, so drafts pay where a pass of several costs little more than one of one.
///
/// With `partial` a step commits no more than the largest draft that it would commit completely,
/// and the next step is decided from the rows of that draft: the rule of the release for rules that
/// commit several tokens. The tokens may then be others than without drafts.
///
/// Range: branches in [0, session_capacity::branches]; tokens in [1, 16]. The drafts of a pass have
/// 32 tokens together at most; those that would have more are not run.
/// Ties: as the ranking. A candidate that a part ranks last or rejects is not drafted.
/// State: 3 KB a slot. Cost: O(scored positions) a step, and the decisions of the steps. Does not
/// combine with parts that rewrite committed tokens, draw tokens, store tokens between steps
/// (trace_credit) or skip positions at layers, with constraints, nor with lookahead.
/// Example: `tokens_per_step + drafts(1)`, rows a90 b80 c70: `a__` `abc`.
/// Source: S. Wu and J. Zhang, Free Draft-and-Verification: toward lossless parallel decoding for
/// diffusion large language models (2025), its generation and verification of candidates. Its
/// draft_steps counts the first draft, which needs no check and is the sequence itself here:
/// draft_steps = branches + 1. Its code runs a pass for a first draft that completes the block; is
/// `partial` with full attention; and reads and drafts blocks ahead (`eager`). S. Agrawal et al.,
/// Spiffy (2025), adds drafts that form a graph, whose shape is calibrated beforehand, where these
/// are a chain; S. Sun et al., PSD (2026), adds drafts of several depths made by the commit rule,
/// and keeps the deepest that agrees, which is another decode. Neither is here.
struct drafts {
  index_t branches = 3;
  index_t tokens = 1;
  bool partial = false;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "drafts", "runs states that later steps may reach, and decides several steps from one pass"};
  static constexpr knob<drafts> knobs[] = {{"branches", &drafts::branches, within(0, max_branches)},
                                           {"tokens", &drafts::tokens, within(1, max_branches)},
                                           {"partial", &drafts::partial}};

  /// False with 0 branches.
  [[nodiscard]] UNMASK_HD bool branches_now() const { return branches > 0; }
};
static_assert(drafting<drafts> && !branching<drafts>);

}  // namespace unmask
