// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/cache/cache.hpp>

namespace UNMASK_NAMESPACE {

/// prefix_cache that does without the far end of the answer: nothing further than `window`
/// positions behind the block is run or attended to. What the blocks to come look like from afar is
/// mostly masks.
///
/// The first pass of each block and, with `period` > 0, every period-th after it run everything up
/// to there; the others from the block on. A position is first run when the window reaches it. 0
/// ends passes with the block, and a window of the whole answer is prefix_cache. 8 bytes a
/// sequence. Range window >= 0, period >= 0.
///
/// Source: X. Chen et al., DPad: efficient diffusion language models with suffix dropout (2025),
/// its sliding window. Its other half, the dropout of single positions in the window that grows
/// with their distance, is not part of it, and neither window nor default is the paper's: it tunes
/// the window for each task.
struct suffix_window {
  index_t window = 128;
  index_t period = 0;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "suffix_window", "suffix_window", "prefix_cache, and nothing far behind the block is run"};
  static constexpr knob<suffix_window> knobs[] = {
      {"window", &suffix_window::window, at_least(0)},
      {"period", &suffix_window::period, at_least(0)}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    prefix_cache{period}.feed(q, next, own);
    const index_t end = detail::active_blocks(q, next).last;
    const index_t last = window < q.length - end ? end + window : q.length;
    next.attend.last = math::min(next.attend.last, last);
    next.feed.last = math::min(next.feed.last, last);
  }
};
static_assert(caching<suffix_window>);

}  // namespace unmask
