// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sessions of the host in a CUDA file: compiling them is the test. nvcc must not find calls of host
// functions in functions of host and device, which warnings as errors refuse.
#include <unmask/unmask.hpp>

namespace unmask {

using many_statistics = policy<by_margin, entropy_bound, adaptive_threshold, sampling, temperature>;
template class session<many_statistics>;

void supply_in_a_cuda_file(session<many_statistics>& s, const float* logits) {
  s.supply(host_logits<float>(logits, 4, 8));
}

using with_canvas = policy<by_entropy, entropy_bound, canvas>;
template class session<with_canvas>;

void supply_in_a_cuda_file(session<with_canvas>& s, const float* logits) {
  s.supply(host_logits<float>(logits, 4, 8));
}

}  // namespace unmask
