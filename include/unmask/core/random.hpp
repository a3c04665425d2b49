// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>

namespace UNMASK_NAMESPACE {

/// Least temperature by which logits and scores are divided: a smaller one could overflow, and
/// would select the best token anyway.
inline constexpr float least_temperature = 1e-6F;

/// Key of one random number. Equal keys give equal numbers on every backend, whatever the batch,
/// the slot, the thread or the shard.
struct random_key {
  std::uint64_t seed = 0;      ///< Seed of the request.
  std::uint32_t sequence = 0;  ///< Distinguishes requests of one seed.
  index_t step = 0;            ///< Forward passes of the sequence before this one.
  index_t position = 0;        ///< Position for which the number is drawn.
  token_id token = 0;          ///< Token for which the number is drawn; negative if it is for none.
};

/// 32 random bits of Philox-4x32-10, the first word of the block whose counter is
/// (token, position, step, sequence) and whose key is the seed.
///
/// Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011), section 3.3.
[[nodiscard]] UNMASK_HD inline std::uint32_t random_bits(const random_key& k) {
  std::uint32_t c0 = static_cast<std::uint32_t>(k.token);
  std::uint32_t c1 = static_cast<std::uint32_t>(k.position);
  std::uint32_t c2 = static_cast<std::uint32_t>(k.step);
  std::uint32_t c3 = k.sequence;
  std::uint32_t key0 = static_cast<std::uint32_t>(k.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(k.seed >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t next0 = static_cast<std::uint32_t>(odd >> 32U) ^ c1 ^ key0;
    const std::uint32_t next2 = static_cast<std::uint32_t>(even >> 32U) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(odd);
    c3 = static_cast<std::uint32_t>(even);
    c0 = next0;
    c2 = next2;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c0;
}

/// A number in the open interval (0, 1): (r + 1/2) / 2^23 with 23 random bits r, all of them exact
/// in a float; never 0 nor 1. (With 24 bits the largest would round to 1.)
[[nodiscard]] UNMASK_HD inline float random_uniform(const random_key& k) {
  return math::fma(static_cast<float>(random_bits(k) >> 9U), 0x1p-23F, 0x1p-24F);
}

/// A standard Gumbel number -ln(-ln u): the maximum of ln w(i) + gumbel(i) is at i with probability
/// w(i) / sum w. Uses the bits of random_uniform.
[[nodiscard]] UNMASK_HD inline float random_gumbel(const random_key& k) {
  return -math::log(-math::log(random_uniform(k)));
}

/// A standard Gumbel number from all 32 bits, accurate to rounding also in the upper tail, which
/// decides the maximum over many: u = (r + 1/2) / 2^32 is never formed where it would round to 1.
[[nodiscard]] UNMASK_HD inline float gumbel_of_32_bits(std::uint32_t bits) {
  const bool upper = bits >= 0x80000000U;
  // Distance to the nearer end, in (0, 1/2].
  const float x = math::fma(static_cast<float>(upper ? ~bits : bits), 0x1p-32F, 0x1p-33F);
  // -ln u: from u itself, or from 1 - u as ln(1 + x / (1 - x)).
  const float exponential = upper ? math::log1p(math::divide(x, 1.0F - x)) : -math::log(x);
  return -math::log(exponential);
}

/// That number is at most this, -ln(1 - u) to the next power of two: without a logarithm.
[[nodiscard]] UNMASK_HD inline float most_gumbel_of_32_bits(std::uint32_t bits) {
  const auto exponent = static_cast<index_t>(math::bits_of(static_cast<float>(~bits)) >> 23U) - 127;
  return 0.6931473F * static_cast<float>(32 - exponent);
}

}  // namespace unmask
