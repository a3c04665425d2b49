// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

/// Probabilities of a softmax computed in bfloat16.
namespace UNMASK_NAMESPACE::released {

/// The bfloat16 nearest to p in [0, 1], ties to even, as a float.
[[nodiscard]] UNMASK_HD inline float bf16_rounded(float p) {
  const std::uint32_t bits = math::bits_of(p);
  const std::uint32_t odd = (bits >> 16U) & 1U;
  return math::from_bits((bits + 0x7fffU + odd) & 0xffff0000U);
}

/// by_confidence for a softmax in bfloat16: the score is rounded to it, so more candidates tie.
/// Reads stat::confidence. Source: as llada_blocks and sglang_blocks, on bf16 logits.
struct by_confidence_bf16 {
  static constexpr statistics required = stat::confidence;
  UNMASK_HD float score(const auto& c) const { return bf16_rounded(c.confidence()); }
};
static_assert(ranking<by_confidence_bf16>);

/// threshold for a softmax in bfloat16: confidence and threshold are rounded to it before
/// they are compared.
/// Range: [0, 1]. Reads stat::confidence. Source: as sglang_blocks.
struct threshold_bf16 {
  float value = 0.9F;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{"threshold_bf16"};
  static constexpr knob<threshold_bf16> knobs[] = {{"value", &threshold_bf16::value, within(0, 1)}};

  UNMASK_HD bool commits(const auto& c, const rank_info&) const {
    return bf16_rounded(c.confidence()) > bf16_rounded(value);
  }
};
static_assert(commit_rule<threshold_bf16>);

}  // namespace unmask::released
