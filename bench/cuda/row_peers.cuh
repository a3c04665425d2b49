// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The best token of a row and the sum of e^(z - best) as others read them, written from what they
/// publish, with the library's read beside them. All give the same token; the sums are added in
/// other orders.
///
/// flashinfer: rows are cut into slices of 8,192 columns, a block of 1,024 threads each; a thread
/// keeps a running maximum and sum over loads of 16 bytes, a block merges them, and a second kernel
/// merges the slices of a row (FlashInfer's softmax without the pass that writes probabilities).
/// one_program: a block for each row, columns in pieces of 2,048, whose maximum rescales the
/// running sum (the single pass of Triton's samplers). log_softmax: a block for each row that reads
/// it twice, pieces of 1,024, the maximum first and then the sum (vLLM's log-probabilities of
/// sampled tokens; of a version before 0.33).

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/read_row.hpp>

#include <cub/block/block_reduce.cuh>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace bench {

using unmask::bfloat16;
using unmask::index_t;

/// Sums of a row, or of a part of it.
struct row_sum {
  float best = -unmask::math::infinity();
  index_t token = -1;
  float total = 0.0F;
};

/// The larger logit wins, the lower token between equals; sums are rescaled.
struct merge_sums {
  [[nodiscard]] __host__ __device__ row_sum operator()(const row_sum& a, const row_sum& b) const {
    const bool second = b.best > a.best || (b.best == a.best && b.token < a.token);
    const row_sum& high = second ? b : a;
    const row_sum& low = second ? a : b;
    if (low.token < 0) {
      return high;
    }
    return {high.best, high.token, high.total + low.total * expf(low.best - high.best)};
  }
};

/// Columns of an access of 16 bytes.
template <unmask::element T>
inline constexpr index_t wide = 16 / static_cast<index_t>(sizeof(T));

// The logits of 16 bytes from `column` on, -inf from `end` on.
template <unmask::element T>
__device__ void load_16_bytes(const T* row, index_t column, index_t end, float (&x)[wide<T>]) {
  T z[wide<T>];
  if (column + wide<T> <= end && reinterpret_cast<std::uintptr_t>(row + column) % 16 == 0) {
    *reinterpret_cast<uint4*>(z) = __ldcs(reinterpret_cast<const uint4*>(row + column));
  } else {
    for (index_t k = 0; k < wide<T>; ++k) {
      z[k] = row[column + k < end ? column + k : end - 1];
    }
  }
  for (index_t k = 0; k < wide<T>; ++k) {
    x[k] = column + k < end ? unmask::device::to_float(z[k]) : -unmask::math::infinity();
  }
}

// `sum` and the best of some columns, without their exponentials.
template <int Count>
__device__ void take_best(const float (&x)[Count], index_t column, row_sum& sum) {
  for (index_t k = 0; k < Count; ++k) {
    if (x[k] > sum.best) {
      sum.best = x[k];
      sum.token = column + k;
    }
  }
}

// `sum` and the columns of 16 bytes from `column` on.
template <unmask::element T>
__device__ void take_16_bytes(const T* row, index_t column, index_t end, row_sum& sum) {
  float x[wide<T>];
  load_16_bytes(row, column, end, x);
  row_sum own;
  take_best(x, column, own);
  if (own.token < 0) {
    return;
  }
  for (const float one : x) {
    own.total += expf(one - own.best);
  }
  sum = merge_sums{}(sum, own);
}

/// flashinfer: grid (rows, slices).
inline constexpr index_t slice_columns = 8192;
inline constexpr int slice_threads = 1024;

template <unmask::element T>
__global__ void __launch_bounds__(slice_threads)
    read_slices(const T* logits, index_t vocab, row_sum* parts) {
  using reduction = cub::BlockReduce<row_sum, slice_threads>;
  __shared__ typename reduction::TempStorage space;
  const T* const row = logits + std::size_t{blockIdx.x} * static_cast<std::size_t>(vocab);
  const auto first = static_cast<index_t>(blockIdx.y) * slice_columns;
  const index_t end = min(first + slice_columns, vocab);
  row_sum sum;
  for (index_t c = first + static_cast<index_t>(threadIdx.x) * wide<T>; c < end;
       c += slice_threads * wide<T>) {
    take_16_bytes(row, c, end, sum);
  }
  sum = reduction(space).Reduce(sum, merge_sums{});
  if (threadIdx.x == 0) {
    parts[blockIdx.x * gridDim.y + blockIdx.y] = sum;
  }
}

