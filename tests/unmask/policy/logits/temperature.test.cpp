// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/beside.hpp"
#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::temperature_test {
namespace {

TEST(temperature, scales_every_logit_before_the_softmax) {
  comparisons sum;
  for (int i = 0; i < 300; ++i) {
    dice d(mixed(77, static_cast<std::uint64_t>(i)));
    SCOPED_TRACE(i);
    const temperature t{d.real(0.2, 3.0)};
    const threshold a{d.real(0.0, 1.0)};
    const index_t vocab = d.one_of(std::vector<index_t>{2, 31, 33, 200});
    naive_request request;
    request.model = {.vocab = vocab, .mask_token = vocab - 1};
    request.geometry = {
        .prompt_length = 1, .length = d.within(2, 12), .block_length = d.within(1, 6)};
    request.score = naive(by_confidence{});
    request.rule = naive(a);
    std::vector<token_id> tokens(static_cast<std::size_t>(request.geometry.length), 0);
    naive_decoder beside(request, tokens);
    session s{by_name(policy{by_confidence{}, a, t}),
              request.model,
              tokens_view<memory::host>(tokens),
              request.geometry};
    const fake_model model{.seed = d.bits(), .vocab = vocab};
    const double scale = 1.0 / static_cast<double>(t.value);
    const auto edit = [scale](double z, token_id) { return z * scale; };
    decode_beside<float>(s, tokens, beside, model, {}, edit, sum);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(sum.commits, 300);
  EXPECT_LE(sum.excused, sum.steps / 200);
}

TEST(temperature, of_one_changes_nothing) {
  const std::vector<row> table = {
      row_with_confidence(0.9), row_with_confidence(0.3), row_with_confidence(0.5)};
  const sequence_shape g = {.block_length = 3};
  const history plain = decode_rows(policy{by_confidence{}, threshold{0.4F}}, table, g);
  const history edited =
      decode_rows(policy{by_confidence{}, threshold{0.4F}, temperature{1.0F}}, table, g);
  EXPECT_EQ(plain.positions, edited.positions);
  EXPECT_EQ(plain.tokens, edited.tokens);
}

TEST(temperature, below_one_sharpens) {
  // .6 against .4 / 3: at half the temperature .36 / (.36 + 3 (.1333)^2) = .871.
  const std::vector<row> table(1, row_with_confidence(0.6));
  std::vector<token_id> tokens(1);
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, temperature{0.5F}}),
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 1}};
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(table[0].data(), 1, small_vocab));
  EXPECT_NEAR(std::exp(s.committed()[0].log_probability), 0.36 / (0.36 + 0.16 / 3.0), 1e-6);
}

// Edits of a user: one depends on the token, two on their order.
struct favour {
  token_id token = 0;
  float by = 0.0F;
  static constexpr statistics required = stat::none;
  float transform(float z, token_id v) const { return v == token ? z + by : z; }
};
static_assert(logits_transform<favour>);

TEST(edit, of_a_user_sees_the_token) {
  const std::vector<row> table(40, row_with_confidence(0.5, 1));
  const history h = decode_rows(
      policy{by_confidence{}, tokens_per_step{40}, favour{2, 5.0F}}, table, {.block_length = 40});
  EXPECT_EQ(h.tokens, std::vector<token_id>(40, 2));
}

TEST(edit, parts_apply_in_written_order) {
  // z = ln p: token 1 leads token 2 by ln 3 = 1.0986. Added before the halving, 1 is worth .5 of
  // .549.
  const std::vector<row> table(1, row_with_confidence(0.5, 1));
  const sequence_shape g = {.block_length = 1};
  const favour bias{2, 1.0F};
  const temperature hot{2.0F};
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{1}, bias, hot}, table, g).tokens,
            std::vector<token_id>{1});
  EXPECT_EQ(decode_rows(policy{by_confidence{}, tokens_per_step{1}, hot, bias}, table, g).tokens,
            std::vector<token_id>{2});
}

TEST(edit, cannot_bring_a_suppressed_token_back) {
  const std::vector<row> table(3, row_with_confidence(0.5, 1));
  const history h = decode_rows(
      policy{by_confidence{}, tokens_per_step{3}, favour{4, 500.0F}}, table, {.block_length = 3});
  EXPECT_EQ(h.tokens, std::vector<token_id>(3, 1));
}

TEST(edit, belongs_to_the_slot_that_it_was_started_with) {
  using biased = policy<by_confidence, tokens_per_step, favour>;
  session<biased> s(small_model, {.sequences = 3, .length = 2, .window = 2});
  std::vector<std::vector<token_id>> tokens(3, std::vector<token_id>(2));
  for (index_t slot = 0; slot < 3; ++slot) {
    s.start(slot,
            {by_confidence{}, tokens_per_step{2}, favour{slot, 50.0F}},
            tokens[static_cast<std::size_t>(slot)],
            {.length = 2});
  }
  ASSERT_TRUE(s.next());
  const row logits = packed(std::vector<row>(6, row_with_confidence(0.25)), {0, 6});
  s.supply(host_logits<float>(logits.data(), 6, small_vocab));
  for (index_t slot = 0; slot < 3; ++slot) {
    SCOPED_TRACE(slot);
    EXPECT_EQ(tokens[static_cast<std::size_t>(slot)], std::vector<token_id>(2, slot));
  }
}

// Depends on the step.
struct rising_favour {
  token_id token = 0;
  static constexpr statistics required = stat::none;
  [[nodiscard]] auto transform_at(const step_info& at) const {
    return [favoured = favour{token, static_cast<float>(at.step)}](float z, token_id v) {
      return favoured.transform(z, v);
    };
  }
};
struct doubling {
  static constexpr statistics required = stat::none;
  float transform(float z, token_id) const { return 2.0F * z; }
};

TEST(edit, parts_that_know_the_step_apply_in_written_order_too) {
  const rising_favour bias{2};
  const auto edited = [](const auto& p, token_id token, index_t step) {
    step_info at;
    at.step = step;
    return step::transforms_from(p, at)(3.0F, token);
  };
  const policy added_first{by_confidence{}, bias, tokens_per_step{1}, doubling{}};
  const policy added_last{doubling{}, by_confidence{}, tokens_per_step{1}, bias};
  EXPECT_EQ(edited(added_first, 2, 5), 16.0F);
  EXPECT_EQ(edited(added_last, 2, 5), 11.0F);
  EXPECT_EQ(edited(added_first, 1, 5), 6.0F);
  EXPECT_EQ(edited(added_last, 1, 5), 6.0F);
  // Token 1 leads token 2 by ln 3, and from step 2 on token 2 leads; where the logits are doubled
  // before, by ln 9, from step 3 on.
  const std::vector<row> table(5, row_with_confidence(0.5, 1));
  const sequence_shape g = {.block_length = 5};
  const auto first_step_of_2 = [&](const auto& p) {
    const history h = decode_rows(p, table, g);
    return std::ranges::find(h.tokens, 2) - h.tokens.begin();
  };
  EXPECT_EQ(first_step_of_2(policy{left_to_right{}, tokens_per_step{1}, bias}), 2);
  EXPECT_EQ(first_step_of_2(policy{left_to_right{}, tokens_per_step{1}, bias, doubling{}}), 2);
  EXPECT_EQ(first_step_of_2(policy{left_to_right{}, tokens_per_step{1}, doubling{}, bias}), 3);
}

}  // namespace
}  // namespace unmask::testing::temperature_test
