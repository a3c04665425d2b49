// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Policies and sessions on the CPU. No CUDA header is reached from here.
///
/// Apart, because of what they cost to compile: sessions whose policy is not in their type
/// (any_session.hpp, any_layer_session.hpp), policies by name (named_policy.hpp), methods
/// (policy/methods.hpp), profiles in files and by task (policy/profile_json.hpp,
/// policy/profile_store.hpp), threads of the library's own (host/thread_pool.hpp).

#include <unmask/core/layer.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/request.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/host/key_selector.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/layer_session.hpp>
#include <unmask/policy/adaptive.hpp>
#include <unmask/policy/admission.hpp>
#include <unmask/policy/cache.hpp>
#include <unmask/policy/cache_budget.hpp>
#include <unmask/policy/calibrate.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/credit.hpp>
#include <unmask/policy/early_commit.hpp>
#include <unmask/policy/early_skip.hpp>
#include <unmask/policy/edit.hpp>
#include <unmask/policy/edit_settled.hpp>
#include <unmask/policy/end_of_text.hpp>
#include <unmask/policy/frontier.hpp>
#include <unmask/policy/hierarchical.hpp>
#include <unmask/policy/keep.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/noise_level.hpp>
#include <unmask/policy/pipeline.hpp>
#include <unmask/policy/probability.hpp>
#include <unmask/policy/profile.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/repetition.hpp>
#include <unmask/policy/revise.hpp>
#include <unmask/policy/revisit.hpp>
#include <unmask/policy/schedule.hpp>
#include <unmask/policy/slow_fast.hpp>
#include <unmask/policy/steady_leader.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/policy/suffix_window.hpp>
#include <unmask/session.hpp>
#include <unmask/sharded_session.hpp>
#include <unmask/version.hpp>
