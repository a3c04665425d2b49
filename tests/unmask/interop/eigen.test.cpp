// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/interop/eigen.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/unmask.hpp>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include <array>
#if __has_include(<mdspan>)
#  include <mdspan>
#endif
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

/// A hidden state of 5 numbers that depends on position, layer and pass.
float state_number(index_t position, index_t layer, index_t pass, int column) {
  const auto x = static_cast<float>(position * 7 + layer * 3 + pass * 5 + column);
  return __builtin_sinf(x * x);
}

constexpr index_t state_layers = 3;
constexpr index_t state_length = 12;
constexpr int state_width = 5;

/// Positions that the layers of all passes compute under a budget. `at(pass, layer, now, stored)`
/// gives the rows of an engine to the hook: `now` has a row for each position that reaches the
/// layer, `stored` is the memory of the layer.
std::vector<index_t> computed(const auto& at) {
  tokens_of tokens(state_length);
  const policy p{by_confidence{},
                 tokens_per_step{2},
                 cache_budget{.budget = 3, .window = 2},
                 interval_cache{.prompt_period = 1, .answer_period = 0}};
  model_info model = small_model;
  model.layers = state_layers;
  session s{p, model, tokens_view<memory::host>(tokens), sequence_shape{.length = state_length}};
  std::vector<std::vector<float>> stored(state_layers,
                                         std::vector<float>(state_length * state_width));
  std::vector<index_t> all;
  for (index_t pass = 0; s.next(); ++pass) {
    auto through = s.pass(0);
    for (index_t layer = 0; layer < state_layers; ++layer) {
      std::vector<float> now;
      for (const index_t position : through.positions()) {
        for (int c = 0; c < state_width; ++c) {
          now.push_back(state_number(position, layer, pass, c));
        }
      }
      if (through.hooks(layer)) {
        const layer_choice chosen =
            at(through, layer, now, stored[static_cast<std::size_t>(layer)]);
        all.insert(all.end(), chosen.positions.begin(), chosen.positions.end());
      }
    }
    std::vector<float> z;
    for (std::size_t r = 0; r < through.rows().size(); ++r) {
      z.insert(z.end(), table[r % 3].begin(), table[r % 3].end());
    }
    s.supply(
        host_logits<float>(z.data(), static_cast<index_t>(through.rows().size()), small_vocab));
  }
  return all;
}

TEST(hidden_states, of_eigen_and_mdspan_select_what_views_select) {
  using outer = Eigen::OuterStride<>;
  const std::vector<index_t> expected =
      computed([](auto& pass, index_t layer, std::vector<float>& now, std::vector<float>& stored) {
        const auto rows = static_cast<index_t>(now.size()) / state_width;
        return pass.at_layer(layer,
                             host_logits<float>(now.data(), rows, state_width),
                             host_state<float>(stored.data(), state_length, state_width));
      });
  EXPECT_GT(expected.size(), std::size_t{state_layers * state_length});
  EXPECT_LT(expected.size(), 4U * state_layers * state_length);  // of six passes
  row_major memory = row_major::Zero(state_layers * state_length, state_width);
  EXPECT_EQ(computed([&](auto& pass, index_t layer, std::vector<float>& now, auto&) {
              const Eigen::Map<const row_major> rows(
                  now.data(), static_cast<Eigen::Index>(now.size()) / state_width, state_width);
              auto kept = memory.middleRows(layer * state_length, state_length);
              return pass.at_layer(layer, rows, as_state(kept));
            }),
            expected);
  EXPECT_EQ(computed([&](auto& pass, index_t layer, std::vector<float>& now, auto& stored) {
              row_major wide = row_major::Constant(
                  static_cast<Eigen::Index>(now.size()) / state_width, state_width + 2, 9.0F);
              wide.leftCols(state_width) =
                  Eigen::Map<row_major>(now.data(), wide.rows(), state_width);
              const Eigen::Map<const row_major, 0, outer> rows(
                  wide.data(), wide.rows(), state_width, outer(state_width + 2));
              Eigen::Map<row_major> kept(stored.data(), state_length, state_width);
              return pass.at_layer(layer, rows, as_state(kept));
            }),
            expected);
  EXPECT_EQ(computed([&](auto& pass, index_t layer, std::vector<float>& now, auto& stored) {
              const auto rows = now.size() / state_width;
              return pass.at_layer(layer,
                                   some_engine::strided_span<const float>(
                                       now.data(), {rows, state_width}, state_width),
                                   as_state(some_engine::strided_span<float>(
                                       stored.data(), {state_length, state_width}, state_width)));
            }),
            expected);
}

TEST(hidden_states, that_are_stored_have_positions_and_can_be_written) {
  row_major m = row_major::Zero(4, 3);
  const host_state<float> all = as_state(m, 7);
  EXPECT_EQ(all.positions, (range{7, 11}));
  EXPECT_EQ(all.row(8), m.data() + 3);
  auto some = m.leftCols(2);
  EXPECT_EQ(as_state(some).columns, 2);
  EXPECT_EQ(as_state(some).stride, 3);
  const auto can_be_written = [](auto& tensor) { return requires { as_state(tensor); }; };
  const row_major fixed = m;
  EXPECT_FALSE(can_be_written(fixed));
  const Eigen::Map<const row_major> lent(m.data(), 4, 3);
  EXPECT_FALSE(can_be_written(lent));
  const some_engine::strided_span<const float> read_only(m.data(), {4, 3}, 3);
  EXPECT_FALSE(can_be_written(read_only));
}

#if defined(__cpp_lib_mdspan)
TEST(mdspan, of_the_standard_library_is_logits_and_stored_rows) {
  std::vector<float> numbers(3 * small_vocab);
  const std::mdspan<float, std::dextents<std::size_t, 2>> span(numbers.data(), 3, small_vocab);
  Eigen::Map<row_major> map(numbers.data(), 3, small_vocab);
  fill(map);
  EXPECT_EQ(decoded_from(span), (tokens_of{1, 2, 3}));
  EXPECT_EQ(as_state(span, 2).row(3), numbers.data() + small_vocab);
}
#endif

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
