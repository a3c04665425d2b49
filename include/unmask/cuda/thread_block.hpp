// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/thread_group.hpp>

#include <concepts>
#include <cstdint>

/// Kernel bodies are functions of a thread block, written in plain C++: on a device the block is
/// device_block, in the tests an emulation whose threads are fibers. The code tested without a GPU
/// is the code that runs on one.
namespace UNMASK_NAMESPACE::device {

/// Threads of a warp.
inline constexpr index_t warp_threads = 32;

/// One thread's view of its thread block: a thread group whose lanes are the threads, with their
/// warps.
///
/// shuffle_xor(x, m) is the x of the lane whose number differs by the bits m, shuffle(x, l) that of
/// lane l; a whole warp calls them together. sync_warp() is a barrier of one warp. take_ticket(n)
/// adds one to a counter that all blocks share and returns its former value: a thread with a later
/// one sees what this thread, and the threads that it has met at a barrier, wrote before. add(n, x)
/// adds to a number, in any order; of 32 bits it returns what it was. publish(p, x) writes x to
/// memory that the host may be reading; other writes may be seen later.
template <class B>
concept thread_block =
    deciding_group<B> && requires(const B& b, float x, std::uint32_t bits, index_t lane) {
      { b.warp() } -> std::same_as<index_t>;
      { b.warps() } -> std::same_as<index_t>;
      { b.warp_lane() } -> std::same_as<index_t>;
      { b.shuffle_xor(x, lane) } -> std::same_as<float>;
      { b.shuffle_xor(bits, lane) } -> std::same_as<std::uint32_t>;
      { b.shuffle(x, lane) } -> std::same_as<float>;
      { b.shuffle(bits, lane) } -> std::same_as<std::uint32_t>;
      { b.ballot(true) } -> std::same_as<std::uint32_t>;
      { b.add(static_cast<std::uint32_t*>(nullptr), bits) } -> std::same_as<std::uint32_t>;
      { b.add(static_cast<std::uint64_t*>(nullptr), std::uint64_t{1}) } -> std::same_as<void>;
      { b.sync_warp() } -> std::same_as<void>;
      { b.take_ticket(static_cast<std::uint32_t*>(nullptr)) } -> std::same_as<std::uint32_t>;
      { b.publish(static_cast<std::uint32_t*>(nullptr), bits) } -> std::same_as<void>;
    };

/// One warp of a block as a thread group.
template <class Block>
struct warp_group {
  const Block& block;

  [[nodiscard]] UNMASK_HD index_t lane() const { return block.warp_lane(); }
  [[nodiscard]] UNMASK_HD index_t lanes() const { return warp_threads; }
  UNMASK_HD void sync() const { block.sync_warp(); }
};

/// The calling thread's warp.
template <class Block>
[[nodiscard]] UNMASK_HD warp_group<Block> warp_of(const Block& b) {
  return {b};
}

/// Calls body(0) ... body(Count - 1); unrolled on a device, so that arrays indexed by the argument
/// stay in registers.
template <index_t Count, class Body>
UNMASK_HD void unrolled(const Body& body) {
#if defined(__CUDA_ARCH__)
#  pragma unroll
#endif
  for (index_t i = 0; i < Count; ++i) {
    body(i);
  }
}

/// Calls body(0) ... body(Count - 1), never unrolled: for the many loops with shuffles.
template <index_t Count, class Body>
UNMASK_HD void rolled(const Body& body) {
#if defined(__CUDA_ARCH__)
#  pragma unroll 1
#endif
  for (index_t i = 0; i < Count; ++i) {
    body(i);
  }
}

}  // namespace unmask::device
