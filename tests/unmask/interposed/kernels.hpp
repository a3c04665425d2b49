// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/ranking.hpp>

namespace unmask::testing {

inline constexpr policy launched{by_margin{}, threshold{0.3F} && tokens_per_step{2}};
using launched_policy = std::remove_const_t<decltype(launched)>;

inline constexpr policy launched_layers{
    by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};
using launched_layers_policy = std::remove_const_t<decltype(launched_layers)>;

/// The addresses that nvcc gives the kernels of sessions with that policy on the host.
struct kernel_addresses {
  const void* reads_of_float;
  const void* reads_of_bfloat16;
  const void* decisions;
  const void* starts;
  const void* shard_reads;  // of float
  const void* merges;
};
[[nodiscard]] kernel_addresses addresses_of_kernels();

/// Those of layer sessions, of float.
struct layer_kernel_addresses {
  const void* reads;
  const void* decisions;
  const void* starts;
  const void* choices;
  const void* stores;
};
[[nodiscard]] layer_kernel_addresses addresses_of_layer_kernels();

/// Those of device::key_selector, of float.
struct key_kernel_addresses {
  const void* scores;
  const void* selections;
};
[[nodiscard]] key_kernel_addresses addresses_of_key_kernels();

}  // namespace unmask::testing
