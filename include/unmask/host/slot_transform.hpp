// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/row_transform.hpp>
#include <unmask/step/read_inputs.hpp>

#include <type_traits>

namespace UNMASK_NAMESPACE::host {

/// The logits transforms of a slot's policy for the kernels that read its rows; the identity if no
/// part edits in this step. Valid as long as the slot's memory is.
template <class Policy>
[[nodiscard]] row_transform slot_transform(const step::slot_memory<Policy>& m) {
  if constexpr (step::stages<Policy>::edits > 0) {
    if (step::transforms_now(m)) {
      return {&m,
              [](const void* slot, float* z, index_t count, token_id first, instruction_set level) {
                const auto edit = step::transform_of(*static_cast<decltype(&m)>(slot));
                row_transform::apply<std::remove_const_t<decltype(edit)>>(
                    &edit, z, count, first, level);
              }};
    }
  }
  return {};
}

}  // namespace unmask::host
