// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/select_keys.hpp>

/// host/key_selector.hpp for keys on the device, with the same scores and the same selection.
///
///     device::score_keys(keys, query, scores, stream);
///     const device_list stay = selector[layer].select(scores, attended, blocks, keep, pool);
///
/// The launched kernels are declared here and defined by key_selector.cuh: call them from a .cu
/// file, or from C++ with `template cudaError_t unmask::device::launch_scores(const
/// key_products<float>&, cudaStream_t);` in one .cu file, and likewise launch_selection with
/// selection_arguments.
namespace UNMASK_NAMESPACE::device {

/// Enqueues score_block() for all keys.
template <element T>
[[nodiscard]] cudaError_t launch_scores(const key_products<T>& a, cudaStream_t stream) noexcept;

/// Enqueues select_keys().
template <element T>
[[nodiscard]] cudaError_t launch_selection(const selection_arguments<T>& a,
                                           cudaStream_t stream) noexcept;

/// Scores of keys against a block's mean query, with the bits of host::score_keys: out[r] = query *
/// row r. `query` has as many columns as the keys, `out` one number for each key; both are device
/// memory, aligned to their type.
///
/// Cost: one launch, a warp for each key; does not synchronise.
/// Errors: cuda_error.
template <element T>
void score_keys(const rows_view<T, memory::device>& keys,
                const T* query,
                float* out,
                cudaStream_t stream) {
  check(launch_scores<T>({keys, query, out}, stream), "launch of score_rows");
}

/// host::key_selector on a stream: selects the keys that a layer keeps, with the same result.
///
/// Its list is valid until the next call: an engine has one selector for each layer of a sequence,
/// 8 bytes a position, or gathers the kept keys at once. Allocates in its constructor only; one
/// thread at a time may use it.
class key_selector {
 public:
  /// For sequences of up to `length` positions; its memory comes from where.allocator. Errors: as
  /// on_stream::workspace.
  key_selector(index_t length, const on_stream& where)
      : length_(length)
      , where_(where)
      , memory_(make_device_bytes(where.allocator,
                                  static_cast<std::size_t>(length) *
                                      (sizeof(std::uint32_t) + sizeof(index_t)),
                                  where.stream)) {}

  /// host::key_selector::select() of `count` scores in device memory, with the same range, ties,
  /// NaN and errors, and cuda_error.
  ///
  /// Cost: one launch of one block, O(count (pool + 34) / threads); does not synchronise, may be
  /// captured. The number of kept keys is known in advance: the list's `most` is exact.
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
