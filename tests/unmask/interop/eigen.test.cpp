// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/interop/eigen.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/unmask.hpp>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "support/bound_session.hpp"
#include "support/fixed_rows.hpp"

// An engine with a tensor class of its own. One function makes it a row_tensor.
namespace some_engine {

struct half_number {
  std::uint16_t bits;
};

class tensor {
 public:
  tensor(std::vector<half_number> numbers, int height, int width)
      : numbers_(std::move(numbers))
      , height_(height)
      , width_(width) {}

 private:
  std::vector<half_number> numbers_;
  int height_;
  int width_;

  friend unmask::rows_view<unmask::bfloat16, unmask::memory::host> as_rows(const tensor& t) {
    return {reinterpret_cast<const unmask::bfloat16*>(t.numbers_.data()),
            t.height_,
            t.width_,
            t.width_};
  }
};

/// std::mdspan<const T, dextents<size_t, 2>, layout_stride>, as far as it matters here.
template <class T>
class strided_span {
 public:
  strided_span(T* data,
               std::array<std::size_t, 2> extents,
               std::size_t row_stride,
               std::size_t column_stride = 1)
      : data_(data)
      , extents_(extents)
      , strides_{row_stride, column_stride} {}
  [[nodiscard]] T* data_handle() const { return data_; }
  [[nodiscard]] std::size_t extent(std::size_t r) const { return extents_[r]; }
  [[nodiscard]] std::size_t stride(std::size_t r) const { return strides_[r]; }

 private:
  T* data_;
  std::array<std::size_t, 2> extents_;
  std::array<std::size_t, 2> strides_;
};

}  // namespace some_engine

