// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/arithmetic.hpp>
#include <unmask/cuda/thread_block.hpp>
#include <unmask/stats/canonical.hpp>

#include <cstdint>
#include <type_traits>

/// A warp holds adjacent columns of a row in its registers, a canonical chunk or a piece of one:
/// thread t has lanes 2 t and 2 t + 1, that is the columns 64 k + 2 t and 64 k + 2 t + 1 for
/// k = 0, 1, ..., at 2 k and 2 k + 1. Columns are counted from the first of them.
namespace UNMASK_NAMESPACE::device {

/// Columns of a chunk that a lane adds up.
inline constexpr index_t lane_columns = canonical::chunk_columns / canonical::lanes;
static_assert(canonical::lanes == 2 * warp_threads,
              "a thread holds two lanes of the canonical order");

/// A thread's logits of a chunk.
using chunk_logits = float[2 * lane_columns];

namespace detail {

// The column at index i of a thread.
[[nodiscard]] UNMASK_HD inline index_t column_of(const auto& b, index_t i) {
  return canonical::lanes * (i / 2) + 2 * b.warp_lane() + i % 2;
}

// The index at which a thread has a column, -1 if another thread has it.
[[nodiscard]] UNMASK_HD inline index_t index_of(const auto& b, index_t column) {
  const bool mine = column % canonical::lanes / 2 == b.warp_lane();
  return mine ? 2 * (column / canonical::lanes) + column % 2 : -1;
}

// A column and its logit; the column after the last one if there is none.
struct place {
  index_t column;
  float logit;
};

// Adds the 64 lanes of a warp by halving, as canonical::sum_of_lanes; every thread gets the sum.
[[nodiscard]] UNMASK_HD inline float sum_of_lanes(const auto& b, float even, float odd) {
  // Lanes 32 apart are threads 16 apart. One half of the warp continues with the even lanes, the
  // other with the odd ones: half the shuffles.
  const bool upper = b.warp_lane() >= warp_threads / 2;
  float sum = upper ? odd : even;
  sum += b.shuffle_xor(upper ? even : odd, warp_threads / 2);
  for (index_t distance = warp_threads / 4; distance > 0; distance /= 2) {
    sum += b.shuffle_xor(sum, distance);
  }
  return sum + b.shuffle_xor(sum, warp_threads / 2);
}

template <class T>
[[nodiscard]] UNMASK_HD bool holds_pairs(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (2 * sizeof(T)) == 0;
}

// Calls take(i, logit) for each of a thread's N columns. `from` holds pairs.
template <index_t N, element T, class Take>
UNMASK_HD void load_pairs(const auto& b, const T* from, const Take& take) {
  const T* const mine = from + 2 * b.warp_lane();
  unrolled<N / 2>([&](index_t k) {
    float even = 0.0F;
    float odd = 0.0F;
    load_pair(mine + canonical::lanes * k, even, odd);
    take(2 * k, even);
    take(2 * k + 1, odd);
  });
}

// Loads columns, with -inf from `count` on. Columns after `count` are not read.
template <index_t N, element T, class Take>
UNMASK_HD void load(const auto& b, const T* from, index_t count, const Take& take) {
  if (count == warp_threads * N && holds_pairs(from)) {
    load_pairs<N>(b, from, take);
  } else {
    const T* const mine = from + 2 * b.warp_lane();
    unrolled<N>([&](index_t i) {
      const bool there = column_of(b, i) < count;
      take(i,
           there ? device::to_float(mine[canonical::lanes * (i / 2) + i % 2]) : -math::infinity());
    });
  }
}

template <index_t N, class Edit>
UNMASK_HD void
apply(const auto& b, const Edit& edit, token_id first, index_t count, float (&z)[N]) {
  if constexpr (!std::is_same_v<Edit, identity>) {
    unrolled<N>([&](index_t i) {
      const index_t column = column_of(b, i);
      if (column < count) {
        z[i] = edit(z[i], first + column);
      }
    });
  }
}

template <index_t N, element T>
UNMASK_HD void
keep_allowed(const auto& b, const row_input<T>& row, token_id first, index_t count, float (&z)[N]) {
  unrolled<N / 2>([&](index_t k) {
    const index_t column = column_of(b, 2 * k);
    if (column >= count) {
      return;
    }
    const token_id token = first + column;
    std::uint32_t bits = row.allowed[token / 32] >> static_cast<std::uint32_t>(token % 32);
    if (token % 32 == 31 && column + 1 < count) {  // the pair lies in two words
      bits |= row.allowed[token / 32 + 1] << 1U;
    }
    z[2 * k] = (bits & 1U) != 0 ? z[2 * k] : -math::infinity();
    z[2 * k + 1] = (bits & 2U) != 0 ? z[2 * k + 1] : -math::infinity();
  });
}

// The excluded token of a thread, of the 32 from `from` on; no_token if it has none.
template <element T>
[[nodiscard]] UNMASK_HD token_id excluded_of(const auto& b, const row_input<T>& row, index_t from) {
  const index_t mine = from + b.warp_lane();
  return mine < row.excluded_count ? row.excluded[mine] : no_token;
}

// Looks at 32 excluded tokens at a time, one a thread; `mine` is excluded_of(b, row, 0).
template <index_t N, element T>
UNMASK_HD void take_excluded(const auto& b,
                             const row_input<T>& row,
                             token_id mine,
                             token_id first,
                             index_t count,
                             float (&z)[N]) {
  for (index_t from = 0; from < row.excluded_count; from += warp_threads) {
    const index_t column = (from == 0 ? mine : excluded_of(b, row, from)) - first;
    std::uint32_t found = b.ballot(column >= 0 && column < count);
    for (; found != 0; found &= found - 1) {
      const index_t n = math::lowest_bit(found);
      const auto taken = static_cast<index_t>(b.shuffle(static_cast<std::uint32_t>(column), n));
      const index_t held = index_of(b, taken);
      if (held < 0) {
        continue;
      }
      float logit = 0.0F;
      unrolled<N>([&](index_t i) {  // registers have no index
        if (i == held) {
          logit = z[i];
          z[i] = -math::infinity();
        }
      });
      if (row.excluded_logits != nullptr) {
        row.excluded_logits[from + n] = logit;
      }
    }
  }
}

}  // namespace detail

/// Reads the columns [first, first + count) of a row once each: the logits as edited, padded with
/// -inf. The order of the options is that of host::read_run: guidance, `edit`, the tokens that are
/// not allowed, the excluded tokens (whose logits are written out). `excluded` is the thread's of
/// the first 32 of these.
template <index_t N, element T, class Edit>
UNMASK_HD void stage(const auto& b,
                     const row_input<T>& row,
                     const Edit& edit,
                     token_id excluded,
                     index_t first,
                     index_t count,
                     float (&z)[N]) {
  detail::load<N>(b, row.logits + first, count, [&](index_t i, float x) { z[i] = x; });
  if (row.unconditional != nullptr) {
    const float weight = row.cfg_scale + 1.0F;
    detail::load<N>(b, row.unconditional + first, count, [&](index_t i, float u) {
      if (detail::column_of(b, i) < count) {
        z[i] = math::fma(weight, math::difference(z[i], u), u);
      }
    });
  }
  const token_id token = row.first_token + first;
  detail::apply(b, edit, token, count, z);
  if (row.allowed != nullptr) {
    detail::keep_allowed(b, row, token, count, z);
  }
  if (row.excluded_count > 0) {
    detail::take_excluded(b, row, excluded, token, count, z);
  }
}

}  // namespace unmask::device
