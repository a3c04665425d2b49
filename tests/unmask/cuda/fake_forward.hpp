// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file A model of integers, the same on both sides of the bus: logit v of row r is a multiple of
/// 1/64 that depends on the tokens around r.

#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>

#include <cuda_runtime_api.h>

namespace unmask::testing {

[[nodiscard]] UNMASK_HD inline std::uint32_t scrambled(std::uint32_t x) {
  x ^= x >> 16U;
  x *= 0x7feb352dU;
  x ^= x >> 15U;
  x *= 0x846ca68bU;
  return x ^ (x >> 16U);
}

/// The tokens that a branch places, as an argument of a kernel.
struct placed_tokens {
  placement all[max_placed];
  index_t count = 0;

  explicit placed_tokens(const segment& s) {
    for (const placement& p : s.placed) {
      all[count++] = p;
    }
  }
  [[nodiscard]] UNMASK_HD token_id at(index_t position, token_id token) const {
    for (index_t k = 0; k < count; ++k) {
      token = all[k].position == position ? all[k].token : token;
    }
    return token;
  }
};

/// Key of a row: the tokens at r - 1, r and r + 1, with those that a branch has placed.
[[nodiscard]] UNMASK_HD inline std::uint32_t
row_key(const token_id* tokens, index_t length, index_t r, const placed_tokens& placed) {
  std::uint32_t key = scrambled(static_cast<std::uint32_t>(r));
  for (index_t p = r > 0 ? r - 1 : 0; p <= r + 1 && p < length; ++p) {
    const token_id token = placed.at(p, tokens[p]);
    key = scrambled(key ^ static_cast<std::uint32_t>(token));
  }
  return key;
}

/// A logit in units of 1/64, |logit| < 1024; few of them are large.
[[nodiscard]] UNMASK_HD inline index_t fake_logit(std::uint32_t key, index_t v) {
  const std::uint32_t h = scrambled(key + 0x9e3779b9U * static_cast<std::uint32_t>(v));
  const auto small = static_cast<index_t>(h % 512U) - 256;
  return h % 61U == 0 ? small + 700 : small;
}

/// units / 64 as an element; exact but for bfloat16, which is cut off.
template <element T>
[[nodiscard]] UNMASK_HD T encode_units(index_t units);
template <>
[[nodiscard]] UNMASK_HD inline float encode_units<float>(index_t units) {
  return static_cast<float>(units) * 0x1p-6F;
}
template <>
[[nodiscard]] UNMASK_HD inline bfloat16 encode_units<bfloat16>(index_t units) {
  return {static_cast<std::uint16_t>(
      __builtin_bit_cast(std::uint32_t, encode_units<float>(units)) >> 16U)};
}
template <>
[[nodiscard]] UNMASK_HD inline float16 encode_units<float16>(index_t units) {
  const auto sign = static_cast<std::uint32_t>(units < 0 ? 0x8000 : 0);
  auto size = static_cast<std::uint32_t>(units < 0 ? -units : units);
  if (size == 0) {
    return {0};
  }
  std::uint32_t exponent = 19;  // of 1024 / 64 = 16
  while (size < 1024U) {
    size *= 2;
    --exponent;
  }
  return {static_cast<std::uint16_t>(sign | (exponent << 10U) | (size & 1023U))};
}

/// Enqueues the rows of one segment of a sequence of `length` tokens, all in device memory.
template <element T>
void fake_forward(const segment& s,
                  const token_id* tokens,
                  index_t length,
                  const rows_view<T, memory::device>& logits,
                  cudaStream_t stream);

/// The same on the host.
template <element T>
void fake_forward_on_host(const segment& s,
                          const token_id* tokens,
                          index_t length,
                          T* rows,
                          index_t vocab,
                          std::ptrdiff_t stride) {
  const placed_tokens placed(s);
  for (index_t r = 0; r < s.rows.size(); ++r) {
    const std::uint32_t key = row_key(tokens, length, s.rows.first + r, placed);
    for (index_t v = 0; v < vocab; ++v) {
      rows[r * stride + v] = encode_units<T>(fake_logit(key, v));
    }
  }
}

}  // namespace unmask::testing
