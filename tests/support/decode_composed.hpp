// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing {

/// Decodes random requests with a policy: each comes to its end with nothing left masked that the
/// end does not allow, and its batch changes nothing.
inline constexpr auto decode_composed = [](const auto& p) {
  using product = std::remove_cvref_t<decltype(p)>;
  chances c(product::part_total);
  std::vector<dense_request> requests;
  for (int k = 0; k < 5; ++k) {
    requests.push_back(random_dense_request(c, 12));
    requests.back().model = {.vocab = 12, .mask_token = 11, .eos_token = 10};
    requests.back().suppressed.clear();
    requests.back().branches = product::branches ? 2 : 0;
  }
  for (const dense_request& q : requests) {
    session<product> s(q.model,
                       {.sequences = 1,
                        .length = q.geometry.length,
                        .window = q.geometry.length,
                        .branches = q.branches});
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 1);
    s.start(0, p, tokens_view<memory::host>(text), q.geometry);
    int forwards = 0;
    while (const auto request = s.next()) {
      const std::vector<float> logits = requested_rows(
          *request, text, [&](const auto& x, index_t i) { return q.logits.row(x, i); });
      s.supply(host_logits<float>(logits.data(), request->rows, q.model.vocab));
      ASSERT_LT(++forwards, 1000) << "does not come to an end";
    }
    const sequence_report& r = s.report();
    EXPECT_NE(r.end, ending::running);
    EXPECT_EQ(r.forwards, forwards);
    EXPECT_EQ(r.invalid_rows, 0);
    index_t masks = 0;
    for (std::size_t i = static_cast<std::size_t>(q.geometry.prompt_length); i < text.size(); ++i) {
      EXPECT_TRUE(text[i] >= 0 && text[i] < q.model.vocab);
      masks += text[i] == q.model.mask_token ? 1 : 0;
    }
    if (r.end == ending::complete && !product::renoises) {
      EXPECT_EQ(masks, 0);
    }
  }
  expect_batch_changes_nothing(std::vector<product>(requests.size(), p), requests);
};

}  // namespace unmask::testing
