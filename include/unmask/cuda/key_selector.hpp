// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/select_keys.hpp>

/// host/key_selector.hpp for keys on the device: the same scores, the same choice.
///
///     device::score_keys(keys, query, scores, stream);
///     const device_list stay = selector[layer].select(scores, attended, blocks, keep, pool);
///
/// What is launched is declared here and defined by key_selector.cuh: called from a .cu file, or
/// from C++ if one says `template cudaError_t unmask::device::launch_scores(const
/// key_products<float>&, cudaStream_t);` and the same of launch_selection and selection_arguments.
namespace UNMASK_NAMESPACE::device {

/// Enqueues score_block() for all keys.
template <element T>
[[nodiscard]] cudaError_t launch_scores(const key_products<T>& a, cudaStream_t stream) noexcept;

/// Enqueues select_keys().
template <element T>
[[nodiscard]] cudaError_t launch_selection(const selection_arguments<T>& a,
                                           cudaStream_t stream) noexcept;

/// Scores of keys against a block's mean query, as host::score_keys, with its bits: out[r] = query
/// * row r. `query` has as many columns as the keys, `out` room for as many numbers as keys; both
/// are device memory, aligned as their type.
///
/// One launch, a warp for each key; waits for nothing. Throws cuda_error.
template <element T>
void score_keys(const rows_view<T, memory::device>& keys,
                const T* query,
                float* out,
                cudaStream_t stream) {
  check(launch_scores<T>({keys, query, out}, stream), "launch of score_rows");
}

/// host::key_selector on a stream: chooses the keys that a layer keeps, bit by bit as that does.
///
/// Its list stays until the next call: an engine has one for each layer of a sequence, 8 bytes a
/// position, or gathers what stays at once. Allocates when it is made; one thread at a time may use
/// it.
class key_selector {
 public:
  /// For sequences of up to `length` positions; its memory comes from where.allocator. Throws as
  /// on_stream::workspace.
  key_selector(index_t length, const on_stream& where)
      : length_(length)
      , where_(where)
      , memory_(make_device_bytes(where.allocator,
                                  static_cast<std::size_t>(length) *
                                      (sizeof(std::uint32_t) + sizeof(index_t)),
                                  where.stream)) {}

  /// As host::key_selector::select(), of `count` scores in device memory; what it says of range,
  /// ties, NaN and errors holds here, and cuda_error.
  ///
  /// One launch of one block, O(count (pool + 34) / threads); waits for nothing, may be captured.
  /// How many keys stay is known beforehand: the list's `most` is exact.
  template <element T>
  [[nodiscard]] device_list
  select(const T* scores, index_t count, range block, double keep, index_t pool) {
    const step::key_selection<T> selection{scores, count, block, keep, pool};
    selection.check(length_);
    auto* const keys = reinterpret_cast<std::uint32_t*>(memory_.get());
    auto* const kept = reinterpret_cast<index_t*>(keys + length_);
    const index_t staying = selection.kept();
    if (staying > 0) {
      check(launch_selection<T>({selection, keys, kept}, where_.stream),
            "launch of keep_highest_keys");
    }
    return {kept, nullptr, staying};
  }

 private:
  index_t length_;
  on_stream where_;
  device_bytes memory_;
};

}  // namespace unmask::device
