// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every ranking with every commit rule, and the compositions that no session of these tests has,
// compiled for the device: a part that calls a function which kernels cannot call stops here.
// Nothing of this runs.

#include <unmask/cuda/decide.cuh>
#include <unmask/policy/presets/released.hpp>

#include "unmask/device/policies.hpp"

namespace unmask::testing {

template <class Policy>
void decide_with(const Policy&, const device::session_site<Policy>& site) {
  device::decide_slots<<<1, 32>>>(site, false);
}

template <class Policy>
void start_with(const Policy& p) {
  device::start_one<<<1, 32>>>(
      device::session_site<Policy>{}, 0, device::start_arguments<Policy>{p, {}, {}});
}

template <class... Rankings, class Admission>
void each_ranking(const Admission& admits, const Rankings&... ranks) {
  (decide_with(policy{ranks, admits}, {}), ...);
}

// Rules along the order of confidence.
template <class... Admissions>
void each_by_confidence(const Admissions&... admits) {
  (each_ranking(admits, by_confidence{}), ...);
}

template <class... Admissions>
void each_pair(const Admissions&... admits) {
  (each_ranking(admits, by_confidence{}, by_margin{}, by_entropy{}, left_to_right{}, at_random{}),
   ...);
}

void every_decision() {
  each_pair(confidence_above{},
            confidence_at_least{},
            top_k{},
            scheduled{},
            entropy_bound{},
            timesteps{},
            independent_timesteps{});
  each_by_confidence(factor{}, hierarchical{});
  for_each_of(more_compositions{}, [](const auto& p) {
    start_with(p);
    decide_with(p, {});
  });
  decide_with(released::dinfer_threshold(0.9F), {});
}

}  // namespace unmask::testing
