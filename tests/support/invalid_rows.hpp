// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Rows without a finite logit among the tokens that may be proposed, and what a session commits.

#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing {

inline constexpr float inf = std::numeric_limits<float>::infinity();

/// Inputs of a decode of one position.
struct invalid_row {
  model_info model;
  std::vector<std::uint32_t> allowed;
  std::vector<token_id> suppressed;
  std::vector<float> logits;

  [[nodiscard]] bool may_propose(token_id v) const {
    return (allowed[static_cast<std::size_t>(v / 32)] >> v % 32 & 1U) != 0 &&
           v != model.mask_token &&
           std::find(suppressed.begin(), suppressed.end(), v) == suppressed.end();
  }
};

/// A row in which no token that may be proposed, by `lists` too, has a finite logit.
[[nodiscard]] invalid_row random_invalid_row(dice& d, const auto& lists) {
  invalid_row r;
  const index_t vocab = d.one_of(std::vector<index_t>{7, 33, 100, 5000});
  r.model = {.vocab = vocab, .mask_token = d.within(0, vocab - 1), .eos_token = 2};
  r.model.mask_token += r.model.mask_token == 2 ? 1 : 0;
  r.allowed.resize(static_cast<std::size_t>((vocab + 31) / 32));
  const double share = d.one_of(std::vector<double>{0.01, 0.3, 0.9, 1.0});
  for (token_id v = 0; v < vocab; ++v) {
    if (d.chance(share)) {
      r.allowed[static_cast<std::size_t>(v / 32)] |= std::uint32_t{1} << v % 32;
    }
  }
  for (index_t k = d.within(0, 3); k > 0; --k) {
    r.suppressed.push_back(d.within(0, 4));
  }
  const float bad = d.chance(0.5) ? -inf : static_cast<float>(not_a_number);
  const bool others_are_finite = d.chance(0.5);  // of the tokens that the parts do not allow
  for (token_id v = 0; v < vocab; ++v) {
    const bool is_finite = !r.may_propose(v) || (!lists(v) && others_are_finite);
    r.logits.push_back(is_finite ? d.real(-3.0, 3.0) : d.chance(0.5) ? bad : -inf);
  }
  return r;
}

/// The lowest token that may be proposed, by `lists` too; model_info::vocab if there is none.
[[nodiscard]] token_id lowest_of(const invalid_row& r, const auto& lists) {
  token_id lowest = 0;
  while (lowest < r.model.vocab && !(r.may_propose(lowest) && lists(lowest))) {
    ++lowest;
  }
  return lowest;
}

/// The only commit of a session of one masked position.
template <class Policy, class Backend>
[[nodiscard]] commit_entry decide_one(const Policy& p, const invalid_row& r, const Backend& where) {
  std::vector<token_id> tokens(3, 0);
  const index_t branches = unmask::detail::policy_branches(p);
  session<Policy, Backend> s{r.model, {.length = 3, .window = 2, .branches = branches}, where};
  start_options options;
  options.suppressed = r.suppressed;
  const std::array<std::uint8_t, 3> editable = {0, 1, 0};
  options.editable = editable;
  s.start(0, p, {tokens.data(), 3}, {.prompt_length = 1, .length = 3, .block_length = 2}, options);
  const auto request = s.next();
  EXPECT_EQ(request->rows, 1);
  row_modifiers<float> modifiers;
  modifiers.allowed = r.allowed.data();
  s.supply(rows_view<float, Backend::space>{r.logits.data(), 1, r.model.vocab, r.model.vocab},
           modifiers);
  EXPECT_EQ(s.report().invalid_rows, 1);
  EXPECT_EQ(s.report().forced, 1);
  EXPECT_EQ(s.committed().size(), 1U);
  EXPECT_EQ(s.committed()[0].token, tokens[1]);
  return s.committed()[0];
}

}  // namespace unmask::testing
