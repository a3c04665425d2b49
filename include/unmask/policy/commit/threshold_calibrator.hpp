// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/commit/calibrated_threshold.hpp>

#include <algorithm>
#include <span>
#include <vector>

/// Host only: computes the profile of a calibrated_threshold from the reports of a session.
namespace UNMASK_NAMESPACE {

/// Statistic of an ascending sample; NaN if the sample is empty. Cost: O(sample).
[[nodiscard]] inline double measured(metric what, std::span<const double> ascending) {
  if (ascending.empty()) {
    return __builtin_nan("");
  }
  const auto quantile = [&](double q) {
    const double rank = q * static_cast<double>(ascending.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, ascending.size() - 1);
    return __builtin_fma(
        rank - __builtin_floor(rank), ascending[above] - ascending[below], ascending[below]);
  };
  switch (what) {
  case metric::q1:
    return quantile(0.25);
  case metric::median:
    return quantile(0.5);
  case metric::q3:
    return quantile(0.75);
  case metric::min_whisker: {
    const double fence = __builtin_fma(-1.5, quantile(0.75) - quantile(0.25), quantile(0.25));
    return *std::lower_bound(ascending.begin(), ascending.end(), fence);
  }
  case metric::mean:
    break;
  }
  double sum = 0.0;
  for (const double x : ascending) {
    sum += x;
  }
  return sum / static_cast<double>(ascending.size());
}

namespace detail {

// A confidence that a threshold_calibrator recorded.
struct recorded_confidence {
  index_t block = 0;
  index_t step = 0;
  double confidence = 0.0;
};

}  // namespace detail

/// Records the confidences of one sequence, step by step, and calibrates a calibrated_threshold
/// with them.
///
///     threshold_calibrator recorder{geometry};
///     while (auto request = session.next()) {
///       session.supply(engine.forward(*request));
///       recorder.observe(session);
///     }
///     const auto calibrated = recorder.calibrate(knobs);
///
/// State: 16 bytes for each recorded confidence. Not part of a step; may allocate.
class threshold_calibrator {
 public:
  /// Recorder for a sequence started with that sequence_shape.
  explicit threshold_calibrator(const sequence_shape& geometry, collect what = collect::committed)
      : block_length_(geometry.block_length)
      , what_(what) {
    samples_.reserve(
        static_cast<std::size_t>(math::max(geometry.length - geometry.prompt_length, 0)));
  }

  /// Records the report of the last supply() for `slot`. Call it once after every supply() while
  /// the slot decodes the recorded sequence, including the last. Errors: as session::candidates.
  template <class Session>
  void observe(Session& session, index_t slot = 0) {
    if (what_ == collect::candidates) {
      add(session.candidates(slot));
    } else {
      add(session.committed(slot));
    }
  }

  /// Records the entries of one step. A token that was rewritten counts again. Entries without a
  /// finite log-probability, from invalid rows, are ignored.
  void add(std::span<const commit_entry> entries) {
    for (const commit_entry& e : entries) {
      add(e);
    }
  }
  /// Records the candidates of one step at masked positions; tokens of branches, whose
  /// probability is of the step before, are ignored.
  void add(std::span<const candidate_entry> entries) {
    for (const candidate_entry& e : entries) {
      const bool was_masked = e.outcome < candidate_outcome::replaced;
      if (was_masked) {
        add(static_cast<const commit_entry&>(e));
      }
    }
  }

  /// Number of confidences so far.
  [[nodiscard]] std::size_t size() const { return samples_.size(); }

  /// Returns `knobs` with the profile of the recorded confidences; without a profile if there are
  /// none.
  ///
  /// In mode block the threshold of a block is the statistic over the confidences of all its
  /// passes. A pass without confidences gets the threshold of the pass before, the first passes
  /// that of the whole block; a block without confidences that of the block before, the first
  /// blocks the static threshold. Deterministic.
  /// Cost: O(n log n).
  /// Errors: std::invalid_argument if the profile does not fit into Cells.
  template <int Cells>
  [[nodiscard]] calibrated_threshold<Cells>
  calibrate(const calibrated_threshold<Cells>& knobs) const;

 private:
  void add(const commit_entry& e) {
    if (math::is_finite(e.log_probability)) {
      const double confidence = __builtin_exp(static_cast<double>(e.log_probability));
      samples_.push_back({e.block, e.block_step, confidence < 1.0 ? confidence : 1.0});
    }
  }

