// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that floors.hpp compiles once per instruction set, hence no #pragma once: operations on
// registers that do not wait for each other.
template <>
struct floor_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;

  // One operation for each vector of `columns` <= 6144 columns, a multiple of 12 vectors.
  template <bench::operation Op>
  UNMASK_TARGET static void run(const float* p, index_t columns) {
    if constexpr (Op == bench::operation::all_of_the_loop) {
      return run_loop(p, columns);
    }
    floats a[12];
    for (floats& r : a) {
      r = simd::splat(1.0F);
    }
    floats x = simd::splat(0.5F);
    for (index_t j = 0; j < columns; j += 12 * width) {
      UNMASK_BENCH_KEEP(x);
#pragma GCC unroll 12
      for (index_t i = 0; i < 12; ++i) {
        if constexpr (Op == bench::operation::fused_multiply_add) {
          a[i] = simd::fma(a[i], x, x);
        } else if constexpr (Op == bench::operation::maximum) {
          a[i] = simd::max(a[i], x);
        } else {
          floats z = simd::load(p + j + i * width);
          UNMASK_BENCH_KEEP(z);
        }
      }
    }
#pragma GCC unroll 12
    for (floats& r : a) {
      UNMASK_BENCH_KEEP(r);
    }
  }

 private:
  // The operations of sums_kernel::add on a vector for all statistics, each on its own register.
  UNMASK_TARGET static void run_loop(const float* p, index_t columns) {
    const floats one = simd::splat(0.5F);
    floats x = one;
    floats best = one;
    floats clamped = one;
    floats whole = one;
    floats part = one;
    floats scaled = one;
    floats sum = one;
    floats f[7] = {one, one, one, one, one, one, one};
    for (index_t j = 0; j < columns; j += width) {
      UNMASK_BENCH_KEEP(x);
      const floats z = simd::load(p + j);
      if (j * index_t{sizeof(float)} % 64 == 0) {
        __builtin_prefetch(p + j + canonical::chunk_columns);
      }
      best = simd::max(z, best);
      clamped = simd::max(x, clamped);
      whole = simd::rounded(whole);
      part = simd::sub(part, x);
      f[0] = simd::fma(z, x, f[0]);
#pragma GCC unroll 6
      for (index_t i = 1; i < 7; ++i) {
        f[i] = simd::fma(f[i], x, x);
      }
      scaled = simd::scaled(scaled, x);
      sum = simd::add(sum, x);
    }
    floats* const results[] = {&best, &clamped, &whole, &part, &scaled, &sum};
#pragma GCC unroll 6
    for (floats* r : results) {
      UNMASK_BENCH_KEEP(*r);
    }
#pragma GCC unroll 7
    for (floats& r : f) {
      UNMASK_BENCH_KEEP(r);
    }
  }
};
