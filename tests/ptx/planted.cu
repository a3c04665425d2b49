// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with a mistake that the interpreter must report, each beside one of the same shape that
// it must not report.

#include "ptx/planted.hpp"

#include <cuda/atomic>
#include <cuda_runtime.h>

#include <vector>

namespace unmask::ptx {
namespace {

constexpr unsigned threads = 64;

// --- memory ---

template <bool Right>
__global__ void within_bounds(int* data, int n) {
  data[threadIdx.x + (Right ? 0 : 1)] = n;  // one of them behind the end
}

template <bool Right>
__global__ void aligned(const char* data, int* out) {
  out[threadIdx.x] = *reinterpret_cast<const int*>(data + (Right ? 4 : 2) * (threadIdx.x % 8));
}

template <bool Right>
__global__ void read_behind_a_write(int* data, int* out) {
  if (Right) {
    data[threadIdx.x] = 1;
  }
  out[threadIdx.x] = data[threadIdx.x];
}

template <bool Right>
__global__ void shared_behind_a_write(int* out) {
  __shared__ int s[2 * threads];
  s[threadIdx.x] = 1;
  if (Right) {
    s[threads + threadIdx.x] = 2;
  }
  __syncthreads();
  out[threadIdx.x] = s[2 * threads - 1 - threadIdx.x];
}

template <bool Right>
__global__ void within_shared(int* out, unsigned n) {
  __shared__ int s[threads];
  s[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    s[Right ? n % threads : n] = 1;  // n is the number of its elements
  }
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

// --- races ---

template <bool Right>
__global__ void barrier_between(int* out) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (Right) {
    __syncthreads();
  }
  out[threadIdx.x] = s[threads - 1 - threadIdx.x];
}

template <bool Right>
__global__ void barrier_before_the_next_round(int* out) {
  __shared__ int s;
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) {
      s = round;
    }
    __syncthreads();
    sum += s;
    if (Right) {
      __syncthreads();
    }
  }
  out[threadIdx.x] = sum;
}

template <bool Right>
__global__ void updated_behind_the_reads(int* out) {
  __shared__ int s;
  if (threadIdx.x == 0) {
    s = 1;
  }
  __syncthreads();
  const int before = s;
  if (Right) {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    s += 1;
  }
  __syncthreads();
  out[threadIdx.x] = before + s;
}

template <bool Right>
__global__ void warp_barrier_for_a_warp(int* out) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = s[threadIdx.x ^ (Right ? 1U : 32U)];
}

template <bool Right>
__global__ void shuffles_order_nothing(int* out) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  const int x = __shfl_xor_sync(0xffffffffU, s[threadIdx.x], 1);
  if (Right) {
    __syncwarp();
  }
  out[threadIdx.x] = x + s[threadIdx.x ^ 1U];
}

template <bool Right>
__global__ void one_word_a_block(int* out) {
  if (threadIdx.x == 0) {
    out[Right ? blockIdx.x : 0] = static_cast<int>(blockIdx.x);
  }
}

template <bool Right>
__global__ void bytes_of_a_word(char* out) {
  out[Right ? blockIdx.x * blockDim.x + threadIdx.x : threadIdx.x] = 1;
}

template <bool Right>
__global__ void last_block_adds(int* words, unsigned* counter, int* out) {
  __shared__ unsigned ticket;
  words[blockIdx.x * threads + threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    const cuda::atomic_ref<unsigned, cuda::thread_scope_device> n(*counter);
    ticket = n.fetch_add(1U, Right ? cuda::memory_order_acq_rel : cuda::memory_order_relaxed);
  }
  __syncthreads();
  if (ticket + 1 == gridDim.x) {
    int sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) {
      sum += words[b * threads + threadIdx.x];
    }
    out[threadIdx.x] = sum;
  }
}

