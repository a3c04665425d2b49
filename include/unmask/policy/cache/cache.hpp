// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/layer.hpp>

/// Caches: which positions a forward pass runs; the others keep the K/V of the pass that last ran
/// them. A policy has at most one, beside any other parts. The first pass of a sequence runs
/// everything; where an engine keeps no K/V, everything may be run always.
///
/// "Refresh" passes compute what they run at every layer; in others a layer rule of the policy,
/// such as early_skip, may skip.
namespace UNMASK_NAMESPACE {

namespace detail {

/// The blocks decided about, from the first to the last.
[[nodiscard]] UNMASK_HD inline range active_blocks(const sequence_view& q, const plan& next) {
  return {q.block(next.first_block).first, q.block(next.last_block - 1).last};
}

/// Passes since the first of the active blocks became that; 0 in its first pass.
struct block_clock {
  index_t block = -1;
  index_t opened = 0;

  UNMASK_HD index_t read(const sequence_view& q, const plan& next) {
    if (block != next.first_block) {
      block = next.first_block;
      opened = q.step;
    }
    return q.step - opened;
  }
};

UNMASK_HD inline bool every(index_t period, index_t count) {
  return period > 0 && count % period == 0;
}

}  // namespace detail

/// Runs everything in the first pass of each block and, with `period` > 0, in every period-th after
/// it; in the others everything from the block on. Range period >= 0. 8 bytes a sequence.
///
/// Source: C. Wu et al., Fast-dLLM (2025), its prefix cache; the period is that of dInfer (2025).
struct prefix_cache {
  index_t period = 0;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "prefix_cache", "prefix_cache", "K/V left of the block are kept"};
  static constexpr knob<prefix_cache> knobs[] = {{"period", &prefix_cache::period, at_least(0)}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    const index_t count = own.sequence.read(q, next);
    next.refresh = count == 0 || detail::every(period, count);
    if (!next.refresh) {
      next.feed.first = detail::active_blocks(q, next).first;
    }
  }
};
static_assert(caching<prefix_cache>);

/// The same, but the passes between run the block alone: K/V on both sides of it are reused. The
/// first `whole` passes of a block run everything. Range period >= 0, whole >= 1. Source: C. Wu et
/// al., Fast-dLLM (2025), its DualCache; Sparse-dLLM (2025) runs two passes whole.
struct dual_cache {
  index_t period = 0;
  index_t whole = 1;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "dual_cache", "dual_cache", "K/V on both sides of the block are kept"};
  static constexpr knob<dual_cache> knobs[] = {
      {"period", &dual_cache::period, at_least(0)},
      {"whole", &dual_cache::whole, at_least(1)}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    const index_t count = own.sequence.read(q, next);
    next.refresh = count < whole || detail::every(period, count);
    if (!next.refresh) {
      next.feed = detail::active_blocks(q, next);
    }
  }
};
static_assert(caching<dual_cache>);

/// Runs the block alone; every `prompt_period`-th pass everything left of it, too. Passes whose
/// number divides by either period refresh. What is right of the block is run in the first pass
/// only.
///
/// With `reaches_back` the first pass of a block starts at the leftmost position that the last step
/// wrote, so that its K/V are of the token and not of the mask. With `aligned` block b counts its
/// passes from b * block_length, as if each block had taken one pass a position. Period 0: never.
///
/// Range: periods >= 0. 8 bytes a sequence. Source: Z. Zhu et al., ES-dLLM (2026), section 5.2 and
/// appendix B; reaching back and aligning are its released code's.
struct block_cache {
  index_t prompt_period = 64;
  index_t block_period = 16;
  bool reaches_back = true;
  bool aligned = false;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "block_cache", "block_cache", "the same, refreshed by the count of passes"};
  static constexpr knob<block_cache> knobs[] = {
      {"prompt_period", &block_cache::prompt_period, at_least(0)},
      {"block_period", &block_cache::block_period, at_least(0)},
      {"reaches_back", &block_cache::reaches_back},
      {"aligned", &block_cache::aligned}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    const index_t passed = own.sequence.read(q, next);
    const index_t count = aligned ? next.first_block * q.block_length + passed : q.step;
    const bool whole = detail::every(prompt_period, count);
    next.refresh = whole || detail::every(block_period, count);
    next.feed = detail::active_blocks(q, next);
    if (whole) {
      next.feed.first = 0;
    } else if (reaches_back && passed == 0) {
      next.feed.first = math::min(next.feed.first, q.first_changed);
    }
  }
};
static_assert(caching<block_cache>);

