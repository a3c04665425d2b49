// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every ranking with every commit rule, and the compositions that no session of these tests has,
// compiled for the device: a part that calls a function which kernels cannot call stops here.
// Nothing of this runs.

#include <unmask/cuda/decide.cuh>
#include <unmask/policy/presets/released.hpp>

#include "unmask/device/policies.hpp"

namespace unmask::testing {

template <class Policy>
void decide_with(const Policy&, const device::session_device_view<Policy>& device_view) {
  device::decide_slots<<<1, 32>>>(device_view, false);
}

template <class Policy>
void start_with(const Policy& p) {
  device::start_one<<<1, 32>>>(
      device::session_device_view<Policy>{}, 0, device::start_arguments<Policy>{p, {}, {}});
}

template <class... Rankings, class CommitRule>
void each_ranking(const CommitRule& commits, const Rankings&... ranks) {
  (decide_with(policy{ranks, commits}, {}), ...);
}

// Rules along the order of confidence.
template <class... CommitRules>
void each_by_confidence(const CommitRules&... commits) {
  (each_ranking(commits, by_confidence{}), ...);
}

template <class... CommitRules>
void each_pair(const CommitRules&... commits) {
  (each_ranking(commits, by_confidence{}, by_margin{}, by_entropy{}, left_to_right{}, at_random{}),
   ...);
}

void every_decision() {
  each_pair(threshold{},
            threshold{.inclusive = true},
            tokens_per_step{},
            steps_per_block{},
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
