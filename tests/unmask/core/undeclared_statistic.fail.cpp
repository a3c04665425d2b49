// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A part that reads a statistic which it does not declare.
// expect: provides
// expect: confidence
#include <unmask/unmask.hpp>

#include <vector>

struct liar {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{unmask::by_confidence{}, liar{}},
                    model,
                    unmask::tokens_view<unmask::memory::host>(tokens),
                    unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}
