// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "goldens/verdict.hpp"
#include "support/golden/lines.hpp"

namespace unmask::goldens {

/// A candidate as a policy's admission saw it.
struct sight {
  index_t position = 0;
  token_id token = no_token;
  float confidence = 0.0F;
};

/// A part that decides nothing and writes down every candidate of a step, in position order.
struct witness {
  std::vector<sight>* seen = nullptr;

  struct tally {
    void merge(const tally&) {}
  };
  static constexpr statistics required = stat::confidence;

  tally survey(const auto& c, const auto&) const {
    seen->push_back({c.position, c.token, c.confidence()});
    return {};
  }
};
static_assert(surveying<witness>);

namespace detail {

template <class... Parts, std::size_t... I, class Last>
[[nodiscard]] auto
joined(const policy<Parts...>& p, std::index_sequence<I...>, const Last& last) {
  return policy{unmask::detail::get_indexed<I, Parts>(p)..., last};
}

}  // namespace detail

/// A policy and one part more.
template <class... Parts, class Last>
[[nodiscard]] auto joined(const policy<Parts...>& p, const Last& last) {
  return detail::joined(p, std::index_sequence_for<Parts...>{}, last);
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
      return text("fused: expected ", e.position, "=", e.value, " at ", e.probability, ", got ",
                  got[k].position, "=", got[k].token, " at ", got[k].confidence);
    }
  }
  return {};
}

}  // namespace unmask::goldens
