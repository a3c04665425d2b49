// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/host/on_instruction_set.hpp>

#include <concepts>
#include <type_traits>

namespace UNMASK_NAMESPACE::host {

/// A type-erased logits transform, so that kernels are compiled once for all transforms.
///
/// Made from a function object `float(float logit, token_id)`, which has to outlive it; by default,
/// and from identity, it is the identity. Two pointers, no allocation.
class row_transform {
 public:
  /// Edits z[0] to z[count - 1], the logits of the tokens from `first` on, with an instruction set.
  using function =
      void(const void* object, float* z, index_t count, token_id first, instruction_set level);

  constexpr row_transform() = default;
  constexpr row_transform(const identity&) {
  }  // NOLINT(google-explicit-constructor): like the others
  constexpr row_transform(const void* object, function* call)
      : object_(object)
      , call_(call) {}
  template <std::regular_invocable<float, token_id> Edit>
  row_transform(const Edit& edit)  // NOLINT(google-explicit-constructor): a reference to any
      : row_transform(&edit, apply<Edit>) {}

  explicit constexpr operator bool() const { return call_ != nullptr; }
  void operator()(float* z, index_t count, token_id first, instruction_set level) const {
    call_(object_, z, count, first, level);
  }

  /// The function for a transform of type `Edit`.
  template <class Edit>
  static void
  apply(const void* object, float* z, index_t count, token_id first, instruction_set level) {
    call_on_instruction_set(level, [object, z, count, first] {
      const Edit edit = *static_cast<const Edit*>(object);  // a copy here cannot alias z
      index_t j = 0;
      for (; j + group <= count; j += group) {
        for (index_t i = 0; i < group; ++i) {  // g++ -O2 vectorises a loop of known length
          z[j + i] = edit(z[j + i], first + j + i);
        }
      }
      for (; j < count; ++j) {
        z[j] = edit(z[j], first + j);
      }
    });
  }

 private:
  static constexpr index_t group = 64;

  const void* object_ = nullptr;
  function* call_ = nullptr;
};

/// Writes -inf for every excluded token: the value of those outside the row's columns.
template <element T>
void clear_excluded_logits(const row_input<T>& row) {
  if (row.excluded_logits != nullptr) {
    for (index_t i = 0; i < row.excluded_count; ++i) {
      row.excluded_logits[i] = -math::infinity();
    }
  }
}

}  // namespace unmask::host
