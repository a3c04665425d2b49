// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "goldens/lines.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// A candidate as given to a policy's commit rule.
struct sight {
  index_t position = 0;
  token_id token = no_token;
  float confidence = 0.0F;  ///< or a threshold
};

/// A part that decides nothing and writes down every candidate of a step, in position order.
struct witness {
  std::vector<sight>* seen = nullptr;

  struct step_reduction {
    void merge(const step_reduction&) {}
  };
  static constexpr statistics required = stat::confidence;

  step_reduction reduce(const auto& c, const auto&) const {
    seen->push_back({c.position, c.token, c.confidence()});
    return {};
  }
};
static_assert(step_reducing<witness>);

/// A part with a threshold that writes it down, with the position, for every candidate.
template <class Part>
struct threshold_witness : Part {
  std::vector<sight>* seen = nullptr;

  threshold_witness() = default;
  threshold_witness(const Part& part, std::vector<sight>* to)
      : Part(part)
      , seen(to) {}

  bool commits(const auto& c, const rank_info& s, auto& context) const {
    seen->push_back({c.position, c.token, this->threshold(context)});
    return Part::commits(c, s, context);
  }
};

namespace detail {

template <class... Parts, std::size_t... I, class Change, class... More>
[[nodiscard]] auto rebuilt(const policy<Parts...>& p,
                           std::index_sequence<I...>,
                           const Change& change,
                           const More&... more) {
  return policy{change(p.template given<I>())..., more...};
}

}  // namespace detail

/// A policy and one part more.
template <class... Parts, class Last>
[[nodiscard]] auto joined(const policy<Parts...>& p, const Last& last) {
  const auto same = [](const auto& part) { return part; };
  return detail::rebuilt(p, std::index_sequence_for<Parts...>{}, same, last);
}

/// A policy of the changed parts, in order.
template <class... Parts, class Change>
[[nodiscard]] auto changed(const policy<Parts...>& p, const Change& change) {
  return detail::rebuilt(p, std::index_sequence_for<Parts...>{}, change);
}

/// The first difference between the recorded fused predictions and what was seen, which starts
/// anew. The probabilities agree to 2e-6.
[[nodiscard]] inline std::string fused_difference(const step& recorded, std::vector<sight>& seen) {
  const std::vector<sight> got = std::exchange(seen, {});
  if (got.size() != recorded.fused.size()) {
    return text("fused: expected ", recorded.fused.size(), " positions, got ", got.size());
  }
  for (std::size_t k = 0; k < got.size(); ++k) {
    const fused_prediction& e = recorded.fused[k];
    const double error = std::abs(static_cast<double>(got[k].confidence) - e.probability);
    if (got[k].position != e.position || got[k].token != e.value || !(error <= 2e-6)) {
      return text("fused: expected ",
                  e.position,
                  "=",
                  e.value,
                  " at ",
                  e.probability,
                  ", got ",
                  got[k].position,
                  "=",
                  got[k].token,
                  " at ",
                  got[k].confidence);
    }
  }
  return {};
}

/// The first difference between the recorded thresholds and those seen, which start anew. They
/// agree to 2e-6. Those of single positions are recorded in the first 16 forwards only.
[[nodiscard]] inline std::string
threshold_difference(const step& recorded, std::size_t forwards, std::vector<sight>& seen) {
  std::vector<sight> got = std::exchange(seen, {});
  std::sort(got.begin(), got.end(), [](const sight& a, const sight& b) {
    return a.position < b.position;
  });
  if (recorded.threshold) {
    for (const sight& s : got) {
      if (!(std::abs(static_cast<double>(s.confidence) - *recorded.threshold) <= 2e-6)) {
        return text("threshold: expected ", *recorded.threshold, ", got ", s.confidence);
      }
    }
    return {};
  }
  if (recorded.thresholds.empty() && forwards >= 16) {
    return {};
  }
  if (got.size() != recorded.thresholds.size()) {
    return text("thresholds: expected ", recorded.thresholds.size(), ", got ", got.size());
  }
  for (std::size_t k = 0; k < got.size(); ++k) {
    const auto& [position, expected] = recorded.thresholds[k];
    const double error = std::abs(static_cast<double>(got[k].confidence) - expected);
    if (got[k].position != position || !(error <= 2e-6)) {
      return text("thresholds: expected ",
                  expected,
                  " at ",
                  position,
                  ", got ",
                  got[k].confidence,
                  " at ",
                  got[k].position);
    }
  }
  return {};
}

}  // namespace unmask::goldens