template <int Threads>
__global__ void __launch_bounds__(Threads)
    merge_slices(const row_sum* parts, index_t slices, row_sum* out) {
  using reduction = cub::BlockReduce<row_sum, Threads>;
  __shared__ typename reduction::TempStorage space;
  row_sum sum;
  for (auto i = static_cast<index_t>(threadIdx.x); i < slices; i += Threads) {
    sum = merge_sums{}(sum,
                       parts[std::size_t{blockIdx.x} * static_cast<std::size_t>(slices) +
                             static_cast<std::size_t>(i)]);
  }
  sum = reduction(space).Reduce(sum, merge_sums{});
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;
  }
}

/// one_program: grid (rows).
inline constexpr int program_threads = 128;

template <unmask::element T>
__global__ void __launch_bounds__(program_threads)
    read_program(const T* logits, index_t vocab, row_sum* out) {
  using reduction = cub::BlockReduce<row_sum, program_threads>;
  __shared__ typename reduction::TempStorage space;
  const T* const row = logits + std::size_t{blockIdx.x} * static_cast<std::size_t>(vocab);
  row_sum whole;
  for (index_t piece = 0; piece < vocab; piece += 2048) {
    row_sum sum;
    const index_t end = min(piece + 2048, vocab);
    for (index_t c = piece + static_cast<index_t>(threadIdx.x) * wide<T>; c < end;
         c += program_threads * wide<T>) {
      take_16_bytes(row, c, end, sum);
    }
    sum = reduction(space).Reduce(sum, merge_sums{});
    __syncthreads();
    whole = merge_sums{}(whole, sum);  // in thread 0
  }
  if (threadIdx.x == 0) {
    out[blockIdx.x] = whole;
  }
}

/// log_softmax: grid (rows).
template <unmask::element T>
__global__ void __launch_bounds__(program_threads)
    read_twice(const T* logits, index_t vocab, row_sum* out) {
  using best_of = cub::BlockReduce<row_sum, program_threads>;
  using sum_of = cub::BlockReduce<float, program_threads>;
  __shared__ union {
    typename best_of::TempStorage best;
    typename sum_of::TempStorage sum;
  } space;
  __shared__ float shared_best;
  const T* const row = logits + std::size_t{blockIdx.x} * static_cast<std::size_t>(vocab);
  row_sum best;
  const index_t first = static_cast<index_t>(threadIdx.x) * wide<T>;
  float x[wide<T>];
  for (index_t c = first; c < vocab; c += program_threads * wide<T>) {
    load_16_bytes(row, c, vocab, x);
    take_best(x, c, best);
  }
  best = best_of(space.best).Reduce(best, merge_sums{});
  if (threadIdx.x == 0) {
    shared_best = best.best;
  }
  __syncthreads();
  float total = 0.0F;
  for (index_t c = first; c < vocab; c += program_threads * wide<T>) {
    load_16_bytes(row, c, vocab, x);
    for (const float one : x) {
      total += expf(one - shared_best);
    }
  }
  total = sum_of(space.sum).Sum(total);
  if (threadIdx.x == 0) {
    best.total = total;
    out[blockIdx.x] = best;
  }
}

/// The library's read alone: grid (rows, runs).
template <class Record, unmask::element T>
__global__ void __launch_bounds__(unmask::device::read_threads,
                                  unmask::device::blocks_of_read<Record::contents>)
    read_canonical(const T* logits,
                   index_t vocab,
                   index_t run_chunks,
                   Record* parts,
                   std::uint32_t* arrived,
                   Record* out) {
  constexpr unmask::statistics contents = Record::contents;
  __shared__ alignas(8) unsigned char nodes[sizeof(Record) * unmask::device::max_run_chunks];
  unmask::row_input<T> row;
  row.logits = logits + std::size_t{blockIdx.x} * static_cast<std::size_t>(vocab);
  row.columns = vocab;
  const unmask::device::row_reduction<contents> at{parts + std::size_t{blockIdx.x} * gridDim.y,
                                                   arrived + blockIdx.x};
  unmask::device::read_row<contents, unmask::device::exact_exponential>(
      unmask::device::device_block<unmask::device::read_threads>{},
      row,
      unmask::identity{},
      static_cast<index_t>(blockIdx.y),
      run_chunks,
      at,
      reinterpret_cast<Record*>(nodes),
      out[blockIdx.x]);
}

}  // namespace bench
