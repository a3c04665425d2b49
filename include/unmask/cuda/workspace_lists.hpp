// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/workspace.hpp>

/// Lists of the last step of a session on a stream.
namespace UNMASK_NAMESPACE {

// A number that grows with every step of any slot.
template <class Policy>
std::int64_t on_stream::workspace<Policy>::forwards() const {
  std::int64_t sum = 0;
  for (index_t slot = 0; slot < capacity_.sequences; ++slot) {
    sum += host_.statuses[slot].report.forwards;
  }
  return sum;
}

// Copies the first `most` entries of each slot's list.
template <class Policy>
template <class Entry>
void on_stream::workspace<Policy>::fetch(Entry* to,
                                         const Entry* from,
                                         std::size_t per_slot,
                                         index_t most) {
  if (most > 0) {
    const std::size_t pitch = per_slot * sizeof(Entry);
    device::check(cudaMemcpy2DAsync(to,
                                    pitch,
                                    from,
                                    pitch,
                                    static_cast<std::size_t>(most) * sizeof(Entry),
                                    static_cast<std::size_t>(capacity_.sequences),
                                    cudaMemcpyDeviceToHost,
                                    where_.stream),
                  "cudaMemcpy2DAsync of the commits");
  }
}

template <class Policy>
void on_stream::workspace<Policy>::fetch_lists() {
  if (fetched_at_ == forwards()) {
    return;
  }
  index_t commits = 0;
  index_t candidates = 0;
  index_t probe_results = 0;
  for (index_t i = 0; i < capacity_.sequences; ++i) {
    probe_results = math::max(probe_results, host_.statuses[i].report.last_probabilities);
    if (answers_.has(i)) {
      answers_.fetch(i, host_.statuses[i].report);
      continue;
    }
    commits = math::max(commits, host_.statuses[i].report.last_commits);
    candidates = math::max(candidates, host_.statuses[i].report.last_candidates);
  }
  fetch(host_.entries, device_.entries, device::commits_per_slot<Policy>(capacity_), commits);
  if (capacity_.trace) {
    fetch(host_.traced, device_.traced, device::candidates_per_slot<Policy>(capacity_), candidates);
  }
  fetch(host_.probe_results,
        device_.probe_results,
        device::probe_results_per_slot<Policy>(capacity_),
        probe_results);
  static_cast<void>(statuses());
  fetched_at_ = forwards();
}

template <class Policy>
std::span<const commit_entry> on_stream::workspace<Policy>::committed(index_t slot, index_t count) {
  fetch_lists();
  if (answers_.has(slot)) {
    return {answers_.entries(slot), static_cast<std::size_t>(count)};
  }
  return {host_.entries +
              static_cast<std::size_t>(slot) * device::commits_per_slot<Policy>(capacity_),
          static_cast<std::size_t>(count)};
}

template <class Policy>
std::span<const candidate_entry> on_stream::workspace<Policy>::candidates(index_t slot,
                                                                          index_t count) {
  fetch_lists();
  if (answers_.has(slot)) {
    return {answers_.traced(slot), static_cast<std::size_t>(count)};
  }
  return {host_.traced +
              static_cast<std::size_t>(slot) * device::candidates_per_slot<Policy>(capacity_),
          static_cast<std::size_t>(count)};
}

template <class Policy>
std::span<const token_probability> on_stream::workspace<Policy>::probabilities(index_t slot,
                                                                               index_t count) {
  fetch_lists();
  return {host_.probe_results +
              static_cast<std::size_t>(slot) * device::probe_results_per_slot<Policy>(capacity_),
          static_cast<std::size_t>(count)};
}

}  // namespace unmask
