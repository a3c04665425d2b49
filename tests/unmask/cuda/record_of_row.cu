// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "unmask/cuda/record_of_row.hpp"

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/read_row.hpp>

#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {
namespace {

template <class T, class Record>
__global__ void __launch_bounds__(device::read_threads, device::blocks_of_read<Record::contents>)
    read_one(
        row_input<T> row, index_t run_chunks, Record* parts, std::uint32_t* arrived, Record* out) {
  __shared__ alignas(8) unsigned char nodes[sizeof(Record) * device::max_run_chunks];
  const device::row_reduction<Record::contents> at{parts, arrived};
  device::read_row<Record::contents, device::exact_exponential>(
      device::device_block<device::read_threads>{},
      row,
      identity{},
      static_cast<index_t>(blockIdx.x),
      run_chunks,
      at,
      reinterpret_cast<Record*>(nodes),
      *out);
}

}  // namespace

template <element T>
record<everything>
record_of_row(const T* logits, index_t columns, index_t shift, index_t run_chunks) {
  using node = record<everything>;
  std::vector<T> shifted(static_cast<std::size_t>(shift));
  shifted.insert(shifted.end(), logits, logits + columns);
  const device_array<T> memory(shifted);
  const index_t chunks = canonical::chunks_of(columns);
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  const device_array<node> parts(static_cast<std::size_t>(runs));
  const device_array<std::uint32_t> arrived(std::vector<std::uint32_t>{0});
  const device_array<node> out(1);
  row_input<T> row;
  row.logits = memory.data() + shift;
  row.columns = columns;
  read_one<<<static_cast<unsigned>(runs), static_cast<unsigned>(device::read_threads)>>>(
      row, run_chunks, parts.data(), arrived.data(), out.data());
  device::check(cudaGetLastError(), "launch of read_one");
  return out.to_host()[0];
}

template record<everything> record_of_row(const float*, index_t, index_t, index_t);
template record<everything> record_of_row(const bfloat16*, index_t, index_t, index_t);
template record<everything> record_of_row(const float16*, index_t, index_t, index_t);

}  // namespace unmask::testing
