// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/choose.hpp>
#include <unmask/cuda/drift_row.hpp>
#include <unmask/step/key_selection.hpp>

/// Bodies of the thread blocks of key_selector.hpp.
namespace UNMASK_NAMESPACE::device {

/// Keys, their query, and the output, a number for each key. A kernel's argument.
template <element T>
struct key_products {
  rows_view<T, memory::device> keys;
  const T* query = nullptr;
  float* scores = nullptr;
};

/// Computes the scores of one block's keys, one warp for each: those from block * b.warps() on.
template <element T>
UNMASK_HD void score_block(const auto& b, const key_products<T>& a, index_t block) {
  const index_t r = block * b.warps() + b.warp();
  if (r < a.keys.rows) {
    const drift_sums sums =
        drift_row<drift_terms::product, false>(b, a.keys.row(r), a.query, a.keys.columns);
    if (b.warp_lane() == 0) {
      a.scores[r] = sums.product;
    }
  }
}

/// A selection and the memory for its keys and its list, one entry for each position it selects
/// from. A kernel's argument.
template <element T>
struct selection_arguments {
  step::key_selection<T> selection;
  std::uint32_t* keys = nullptr;
  index_t* kept = nullptr;
};

/// Performs a selection: the work of one block.
template <element T>
UNMASK_HD void select_keys(const auto& b, const selection_arguments<T>& a, digit_counts& space) {
  const step::key_selection<T>& s = a.selection;
  for (index_t i = b.lane(); i < s.size(); i += b.lanes()) {
    a.keys[i] = s.pooled_key(i);  // which choose() reads in the same thread
  }
  const index_t count = choose(b, a.keys, s.size(), s.kept(), a.kept, space);
  b.sync();
  for (index_t k = b.lane(); k < count; k += b.lanes()) {
    a.kept[k] = s.position(a.kept[k]);
  }
}

}  // namespace unmask::device
