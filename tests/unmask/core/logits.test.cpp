// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/any_rows.hpp>
#include <unmask/core/logits.hpp>

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <type_traits>
#include <vector>

namespace unmask::testing::logits_test {
namespace {

static_assert(element<float> && element<bfloat16> && element<float16>);
static_assert(!element<double> && !element<int> && !element<const float>);
static_assert(std::is_trivially_copyable_v<host_logits<float>>);
static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2);
static_assert(host_logits<float>::space == memory::host);
static_assert(device_logits<float>::space == memory::device);
static_assert(row_tensor<host_logits<float>>);
static_assert(row_tensor<device_logits<bfloat16>>);
static_assert(!row_tensor<std::vector<float>>, "a vector does not know its rows");
static_assert(!row_tensor<float*>);

TEST(rows_view, finds_its_rows_by_the_stride) {
  const std::array<float, 12> numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const host_logits<float> dense(numbers.data(), 4, 3);
  EXPECT_EQ(dense.stride, 3);
  EXPECT_EQ(*dense.row(2), 6.0F);
  const host_logits<float> padded(numbers.data(), 3, 3, 4);
  EXPECT_EQ(*padded.row(2), 8.0F);
}

TEST(rows_view, of_some_rows_starts_at_the_first_of_them) {
  const std::array<float, 12> numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto some = host_logits<float>(numbers.data(), 3, 3, 4).subrows({1, 3});
  EXPECT_EQ(some.rows, 2);
  EXPECT_EQ(some.columns, 3);
  EXPECT_EQ(some.stride, 4);
  EXPECT_EQ(*some.row(0), 4.0F);
  EXPECT_EQ(*some.row(1), 8.0F);
}

TEST(as_rows, of_a_view_is_the_view) {
  const float number = 0.0F;
  const auto same = as_rows(host_logits<float>(&number, 7, 5, 9));
  EXPECT_EQ(same.data, &number);
  EXPECT_EQ(same.rows, 7);
  EXPECT_EQ(same.columns, 5);
  EXPECT_EQ(same.stride, 9);
}

TEST(tokens_view, is_made_of_anything_contiguous) {
  std::vector<token_id> vector = {1, 2, 3};
  std::array<token_id, 2> array = {4, 5};
  const tokens_view<memory::host> a = vector;
  const tokens_view<memory::host> b = std::span(array);
  const tokens_view<memory::host> c(vector.data() + 1, 2);
  EXPECT_EQ(a.size, 3);
  EXPECT_EQ(a.data, vector.data());
  EXPECT_EQ(b.size, 2);
  EXPECT_EQ(b.data, array.data());
  EXPECT_EQ(c.data, &vector[1]);
}

// Host memory of another type is refused with a sentence: const_tokens.fail.cpp and others.
TEST(tokens_view, is_not_made_of_memory_elsewhere) {
  static_assert(!std::is_constructible_v<tokens_view<memory::device>, std::vector<token_id>&>);
  static_assert(!std::is_constructible_v<tokens_view<memory::host>, index_t>);
}

// Memory that is not there, of more tokens or rows than an index_t counts.
struct huge {
  token_id* first = nullptr;
  token_id* data() { return first; }
  static std::size_t size() { return (std::size_t{1} << 32U) + 5; }
};
struct huge_matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  static const float* data_handle() { return nullptr; }
  std::size_t extent(int k) const { return k == 0 ? rows : columns; }
  std::ptrdiff_t stride(int k) const { return k == 0 ? static_cast<std::ptrdiff_t>(columns) : 1; }
};

TEST(Views, OfMoreThanAnIndexCountsAreNotCutShort) {
  constexpr index_t most = 0x7fffffff;
  huge tokens;
  EXPECT_EQ(tokens_view<memory::host>(tokens).size, most);
  constexpr std::size_t more = (std::size_t{1} << 32U) + 5;
  EXPECT_EQ(as_rows(huge_matrix{.rows = more, .columns = 7}).rows, most);
  EXPECT_EQ(as_rows(huge_matrix{.rows = 7, .columns = more}).columns, most);
  EXPECT_EQ(as_rows(huge_matrix{.rows = 7, .columns = more}).stride, std::ptrdiff_t{more});
  EXPECT_EQ(as_rows(huge_matrix{.rows = most, .columns = 7}).rows, most);
}

TEST(row_modifiers, from_a_row_on_skip_the_rows_before) {
  const std::uint32_t words[6] = {};
  const float numbers[30] = {};
  const row_modifiers<float> all = {words, 2, numbers, 10, 1.5F};
  const row_modifiers<float> rest = all.from_row(2);
  EXPECT_EQ(rest.allowed, words + 4);
  EXPECT_EQ(rest.unconditional, numbers + 20);
  EXPECT_EQ(rest.allowed_stride, 2);
  EXPECT_EQ(rest.unconditional_stride, 10);
  EXPECT_EQ(rest.cfg_scale, 1.5F);
}

TEST(any_modifiers, from_a_row_on_skip_the_rows_before) {
  const std::vector<std::uint32_t> allowed(8);
  const std::vector<std::uint16_t> other(40);
  const any_modifiers all{.allowed = allowed.data(),
                          .allowed_stride = 2,
                          .unconditional = other.data(),
                          .unconditional_stride = 10,
                          .cfg_scale = 0.5F};
  const any_modifiers rest = all.from_row(3, element_kind::bf16);
  EXPECT_EQ(rest.allowed, allowed.data() + 6);
  EXPECT_EQ(rest.unconditional, other.data() + 30);
  EXPECT_EQ(rest.unconditional_stride, 10);
  EXPECT_EQ(rest.cfg_scale, 0.5F);
  const any_modifiers none = any_modifiers{}.from_row(3, element_kind::f32);
  EXPECT_EQ(none.allowed, nullptr);
  EXPECT_EQ(none.unconditional, nullptr);
}

TEST(row_modifiers, that_carry_nothing_stay_empty) {
  const row_modifiers<bfloat16> rest = row_modifiers<bfloat16>{}.from_row(5);
  EXPECT_EQ(rest.allowed, nullptr);
  EXPECT_EQ(rest.unconditional, nullptr);
}

}  // namespace
}  // namespace unmask::testing::logits_test
