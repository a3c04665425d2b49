// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Three kernels for the short run of fast_math.py: between them they read, edit, draw, compare with
// the step before, process logits with credit and penalties, and decide.

#include <unmask/cuda.cuh>

#include <type_traits>

#include "unmask/device/policies.hpp"

namespace unmask::device {

template <const auto& P>
using policy_of = std::remove_cvref_t<decltype(P)>;

using drawn_edited = policy_of<testing::drawn_edited>;
using patient = policy_of<testing::patient>;
using redrawn = policy_of<testing::redrawn>;

template __global__ void
read_rows<float, exact_exponential, drawn_edited::required.bits, false, drawn_edited>(
    const session_device_view<drawn_edited>, const __grid_constant__ row_batch);
template __global__ void
read_rows<float, exact_exponential, patient::required.bits, false, patient>(
    const session_device_view<patient>, const __grid_constant__ row_batch);
template __global__ void read_rows<float, exact_exponential, redrawn::required.bits, true, redrawn>(
    const session_device_view<redrawn>, const __grid_constant__ row_batch);

}  // namespace unmask::device
