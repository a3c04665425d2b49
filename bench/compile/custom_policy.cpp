// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy with a ranking and a commit rule of the program's own, as in examples/custom_policy.cpp.
#include "decode.hpp"

namespace {

struct leaning_left {
  float pull = 0.005F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  UNMASK_HD float score(const auto& candidate) const {
    return candidate.confidence() - pull * static_cast<float>(candidate.position);
  }
};

struct seen_again {
  float threshold = 0.6F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  struct position_state {
    unmask::token_id leader = unmask::no_token;
  };
  UNMASK_HD bool commits(const auto& candidate, const unmask::rank_info&, auto& context) const {
    const bool again = candidate.token == context.state.leader;
    context.state.leader = candidate.token;
    return again && candidate.confidence() > threshold;
  }
};

}  // namespace

int main() {
  bench::decode(unmask::policy{
      leaning_left{}, unmask::threshold{0.999F} || seen_again{}, unmask::stop_at_eos{}});
}
