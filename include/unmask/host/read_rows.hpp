// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/host/executor.hpp>
#include <unmask/host/row_transform.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#if UNMASK_KERNELS
#  include <unmask/host/read_row.hpp>
#endif

namespace UNMASK_NAMESPACE::host {

/// With fewer logits in total, one thread is faster than waking a second one.
inline constexpr std::int64_t parallel_logits = std::int64_t{1} << 19;

/// Number of records of scratch memory that read_rows() needs for an executor.
[[nodiscard]] constexpr std::size_t scratch_records(index_t concurrency) {
  return 8 * static_cast<std::size_t>(concurrency);
}

/// Reads every row once: out[r] = read_row<S>(rows[r], edits[r], level), and the edited logits of
/// its excluded tokens.
///
/// Rows are distributed over the threads of `threads`, and divided into runs of chunks if there are
/// few rows, so that one row uses every thread; the canonical tree makes the bits independent of
/// this. With fewer than parallel_logits logits in total only the calling thread works.
///
/// Shape: `edits` has one entry for each row, or is null; edits are called from any thread. `out`
/// has one record for each row; `scratch` has scratch_records(threads.concurrency()), `held` the
/// same number with stat::kept. Rows may differ in length. Does not allocate.
template <statistics S, element T>
void read_rows(std::span<const row_input<T>> rows,
               const row_transform* edits,
               record<S>* out,
               executor_ref threads,
               instruction_set level,
               std::span<record<S>> scratch,
               std::span<held_tokens> held = {});

#if UNMASK_KERNELS
namespace detail {

// Division of rows into pieces of work: aligned runs of 2^k chunks.
struct division {
  index_t run = 0;           // chunks of a run
  index_t runs_per_row = 1;  // 1: rows are whole
};

// The coarsest division with at least four pieces for each thread, so that threads finish together;
// a piece has at least four chunks. A run of twice the length would give fewer than 4 concurrency
// pieces, so there are fewer than 8 concurrency of them: scratch_records().
[[nodiscard]] constexpr division divide_rows(index_t rows, index_t chunks, index_t concurrency) {
  const std::int64_t wanted = 4 * std::int64_t{concurrency};
  index_t run = 4;
  while (run < chunks && std::int64_t{rows} * ((chunks + 2 * run - 1) / (2 * run)) >= wanted) {
    run *= 2;
  }
  return run >= chunks ? division{chunks, 1} : division{run, (chunks + run - 1) / run};
}

}  // namespace detail

template <statistics S, element T>
void read_rows(std::span<const row_input<T>> rows,
               const row_transform* edits,
               record<S>* out,
               executor_ref threads,
               instruction_set level,
               std::span<record<S>> scratch,
               std::span<held_tokens> held) {
  const auto count = static_cast<index_t>(rows.size());
  const auto edit_of = [edits](index_t r) { return edits == nullptr ? row_transform{} : edits[r]; };
  const auto read_whole = [&](index_t r) noexcept {
    out[r] = read_row<S>(rows[static_cast<std::size_t>(r)], edit_of(r), level);
  };
  std::int64_t logits = 0;
  index_t chunks = 0;
  for (const row_input<T>& row : rows) {
    logits += row.columns;
    chunks = math::max(chunks, canonical::chunks_of(row.columns));
  }
  const index_t concurrency = threads.concurrency();
  if (concurrency <= 1 || logits < parallel_logits) {
    serial_executor::run(count, read_whole);
    return;
  }
  const detail::division cut = detail::divide_rows(count, chunks, concurrency);
  if (cut.runs_per_row == 1) {
    threads.run(count, read_whole);
    return;
  }
  UNMASK_EXPECTS(scratch.size() >= scratch_records(concurrency));
  UNMASK_EXPECTS((!provides_v<S, stat::kept>) || held.size() >= scratch.size());
  for (const row_input<T>& row : rows) {
    clear_excluded_logits(row);
  }
  const auto read_piece = [&](index_t piece) noexcept {
    const index_t r = piece / cut.runs_per_row;
    row_input<T> row = rows[static_cast<std::size_t>(r)];
    const index_t first = piece % cut.runs_per_row * cut.run;
    const index_t last = math::min(first + cut.run, canonical::chunks_of(row.columns));
    if (first < last) {
      if (provides_v<S, stat::kept> && row.held != nullptr) {
        row.held = &held[static_cast<std::size_t>(piece)];
        row.held->clear();
      }
      scratch[static_cast<std::size_t>(piece)] = read_run<S>(row, {first, last}, edit_of(r), level);
    }
  };
  threads.run(count * cut.runs_per_row, read_piece);
  for (index_t r = 0; r < count; ++r) {
    canonical::chunk_tree<S> tree;
    const index_t row_chunks = canonical::chunks_of(rows[static_cast<std::size_t>(r)].columns);
    held_tokens* const head = rows[static_cast<std::size_t>(r)].held;
    const bool holds = provides_v<S, stat::kept> && head != nullptr;
    if (holds) {
      head->clear();
    }
    for (index_t i = 0; i * cut.run < row_chunks; ++i) {
      const auto piece = static_cast<std::size_t>(r) * static_cast<std::size_t>(cut.runs_per_row) +
                         static_cast<std::size_t>(i);
      tree.push(scratch[piece]);
      if (holds) {
        head->merge(held[piece]);
      }
    }
    out[r] = tree.finish();
  }
}
#endif

/// True if read_rows() for the statistics S is defined or in the library.
template <statistics S>
inline constexpr bool has_kernel = UNMASK_KERNELS != 0;

#if defined(UNMASK_COMPILED)
// unmask::compiled contains read_rows() for the statistics that most policies require. Each list
// calls a macro with statistics::bits.
#  define UNMASK_STATISTICS_A(list) /* confidence; with margin, entropy, both */                   \
    list(1U) list(3U) list(5U) list(7U)
#  define UNMASK_STATISTICS_B(list) /* the same with a drawn token; that of a truncated row */     \
    list(17U) list(23U) list(145U)
#  define UNMASK_STATISTICS_C(list) /* all of the sessions by name that truncate, that compare */  \
    list(151U) list(255U)

#  define UNMASK_READ(prefix, bits, type)                                                          \
    prefix template void read_rows<statistics{bits}, type>(std::span<const row_input<type>>,       \
                                                           const row_transform*,                   \
                                                           record<statistics{bits}>*,              \
                                                           executor_ref,                           \
                                                           instruction_set,                        \
                                                           std::span<record<statistics{bits}>>,    \
                                                           std::span<held_tokens>);
#  define UNMASK_READS(prefix, bits)                                                               \
    UNMASK_READ(prefix, bits, float)                                                               \
    UNMASK_READ(prefix, bits, bfloat16)                                                            \
    UNMASK_READ(prefix, bits, float16)
#  define UNMASK_DECLARE_READS(bits)                                                               \
    UNMASK_READS(extern, bits)                                                                     \
    template <>                                                                                    \
    inline constexpr bool has_kernel<statistics{bits}> = true;
#  define UNMASK_DEFINE_READS(bits) UNMASK_READS(, bits)
UNMASK_STATISTICS_A(UNMASK_DECLARE_READS)
UNMASK_STATISTICS_B(UNMASK_DECLARE_READS)
UNMASK_STATISTICS_C(UNMASK_DECLARE_READS)
#endif

}  // namespace unmask::host
