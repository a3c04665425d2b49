// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_row.hpp>
#include <unmask/stats/last_key.hpp>
#include <unmask/step/truncate.hpp>

/// Truncation on a device, as host/second_read.hpp, by one thread block.
namespace UNMASK_NAMESPACE::device {

/// Shared memory of a block that may read a row again.
template <statistics S>
struct second_space {
  static constexpr int digit = 8;

  canonical::key_bins<digit> bins;
  record<canonical::row_sums<S>> nodes[max_run_chunks];
  record<canonical::row_sums<S>> whole;
  float keys[read_threads];
  ranked_token winners[read_threads];
  canonical::kept_totals<S> totals[provides_v<S, stat::truncated> ? read_threads : 1];
};

namespace detail {

// Puts the edited logits of tracked tokens back.
UNMASK_HD inline void put_back(
    const auto& b, const tracked_logits& tracked, token_id first, index_t count, chunk_logits& z) {
  for (index_t n = 0; n < tracked.count; ++n) {
    const index_t column = tracked.tokens[n] - first;
    const index_t held = column < 0 || column >= count ? -1 : index_of(b, column);
    if (held < 0 ||
        find_token(tracked.suppressed, tracked.suppressed_count, tracked.tokens[n]) >= 0) {
      continue;
    }
    unrolled<2 * lane_columns>([&](index_t i) { z[i] = i == held ? tracked.logits[n] : z[i]; });
  }
}

// Reads a row again with the whole block, chunk after chunk: use(z, chunk, count) in each warp for
// its chunks of [chunks.first, chunks.last).
template <element T, class Edit>
UNMASK_HD void sweep_chunks(const auto& b,
                            const row_input<T>& row,
                            const Edit& edit,
                            const tracked_logits& tracked,
                            range chunks,
                            const auto& use) {
  for (index_t chunk = chunks.first + b.warp(); chunk < chunks.last; chunk += b.warps()) {
    const index_t first = chunk * canonical::chunk_columns;
    const index_t count = math::min(canonical::chunk_columns, row.columns - first);
    chunk_logits z;
    stage(b, row, edit, excluded_of(b, row, 0), first, count, z);
    put_back(b, tracked, row.first_token + first, count, z);
    use(z, chunk, count);
  }
}

}  // namespace detail

/// Completes the record of a row by reading the row again, with the bits of host::read_again().
/// row.excluded_logits is null; `run_chunks` and `parts` are as for read_row(), `held` the columns
/// that it held. Thread 0 writes the record, and the others see it after the next barrier of the
/// block.
template <class Exponential, statistics S, element T, class Edit, statistics Part>
UNMASK_HD void read_again(const auto& b,
                          record<S>& whole,
                          const row_input<T>& row,
                          const Edit& edit,
                          const tracked_logits& tracked,
                          const truncation& rules,
                          const held_tokens& held,
                          index_t run_chunks,
                          record<Part>* parts,
                          second_space<S>& space) {
  constexpr statistics sums = canonical::row_sums<S>;
  const index_t chunks = canonical::chunks_of(row.columns);
  const auto limits = canonical::row_limits::of(rules, whole.best, whole.total());
  const auto sweep = [&](float least, const auto& use) {
    detail::sweep_chunks(
        b, row, edit, tracked, {0, chunks}, [&](const chunk_logits& z, index_t chunk, index_t) {
          const std::uint64_t active = detail::indices_where(
              [&](index_t i) { return z[i] >= least && z[i] > -math::infinity(); });
          const token_id first = row.first_token + chunk * canonical::chunk_columns;
          detail::for_each_of(b, z, active, [&](bool there, float logit, index_t column) {
            if (there) {
              use(logit, first + column);
            }
          });
        });
  };
  using bins_type = decltype(space.bins);
  const auto values = canonical::value_bins::below(held, limits, bins_type::size);
  const std::uint64_t last =
      canonical::last_key_of(b, limits, row.first_token + row.columns, values, space.bins, sweep);

  canonical::kept_race race{.best = whole.best, .draw = row.draw};
  canonical::kept_totals<S> totals;
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  static_assert(sizeof(record<sums>) <= sizeof(record<Part>));
  auto* const shared = reinterpret_cast<record<sums>*>(parts);
  for (index_t run = 0; run < runs; ++run) {
    const index_t from = run * run_chunks;
    const index_t to = math::min(from + run_chunks, chunks);
    float best_before = -math::infinity();
    const auto keep = [&](chunk_logits& z, index_t chunk, index_t count) {
      const token_id first = row.first_token + chunk * canonical::chunk_columns;
      const std::uint64_t kept = detail::indices_where([&](index_t i) {
        const bool is =
            limits.reaches(z[i]) && rank_key(z[i], first + detail::column_of(b, i)) >= last;
        z[i] = is ? z[i] : -math::infinity();
        return is;
      });
      if constexpr (provides_v<S, stat::sampled> || provides_v<S, stat::truncated>) {
        detail::for_each_of(b, z, kept, [&](bool there, float logit, index_t column) {
          if (there) {
            totals.join(logit, limits.mass_of(logit));
            if constexpr (provides_v<S, stat::sampled>) {
              race.join(race.key_of(logit, first + column), logit, first + column);
            }
          }
        });
      }
      if (rules.renormalises) {
        bool valid = false;
        const record<sums> r =
            fold_chunk<sums, Exponential>(b, z, count, first, best_before, valid);
        if (b.warp_lane() == 0) {
          space.nodes[chunk - from] = r;
        }
      }
    };
    detail::sweep_chunks(b, row, edit, tracked, {from, to}, keep);
    if (rules.renormalises) {
      b.sync();
      if (b.warp() == 0) {
        detail::merge_tree(b, space.nodes, to - from);
        if (b.warp_lane() == 0) {
          shared[run] = space.nodes[0];
        }
      }
      b.sync();
    }
  }
  space.keys[b.lane()] = race.key;
  space.winners[b.lane()] = race.winner;
  if constexpr (provides_v<S, stat::truncated>) {
    space.totals[b.lane()] = totals;
  }
  b.sync();
  if (b.warp() == 0 && rules.renormalises) {
    for (index_t i = b.warp_lane(); i < runs; i += warp_threads) {
      space.nodes[i] = shared[i];
    }
    detail::merge_tree(b, space.nodes, runs);
  }
  if (b.lane() == 0) {
    for (index_t i = 1; i < b.lanes(); ++i) {
      race.join(space.keys[i], space.winners[i].logit, space.winners[i].token);
      if constexpr (provides_v<S, stat::truncated>) {
        totals.merge(space.totals[i]);
      }
    }
    race.write_to(whole);
    totals.write_to(whole);
    if (rules.renormalises) {
      canonical::renormalise(whole, space.nodes[0]);
    }
  }
}

}  // namespace unmask::device
