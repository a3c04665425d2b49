// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Policies and sessions on the CPU. Includes no CUDA header.
///
/// Not included, because of their compile time: policies by name (named_policy.hpp), constraints
/// (constraint.hpp), presets (policy/presets/methods.hpp), profiles in files
/// (policy/commit/profile_json.hpp), the library's own threads (host/thread_pool.hpp).

#include <unmask/core/logits.hpp>
#include <unmask/core/part/layer.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/request.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/host/key_selector.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/policy/beam.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/entropy_cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/ascending_step_size.hpp>
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/early_commit.hpp>
#include <unmask/policy/commit/entropy_below.hpp>
#include <unmask/policy/commit/finish.hpp>
#include <unmask/policy/commit/frechet.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/commit/local_leap.hpp>
#include <unmask/policy/commit/moving_threshold.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/commit/steady_leader.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/drafts.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/linear_position.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/position_frequency.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/core.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/remask/remdm.hpp>
#include <unmask/policy/remask/running_confidence.hpp>
#include <unmask/policy/remask/wino.hpp>
#include <unmask/policy/schedule/block_at_delimiter.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/self_speculation.hpp>
#include <unmask/policy/schedule/sliding_block.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>
#include <unmask/sharded_session.hpp>
#include <unmask/text/report_text.hpp>
#include <unmask/version.hpp>
