// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/callback.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

/// A part for which a function of the host decides. A device never calls it: a session there
/// refuses the policy.
template <callback_stage Stage>
struct callback_part : callback_use {
  static constexpr bool calls_back = true;
  static constexpr callback_stage stage = Stage;
  static constexpr statistics required =
      Stage == callback_stage::stop ? stat::none : stat::confidence | stat::margin | stat::entropy;

 protected:
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD float answer([[maybe_unused]] const auto& c,
                                       [[maybe_unused]] const step_info& at) const {
#if defined(__CUDA_ARCH__)
    return 0.0F;
#else
    return callback_scope::innermost()->answer(*this, c, at);
#endif
  }
};

}  // namespace detail

/// A commit rule that a function of the host decides: callback_stage::rule.
/// Cost: a call for each step of a sequence, which allocates.
/// Errors: a session on a device refuses it. callback_error if the function fails.
struct callback_rule : detail::callback_part<callback_stage::rule> {
  static constexpr part_label label{"callback_rule", "a function of the host"};

  UNMASK_HD bool commits(const auto& c, const rank_info&, auto& context) const {
    return answer(c, context.at) != 0.0F;
  }
};
static_assert(commit_rule<callback_rule>);

/// A ranking whose scores a function of the host gives: callback_stage::ranking. Cost and errors as
/// callback_rule.
struct callback_ranking : detail::callback_part<callback_stage::ranking> {
  static constexpr part_label label{"callback_ranking", "a function of the host"};

  UNMASK_HD float score(const auto& c, auto& context) const { return answer(c, context.at); }
};
static_assert(ranking<callback_ranking>);

/// A filter that is a function of the host: callback_stage::filter. Cost and errors as
/// callback_rule.
struct callback_filter : detail::callback_part<callback_stage::filter> {
  static constexpr part_label label{"callback_filter", "a function of the host"};

  UNMASK_HD filter_result filter(const auto& c, auto& context) const {
    return static_cast<filter_result>(static_cast<int>(answer(c, context.at)));
  }
};
static_assert(candidate_filter<callback_filter>);

/// A stop that is a function of the host: callback_stage::stop. It is asked when a sequence starts,
/// too. Cost and errors as callback_rule.
struct callback_stop : detail::callback_part<callback_stage::stop> {
  static constexpr part_label label{"callback_stop", "a function of the host"};

  UNMASK_CALLS_HOST
  UNMASK_HD ending stop(const sequence_view&, [[maybe_unused]] auto& context) const {
#if defined(__CUDA_ARCH__)
    return ending::running;
#else
    return static_cast<ending>(
        static_cast<int>(detail::callback_scope::innermost()->answer(*this, context.at)));
#endif
  }
};
static_assert(stopping<callback_stop>);

}  // namespace unmask
