// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda/decide.cuh>
#include <unmask/cuda/read_rows.cuh>
#include <unmask/cuda/workspace.hpp>

/// What on_stream::workspace launches. With this header, a .cu file can instantiate it.
namespace UNMASK_NAMESPACE::device {

template <class T, class Policy>
void launch_reads(const session_site<Policy>& site,
                  const row_batch& batch,
                  index_t window,
                  cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(window),
                  static_cast<unsigned>(site.shape.runs),
                  static_cast<unsigned>(batch.count));
  read_rows<T, exact_exponential>
      <<<grid, static_cast<unsigned>(read_threads), 0, stream>>>(site, batch);
  check(cudaGetLastError(), "launch of read_rows");
}

template <class Policy>
void launch_decisions(const session_site<Policy>& site,
                      index_t count,
                      unsigned threads,
                      std::size_t scratch,
                      cudaStream_t stream) {
  decide_slots<<<static_cast<unsigned>(count), threads, scratch, stream>>>(site, scratch > 0);
  check(cudaGetLastError(), "launch of decide_slots");
}

template <class Policy>
void launch_start(const step::slot_memory<Policy>* slots,
                  index_t slot,
                  const start_arguments<Policy>& arguments,
                  unsigned threads,
                  cudaStream_t stream) {
  start_one<<<1, threads, 0, stream>>>(slots, slot, arguments);
  check(cudaGetLastError(), "launch of start_one");
}

}  // namespace unmask::device
