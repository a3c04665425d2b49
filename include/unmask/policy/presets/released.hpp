// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/presets/released/bf16.hpp>
#include <unmask/policy/presets/released/dinfer.hpp>
#include <unmask/policy/presets/released/dream.hpp>
#include <unmask/policy/presets/released/dynamic_dllm.hpp>
#include <unmask/policy/presets/released/es_dllm.hpp>
#include <unmask/policy/presets/released/fast_dllm.hpp>
#include <unmask/policy/presets/released/llada.hpp>
#include <unmask/policy/presets/released/lopa.hpp>
#include <unmask/policy/presets/released/sglang.hpp>

/// Policies that decide as released code does, forward for forward, where that differs from the
/// published rule: to compare with it, or to change over from it without a change in its output.
///
/// The functions are the presets, the structs are the parts that only they need. None of the
/// released loops removes the mask token, so model_info::suppress_mask = false belongs to each of
/// them. A predicted mask token then takes its place among the candidates and leaves its position
/// masked. Written from descriptions and recorded traces; no code is copied.
namespace UNMASK_NAMESPACE::released {}
