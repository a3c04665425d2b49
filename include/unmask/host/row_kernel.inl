// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Not a header to include: the text of the row kernel, which read_row.hpp compiles once per
// instruction set, hence no #pragma once. A function template cannot take its target attribute from
// a template parameter, and g++ inlines intrinsics only into functions that have their target; so
// the text is one and the attribute is a macro.
//
// UNMASK_SIMD    the vectors of the instruction set (simd.hpp)
// UNMASK_TARGET  its target attribute
#include <unmask/host/columns_kernel.inl>
#include <unmask/host/sums_kernel.inl>

template <>
struct row_kernel<UNMASK_SIMD> : private sums_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  using sums = sums_kernel<UNMASK_SIMD>;
  using stages = stage_kernel<UNMASK_SIMD>;
  using form = typename stages::form;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;
  static constexpr std::uint32_t all_bits = ~std::uint32_t{0} >> (32U - unsigned{width});

  /// See host::read_run.
  template <statistics S, element T>
  UNMASK_TARGET static record<S>
  read_run(const row_input<T>& row, range chunks, row_transform edit) {
    // The result of canonical::fold_chunk, less what has no effect on the record of the run: see
    // canonical::chunk_tree.
    alignas(64) float buffer[canonical::chunk_columns];
    canonical::chunk_tree<S> tree;
    leader<S> so_far{.held = held_of<S>(row.held)};
    const bool is_drawn = canonical::draws<S>(row);
    index_t next_excluded =
        first_excluded(row, row.first_token + chunks.first * canonical::chunk_columns);
    for (index_t chunk = chunks.first; chunk < chunks.last; ++chunk) {
      const index_t first = chunk * canonical::chunk_columns;
      const index_t count = math::min(canonical::chunk_columns, row.columns - first);
      const next_chunk<sizeof(T)> next(row.logits + first);
      const form seen = stages::form_of(row, edit, first, count, next_excluded);
      if constexpr (std::is_same_v<T, float> || reads_memory<S>) {
        if (seen == form::plain && (std::is_same_v<T, float> || !is_drawn)) {
          push(tree, read_chunk<S>(row, next, row.logits + first, first, count, so_far));
          continue;
        }
      }
      if constexpr (reads_memory<S>) {
        if (seen == form::masked && !is_drawn) {
          const token_id token = row.first_token + first;
          const masked<T> z{row.logits + first, row.allowed + token / 32, 0};
          push(tree, read_chunk<S>(row, next, z, first, count, so_far));
          continue;
        }
      }
      stages::stage(row, edit, first, count, next_excluded, buffer);
      const float* const staged = buffer;
      push(tree, read_chunk<S>(row, next, staged, first, count, so_far));
    }
    if constexpr (provides_v<S, stat::kept>) {
      finish(so_far.held);
    }
    record<S> result = tree.finish();
    if constexpr (provides_v<S, stat::drift>) {
      result.previous_square = row.before.seen ? row.before.square : 0.0F;
    }
    return result;
  }

  /// canonical::lift() of columns padded to whole groups. flatten: weights are full of fused
  /// multiply-adds.
  template <class F, class Z>
  UNMASK_TARGET __attribute__((flatten)) static F lift(Z z, index_t padded, float best) {
    if constexpr (field::barred<F>) {
      canonical::lifter<F> all{best};
      offer(all, z, groups_above(z, padded, all.bar()), 0);
      return all.lifted;
    } else {
      float columns[canonical::chunk_columns];
      for (index_t j = 0; j < padded; j += width) {
        simd::store(columns + j, load(z + j));
      }
      return canonical::lift<F>(columns, padded, best);
    }
  }

 private:
  // True if columns may be read in place, or through a mask. Comparisons need floats, as draws do,
  // and kernels of truncating policies that draw are left out, because few policies need them.
  template <statistics S>
  static constexpr bool reads_memory =
      !canonical::compares<S> && !(provides_v<S, stat::sampled> && provides_v<S, stat::kept>);

  // The statistics on which the sums of a chunk depend: kernels of other statistics share them.
  template <statistics S>
  static constexpr statistics sums_in{S.bits & (stat::entropy | stat::second_moment).bits};

  // Over the chunks of a run so far: best logit, best key, held columns, lifted fields.
  template <statistics S>
  struct leader {
    float best = -math::infinity();
    float key = -math::infinity();
    held_of<S> held;
    statistic_fields::lifted_of<S> lifted = {};
  };

  // Field F of a chunk, empty where it has no effect on the run: see canonical::chunk_tree.
  template <class F, class Z>
  UNMASK_TARGET static F lift(Z z, index_t padded, float best, float best_before, F& so_far) {
    if constexpr (field::barred<F>) {
      if (!(best > so_far.bar())) {
        return F{};
      }
      const F own = lift<F>(z, padded, best);
      if (best_before > -math::infinity()) {
        so_far.add(math::min(best, best_before), 0.0F);
      }
      so_far.join(own);
      return own;
    } else {
      return lift<F>(z, padded, best);
    }
  }

  // The record of the chunk at column `first`, whose logits, padded to whole groups, are `z`.
  template <statistics S, std::size_t Size, class Z>
  UNMASK_TARGET static record<S> read_chunk(const row_options& row,
                                            const next_chunk<Size>& next,
                                            Z z,
                                            index_t first,
                                            index_t count,
                                            leader<S>& so_far) {
    const index_t padded = (count + lanes - 1) / lanes * lanes;
    canonical::scale reference;
    canonical::chunk_sums sums;
    float best = -math::infinity();
    if constexpr (provides_v<S, stat::confidence>) {
      best = with_sums<sums_in<S>>(z, padded, next, reference, sums);
    } else {
      best = largest_of(z, padded);
    }
    if (!(best > -math::infinity())) {
      if constexpr (canonical::compares<S>) {
        std::copy(z, z + count, row.previous + first);
      }
      return canonical::empty_chunk<S>(contains_nan(z, padded));
    }
    if constexpr (provides_v<S, stat::kept>) {
      hold(so_far.held, z, padded, best, row.first_token + first);
    }
    token_id token = row.first_token + first;
    float second = -math::infinity();
    [[maybe_unused]] const float best_before = so_far.best;
    if (best > so_far.best || best == 0.0F) {  // the first of -0 and +0 wins, for equal bits
      const index_t column = first_largest(z, padded, best);
      best = at(z, column);
      if (best > so_far.best) {
        so_far.best = best;
        token = row.first_token + first + column;
        if constexpr (provides_v<S, stat::margin>) {
          second = runner_up(z, padded, column);
        }
      }
    }
    record<S> chunk = finished<S>(best, token, second, reference, sums);
    statistic_fields::for_each_on_host<S>([&](auto tag) {
      using F = typename decltype(tag)::type;
      if constexpr (field::lifted<F>) {
        static_cast<F&>(chunk) = lift<F>(z, padded, best, best_before, so_far.lifted);
      }
    });
    // Columns of another form are read only where none is drawn: see read_run.
    if constexpr (provides_v<S, stat::sampled> && std::is_same_v<Z, const float*>) {
      if (canonical::draws<S>(row)) {
        draw(chunk, row.draw, z, count, row.first_token + first, so_far.key);
        so_far.key = math::max(so_far.key, chunk.key);
      }
    }
    if constexpr (canonical::compares<S>) {
      compare(chunk, z, row.previous + first, count, row.before);
    }
    return chunk;
  }

  // flatten: the merge is full of fused multiply-adds, calls of the C library without the target.
  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static void push(canonical::chunk_tree<S>& tree,
                                                          const record<S>& chunk) {
    tree.push(chunk);
  }

  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static void draw(record<S>& chunk,
                                                          const draw_request& request,
                                                          const float* z,
                                                          index_t count,
                                                          token_id first,
                                                          float to_beat) {
    canonical::draw_column(chunk, request, z, count, first, to_beat, &sums::weight_of);
  }

  // Offers the columns of a chunk, which begins at `token`, to the held columns of the row.
  template <class Z>
  UNMASK_TARGET static void hold(held_pool& pool, Z z, index_t padded, float best, token_id token) {
    if (!(best > pool.bar())) {
      return;
    }
    std::uint32_t groups = groups_above(z, padded, pool.bar());
    if (2 * __builtin_popcount(groups) > padded / lanes) {
      // Most of the chunk exceeds what came before: each of its lanes has a column that reaches the
      // least of the lanes' largest.
      static_assert(lanes >= held_tokens::capacity);
      pool.expect(least_of_lanes(z, padded));
      groups = groups_above(z, padded, pool.bar());
    }
    offer(pool, z, groups, token);
  }

  // Bit i: a column of group i of 64 lanes exceeds `bar`. Without a branch, which would be random.
  template <class Z>
  UNMASK_TARGET static std::uint32_t groups_above(Z z, index_t padded, float least) {
    const floats bar = simd::splat(least);
    std::uint32_t groups = 0;
    for (index_t j = padded - lanes; j >= 0; j -= lanes) {
      floats most = bar;
      for (index_t i = j; i < j + lanes; i += 4 * width) {
        floats a;
        floats b;
        floats c;
        floats d;
        load_four(z + i, a, b, c, d);  // the order of the operands drops NaN
        most = simd::max(simd::max(c, simd::max(a, bar)), simd::max(d, simd::max(b, most)));
      }
      groups = 2 * groups + (simd::equal(most, bar) != all_bits ? 1 : 0);
    }
    return groups;
  }

  // Pushes the columns of some groups that exceed its bar() to a pool.
  template <class Pool, class Z>
  UNMASK_TARGET static void offer(Pool& pool, Z z, std::uint32_t groups, token_id token) {
    static_assert(lanes <= held_pool::group);
    for (; groups != 0; groups &= groups - 1) {
      const index_t first = lanes * static_cast<index_t>(__builtin_ctz(groups));
      const floats bar = simd::splat(pool.bar());
      std::uint64_t above = 0;
      for (index_t i = 0; i < lanes; i += width) {
        const std::uint32_t up_to = simd::equal(simd::max(load(z + first + i), bar), bar);
        above |= std::uint64_t{~up_to & all_bits} << i;
      }
      for (; above != 0; above &= above - 1) {
        const index_t column = first + static_cast<index_t>(__builtin_ctzll(above));
        pool.push(at(z, column), token + column);
      }
      if constexpr (std::is_same_v<Pool, held_pool>) {
        make_room(pool);
      }
    }
  }

  // flatten: the loops of a pool are vectors.
  UNMASK_TARGET __attribute__((flatten)) static void make_room(held_pool& pool) {
    pool.make_room();
  }
  UNMASK_TARGET __attribute__((flatten)) static void finish(held_pool& pool) { pool.finish(); }

  template <statistics S>
  UNMASK_TARGET static void compare(record<S>& chunk,
                                    const float* z,
                                    float* previous,
                                    index_t count,
                                    const previous_row& before) {
    constexpr bool drifts = provides_v<S, stat::drift>;
    const auto found = sums::template compared<drifts>(z, previous, count, chunk.best, before);
    if constexpr (drifts) {
      chunk.cross = found.cross;
    }
    if constexpr (provides_v<S, stat::divergence>) {
      chunk.shared = found.shared;
    }
  }

  template <statistics S>
  UNMASK_TARGET __attribute__((flatten)) static record<S>
  finished(float best,
           token_id token,
           float second,
           const canonical::scale& reference,
           const canonical::chunk_sums& sums) {
    return canonical::chunk_record<S>(best, token, second, reference, sums);
  }

  template <class Z>
  UNMASK_TARGET static bool contains_nan(Z z, index_t padded) {
    std::uint32_t found = 0;
    for (index_t j = 0; j < padded; j += width) {
      found |= simd::unordered(load(z + j));
    }
    return found != 0;
  }

  // The first column that equals the largest, x: in the first block with that maximum, which is
  // found by half of the operations.
  template <class Z>
  UNMASK_TARGET static index_t first_largest(Z z, index_t padded, float x) {
    constexpr index_t block = 256;
    index_t j = 0;
    while (j + block < padded && largest_of(z + j, block) != x) {
      j += block;
    }
    return j + first_equal(z + j, x, -1);
  }

  // The first column except `skipped` that equals x, which must exist.
  template <class Z>
  UNMASK_TARGET static index_t first_equal(Z z, float x, index_t skipped) {
    constexpr index_t group = 4 * width;
    const floats wanted = simd::splat(x);
    for (index_t j = 0;; j += group) {
      std::uint64_t found = 0;
      for (index_t i = 0; i < group; i += width) {
        found |= std::uint64_t{simd::equal(load(z + j + i), wanted)} << static_cast<unsigned>(i);
      }
      if (skipped >= j && skipped < j + group) {
        found &= ~(std::uint64_t{1} << static_cast<unsigned>(skipped - j));
      }
      if (found != 0) {
        return j + static_cast<index_t>(__builtin_ctzll(found));
      }
    }
  }

  // The largest logit of all columns except `column`; -inf if there is none.
  template <class Z>
  UNMASK_TARGET static float runner_up(Z z, index_t padded, index_t column) {
    constexpr index_t group = 4 * width;
    const index_t home = column / group * group;
    floats near = simd::splat(-math::infinity());
    for (index_t j = home; j < home + group; j += width) {
      const std::uint32_t own =
          column >= j && column < j + width ? 1U << static_cast<unsigned>(column - j) : 0U;
      near = simd::max(simd::kept(load(z + j), ~own), near);
    }
    const index_t behind = home + group;
    const float value =
        math::max(simd::largest(near),
                  math::max(largest_of(z, home), largest_of(z + behind, padded - behind)));
    // The first of the equal columns decides between -0 and +0.
    return value == 0.0F ? at(z, first_equal(z, value, column)) : value;
  }
};
