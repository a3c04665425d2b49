// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every argument of a session at the ends of its range, and next to them.
#include <unmask/core/validate.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/presets/released.hpp>
#include <unmask/policy/ranking.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace unmask::testing::validate_test {
namespace {

bool takes(const auto& check) {
  try {
    check();
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

/// Expects that a member of an otherwise valid argument is taken from `least` to `most` and not
/// beyond. int32 has no number behind its last.
template <class T>
void expect_range(
    T valid, index_t T::* member, std::int64_t least, std::int64_t most, const auto& check) {
  for (const std::int64_t x : {least - 1, least, most, most + 1}) {
    if (x >= INT32_MIN && x <= INT32_MAX) {
      valid.*member = static_cast<index_t>(x);
      EXPECT_EQ(takes([&] { check(valid); }), x >= least && x <= most) << x;
    }
  }
}

TEST(validate, takes_a_model_at_the_ends_of_its_ranges) {
  const model_info model{.vocab = 10, .mask_token = 5};
  const auto check = [](const model_info& m) { validate(m); };
  expect_range(model, &model_info::vocab, 6, max_vocab, check);  // more than the mask token
  expect_range(model, &model_info::logits_shift, 0, 1, check);
  expect_range(model, &model_info::layers, 0, INT32_MAX, check);
  expect_range({.vocab = 10, .mask_token = 0}, &model_info::mask_token, 0, 9, check);
  for (const token_id eos : {-1, 0, 5, 9, 10, no_token}) {
    const model_info ending{.vocab = 10, .mask_token = 5, .eos_token = eos};
    EXPECT_EQ(takes([&] { check(ending); }), eos == 0 || eos == 9 || eos == no_token) << eos;
  }
  EXPECT_FALSE(takes([&] { check({.vocab = 1, .mask_token = 0}); }));
  EXPECT_TRUE(takes([&] { check({.vocab = 1, .mask_token = 0, .suppress_mask = false}); }));
}

TEST(validate, takes_capacities_at_the_ends_of_their_ranges) {
  const session_capacity capacity{.sequences = 2, .length = 8, .window = 4, .branches = 1};
  const auto check = [](const session_capacity& c) { static_cast<void>(validated(c)); };
  expect_range(capacity, &session_capacity::length, 1, max_length, check);
  expect_range(capacity, &session_capacity::window, 1, INT32_MAX, check);
  expect_range(capacity, &session_capacity::branches, 0, max_branches, check);
  expect_range(capacity, &session_capacity::sequences, 1, max_rows / (2 * 4), check);
  EXPECT_EQ(validated({.length = 8, .window = 7}).window, 7);
  EXPECT_EQ(validated({.length = 8, .window = 9}).window, 8);
}

TEST(validate, takes_a_shape_at_the_ends_of_its_ranges) {
  const sequence_shape shape{.prompt_length = 2, .length = 6, .block_length = 4};
  const auto check = [](const sequence_shape& g) { validate(g, 9, {.length = 8}); };
  expect_range(shape, &sequence_shape::prompt_length, 0, 6, check);
  expect_range(shape, &sequence_shape::length, 2, 8, check);
  expect_range(shape, &sequence_shape::block_length, 1, INT32_MAX, check);
  expect_range(shape, &sequence_shape::length, 2, 7, [](const sequence_shape& g) {
    validate(g, 7, {.length = 8});
  });
  EXPECT_FALSE(takes([&] { check({.prompt_length = 0, .length = 0, .block_length = 4}); }));
  EXPECT_EQ(bounded({.length = 6, .block_length = 6}).block_length, 6);
  EXPECT_EQ(bounded({.length = 6, .block_length = 5}).block_length, 5);
  EXPECT_EQ(bounded({.length = 6, .block_length = INT32_MAX}).block_length, 6);
}

TEST(validate, takes_options_at_the_ends_of_their_ranges) {
  const model_info model{.vocab = 100, .mask_token = 5};
  const sequence_shape shape{.prompt_length = 2, .length = 6, .block_length = 4};
  const auto takes_editable = [&](std::size_t size) {
    const std::vector<std::uint8_t> editable(size, 1);
    return takes([&] { validate(start_options{.editable = editable}, model, shape); });
  };
  EXPECT_TRUE(takes_editable(0) && takes_editable(6) && takes_editable(7));
  EXPECT_FALSE(takes_editable(1) || takes_editable(5));
  const auto takes_suppressed = [&](const std::vector<token_id>& suppressed, index_t vocab) {
    const model_info m{.vocab = vocab, .mask_token = 0};
    return takes([&] { validate(start_options{.suppressed = suppressed}, m, shape); });
  };
  EXPECT_TRUE(takes_suppressed({0, 99}, 100));
  EXPECT_FALSE(takes_suppressed({-1}, 100) || takes_suppressed({100}, 100));
  std::vector<token_id> many(max_suppressed - 1, 1);
  EXPECT_TRUE(takes_suppressed(many, 100));
  many.push_back(1);
  EXPECT_FALSE(takes_suppressed(many, 100));
  EXPECT_TRUE(takes_suppressed({1, 2}, 4));   // token 3 is left
  EXPECT_FALSE(takes_suppressed({1, 2}, 3));  // with the mask token it is all of them
}

TEST(suppressed_tokens, are_ascending_and_without_repeats) {
  const std::vector<token_id> suppressed = {7, 3, 9, 3, 5};
  token_id out[max_suppressed] = {};
  model_info model{.vocab = 10, .mask_token = 5};
  ASSERT_EQ(suppressed_tokens(model, {.suppressed = suppressed}, out), 4);
  EXPECT_EQ(std::vector(out, out + 4), (std::vector<token_id>{3, 5, 7, 9}));
  model.suppress_mask = false;
  EXPECT_EQ(suppressed_tokens(model, {.suppressed = std::span(suppressed).first(3)}, out), 3);
  EXPECT_EQ(std::vector(out, out + 3), (std::vector<token_id>{3, 7, 9}));
}

TEST(validate, takes_slots_rows_and_branches_up_to_their_capacities) {
  const session_capacity capacity{.sequences = 2, .length = 8, .window = 4, .branches = 3};
  for (const index_t x : {-1, 0, 1, 2}) {
    EXPECT_EQ(takes([&] { validate_slot(x, capacity); }), x == 0 || x == 1) << x;
  }
  EXPECT_TRUE(takes([&] { validate_reach(4, capacity); }));
  EXPECT_FALSE(takes([&] { validate_reach(5, capacity); }));
  EXPECT_TRUE(takes([&] { validate_branches(3, capacity); }));
  EXPECT_FALSE(takes([&] { validate_branches(4, capacity); }));
}

TEST(validate_start, checks_each_of_its_arguments) {
  const model_info model{.vocab = 100, .mask_token = 5};
  const session_capacity capacity{.sequences = 2, .length = 8, .window = 4};
  const sequence_shape shape{.prompt_length = 2, .length = 6, .block_length = 4};
  const std::vector<token_id> tokens(6, 0);
  const std::vector<token_id> suppressed = {100};
  const auto check = [&](index_t slot, const token_id* at, index_t count, bool suppresses) {
    return takes([&] {
      const std::span<const token_id> none;
      validate_start(model,
                     capacity,
                     slot,
                     at,
                     count,
                     shape,
                     {.suppressed = suppresses ? std::span<const token_id>(suppressed) : none});
    });
  };
  EXPECT_TRUE(check(1, tokens.data(), 6, false));
  EXPECT_FALSE(check(2, tokens.data(), 6, false));
  EXPECT_FALSE(check(1, tokens.data(), 5, false));
  EXPECT_FALSE(check(1, nullptr, 6, false));
  EXPECT_FALSE(check(1, tokens.data(), 6, true));
}

TEST(validate, takes_rows_that_do_not_overlap_and_have_addresses) {
  const std::vector<float> data(40);
  const auto takes_rows = [&](index_t rows, index_t columns, std::ptrdiff_t stride) {
    return takes([&] {
      validate(host_logits<float>(data.data(), rows, columns, stride), 10, "the vocabulary, ");
    });
  };
  EXPECT_TRUE(takes_rows(4, 10, 10));
  EXPECT_FALSE(takes_rows(4, 9, 10));
  EXPECT_FALSE(takes_rows(4, 10, 9));
  EXPECT_TRUE(takes_rows(1, 10, 0));  // of one row it has no meaning
  const std::ptrdiff_t most = PTRDIFF_MAX / std::ptrdiff_t{sizeof(float)} / 4;
  EXPECT_TRUE(takes_rows(4, 10, most));
  EXPECT_FALSE(takes_rows(4, 10, most + 1));
  EXPECT_TRUE(takes_rows(1, 10, most + 1));
}

TEST(validate, takes_modifiers_that_do_not_overlap) {
  const std::vector<std::uint32_t> words(8);
  const std::vector<float> logits(200);
  const auto takes_strides = [&](std::ptrdiff_t allowed, std::ptrdiff_t unconditional) {
    row_modifiers<float> r;
    r.allowed = words.data();
    r.allowed_stride = allowed;
    r.unconditional = logits.data();
    r.unconditional_stride = unconditional;
    return takes([&] { validate(r, 2, 64, 70); });
  };
  EXPECT_TRUE(takes_strides(2, 70));
  EXPECT_TRUE(takes_strides(0, 0));  // the same for every row
  EXPECT_FALSE(takes_strides(1, 70));
  EXPECT_FALSE(takes_strides(2, 69));
  row_modifiers<float> odd;
  odd.allowed = words.data();
  odd.allowed_stride = 2;
  EXPECT_FALSE(takes([&] { validate(odd, 2, 65, 70); }));  // needs three words
}

TEST(validate, takes_a_step_between_modifiers_of_one_row_for_any) {
  const std::vector<std::uint32_t> words(8);
  const std::vector<float> logits(200);
  for (const std::ptrdiff_t stride : {-1, 0, 1}) {
    row_modifiers<float> r;
    r.allowed = words.data();
    r.allowed_stride = stride;
    r.unconditional = logits.data();
    r.unconditional_stride = stride;
    EXPECT_TRUE(takes([&] { validate(r, 1, 64, 70); }));
    EXPECT_EQ(takes([&] { validate(r, 2, 64, 70); }), stride == 0);
    EXPECT_EQ(takes([&] { validate(r, 2, 32, 1); }), stride >= 0);  // a word, and a column
    EXPECT_EQ(takes([&] { validate(r, 2, 33, 1); }), stride == 0);
  }
}

TEST(validate, takes_rows_at_an_address_of_their_own) {
  alignas(float) const std::byte memory[64] = {};
  const auto at = [&](std::ptrdiff_t byte) {
    return byte < 0 ? nullptr : reinterpret_cast<const float*>(memory + byte);
  };
  for (const std::ptrdiff_t byte : {-1, 0, 1, 2, 3, 4}) {
    const bool is_one = byte >= 0 && byte % 4 == 0;
    const auto takes_rows = [&](index_t rows) {
      return takes([&] { validate(host_logits<float>(at(byte), rows, 5), 5, "the vocabulary, "); });
    };
    EXPECT_EQ(takes_rows(1), is_one) << byte;
    EXPECT_EQ(takes_rows(2), is_one) << byte;
    EXPECT_TRUE(takes_rows(0)) << byte;  // there is nothing to read
    row_modifiers<float> r;
    r.allowed = reinterpret_cast<const std::uint32_t*>(at(byte));
    EXPECT_EQ(takes([&] { validate(r, 1, 5, 5); }), is_one || byte < 0) << byte;
    r = {};
    r.unconditional = at(byte);
    EXPECT_EQ(takes([&] { validate(r, 1, 5, 5); }), is_one || byte < 0) << byte;
  }
}

TEST(validate, takes_any_distance_to_the_row_behind_the_only_one) {
  const std::vector<float> data(10);
  for (const std::ptrdiff_t stride : {PTRDIFF_MIN, std::ptrdiff_t{0}, PTRDIFF_MAX}) {
    EXPECT_TRUE(takes(
        [&] { validate(host_logits<float>(data.data(), 1, 10, stride), 10, "the vocabulary, "); }));
    EXPECT_FALSE(takes(
        [&] { validate(host_logits<float>(data.data(), 2, 10, stride), 10, "the vocabulary, "); }));
  }
}

TEST(policy_reach, of_a_policy_that_reads_ahead_is_the_answer) {
  const sequence_shape g{.prompt_length = 3, .length = 10, .block_length = 4};
  const policy ahead{by_confidence{}, released::falling_threshold{}};
  EXPECT_EQ(detail::policy_reach(ahead, g), 7);
  const policy blocks{by_confidence{}, threshold{}};
  EXPECT_EQ(detail::policy_reach(blocks, g), 4);
}

}  // namespace
}  // namespace unmask::testing::validate_test
