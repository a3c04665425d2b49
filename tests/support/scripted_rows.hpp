// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Sessions that are given rows from a script, and a policy part that shows what became of them.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace unmask::testing {

/// A candidate with everything that most policies read.
struct shown {
  index_t position = 0;
  token_id token = no_token;
  float confidence = 0.0F;
  float margin = 0.0F;
  float entropy = 0.0F;
};

/// A commit rule that commits nothing, not even the best, and shows every candidate: a decode that
/// reads row after row and never gets on.
struct onlooker {
  std::vector<shown>* seen = nullptr;

  static constexpr statistics required = stat::margin | stat::entropy;

  [[nodiscard]] std::int64_t extra_forwards(const sequence_shape&) const { return 1'000'000; }
  bool commits(const auto& c, const rank_info&) const {
    seen->push_back({c.position, c.token, c.confidence(), c.margin(), c.entropy()});
    return false;
  }
};
static_assert(commit_rule<onlooker> && extending<onlooker>);

/// Row `position` of branch `s.branch` as the script has it.
using script = std::function<std::vector<float>(const segment& s, index_t position)>;

/// The logits of a request; rows of positions that are not masked in their branch stay NaN.
template <class Session>
[[nodiscard]] std::vector<float> logits_of(const Session& s,
                                           const forward_request& request,
                                           const std::vector<token_id>& tokens,
                                           const script& rows) {
  const model_info& model = s.model();
  const auto columns = static_cast<std::size_t>(model.vocab);
  std::vector<float> logits(static_cast<std::size_t>(request.rows) * columns,
                            std::numeric_limits<float>::quiet_NaN());
  for (const segment& part : request.segments) {
    for (index_t p = 0; p < part.query.last; ++p) {
      const index_t r = std::max(p - model.logits_shift, 0);
      const bool is_masked = tokens[static_cast<std::size_t>(p)] == model.mask_token &&
                             std::none_of(part.placed.begin(),
                                          part.placed.end(),
                                          [p](const placement& at) { return at.position == p; });
      if (is_masked && part.rows.contains(r)) {
        const std::vector<float> z = rows(part, p);
        std::copy(z.begin(),
                  z.end(),
                  logits.begin() +
                      static_cast<std::ptrdiff_t>(part.first_row + r - part.rows.first) *
                          model.vocab);
      }
    }
  }
  return logits;
}

/// Decides one step on the script's rows; false when there is none to decide.
template <class Session>
bool decide_once(Session& s, const std::vector<token_id>& tokens, const script& rows) {
  const auto request = s.next();
  if (!request) {
    return false;
  }
  const std::vector<float> logits = logits_of(s, *request, tokens, rows);
  s.supply(host_logits<float>{logits.data(), request->rows, s.model().vocab});
  return true;
}

}  // namespace unmask::testing