// The first lane acquires for the others of its warp, who see it behind a warp barrier.
template <bool Right>
__global__ void one_lane_acquires(int* words, unsigned* counter, int* out) {
  if (threadIdx.x >= 32) {
    return;
  }
  words[blockIdx.x * 32 + threadIdx.x] = 1;
  __syncwarp();
  unsigned ticket = 0;
  if (threadIdx.x == 0) {
    const cuda::atomic_ref<unsigned, cuda::thread_scope_device> n(*counter);
    ticket = n.fetch_add(1U, cuda::memory_order_acq_rel);
  }
  ticket = __shfl_sync(0xffffffffU, ticket, 0);
  if (ticket + 1 == gridDim.x) {
    if (Right) {
      __syncwarp();
    }
    int sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) {
      sum += words[b * 32 + threadIdx.x];
    }
    out[threadIdx.x] = sum;
  }
}

// A block that is not counted reads what the last of the others overwrites.
template <bool Right>
__global__ void every_block_is_counted(int* plan, unsigned* counter, int* out) {
  __shared__ bool is_last;
  const int read = plan[0];
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = false;
    if (Right || blockIdx.x % 2 == 0) {
      const cuda::atomic_ref<unsigned, cuda::thread_scope_device> n(*counter);
      is_last = n.fetch_add(1U, cuda::memory_order_acq_rel) + 1 == gridDim.x / (Right ? 1 : 2);
    }
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    plan[0] = 7;
  }
  out[blockIdx.x * threads + threadIdx.x] = read;
}

// --- barriers ---

template <bool Right>
__global__ void one_barrier_for_all(int* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = 0;
    if (!Right) {
      __syncthreads();
      out[threadIdx.x + 1] = 2;
    }
  } else {
    out[threadIdx.x] = 1;
    if (!Right) {
      __syncthreads();
    }
  }
  if (Right) {
    __syncthreads();
  }
}

