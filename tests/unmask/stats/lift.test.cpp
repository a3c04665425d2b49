// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A statistic that says how one column is lifted and how two sets of columns are joined is gathered
// by every kernel in the same bits, and merges as the records of a row do. A sum needs the
// canonical order; the largest columns do not, and have a bar.
#include <unmask/cuda/read_chunk.hpp>
#include <unmask/host/read_row.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/emulated_block.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::lift_test {
namespace {

/// Sum of e^(3 (z - best)) over the columns but the best.
struct cubes {
  float sum = 0.0F;

  void add(float /*logit*/, float below) {
    const float e = math::exp_nonpositive(below);
    sum = math::fma(e * e, e, sum);
  }
  void join(const cubes& other) { sum += other.sum; }
  void rise(const field::lowering& by) {
    sum = math::product(sum, math::product(math::product(by.scale, by.scale), by.scale));
  }
};
static_assert(field::lifted<cubes> && !field::barred<cubes>);

/// The largest column but the best.
struct runner_up {
  float logit = -math::infinity();

  [[nodiscard]] float bar() const { return logit; }
  void add(float z, float /*below*/) { logit = math::max(logit, z + 0.0F); }
  void join(const runner_up& other) { add(other.logit, 0.0F); }
};
static_assert(field::barred<runner_up>);
static_assert(!field::lifted<field::margin>);

/// The columns of a chunk and their best.
struct chunk {
  std::vector<float> z;
  float best = -math::infinity();

  chunk(scene kind, index_t columns, std::uint64_t seed)
      : z(hard_row<float>(kind, columns, seed)) {
    for (const float x : z) {
      best = x > best ? x : best;
    }
  }
  [[nodiscard]] index_t count() const { return static_cast<index_t>(z.size()); }
  [[nodiscard]] double exact() const {
    double sum = -1.0;  // without the best column
    for (const float x : z) {
      sum += std::exp(3.0 * (static_cast<double>(x) - static_cast<double>(best)));
    }
    return sum;
  }
};

constexpr index_t widths[] = {1, 2, 3, 63, 64, 65, 1000, 2047, 2048};

TEST(lift, of_a_sum_is_accurate) {
  for (const scene kind : finite_scenes) {
    for (const index_t columns : widths) {
      const chunk c(kind, columns, 1);
      const float sum = canonical::lift<cubes>(c.z.data(), columns, c.best).sum;
      // z - best, rounded, moves e^3d by 3 |d| e^3d <= .4 at most; a column the more.
      EXPECT_NEAR(sum, c.exact(), (4 + 37 + 10) * 0x1p-24 * (1.0 + c.exact()));
    }
  }
}

template <class F>
std::uint32_t bits_at(const F& f, std::size_t number) {
  return bits_of(reinterpret_cast<const float*>(&f)[number]);
}

template <class F>
void expect_one_result(scene kind, index_t columns) {
  const chunk c(kind, columns, 2);
  if (!(c.best > -math::infinity()) || c.best == math::infinity()) {
    return;  // nothing to lift; an infinite best makes the record invalid
  }
  const F expected = canonical::lift<F>(c.z.data(), columns, c.best);
  const index_t padded = (columns + canonical::lanes - 1) / canonical::lanes * canonical::lanes;
  alignas(64) float z[canonical::chunk_columns];
  std::fill(std::copy(c.z.begin(), c.z.end(), z), z + padded, -math::infinity());
  const float* const first = z;
  for (const host::instruction_set level : instruction_sets()) {
    if (level == host::instruction_set::portable) {
      continue;
    }
    const F f = host::with_vectors(level, [&]<class Simd>(Simd) {
      if constexpr (requires {
                      host::detail::row_kernel<Simd>::template lift<F>(first, padded, c.best);
                    }) {
        return host::detail::row_kernel<Simd>::template lift<F>(first, padded, c.best);
      } else {
        return F{};
      }
    });
    for (std::size_t k = 0; k < sizeof(F) / sizeof(float); ++k) {
      EXPECT_EQ(bits_at(f, k), bits_at(expected, k))
          << "instruction set " << static_cast<int>(level);
    }
  }
  block_emulator block(32, 3);
  block.run([&](const emulated_block& b) {
    device::chunk_logits held;
    for (index_t i = 0; i < 2 * device::lane_columns; ++i) {
      const index_t column = device::detail::column_of(b, i);
      held[i] = column < columns ? c.z[static_cast<std::size_t>(column)] : -math::infinity();
    }
    const F f = device::detail::lift<F>(b, held, c.best);
    for (std::size_t k = 0; k < sizeof(F) / sizeof(float); ++k) {
      EXPECT_EQ(bits_at(f, k), bits_at(expected, k)) << "thread " << b.lane();
    }
  });
}

TEST(lift, has_the_same_bits_in_every_kernel) {
  for (const scene kind : every_scene) {
    for (const index_t columns : widths) {
      SCOPED_TRACE(static_cast<int>(kind) * 10000 + columns);
      expect_one_result<cubes>(kind, columns);
      expect_one_result<runner_up>(kind, columns);
    }
  }
}

TEST(lift, and_absorb_make_the_row_of_its_parts) {
  for (const scene kind : finite_scenes) {
    const chunk whole(kind, 2000, 4);
    for (const index_t cut : {1, 64, 700, 1999}) {
      chunk a = whole;
      chunk b = whole;
      a.z.resize(static_cast<std::size_t>(cut));
      b.z.erase(b.z.begin(), b.z.begin() + cut);
      a.best = *std::max_element(a.z.begin(), a.z.end());
      b.best = *std::max_element(b.z.begin(), b.z.end());
      chunk& high = a.best >= b.best ? a : b;
      chunk& low = a.best >= b.best ? b : a;
      if (low.best == -math::infinity()) {
        continue;
      }
      const float shift = std::max(low.best - high.best, math::exp_floor);
      const field::lowering by{shift, math::exp_nonpositive(shift), 0.0F};
      auto sum = canonical::lift<cubes>(high.z.data(), high.count(), high.best);
      field::absorb(sum, canonical::lift<cubes>(low.z.data(), low.count(), low.best), low.best, by);
      EXPECT_NEAR(sum.sum, whole.exact(), 64 * 0x1p-24 * (1.0 + whole.exact()));
    }
  }
}

}  // namespace
}  // namespace unmask::testing::lift_test