  index_t block_length_;
  collect what_;
  std::vector<detail::recorded_confidence> samples_;
};

namespace detail {

// Templates whose types depend on their parameters, so that a program that does not calibrate does
// not compile them, nor the algorithms that they call.

// Adds a block to the profile.
template <int Cells>
void add_block(calibrated_threshold<Cells>& profile, std::span<const float> block) {
  const auto used = static_cast<std::size_t>(profile.first_cell(profile.blocks));
  const std::size_t total = used + block.size();
  check_argument(total <= std::size_t{Cells},
                 "cells of the profile",
                 total,
                 "at most Cells = ",
                 Cells,
                 ": use a larger calibrated_threshold<Cells>");
  std::copy(block.begin(), block.end(), profile.cells + used);
  profile.ends[profile.blocks++] = static_cast<std::uint16_t>(total);
}

// The statistic of confidences in any order.
template <class Sample>
[[nodiscard]] float measured_of(metric what, std::span<const Sample> samples) {
  std::vector<decltype(Sample::confidence)> ascending;
  for (const Sample& s : samples) {
    ascending.push_back(s.confidence);
  }
  std::sort(ascending.begin(), ascending.end());
  return static_cast<float>(measured(what, ascending));
}

// Adds the blocks of recorded confidences to a profile that has none.
template <class Sample, int Cells>
void add_blocks(calibrated_threshold<Cells>& profile, std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return a.block != b.block ? a.block < b.block : a.step < b.step;
  });
  const auto measure = [&](const Sample* first, const Sample* last) {
    return measured_of(profile.statistic, std::span<const Sample>(first, last));
  };
  std::vector<decltype(profile.threshold)> cells{profile.threshold};
  const Sample* const stop = samples.data() + samples.size();
  for (const Sample* first = samples.data(); first != stop;) {
    while (profile.blocks < first->block) {
      add_block<Cells>(profile, cells);  // no confidence: the block before, or the static rule
    }
    const Sample* const last =
        std::find_if(first, stop, [&](const Sample& s) { return s.block != first->block; });
    cells.assign(1, measure(first, last));
    if (profile.mode == profile_mode::step_block) {
      const auto whole = cells[0];
      cells.clear();
      for (const Sample* at = first; at != last;) {
        const Sample* const end =
            std::find_if(at, last, [&](const Sample& s) { return s.step != at->step; });
        cells.resize(static_cast<std::size_t>(at->step), cells.empty() ? whole : cells.back());
        cells.push_back(measure(at, end));
        at = end;
      }
    }
    add_block<Cells>(profile, cells);
    first = last;
  }
}

}  // namespace detail

template <int Cells>
calibrated_threshold<Cells>
threshold_calibrator::calibrate(const calibrated_threshold<Cells>& knobs) const {
  calibrated_threshold<Cells> p;
  p.threshold = knobs.threshold;
  p.cap = knobs.cap;
  p.slack = knobs.slack;
  p.mode = knobs.mode;
  p.statistic = knobs.statistic;
  p.recorded = what_;
  p.check_values();
  p.block_length = samples_.empty() ? 0 : block_length_;
  detail::add_blocks(p, samples_);
  return p;
}

/// Decodes the sequence in slot 0 of `session`, which must be its only one, and calibrates with it.
/// Start the sequence with `knobs` as the commit rule: without a profile it is the static rule.
/// supply(request) runs the forward pass and gives its logits to the session.
///
///     session s{policy{by_confidence{}, knobs}, model, tokens, geometry};
///     const auto calibrated = calibrating(s, geometry, knobs, [&](const forward_request& r) {
///       s.supply(engine.forward(r));
///     });
///
/// With knobs.recorded = collect::candidates the session needs session_capacity::trace. Errors: as
/// threshold_calibrator::calibrate.
template <int Cells, class Session, class Supply>
[[nodiscard]] calibrated_threshold<Cells> calibrating(Session& session,
                                                      const sequence_shape& geometry,
                                                      const calibrated_threshold<Cells>& knobs,
                                                      Supply&& supply) {
  knobs.check(geometry);
  threshold_calibrator recorder{geometry, knobs.recorded};
  while (const auto request = session.next()) {
    supply(*request);
    recorder.observe(session);
  }
  return recorder.calibrate(knobs);
}

}  // namespace unmask
