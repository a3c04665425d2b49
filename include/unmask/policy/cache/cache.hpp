// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/layer.hpp>

/// Caches: select the positions that a forward pass computes; the others keep the K/V of the pass
/// that last computed them. A policy has at most one, with any other parts. The first pass of a
/// sequence computes everything; an engine without K/V may always compute everything.
///
/// Passes that refresh compute all their positions at every layer; in other passes a layer rule of
/// the policy, such as early_skip, may skip positions.
namespace UNMASK_NAMESPACE {

namespace detail {

/// Range of the decided blocks, from the first to the last.
[[nodiscard]] UNMASK_HD inline range active_blocks(const sequence_view& q, const plan& next) {
  return {q.block(next.first_block).first, q.block(next.last_block - 1).last};
}

/// Number of passes since the first of the active blocks became the first; 0 in its first pass.
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

/// Computes everything in the first pass of each block and, with `period` > 0, in every period-th
/// pass after it; in the other passes everything from the block on.
/// Range: period >= 0.
/// State: 8 bytes a sequence.
/// Example: `tokens_per_step + prefix_cache`, prompt xy, rows a90 b80 c90 d80, blocks of 2: runs
/// 0-5 2-5 0-5 4-5.
/// Source: C. Wu et al., Fast-dLLM (2025), its prefix cache; the period is that of dInfer (2025).
struct prefix_cache {
  index_t period = 0;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "prefix_cache", "reuses K/V left of the block; everything runs in the first pass of a block"};
  static constexpr knob<prefix_cache> knobs[] = {{"period", &prefix_cache::period, at_least(0)}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    const index_t count = context.sequence.read(q, next);
    next.refresh = count == 0 || detail::every(period, count);
    if (!next.refresh) {
      next.query.first = detail::active_blocks(q, next).first;
    }
  }
};
static_assert(caching<prefix_cache>);

/// Like prefix_cache, but the passes between compute the block alone: K/V on both sides of it are
/// reused. The first `whole` passes of a block compute everything.
/// Range: period >= 0, whole >= 1.
/// State: 8 bytes a sequence.
/// Example: `tokens_per_step + dual_cache`, prompt xy, rows a90 b80 c90 d80, blocks of 2: runs 0-5
/// 2-3 0-5 4-5.
/// Source: C. Wu et al., Fast-dLLM (2025), its DualCache; Sparse-dLLM (2025) has two whole passes.
struct dual_cache {
  index_t period = 0;
  index_t whole = 1;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "dual_cache", "reuses K/V on both sides of the block; everything runs in its first pass"};
  static constexpr knob<dual_cache> knobs[] = {{"period", &dual_cache::period, at_least(0)},
                                               {"whole", &dual_cache::whole, at_least(1)}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    const index_t count = context.sequence.read(q, next);
    next.refresh = count < whole || detail::every(period, count);
    if (!next.refresh) {
      next.query = detail::active_blocks(q, next);
    }
  }
};
static_assert(caching<dual_cache>);

/// Computes the block alone; in every `prompt_period`-th pass also everything left of it. Passes
/// whose number is a multiple of either period refresh. Positions right of the block are computed
/// in the first pass only.
///
/// With `reaches_back` the first pass of a block starts at the leftmost position that the last step
/// wrote, so that its K/V are computed from the token and not from the mask. With `aligned` block b
/// counts its passes from b * block_length, as if each block had taken one pass a position. Period
/// 0: never.
///
/// Range: periods >= 0.
/// State: 8 bytes a sequence.
/// Example: `tokens_per_step + block_cache(4)`, prompt xy, rows a90 b80 c90 d80 e90 f80, blocks of
/// 2: runs 0-7 2-3 3-5 4-5 0-7 6-7.
/// Source: Z. Zhu et al., ES-dLLM (2026), section 5.2 and appendix B; `reaches_back` and `aligned`
/// are from its released code.
struct block_cache {
  index_t prompt_period = 64;
  index_t block_period = 16;
  bool reaches_back = true;
  bool aligned = false;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "block_cache", "runs the block alone; positions left of it in every prompt_period-th pass"};
  static constexpr knob<block_cache> knobs[] = {
      {"prompt_period", &block_cache::prompt_period, at_least(0)},
      {"block_period", &block_cache::block_period, at_least(0)},
      {"reaches_back", &block_cache::reaches_back},
      {"aligned", &block_cache::aligned}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    const index_t passed = context.sequence.read(q, next);
    const index_t count = aligned ? next.first_block * q.block_length + passed : q.step;
    const bool whole = detail::every(prompt_period, count);
    next.refresh = whole || detail::every(block_period, count);
    next.query = detail::active_blocks(q, next);
    if (whole) {
      next.query.first = 0;
    } else if (reaches_back && passed == 0) {
      next.query.first = math::min(next.query.first, q.first_changed);
    }
  }
};
static_assert(caching<block_cache>);

