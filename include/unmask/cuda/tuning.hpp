// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/canonical.hpp>

#include <cstdint>

/// Constants that affect the speed of the kernels and never their results: the constants of reads
/// from measurements on an H100, the others from the data sheets of sm_80 to sm_100.
namespace UNMASK_NAMESPACE::device {

/// Threads of a block that reads rows: four warps. How many blocks a multiprocessor has at a time
/// depends on what they read (blocks_of_read).
inline constexpr index_t read_threads = 128;

/// Blocks that rows are at least divided over, for each multiprocessor.
inline constexpr index_t read_blocks_per_multiprocessor = 6;

/// Threads of a block that measures rows at a layer, one warp for each, or copies one row; the rows
/// that it measures; and the number of blocks for which a multiprocessor has registers.
inline constexpr index_t layer_threads = 128;
inline constexpr index_t layer_rows = layer_threads / 32;
inline constexpr index_t layer_blocks_per_multiprocessor = 5;

/// Most chunks that one block reads of one row, and most blocks that share a row: a row has at most
/// max_run_chunks^2 chunks, 33 million columns.
inline constexpr index_t max_run_chunks = 128;

/// Threads of a block that decides one slot, merges a line of messages or selects keys.
inline constexpr index_t decide_threads = 256;

/// Shared memory that every device gives a block without opting in.
inline constexpr std::size_t shared_bytes = 48 * 1024;

/// Division of rows over thread blocks.
struct row_shape {
  /// Chunks of a run, a power of two.
  index_t run_chunks = 1;
  /// Runs of a row: thread blocks.
  index_t runs = 1;
};

/// Divides rows as coarsely as still gives each multiprocessor enough blocks (those of committed
/// positions end at once); at least one chunk for each warp of a block. Depends on capacities only,
/// so that a captured graph stays valid.
[[nodiscard]] constexpr row_shape
shape_rows(std::int64_t rows, index_t columns, index_t multiprocessors) {
  const index_t chunks = canonical::chunks_of(columns);
  const std::int64_t wanted = std::int64_t{read_blocks_per_multiprocessor} * multiprocessors;
  const auto runs_of = [chunks](index_t run) { return (chunks + run - 1) / run; };
  index_t run = read_threads / 32;
  while (run < max_run_chunks && run < chunks &&
         (rows * runs_of(2 * run) >= wanted || runs_of(run) > max_run_chunks)) {
    run *= 2;
  }
  return {run, runs_of(run)};
}

}  // namespace unmask::device
