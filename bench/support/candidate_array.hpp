// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A peer: sampling over an array of candidates, as token-by-token engines do it. Our own few
/// lines in the shape of llama.cpp's sampler, which turns every row into an array of
/// {token, logit, probability} before anything else.

#include <unmask/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace bench {

struct token_data {
  unmask::token_id id;
  float logit;
  float p;
};

class candidate_array {
 public:
  void fill(const float* logits, unmask::index_t vocab) {
    tokens_.resize(static_cast<std::size_t>(vocab));
    for (unmask::index_t i = 0; i < vocab; ++i) {
      tokens_[static_cast<std::size_t>(i)] = {i, logits[i], 0.0F};
    }
  }

  /// Softmax over all candidates; the most probable one is the answer.
  [[nodiscard]] token_data likeliest() {
    float best = -INFINITY;
    for (const token_data& t : tokens_) {
      best = std::max(best, t.logit);
    }
    float sum = 0.0F;
    for (token_data& t : tokens_) {
      t.p = std::exp(t.logit - best);
      sum += t.p;
    }
    token_data answer = tokens_.front();
    for (token_data& t : tokens_) {
      t.p /= sum;
      answer = t.p > answer.p ? t : answer;
    }
    return answer;
  }

  /// The `k` likeliest, and a softmax over those.
  void keep(std::size_t k) {
    const auto more = [](const token_data& a, const token_data& b) { return a.logit > b.logit; };
    const auto middle = tokens_.begin() + static_cast<std::ptrdiff_t>(k);
    std::partial_sort(tokens_.begin(), middle, tokens_.end(), more);
    tokens_.resize(k);
    static_cast<void>(likeliest());
  }

  [[nodiscard]] const std::vector<token_data>& tokens() const { return tokens_; }

 private:
  std::vector<token_data> tokens_;
};

}  // namespace bench
