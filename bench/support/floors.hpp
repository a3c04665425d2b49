// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Speed of a processor on the operations of the row kernel if none waits for another: the floor of
/// its loop. A neighbour on the same core, or a lower clock, slows both.

#include <unmask/host/read_row.hpp>

#if defined(__aarch64__)
#  define UNMASK_BENCH_KEEP(x) asm volatile("" : "+w"(x))
#else
#  define UNMASK_BENCH_KEEP(x) asm volatile("" : "+v"(x))
#endif

namespace bench {

enum class operation { fused_multiply_add, maximum, load, all_of_the_loop };

}  // namespace bench

namespace UNMASK_NAMESPACE::host::detail {

template <class Simd>
struct floor_kernel {
  static constexpr index_t width = Simd::width;
  template <bench::operation>
  static void run(const float* /*p*/, index_t /*columns*/) {}
};

#define UNMASK_KERNEL "support/floors_kernel.inl"
#define UNMASK_KERNEL_IS_PLAIN_ELSEWHERE
#include <unmask/host/each_instruction_set.inl>

}  // namespace UNMASK_NAMESPACE::host::detail

namespace bench {

/// One operation for each vector of `columns` columns, which are a multiple of 192.
template <operation Op>
void run_operation(unmask::host::instruction_set level, const float* p, unmask::index_t columns) {
  const auto run = unmask::host::with_vectors(level, []<class Simd>(Simd) {
    return &unmask::host::detail::floor_kernel<Simd>::template run<Op>;
  });
  run(p, columns);
}

/// Numbers in a vector of an instruction set.
[[nodiscard]] inline unmask::index_t width_of(unmask::host::instruction_set level) {
  return unmask::host::with_vectors(level, [](auto simd) { return decltype(simd)::width; });
}

}  // namespace bench

#undef UNMASK_BENCH_KEEP
