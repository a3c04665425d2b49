// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Ends a sequence once an end token is settled and everything left of it is, too. What is still
/// open behind it becomes the end token without a forward pass.
///
/// Looks at the answer only, never at the prompt; O(newly settled) a step. Without an end token in
/// model_info it never stops. Source: CreditDecoding (2025), appendix C.7, early stop.
struct stop_at_end {
  struct sequence_state {
    index_t seen = 0;
  };
  static constexpr statistics required = stat::none;

  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    index_t& i = own.sequence.seen;
    for (i = math::max(i, q.prompt); i < q.settled; ++i) {
      if (q.tokens[i] == q.end_token) {
        return ending::end_token;
      }
    }
    return ending::running;
  }
};
static_assert(stopping<stop_at_end>);

/// Ends a sequence that is not complete after `steps` forward passes. What is still open becomes the
/// end token, if the model has one, and stays masked otherwise. Range steps >= 1.
struct step_budget {
  index_t steps = 1024;
  static constexpr statistics required = stat::none;

  void check(const layout&) const { check_argument(steps >= 1, "step_budget::steps", steps, "at least 1"); }

  UNMASK_HD ending stop(const sequence_view& q, auto&) const {
    return q.step >= steps && q.open_count > 0 ? ending::step_budget : ending::running;
  }
};
static_assert(stopping<step_budget>);

}  // namespace unmask