/// Computes the answer; in every `prompt_period`-th pass also the prompt; every `answer_period`-th
/// pass refreshes. Period 0: never after the first pass. Combines with a layer rule, such as
/// similarity_refresh or cache_budget, that selects the positions that the passes between compute.
///
/// Range: periods >= 0.
/// Example: `tokens_per_step + interval_cache(3)`, prompt xy, rows a90 b80 c90 d80: runs 0-5 2-5
/// 2-5 0-5.
/// Source: Z. Liu et al., dLLM-Cache (2025), its prompt and response intervals; the defaults are
/// those of LLaDA-8B-Instruct, as Dynamic-dLLM (2026), appendix B.2, gives them, with 100 and 6 for
/// LLaDA-1.5 and 50 and 2 for Dream. Dynamic-dLLM itself computes everything in each pass and
/// refreshes in the first one only: periods 1 and 0.
struct interval_cache {
  index_t prompt_period = 50;
  index_t answer_period = 7;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{"interval_cache",
                                    "runs the answer; the prompt in every prompt_period-th pass"};
  static constexpr knob<interval_cache> knobs[] = {
      {"prompt_period", &interval_cache::prompt_period, at_least(0)},
      {"answer_period", &interval_cache::answer_period, at_least(0)}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, const auto&) const {
    next.refresh = detail::every(answer_period, q.step);
    if (!detail::every(prompt_period, q.step)) {
      next.query.first = q.prompt_length;
    }
  }
};
static_assert(caching<interval_cache>);

/// Computes every position except those whose token was known before the last step: the K/V of a
/// token are reused from the second pass on that reads it. The first two passes of a block compute
/// everything, and so does every `period`-th; 0: no other.
///
/// The computed positions form a set: for engines with hooks in their layers.
/// Range: period >= 0.
/// State: 8 bytes a sequence.
/// Example: `tokens_per_step + delayed_cache(0)`, prompt xy, rows a90 b80 c70 d60, 1 layers: runs
/// 0-5 0-5 3-5 4-5.
/// Source: X. Ma et al., dKV-Cache (2025), its decode variant.
struct delayed_cache {
  index_t period = 8;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "delayed_cache", "reuses the K/V of a token from the second pass on that reads it"};
  static constexpr knob<delayed_cache> knobs[] = {{"period", &delayed_cache::period, at_least(0)}};

  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    const index_t count = context.sequence.read(q, next);
    next.refresh = count <= 1 || detail::every(period, count);
  }
  UNMASK_HD bool in_query(const layer_row& row, const auto& context) const {
    return row.written || context.at.view->is_masked(row.position);
  }
};
static_assert(picking<delayed_cache>);

/// Drops, once in each block and at each layer, the keys outside the block that get the least
/// attention from the block; they return when the next block begins.
///
/// The keys are selected in pass number `delay` of a block: each layer keeps the int(keep *
/// outside) keys of highest score. The score of a key is the product of the block's mean query with
/// it and, with `pool` > 1, the largest such product within pool / 2 keys on both sides, positions
/// of the block left out. The engine computes the scores and calls host::key_selector or
/// device::key_selector. A block with nothing left of it drops no key.
///
/// Combines with dual_cache{.whole = 2}.
/// Range: keep in [0, 1], delay >= 0, pool odd and >= 1.
/// State: 8 bytes a sequence.
/// Ties: the lower position.
/// Example: `tokens_per_step + dual_cache(whole=2) + key_eviction`, prompt xy, rows a90 b80 c70:
/// evicts none choose chosen.
/// Source: Y. Song et al., Sparse-dLLM (2025); keep is 0.5 in ES-dLLM (2026).
struct key_eviction {
  double keep = 0.5;
  index_t delay = 1;
  index_t pool = 3;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{
      "key_eviction",
      "drops the keys to which the block attends least; use with dual_cache(whole=2)"};
  static constexpr knob<key_eviction> knobs[] = {{"keep", &key_eviction::keep, within(0, 1)},
                                                 {"delay", &key_eviction::delay, at_least(0)},
                                                 {"pool", &key_eviction::pool, at_least(1)}};

  void check(const sequence_shape&) const {
    check_argument(pool % 2 == 1, "key_eviction::pool", pool, "odd");
  }
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& context) const {
    const index_t count = context.sequence.read(q, next);
    if (count < delay || detail::active_blocks(q, next).first == 0) {
      return eviction::none;
    }
    return count == delay ? eviction::choose : eviction::chosen;
  }
};
static_assert(evicting<key_eviction>);

}  // namespace unmask
