// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Another part declares the statistic; that does not help the one that does not.
// expect: provides
#include <unmask/unmask.hpp>

#include <vector>

struct liar {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.entropy() < 0.5F; }
};

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{unmask::by_entropy{}, liar{} && unmask::entropy_bound{}},
                    model,
                    unmask::tokens_view<unmask::memory::host>(tokens),
                    unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}
