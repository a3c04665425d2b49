// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "unmask/cuda/block_bodies.hpp"

#include <unmask/cuda/device_block.cuh>

#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {
namespace {

template <index_t Threads, class Body>
__global__ void __launch_bounds__(Threads)
    run_body(const Body body, const std::uint64_t* in, index_t n, std::uint64_t* out) {
  body(device::device_block<Threads>{}, in, n, out);
}

// Every thread of a block writes a word before the block takes its ticket; who takes the last one
// of a group counts the blocks whose words are all there.
__global__ void __launch_bounds__(128) take_tickets(std::uint32_t* counters,
                                                    std::uint32_t* words,
                                                    std::uint32_t* tickets,
                                                    std::uint32_t* seen) {
  constexpr unsigned size = tickets_taken::group;
  const device::device_block<128> b;
  const unsigned group = blockIdx.x / size;
  __shared__ std::uint32_t ticket;
  words[blockIdx.x * 128U + threadIdx.x] = 1;
  b.sync();
  if (b.lane() == 0) {
    ticket = b.take_ticket(counters + group);
    tickets[blockIdx.x] = ticket;
  }
  b.sync();
  if (ticket + 1 != size) {
    return;
  }
  std::uint32_t complete = 0;
  for (unsigned block = group * size; block < (group + 1) * size; ++block) {
    complete += b.count(words[block * 128U + threadIdx.x] == 1).all == 128 ? 1 : 0;
  }
  if (b.lane() == 0) {
    seen[group] = complete;
  }
}

}  // namespace

template <class Body>
std::vector<std::uint64_t> run_on_device(const Body& body,
                                         index_t threads,
                                         const std::vector<std::uint64_t>& in,
                                         std::size_t out) {
  const device_array<std::uint64_t> from(in);
  const device_array<std::uint64_t> to(std::vector<std::uint64_t>(out, 0));
  const auto n = static_cast<index_t>(in.size());
  if (threads == 128) {
    run_body<128><<<1, 128>>>(body, from.data(), n, to.data());
  } else {
    run_body<256><<<1, 256>>>(body, from.data(), n, to.data());
  }
  device::check(cudaGetLastError(), "launch of run_body");
  return to.to_host();
}

tickets_taken take_tickets_on_device(index_t groups) {
  const auto count = static_cast<std::size_t>(groups);
  const std::size_t blocks = count * tickets_taken::group;
  const device_array<std::uint32_t> words(std::vector<std::uint32_t>(128 * blocks, 0));
  const device_array<std::uint32_t> counters(std::vector<std::uint32_t>(count, 0));
  const device_array<std::uint32_t> tickets(blocks);
  const device_array<std::uint32_t> seen(count);
  take_tickets<<<static_cast<unsigned>(blocks), 128>>>(
      counters.data(), words.data(), tickets.data(), seen.data());
  device::check(cudaGetLastError(), "launch of take_tickets");
  return {tickets.to_host(), seen.to_host()};
}

#define UNMASK_RUN_ON_DEVICE(body)                                                                 \
  template std::vector<std::uint64_t> run_on_device(                                               \
      const body&, index_t, const std::vector<std::uint64_t>&, std::size_t);
UNMASK_RUN_ON_DEVICE(sums_body)
UNMASK_RUN_ON_DEVICE(any_body)
UNMASK_RUN_ON_DEVICE(hold_body)
UNMASK_RUN_ON_DEVICE(sort_body)
UNMASK_RUN_ON_DEVICE(choose_body)
UNMASK_RUN_ON_DEVICE(last_key_body)
#undef UNMASK_RUN_ON_DEVICE

}  // namespace unmask::testing
