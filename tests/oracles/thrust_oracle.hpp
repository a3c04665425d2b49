// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Thrust on the host as an oracle of the kernels. Needs the headers of the CUDA toolkit, and
/// neither nvcc nor a device.

#if !defined(__CUDACC__) && !defined(THRUST_DEVICE_SYSTEM)
#  define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <unmask/core/logits.hpp>
#include <unmask/core/types.hpp>

#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/find.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unmask::testing::thrust_oracle {

template <class T>
[[nodiscard]] std::vector<T> sorted(std::vector<T> keys) {
  thrust::sort(thrust::seq, keys.begin(), keys.end());
  return keys;
}

/// The sum before each number, and behind them that of all.
template <class T>
[[nodiscard]] std::vector<T> exclusive_sums(std::vector<T> x) {
  x.push_back(0);
  thrust::exclusive_scan(thrust::seq, x.begin(), x.end(), x.begin());
  return x;
}

/// The bitwise or of all.
[[nodiscard]] inline std::uint64_t any(const std::vector<std::uint64_t>& x) {
  return thrust::reduce(
      thrust::seq, x.begin(), x.end(), std::uint64_t{0}, thrust::bit_or<std::uint64_t>());
}

/// The indices of the first `wanted` keys, ascending; the lower index between equal keys.
[[nodiscard]] inline std::vector<index_t> lowest(std::vector<std::uint32_t> keys, index_t wanted) {
  std::vector<index_t> indices(keys.size());
  thrust::sequence(thrust::seq, indices.begin(), indices.end());
  thrust::stable_sort_by_key(thrust::seq, keys.begin(), keys.end(), indices.begin());
  indices.resize(static_cast<std::size_t>(wanted));
  thrust::sort(thrust::seq, indices.begin(), indices.end());
  return indices;
}

/// The best column of each row of `columns` logits, the lower one between equals.
[[nodiscard]] inline std::vector<token_id> best_tokens(const std::vector<float>& logits,
                                                       index_t columns) {
  struct row_of {
    index_t columns;
    index_t operator()(index_t i) const { return i / columns; }
  };
  struct better {
    const float* logits;
    index_t operator()(index_t a, index_t b) const {
      return logits[b] > logits[a] || (logits[b] == logits[a] && b < a) ? b : a;
    }
  };
  const auto count = static_cast<index_t>(logits.size());
  const thrust::counting_iterator<index_t> from(0);
  const auto rows = thrust::make_transform_iterator(from, row_of{columns});
  std::vector<index_t> row(logits.size() / static_cast<std::size_t>(columns));
  std::vector<token_id> best(row.size());
  thrust::reduce_by_key(thrust::seq,
                        rows,
                        rows + count,
                        from,
                        row.begin(),
                        best.begin(),
                        thrust::equal_to<index_t>(),
                        better{logits.data()});
  thrust::transform(thrust::seq,
                    best.begin(),
                    best.end(),
                    row.begin(),
                    best.begin(),
                    [columns](index_t at, index_t r) { return at - r * columns; });
  return best;
}

}  // namespace unmask::testing::thrust_oracle
