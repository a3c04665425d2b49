// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/step/field_walk.hpp>

#include <cstddef>
#include <cstdint>

/// The constraints of a sequence where a step can call nothing of the host.
namespace UNMASK_NAMESPACE::step {

/// The constraints of a sequence on a device. In memory of the device, which the host writes when
/// the sequence starts.
struct answer_walk : detail::answer_over<field_walk> {
  /// The lists of a step, with room for a token at each position; traced is null without a trace.
  commit_entry* entries = nullptr;
  candidate_entry* traced = nullptr;
  /// Pieces in which a mask is written, each by one thread block.
  static constexpr index_t mask_pieces = 8;
  /// By scored position: the mask of its row, and for each piece the classes that are possible, a
  /// bit each.
  std::uint32_t* masks = nullptr;
  std::uint32_t* classes = nullptr;
  std::size_t mask_words = 0;
  std::size_t class_words = 0;

  [[nodiscard]] UNMASK_HD std::uint32_t* mask_of(index_t i) const {
    return masks + static_cast<std::size_t>(i) * mask_words;
  }
  [[nodiscard]] UNMASK_HD std::uint32_t* classes_of(index_t i, index_t piece) const {
    return classes + static_cast<std::size_t>(i * mask_pieces + piece) * class_words;
  }
};

}  // namespace unmask::step
