// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cooperation of the blocks of the library's kernels, each written by hand and with CUB or
// libcu++ (Google Benchmark). All kernels read and write 2,048 keys a block of 128 threads; those
// of a pair write the same, which is compared before a time is taken.
//
//     unmask_bench_cuda_primitives [options of Google Benchmark] [BLOCKS]   # each of them once
//     tests/kernels.py bench/cuda/primitives.cu   # registers, shared memory, instructions
//
// Executed from its PTX by the tests. Times of an H100: bench/results/gpu.md.

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/hold_chunk.hpp>

#include <benchmark/benchmark.h>

#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/barrier>
#include <cuda/std/functional>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cuda/device.hpp"
#include "wrong_result.hpp"

namespace {

using key = std::uint64_t;
using unmask::index_t;
using block = unmask::device::device_block<128>;

constexpr index_t threads = 128;
constexpr index_t warps = threads / unmask::device::warp_threads;
constexpr index_t block_keys = 2048;
unsigned blocks = 1024;
bool once = false;

[[nodiscard]] const __device__ key* keys_of_block(const key* in) {
  return in + std::size_t{blockIdx.x} * block_keys;
}
[[nodiscard]] __device__ key* keys_of_block(key* out) {
  return out + std::size_t{blockIdx.x} * block_keys;
}

// The number of set lanes before each thread, and of all.

__global__ void __launch_bounds__(threads) count_by_hand(const key* in, key* out) {
  __shared__ index_t of_warp[warps];
  const block b;
  const std::uint32_t own = b.ballot(keys_of_block(in)[b.lane()] % 3 == 0);
  if (b.warp_lane() == 0) {
    of_warp[b.warp()] = __popc(own);
  }
  b.sync();
  index_t before = __popc(own & ((1U << static_cast<unsigned>(b.warp_lane())) - 1U));
  index_t all = 0;
  for (index_t w = 0; w < warps; ++w) {
    before += w < b.warp() ? of_warp[w] : 0;
    all += of_warp[w];
  }
  b.sync();
  keys_of_block(out)[b.lane()] = static_cast<key>(before + threads * all);
}

__global__ void __launch_bounds__(threads) count_cub(const key* in, key* out) {
  const block b;
  const unmask::lane_count sum = b.count(keys_of_block(in)[b.lane()] % 3 == 0);
  keys_of_block(out)[b.lane()] = static_cast<key>(sum.before + threads * sum.all);
}

// The bitwise or over a block.

[[nodiscard]] __device__ std::uint32_t any_of_warp(const block& b, std::uint32_t bits) {
#if __CUDA_ARCH__ >= 800
  static_cast<void>(b);
  return __reduce_or_sync(0xffffffffU, bits);
#else
  for (index_t distance = unmask::device::warp_threads / 2; distance > 0; distance /= 2) {
    bits |= b.shuffle_xor(bits, distance);
  }
  return bits;
#endif
}

__global__ void __launch_bounds__(threads) any_by_hand(const key* in, key* out) {
  __shared__ key of_warp[warps];
  const block b;
  const key own = keys_of_block(in)[b.lane()];
  const std::uint32_t high = any_of_warp(b, static_cast<std::uint32_t>(own >> 32U));
  const std::uint32_t low = any_of_warp(b, static_cast<std::uint32_t>(own));
  if (b.warp_lane() == 0) {
    of_warp[b.warp()] = (key{high} << 32U) | low;
  }
  b.sync();
  key all = 0;
  for (index_t w = 0; w < warps; ++w) {
    all |= of_warp[w];
  }
  b.sync();
  keys_of_block(out)[b.lane()] = all;
}

__global__ void __launch_bounds__(threads) any_cub(const key* in, key* out) {
  const block b;
  keys_of_block(out)[b.lane()] = b.any(keys_of_block(in)[b.lane()]);
}

// The first 64 of 256 keys of each warp.

constexpr index_t held_of = 256;

template <class Sort>
__device__ void hold(const key* in, key* out, const Sort& first_of) {
  __shared__ unmask::device::warp_list lists[warps];
  const block b;
  unmask::device::warp_list& mine = lists[b.warp()];
  first_of(b, keys_of_block(in) + b.warp() * held_of, mine);
  for (index_t i = b.warp_lane(); i < held_of; i += unmask::device::warp_threads) {
    keys_of_block(out)[b.warp() * held_of + i] = i < mine.held ? mine.keys[i] : 0;
  }
}

__global__ void __launch_bounds__(threads) first_of_warp_by_hand(const key* in, key* out) {
  hold(in, out, [](const block& b, const key* from, unmask::device::warp_list& list) {
    unmask::device::warp_holder holder(b, list);
    for (index_t i = b.warp_lane(); i < held_of; i += unmask::device::warp_threads) {
      holder.push(from[i]);
    }
    holder.sort();
  });
}

__global__ void __launch_bounds__(threads) first_of_warp_cub(const key* in, key* out) {
  constexpr index_t each = held_of / unmask::device::warp_threads;
  using sorting = cub::WarpMergeSort<key, each, unmask::device::warp_threads>;
  __shared__ typename sorting::TempStorage space[warps];
  static_assert(sizeof space[0] > held_of * sizeof(key));
  hold(in, out, [&](const block& b, const key* from, unmask::device::warp_list& list) {
    key own[each];
    for (index_t i = 0; i < each; ++i) {
      own[i] = from[each * b.warp_lane() + i];
    }
    if (b.warp_lane() == 0) {
      reinterpret_cast<key*>(&space[b.warp()])[held_of] = 0;  // which CUB reads, and does not use
    }
    b.sync_warp();
    sorting(space[b.warp()]).Sort(own, ::cuda::std::less<>{});
    for (index_t i = 0; i < each; ++i) {
      if (each * b.warp_lane() + i < list.held) {
        list.keys[each * b.warp_lane() + i] = own[i];
      }
    }
    b.sync_warp();
  });
}

// `size` keys, a power of two that is not known when this is compiled, sorted by a block.

__global__ void __launch_bounds__(threads)
    sort_of_block_by_hand(const key* in, key* out, index_t size) {
  __shared__ key all[block_keys];
  const block b;
  for (index_t i = b.lane(); i < size; i += b.lanes()) {
    all[i] = keys_of_block(in)[i];
  }
  unmask::step::sort(b, all, size);
  for (index_t i = b.lane(); i < size; i += b.lanes()) {
    keys_of_block(out)[i] = all[i];
  }
}

// Calls sort(own) for as many keys a thread as `size` needs.
template <template <int> class Sorting>
__device__ void sort_any(const key* in, key* out, index_t size) {
  __shared__ union {
    typename Sorting<1>::space one;
    typename Sorting<2>::space two;
    typename Sorting<4>::space four;
    typename Sorting<8>::space eight;
    typename Sorting<16>::space sixteen;
  } space;
  const auto sort = [&]<int Each>(auto& part) {
    key own[Each];
    for (int i = 0; i < Each; ++i) {
      const index_t at = Each * static_cast<index_t>(threadIdx.x) + i;
      own[i] = at < size ? keys_of_block(in)[at] : unmask::step::no_key;
    }
    Sorting<Each>::sort(part, own);
    for (int i = 0; i < Each; ++i) {
      const index_t at = Each * static_cast<index_t>(threadIdx.x) + i;
      if (at < size) {
        keys_of_block(out)[at] = own[i];
      }
    }
  };
  size <= threads       ? sort.template operator()<1>(space.one)
  : size <= 2 * threads ? sort.template operator()<2>(space.two)
  : size <= 4 * threads ? sort.template operator()<4>(space.four)
  : size <= 8 * threads ? sort.template operator()<8>(space.eight)
                        : sort.template operator()<16>(space.sixteen);
}

template <int Each>
struct by_merging {
  using sorting = cub::BlockMergeSort<key, threads, Each>;
  using space = typename sorting::TempStorage;
  static __device__ void sort(space& s, key (&own)[Each]) {
    static_assert(sizeof s > sizeof(key) * threads * Each);
    if (threadIdx.x == 0) {
      reinterpret_cast<key*>(&s)[threads * Each] = 0;  // which CUB reads, and does not use
    }
    sorting(s).Sort(own, ::cuda::std::less<>{});
  }
};
template <int Each>
struct by_radix {
  using sorting = cub::BlockRadixSort<key, threads, Each>;
  using space = typename sorting::TempStorage;
  static __device__ void sort(space& s, key (&own)[Each]) { sorting(s).Sort(own); }
};

__global__ void __launch_bounds__(threads)
    sort_of_block_cub_merge(const key* in, key* out, index_t size) {
  sort_any<by_merging>(in, out, size);
}

__global__ void __launch_bounds__(threads)
    sort_of_block_cub_radix(const key* in, key* out, index_t size) {
  sort_any<by_radix>(in, out, size);
}

// A histogram of counts and masses in shared memory.

template <class Add>
__device__ void fill_bins(const key* in, key* out, const Add& add) {
  __shared__ std::uint32_t counts[256];
  __shared__ key masses[256];
  const block b;
  for (index_t i = b.lane(); i < 256; i += b.lanes()) {
    counts[i] = 0;
    masses[i] = 0;
  }
  b.sync();
  for (index_t i = b.lane(); i < block_keys; i += b.lanes()) {
    const key x = keys_of_block(in)[i];
    add(b, counts + x % 256, 1U);
    add(b, masses + x % 256, x >> 32U);
  }
  b.sync();
  for (index_t i = b.lane(); i < 256; i += b.lanes()) {
    keys_of_block(out)[i] = masses[i] + counts[i];
  }
}

__global__ void __launch_bounds__(threads) bins_by_hand(const key* in, key* out) {
  fill_bins(in, out, [](const block& b, auto* sum, auto x) { b.add(sum, x); });
}

__global__ void __launch_bounds__(threads) bins_libcudacxx(const key* in, key* out) {
  fill_bins(in, out, [](const block&, auto* sum, auto x) {
    using word = std::remove_pointer_t<decltype(sum)>;
    const ::cuda::atomic_ref<word, ::cuda::thread_scope_block> ref(*sum);
    ref.fetch_add(x, ::cuda::memory_order_relaxed);
  });
}

// The ticket of a block, which stands for what the block wrote before. Here each has a counter.

__global__ void __launch_bounds__(threads) ticket_by_hand(const key* in, key* out) {
  const block b;
  keys_of_block(out)[b.lane()] = keys_of_block(in)[b.lane()];
  b.sync();
  if (b.lane() == 0) {
    auto* const counter = reinterpret_cast<std::uint32_t*>(keys_of_block(out) + threads);
    *counter = 7;
    __threadfence();
    const std::uint32_t ticket = atomicAdd(counter, 1U);
    __threadfence();
    keys_of_block(out)[threads + 1] = ticket;
  }
}

__global__ void __launch_bounds__(threads) ticket_libcudacxx(const key* in, key* out) {
  const block b;
  keys_of_block(out)[b.lane()] = keys_of_block(in)[b.lane()];
  b.sync();
  if (b.lane() == 0) {
    auto* const counter = reinterpret_cast<std::uint32_t*>(keys_of_block(out) + threads);
    *counter = 7;
    keys_of_block(out)[threads + 1] = b.take_ticket(counter);
  }
}

// The largest of a warp's floats, in every lane.

struct larger_of {
  [[nodiscard]] __device__ float operator()(float a, float b) const {
    return unmask::device::larger(a, b);
  }
};

__global__ void __launch_bounds__(threads) warp_maximum_by_hand(const key* in, key* out) {
  const block b;
  float x = static_cast<float>(keys_of_block(in)[b.lane()] >> 40U);
  for (index_t distance = unmask::device::warp_threads / 2; distance > 0; distance /= 2) {
    x = unmask::device::larger(x, b.shuffle_xor(x, distance));
  }
  keys_of_block(out)[b.lane()] = static_cast<key>(x);
}

__global__ void __launch_bounds__(threads) warp_maximum_cub(const key* in, key* out) {
  using reduction = cub::WarpReduce<float>;
  __shared__ typename reduction::TempStorage space[warps];
  const block b;
  const float own = static_cast<float>(keys_of_block(in)[b.lane()] >> 40U);
  const float x = b.shuffle(reduction(space[b.warp()]).Reduce(own, larger_of{}), 0);
  keys_of_block(out)[b.lane()] = static_cast<key>(x);
}

// A barrier of the block.

__global__ void __launch_bounds__(threads) barrier_by_hand(const key* in, key* out) {
  __shared__ key all[threads];
  const block b;
  all[b.lane()] = keys_of_block(in)[b.lane()];
  b.sync();
  keys_of_block(out)[b.lane()] = all[threads - 1 - b.lane()];
}

__global__ void __launch_bounds__(threads) barrier_libcudacxx(const key* in, key* out) {
  using barrier = ::cuda::barrier<::cuda::thread_scope_block>;
  __shared__ key all[threads];
  __shared__ alignas(barrier) unsigned char bytes[sizeof(barrier)];
  auto* const meeting = reinterpret_cast<barrier*>(bytes);
  const block b;
  if (b.lane() == 0) {
    init(meeting, threads);
  }
  b.sync();
  all[b.lane()] = keys_of_block(in)[b.lane()];
  meeting->arrive_and_wait();
  keys_of_block(out)[b.lane()] = all[threads - 1 - b.lane()];
}

/// Times `kernel`, after it has written what `expected` does.
template <class... Sizes>
void race(benchmark::State& state,
          void (*kernel)(const key*, key*, Sizes...),
          void (*expected)(const key*, key*, Sizes...)) {
  const example::stream on;
  const std::size_t count = std::size_t{blocks} * block_keys;
  std::vector<key> keys(count);
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] = (i + 1) * 0x9e3779b97f4a7c15U;
  }
  const example::device_array<key> in(count);
  in.upload(keys.data(), count, on);
  const auto launch = [&](auto* body, const example::device_array<key>& out) {
    if constexpr (sizeof...(Sizes) > 0) {
      body<<<blocks, threads, 0, on.get()>>>(
          in.data(), out.data(), static_cast<index_t>(state.range(0)));
    } else {
      body<<<blocks, threads, 0, on.get()>>>(in.data(), out.data());
    }
    example::check(cudaGetLastError(), "launch of a primitive");
  };
  const example::device_array<key> out(count);
  std::vector<std::vector<key>> written;
  for (auto* const body : {kernel, expected}) {
    example::check(cudaMemsetAsync(out.data(), 0, count * sizeof(key), on.get()),
                   "cudaMemsetAsync");
    launch(body, out);
    written.emplace_back(count);
    out.download(written.back(), on);
  }
  if (written[0] != written[1]) {
    bench::skip_wrong_result(state, "writes something else than the other one");
    return;
  }
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  example::check(cudaEventCreate(&begin), "cudaEventCreate");
  example::check(cudaEventCreate(&end), "cudaEventCreate");
  for (auto _ : state) {
    example::check(cudaEventRecord(begin, on.get()), "cudaEventRecord");
    launch(kernel, out);
    example::check(cudaEventRecord(end, on.get()), "cudaEventRecord");
    on.wait();
    float milliseconds = 0.0F;
    example::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    state.SetIterationTime(1e-3 * static_cast<double>(milliseconds));
  }
  static_cast<void>(cudaEventDestroy(end));
  static_cast<void>(cudaEventDestroy(begin));
}

