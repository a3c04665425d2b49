// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "unmask/cuda/merge_messages.hpp"

#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {
namespace {

__global__ void merge_two(const std::byte* left, const std::byte* right, std::byte* out) {
  static_cast<void>(ranks::merge<exchanged>(left, right, out));
}

}  // namespace

std::vector<std::byte> merged_on_device(const std::vector<std::byte>& left,
                                        const std::vector<std::byte>& right) {
  const device_array<std::byte> a(left);
  const device_array<std::byte> b(right);
  const device_array<std::byte> out(left.size());
  merge_two<<<1, 1>>>(a.data(), b.data(), out.data());
  device::check(cudaGetLastError(), "launch of merge_two");
  return out.to_host();
}

}  // namespace unmask::testing