/// Runs the answer; every `prompt_period`-th pass the prompt, too; every `answer_period`-th pass
/// refreshes. Period 0: never after the first pass. Goes with a layer rule, such as
/// similarity_refresh or cache_budget, that chooses what the passes between compute.
///
/// Range: periods >= 0. Source: Z. Liu et al., dLLM-Cache (2025), its prompt and response
/// intervals; the defaults are those of LLaDA-8B-Instruct, as Dynamic-dLLM (2026), appendix B.2,
/// gives them, with 100 and 6 for LLaDA-1.5 and 50 and 2 for Dream. Dynamic-dLLM itself runs
/// everything in each pass and refreshes in the first alone: periods 1 and 0.
struct interval_cache {
  index_t prompt_period = 50;
  index_t answer_period = 7;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "interval_cache", "interval_cache", "runs the answer, and the prompt now and then"};
  static constexpr knob<interval_cache> knobs[] = {
      {"prompt_period", &interval_cache::prompt_period, at_least(0)},
      {"answer_period", &interval_cache::answer_period, at_least(0)}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, const auto&) const {
    next.refresh = detail::every(answer_period, q.step);
    if (!detail::every(prompt_period, q.step)) {
      next.feed.first = q.prompt;
    }
  }
};
static_assert(caching<interval_cache>);

/// Runs every position but those whose token was known before the last step: a token's K/V are
/// reused from the second pass on that reads it. The first two passes of a block run everything,
/// and so does every `period`-th; 0: no other.
///
/// Which positions run is a set, so the engine decodes with layer_session. Range period >= 0. 8
/// bytes a sequence. Source: X. Ma et al., dKV-Cache (2025), its decode variant.
struct delayed_cache {
  index_t period = 8;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "delayed_cache", "delayed_cache", "K/V of every token, one pass after it was committed"};
  static constexpr knob<delayed_cache> knobs[] = {{"period", &delayed_cache::period, at_least(0)}};

  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    const index_t count = own.sequence.read(q, next);
    next.refresh = count <= 1 || detail::every(period, count);
  }
  UNMASK_HD bool feeds(const layer_row& row, const auto& own) const {
    return row.written || own.at.view->is_open(row.position);
  }
};
static_assert(picking<delayed_cache>);

/// Drops, once in each block and at each layer, the keys outside the block that the block attends
/// to least; they are back when the next block begins.
///
/// Pass number `delay` of a block chooses: each layer keeps the int(keep * outside) keys of highest
/// score, where the score of a key is the product of the block's mean query with it, and with
/// `pool` > 1 the largest product within pool / 2 keys on both sides of it, positions of the block
/// left out. Equals go to the lower position. The engine computes the scores and asks
/// host::key_selector or device::key_selector which keys stay. No key is dropped in a block with
/// nothing left of it.
///
/// Goes with dual_cache{.whole = 2}. Range: keep in [0, 1], delay >= 0, pool odd and >= 1. 8 bytes
/// a sequence. Source: Y. Song et al., Sparse-dLLM (2025); keep is 0.5 in ES-dLLM (2026).
struct key_eviction {
  double keep = 0.5;
  index_t delay = 1;
  index_t pool = 3;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "key_eviction",
      "key_eviction",
      "drops the keys that the block attends to least; goes with dual_cache(whole=2)"};
  static constexpr knob<key_eviction> knobs[] = {
      {"keep", &key_eviction::keep, within(0, 1)},
      {"delay", &key_eviction::delay, at_least(0)},
      {"pool", &key_eviction::pool, at_least(1)}};

  void check(const layout&) const {
    check_argument(pool % 2 == 1, "key_eviction::pool", pool, "odd");
  }
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& own) const {
    const index_t count = own.sequence.read(q, next);
    if (count < delay || detail::active_blocks(q, next).first == 0) {
      return eviction::none;
    }
    return count == delay ? eviction::choose : eviction::chosen;
  }
};
static_assert(evicting<key_eviction>);

}  // namespace unmask
