// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/admission.hpp>
#include <unmask/policy/ranking.hpp>

namespace unmask::testing {

inline constexpr policy launched{by_margin{}, confidence_above{0.3F} && top_k{2}};
using launched_policy = std::remove_const_t<decltype(launched)>;

/// The addresses that nvcc gives the kernels of sessions with that policy on the host.
struct kernel_addresses {
  const void* reads_of_float;
  const void* reads_of_bfloat16;
  const void* decisions;
  const void* starts;
};
[[nodiscard]] kernel_addresses addresses_of_kernels();

}  // namespace unmask::testing
