// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/cache/cache.hpp>

namespace UNMASK_NAMESPACE {

/// A prefix_cache without the far end of the answer: positions more than `window` past the block
/// are neither computed nor attended to. Far from the block these are mostly masks.
///
/// The first pass of each block and, with `period` > 0, every period-th after it compute everything
/// up to the end of the window; the others everything from the block to there. A position is first
/// computed when the window reaches it. With window 0 passes end with the block; a window of the
/// whole answer is prefix_cache.
///
/// Range: window >= 0, period >= 0.
/// State: 8 bytes a sequence.
/// Example: `tokens_per_step + suffix_window(1)`, prompt xy, rows a90 b80 c90 d80, blocks of 2:
/// runs 0-4 2-4 0-5 4-5.
/// Source: X. Chen et al., DPad: efficient diffusion language models with suffix dropout (2025),
/// its sliding window. Not included: its second half, the dropout of single positions in the
/// window, which grows with their distance. Window and default are this library's: the paper tunes
/// the window for each task.
struct suffix_window {
  index_t window = 128;
  index_t period = 0;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "suffix_window", "prefix_cache that runs at most window positions right of the block"};
  static constexpr knob<suffix_window> knobs[] = {{"window", &suffix_window::window, at_least(0)},
                                                  {"period", &suffix_window::period, at_least(0)}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    prefix_cache{period}.set_query(q, next, context);
    const index_t end = detail::active_blocks(q, next).last;
    const index_t last = window < q.length - end ? end + window : q.length;
    next.keys.last = math::min(next.keys.last, last);
    next.query.last = math::min(next.query.last, last);
  }
};
static_assert(caching<suffix_window>);

}  // namespace unmask