template <bool Right>
__global__ void barrier_before_the_return(int* out) {
  if (Right) {
    __syncthreads();
  }
  if (threadIdx.x >= 48) {
    return;
  }
  if (!Right) {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

template <bool Right>
__global__ void mask_of_those_who_are_there(int* out) {
  if (threadIdx.x % 32 >= 16) {
    return;
  }
  const unsigned mask = Right ? 0x0000ffffU : 0xffffffffU;
  out[threadIdx.x] = __shfl_xor_sync(mask, static_cast<int>(threadIdx.x), 1);
}

template <bool Right>
__global__ void shuffle_from_one_in_the_mask(int* out) {
  if (threadIdx.x % 32 < 16) {
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffU, static_cast<int>(threadIdx.x), Right ? 1 : 16);
  }
}

// Another result than the bits of those in the mask is out of bounds.
template <bool Right>
__global__ void reduction_of_those_who_are_there(int* out) {
  if (threadIdx.x % 32 >= 16) {
    return;
  }
  const unsigned mask = Right ? 0x0000ffffU : 0xffffffffU;
  const unsigned all = __reduce_or_sync(mask, 1U << threadIdx.x % 32);
  out[all == 0x0000ffffU ? threadIdx.x : threads] = 1;
}

template <bool Right>
__global__ void warp_barrier_or_block_barrier(int* out) {
  if (threadIdx.x % 32 < 16) {
    __syncwarp(Right ? 0x0000ffffU : 0xffffffffU);
    out[threadIdx.x] = 1;
  }
  __syncthreads();
}

// --- the host's side ---

struct buffer {
  void* p = nullptr;

  explicit buffer(std::size_t bytes, bool is_written = true) {
    cudaMalloc(&p, bytes);
    if (is_written) {
      cudaMemset(p, 0, bytes);
    }
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { cudaFree(p); }
  template <class T>
  operator T*() const {
    return static_cast<T*>(p);
  }
};

constexpr std::size_t one = sizeof(int) * threads;

#define UNMASK_BOTH(kernel, grid, ...)                                                             \
  (is_right ? kernel<true><<<grid, threads>>>(__VA_ARGS__)                                         \
            : kernel<false><<<grid, threads>>>(__VA_ARGS__))

void capture_without_allocation(bool is_right) {
  cudaStream_t s = nullptr;
  cudaGraph_t g = nullptr;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  const buffer before(one);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  if (!is_right) {
    const buffer inside(one, false);
  }
  within_bounds<true><<<1, threads, 0, s>>>(before, 1);
  cudaStreamEndCapture(s, &g);
  cudaGraphDestroy(g);
  cudaStreamDestroy(s);
}

void free_once(bool is_right) {
  buffer b(one);
  if (!is_right) {
    cudaFree(b.p);
  }
}

void as_many_threads_as_allowed(bool is_right) {
  const buffer out(one);
  barrier_between<true><<<1, is_right ? threads : 2048>>>(out);
}

}  // namespace

const std::vector<planted>& planted_defects() {
  static const std::vector<planted> all = {
      {"within_bounds",
       "is out of bounds: 4 bytes at byte 256 of a cudaMalloc of 256 bytes",
       [](bool is_right) {
         const buffer b(one);
         UNMASK_BOTH(within_bounds, 1, b, 3);
       }},
      {"aligned",
       "is misaligned: 4 bytes",
       [](bool is_right) {
         const buffer b(one);
         const buffer out(one);
         UNMASK_BOTH(aligned, 1, b, out);
       }},
      {"read_behind_a_write",
       "reads what was never written: byte",
       [](bool is_right) {
         const buffer b(one, false);
         const buffer out(one);
         UNMASK_BOTH(read_behind_a_write, 1, b, out);
       }},
      {"shared_behind_a_write",
       "reads what was never written: byte",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(shared_behind_a_write, 1, out);
       }},
      {"within_shared",
       "is outside of shared memory, at its byte 256",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(within_shared, 1, out, threads);
       }},
      {"barrier_between",
       "race at byte",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(barrier_between, 1, out);
       }},
      {"barrier_before_the_next_round",
       "race at byte 0 of shared memory",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(barrier_before_the_next_round, 1, out);
       }},
      {"updated_behind_the_reads",
       "race at byte 0 of shared memory",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(updated_behind_the_reads, 1, out);
       }},
      {"warp_barrier_for_a_warp",
       "race at byte",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(warp_barrier_for_a_warp, 1, out);
       }},
      {"shuffles_order_nothing",
       "race at byte",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(shuffles_order_nothing, 1, out);
       }},
      {"one_word_a_block",
       "race at byte 0 of a cudaMalloc",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(one_word_a_block, 3, out);
       }},
      {"bytes_of_a_word",
       "race at byte",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(bytes_of_a_word, 2, out);
       }},
      {"last_block_adds",
       "race at byte",
       [](bool is_right) {
         const buffer words(5 * one);
         const buffer counter(4);
         const buffer out(one);
         UNMASK_BOTH(last_block_adds, 5, words, counter, out);
       }},
      {"one_lane_acquires",
       "race at byte",
       [](bool is_right) {
         const buffer words(5 * one);
         const buffer counter(4);
         const buffer out(one);
         UNMASK_BOTH(one_lane_acquires, 5, words, counter, out);
       }},
      {"every_block_is_counted",
       "race at byte 0 of a cudaMalloc",
       [](bool is_right) {
         const buffer plan(4);
         const buffer counter(4);
         const buffer out(8 * one);
         UNMASK_BOTH(every_block_is_counted, 8, plan, counter, out);
       }},
      {"one_barrier_for_all",
       "deadlock",
       [](bool is_right) {
         const buffer out(2 * one);
         UNMASK_BOTH(one_barrier_for_all, 1, out);
       }},
      {"barrier_before_the_return",
       "threads 48-63 have returned",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(barrier_before_the_return, 1, out);
       }},
      {"mask_of_those_who_are_there",
       "returned",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(mask_of_those_who_are_there, 1, out);
       }},
      {"shuffle_from_one_in_the_mask",
       "which the mask does not name",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(shuffle_from_one_in_the_mask, 1, out);
       }},
      {"reduction_of_those_who_are_there",
       "returned",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(reduction_of_those_who_are_there, 1, out);
       }},
      {"warp_barrier_or_block_barrier",
       "deadlock",
       [](bool is_right) {
         const buffer out(one);
         UNMASK_BOTH(warp_barrier_or_block_barrier, 1, out);
       }},
      {"capture_without_allocation",
       "cudaMalloc while a stream is captured",
       capture_without_allocation},
      {"free_once", "cudaFree of what was not allocated", free_once},
      {"as_many_threads_as_allowed",
       "cannot be launched with 2048 threads",
       as_many_threads_as_allowed},
  };
  return all;
}

}  // namespace unmask::ptx