namespace unmask::testing::eigen_test {
namespace {

using tokens_of = std::vector<token_id>;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(row_tensor<some_engine::tensor>);
static_assert(row_tensor<some_engine::strided_span<const float>>);
static_assert(row_tensor<some_engine::strided_span<bfloat16>>);
static_assert(!row_tensor<some_engine::strided_span<const double>>);
static_assert(row_tensor<row_major>);
static_assert(row_tensor<Eigen::Matrix<float, 3, 5, Eigen::RowMajor>>);
static_assert(row_tensor<Eigen::RowVectorXf>, "one row");
static_assert(row_tensor<Eigen::Map<const row_major>>);
static_assert(row_tensor<Eigen::Map<row_major, 0, Eigen::OuterStride<>>>);

// Rows whose columns are not contiguous, or not floats, are refused.
static_assert(!row_tensor<Eigen::MatrixXf>, "column-major");
static_assert(!row_tensor<Eigen::VectorXf>, "a column");
static_assert(!row_tensor<Eigen::Matrix<double, 2, 2, Eigen::RowMajor>>);
static_assert(!row_tensor<Eigen::Map<const Eigen::MatrixXf>>);
static_assert(
    !row_tensor<Eigen::Map<const row_major, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>>);

/// Three masked positions whose rows prefer tokens 1, 2 and 3.
const std::vector<row> table = {
    row_with_confidence(0.9, 1), row_with_confidence(0.9, 2), row_with_confidence(0.9, 3)};

/// Decode of a session with a tensor of those rows.
template <class Tensor>
tokens_of decoded_from(const Tensor& tensor) {
  tokens_of tokens(3);
  session s{policy{by_confidence{}, tokens_per_step{3}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 3}};
  EXPECT_TRUE(s.next());
  s.supply(tensor);
  return tokens;
}

template <class Matrix>
void fill(Matrix& m) {
  for (Eigen::Index r = 0; r < 3; ++r) {
    for (Eigen::Index v = 0; v < small_vocab; ++v) {
      m(r, v) = table[static_cast<std::size_t>(r)][static_cast<std::size_t>(v)];
    }
  }
}

TEST(eigen, matrices_are_logits) {
  row_major m(3, small_vocab);
  fill(m);
  EXPECT_EQ(decoded_from(m), (tokens_of{1, 2, 3}));
  Eigen::Matrix<float, 3, small_vocab, Eigen::RowMajor> fixed;
  fill(fixed);
  EXPECT_EQ(decoded_from(fixed), (tokens_of{1, 2, 3}));
}

TEST(eigen, maps_are_logits_with_any_distance_between_rows) {
  row_major wide = row_major::Constant(3, small_vocab + 4, 1000.0F);
  fill(wide);
  const Eigen::Map<const row_major, 0, Eigen::OuterStride<>> map(
      wide.data(), 3, small_vocab, Eigen::OuterStride<>(small_vocab + 4));
  EXPECT_EQ(decoded_from(map), (tokens_of{1, 2, 3}));
  const auto view = as_rows(map);
  EXPECT_EQ(view.stride, small_vocab + 4);
  EXPECT_EQ(view.columns, small_vocab);
}

TEST(eigen, blocks_of_rows_are_logits) {
  row_major tall = row_major::Constant(6, small_vocab, 1000.0F);
  auto middle = tall.middleRows(2, 3);
  fill(middle);
  EXPECT_EQ(decoded_from(middle), (tokens_of{1, 2, 3}));
}

TEST(eigen, a_row_vector_is_one_row) {
  Eigen::RowVectorXf v(small_vocab);
  for (Eigen::Index i = 0; i < small_vocab; ++i) {
    v(i) = table[1][static_cast<std::size_t>(i)];
  }
  const auto view = as_rows(v);
  EXPECT_EQ(view.rows, 1);
  EXPECT_EQ(view.columns, small_vocab);
  tokens_of tokens(1);
  session s{policy{by_confidence{}, tokens_per_step{1}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 1}};
  ASSERT_TRUE(s.next());
  s.supply(v);
  EXPECT_EQ(tokens, tokens_of{2});
}

TEST(mdspan, of_rank_two_is_logits) {
  std::vector<float> numbers(3 * (small_vocab + 2), 1000.0F);
  for (std::size_t r = 0; r < 3; ++r) {
    std::copy(table[r].begin(),
              table[r].end(),
              numbers.begin() + static_cast<std::ptrdiff_t>(r * (small_vocab + 2)));
  }
  const some_engine::strided_span<const float> span(
      numbers.data(), {3, small_vocab}, small_vocab + 2);
  EXPECT_EQ(decoded_from(span), (tokens_of{1, 2, 3}));
}

TEST(mdspan, whose_columns_are_not_neighbours_is_refused) {
  const std::vector<float> numbers(2 * 3 * small_vocab, 0.0F);
  EXPECT_THROW(decoded_from(some_engine::strided_span<const float>(
                   numbers.data(), {3, small_vocab}, 2 * small_vocab, 2)),
               std::invalid_argument);
  EXPECT_THROW(decoded_from(some_engine::strided_span<const float>(
                   numbers.data(), {3, small_vocab}, 1, 3)),  // column-major
               std::invalid_argument);
}

TEST(tensor, of_an_engine_is_logits_by_one_function) {
  std::vector<some_engine::half_number> numbers;
  for (const row& z : table) {
    for (const float x : z) {
      numbers.push_back({static_cast<std::uint16_t>(math::bits_of(x) >> 16U)});
    }
  }
  const some_engine::tensor t(numbers, 3, small_vocab);
  EXPECT_EQ(decoded_from(t), (tokens_of{1, 2, 3}));
}

TEST(tensor, of_an_engine_goes_through_rows_without_type) {
  std::vector<some_engine::half_number> numbers;
  for (const row& z : table) {
    for (const float x : z) {
      numbers.push_back({static_cast<std::uint16_t>(math::bits_of(x) >> 16U)});
    }
  }
  const auto s = make_bound(
      policy{by_confidence{}, tokens_per_step{3}}, small_model, {.length = 3, .window = 3});
  tokens_of tokens(3);
  s->start(0, tokens.data(), 3, {.length = 3, .block_length = 3});
  ASSERT_TRUE(s->next());
  s->supply(some_engine::tensor(numbers, 3, small_vocab));
  EXPECT_EQ(tokens, (tokens_of{1, 2, 3}));
}

}  // namespace
}  // namespace unmask::testing::eigen_test
