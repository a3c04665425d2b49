// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/host/row_transform.hpp>
#include <unmask/stats/row.hpp>

#if UNMASK_KERNELS
#  include <unmask/core/thread_group.hpp>
#  include <unmask/host/read_row.hpp>
#  include <unmask/stats/last_key.hpp>
#endif

/// The second read of a row for which the first one did not determine the truncation: a few sweeps
/// find where the kept tokens end, one more draws among them.
namespace UNMASK_NAMESPACE::host {

#if UNMASK_KERNELS
namespace detail {

// A row of logits without its element type: stage() writes a chunk of edited logits to a buffer.
struct staged_row {
  const row_options* options;
  row_transform edit;
  void (*stage)(const row_options& row,
                row_transform edit,
                index_t first,
                index_t count,
                index_t& next_excluded,
                float* buffer);
};

template <element T>
[[nodiscard]] staged_row
staged(const row_input<T>& row, row_transform edit, instruction_set level) {
  return {
      &row, edit, with_vectors(level, []<class Simd>(Simd) -> decltype(staged_row::stage) {
        return [](const row_options& options,
                  row_transform by,
                  index_t first,
                  index_t count,
                  index_t& next_excluded,
                  float* buffer) {
          stage_kernel<Simd>::stage(
              static_cast<const row_input<T>&>(options), by, first, count, next_excluded, buffer);
        };
      })};
}

// Calls use(logits, count, token of the first) for each chunk of a row, with the logits of tracked
// tokens put back.
template <class Use>
void sweep(const staged_row& row, const tracked_logits& tracked, const Use& use) {
  alignas(64) float buffer[canonical::chunk_columns];
  const row_options& options = *row.options;
  index_t next_excluded = first_excluded(options, options.first_token);
  index_t k = 0;
  for (index_t first = 0; first < options.columns; first += canonical::chunk_columns) {
    const index_t count = math::min(canonical::chunk_columns, options.columns - first);
    row.stage(options, row.edit, first, count, next_excluded, buffer);
    const token_id token = options.first_token + first;
    for (; k < tracked.count && tracked.tokens[k] < token + count; ++k) {
      const bool returns =
          find_token(tracked.suppressed, tracked.suppressed_count, tracked.tokens[k]) < 0;
      if (returns && tracked.tokens[k] >= token) {
        buffer[tracked.tokens[k] - token] = tracked.logits[k];
      }
    }
    use(buffer, count, token);
  }
}

// Calls use(j) for every one of `count` columns whose logit is not below least(), and perhaps for
// others: a group of columns with none is passed over with a few vectors.
template <index_t Group, class Least, class Use>
void for_each_from(const Least& least, const float* z, index_t count, const Use& use) {
  for (index_t first = 0; first < count; first += Group) {
    const index_t size = math::min(Group, count - first);
    const float bound = least();
    int found = size < Group ? 1 : 0;
    if (size == Group) {
      for (index_t i = 0; i < Group; ++i) {
        found += z[first + i] >= bound ? 1 : 0;
      }
    }
    for (index_t j = first; found > 0 && j < first + size; ++j) {
      use(j);
    }
  }
}

template <statistics S>
void read_staged(record<S>& whole,
                 const staged_row& row,
                 const tracked_logits& tracked,
                 const truncation& rules,
                 const held_tokens& held) {
  const row_options& options = *row.options;
  constexpr statistics sums = canonical::row_sums<S>;
  const auto limits = canonical::row_limits::of(rules, whole.best, whole.total());
  using bins_type = canonical::key_bins<11>;
  bins_type bins;
  const auto values = canonical::value_bins::below(held, limits, bins_type::size);
  const std::uint64_t last = canonical::last_key_of(
      serial{},
      limits,
      options.first_token + options.columns,
      values,
      bins,
      [&](float least, const auto& use) {
        sweep(row, tracked, [&](const float* z, index_t count, token_id token) {
          for_each_from<16>(
              [least] { return least; }, z, count, [&](index_t j) { use(z[j], token + j); });
        });
      });
  canonical::kept_race race{.best = whole.best, .draw = options.draw};
  canonical::kept_totals<S> totals;
  canonical::chunk_tree<sums> tree;
  float kept[canonical::chunk_columns];
  const float least = canonical::least_of(last);
  sweep(row, tracked, [&](const float* z, index_t count, token_id token) {
    if (rules.renormalises) {
      for (float& logit : kept) {
        logit = -math::infinity();
      }
    }
    for_each_from<16>([least] { return least; },
                      z,
                      count,
                      [&](index_t j) {
                        if (limits.reaches(z[j]) && rank_key(z[j], token + j) >= last) {
                          kept[j] = z[j];
                          totals.join(z[j], limits.mass_of(z[j]));
                          if constexpr (provides_v<S, stat::sampled>) {
                            race.join(race.key_of(z[j], token + j), z[j], token + j);
                          }
                        }
                      });
    if (rules.renormalises) {
      tree.push(canonical::fold_chunk<sums>(kept, count, token));
    }
  });
  race.write_to(whole);
  totals.write_to(whole);
  if (rules.renormalises) {
    canonical::renormalise(whole, tree.finish());
  }
}

// read_again() with an instruction set, for rows of any type.
template <statistics S>
void read_staged(record<S>& whole,
                 const staged_row& row,
                 const tracked_logits& tracked,
                 const truncation& rules,
                 const held_tokens& held,
                 instruction_set level) {
  call_on_instruction_set(level, [&] { read_staged(whole, row, tracked, rules, held); });
}

}  // namespace detail
#endif

/// Completes the record of a row by reading the row again: canonical::cut_held(), for any number of
/// kept tokens and with the same result where both have one.
///
/// `tracked` are the tracked tokens with their edited logits, `whole` the record of the row with
/// them, `held` the columns that the read held.
/// Cost: O(columns) three times, once more if many columns are close to the last kept one, up to
/// nine times if many equal it, and one Gumbel number for each kept token; 44 KB of stack, no
/// allocation.
template <statistics S, element T>
void read_again(record<S>& whole,
                const row_input<T>& row,
                row_transform edit,
                const tracked_logits& tracked,
                const truncation& rules,
                const held_tokens& held,
                instruction_set level);

#if UNMASK_KERNELS
template <statistics S, element T>
void read_again(record<S>& whole,
                const row_input<T>& row,
                row_transform edit,
                const tracked_logits& tracked,
                const truncation& rules,
                const held_tokens& held,
                instruction_set level) {
  row_input<T> again = row;
  again.excluded_logits = nullptr;
  detail::read_staged(whole, detail::staged(again, edit, level), tracked, rules, held, level);
}
#endif

/// Holds the first columns of a row after its edits, without the tokens that its options exclude.
/// Cost: O(columns) once; 4 KB of stack, no allocation.
template <element T>
void hold_row(held_tokens& held,
              const row_input<T>& row,
              row_transform edit,
              instruction_set level);

#if UNMASK_KERNELS
namespace detail {

inline void hold_staged(held_tokens& held, const staged_row& row, instruction_set level) {
  held.clear();
  call_on_instruction_set(level, [&] {
    sweep(row, {}, [&](const float* z, index_t count, token_id token) {
      for_each_from<64>([&] { return held.threshold(); },
                        z,
                        count,
                        [&](index_t j) { held.push(z[j], token + j); });
    });
  });
}

}  // namespace detail

template <element T>
void hold_row(held_tokens& held,
              const row_input<T>& row,
              row_transform edit,
              instruction_set level) {
  row_input<T> again = row;
  again.excluded_logits = nullptr;
  detail::hold_staged(held, detail::staged(again, edit, level), level);
}
#endif

#if defined(UNMASK_COMPILED)
#  define UNMASK_HOLD_ROW(prefix, type)                                                            \
    prefix template void hold_row<type>(                                                           \
        held_tokens&, const row_input<type>&, row_transform, instruction_set);
#  define UNMASK_HOLD_ROWS(prefix)                                                                 \
    UNMASK_HOLD_ROW(prefix, float)                                                                 \
    UNMASK_HOLD_ROW(prefix, bfloat16)                                                              \
    UNMASK_HOLD_ROW(prefix, float16)
UNMASK_HOLD_ROWS(extern)
#  define UNMASK_SECOND_READ(prefix, bits, type)                                                   \
    prefix template void read_again<statistics{bits}, type>(record<statistics{bits}>&,             \
                                                            const row_input<type>&,                \
                                                            row_transform,                         \
                                                            const tracked_logits&,                 \
                                                            const truncation&,                     \
                                                            const held_tokens&,                    \
                                                            instruction_set);
#  define UNMASK_SECOND_READS_OF(prefix, bits)                                                     \
    UNMASK_SECOND_READ(prefix, bits, float)                                                        \
    UNMASK_SECOND_READ(prefix, bits, bfloat16)                                                     \
    UNMASK_SECOND_READ(prefix, bits, float16)
#  define UNMASK_SECOND_READS(prefix) /* of those of read_rows.hpp that hold columns */            \
    UNMASK_SECOND_READS_OF(prefix, 145U)                                                           \
    UNMASK_SECOND_READS_OF(prefix, 151U) UNMASK_SECOND_READS_OF(prefix, 255U)
UNMASK_SECOND_READS(extern)
#endif

}  // namespace unmask::host