template <class Kernel>
void add(const char* name, Kernel kernel, Kernel expected, bool sized = false) {
  auto* const added = benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { race(state, kernel, expected); });
  added->UseManualTime()->Unit(benchmark::kMicrosecond);
  if (once) {
    added->Iterations(1);
  }
  for (const std::int64_t size : {32, 256, 2048}) {
    if (sized) {
      added->Arg(size);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc == 2 && std::atoi(argv[1]) > 0) {
    blocks = static_cast<unsigned>(std::atoi(argv[1]));
    once = true;
    argc = 1;
  }
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  if (!example::find_device()) {
    return example::skipped;
  }
  add("count/by_hand", count_by_hand, count_cub);
  add("count/cub", count_cub, count_by_hand);
  add("any/by_hand", any_by_hand, any_cub);
  add("any/cub", any_cub, any_by_hand);
  add("first_of_warp/by_hand", first_of_warp_by_hand, first_of_warp_cub);
  add("first_of_warp/cub", first_of_warp_cub, first_of_warp_by_hand);
  add("sort_of_block/by_hand", sort_of_block_by_hand, sort_of_block_cub_merge, true);
  add("sort_of_block/cub_merge", sort_of_block_cub_merge, sort_of_block_by_hand, true);
  add("sort_of_block/cub_radix", sort_of_block_cub_radix, sort_of_block_by_hand, true);
  add("bins/by_hand", bins_by_hand, bins_libcudacxx);
  add("bins/libcudacxx", bins_libcudacxx, bins_by_hand);
  add("ticket/by_hand", ticket_by_hand, ticket_libcudacxx);
  add("ticket/libcudacxx", ticket_libcudacxx, ticket_by_hand);
  add("warp_maximum/by_hand", warp_maximum_by_hand, warp_maximum_cub);
  add("warp_maximum/cub", warp_maximum_cub, warp_maximum_by_hand);
  add("barrier/by_hand", barrier_by_hand, barrier_libcudacxx);
  add("barrier/libcudacxx", barrier_libcudacxx, barrier_by_hand);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return bench::wrong_results > 0 ? 1 : 0;
}
