// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

#include <span>

namespace UNMASK_NAMESPACE {

/// One sequence's, or one lookahead branch's, share of a forward pass.
struct segment {
  index_t slot = 0;
  /// 0 is the sequence itself. Branch b > 0 is the sequence with `placed` written at its position,
  /// in this forward pass only; it may be run in the same batch.
  index_t branch = 0;
  placement placed;
  /// Run these positions of the slot's tokens. An engine without a cache may run more of `attend`.
  range feed;
  /// Give back the logits of these positions' rows (a part of `feed`), in ascending order.
  range rows;
  /// Index of the first of them in the tensor given to supply().
  index_t first_row = 0;
  /// The positions that are run attend to these. `feed` is a part of it; the others keep the K/V of
  /// the pass that last ran them.
  range attend;
  /// Which of the keys outside the blocks decided about they attend to.
  eviction evict = eviction::none;
};

/// What the engine has to compute next. Valid until supply().
struct forward_request {
  std::span<const segment> segments;
  /// Rows of logits in all.
  index_t rows = 0;
};

}  // namespace unmask
