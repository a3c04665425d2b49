// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "unmask/cuda/fake_forward.hpp"

#include <unmask/cuda/error.hpp>

namespace unmask::testing {
namespace {

template <class T>
__global__ void fill_rows(segment s,
                          placed_tokens placed,
                          const token_id* tokens,
                          index_t length,
                          T* rows,
                          index_t vocab,
                          std::ptrdiff_t stride) {
  const auto r = static_cast<index_t>(blockIdx.x);
  const std::uint32_t key = row_key(tokens, length, s.rows.first + r, placed);
  for (auto v = static_cast<index_t>(threadIdx.x); v < vocab;
       v += static_cast<index_t>(blockDim.x)) {
    rows[r * stride + v] = encode_units<T>(fake_logit(key, v));
  }
}

}  // namespace

template <element T>
void fake_forward(const segment& s,
                  const token_id* tokens,
                  index_t length,
                  const rows_view<T, memory::device>& logits,
                  cudaStream_t stream) {
  if (s.rows.empty()) {
    return;
  }
  fill_rows<<<static_cast<unsigned>(s.rows.size()), 256, 0, stream>>>(s,
                                                                      placed_tokens(s),
                                                                      tokens,
                                                                      length,
                                                                      const_cast<T*>(logits.data),
                                                                      logits.columns,
                                                                      logits.stride);
  device::check(cudaGetLastError(), "launch of fill_rows");
}

template void fake_forward(const segment&,
                           const token_id*,
                           index_t,
                           const rows_view<float, memory::device>&,
                           cudaStream_t);
template void fake_forward(const segment&,
                           const token_id*,
                           index_t,
                           const rows_view<bfloat16, memory::device>&,
                           cudaStream_t);
template void fake_forward(const segment&,
                           const token_id*,
                           index_t,
                           const rows_view<float16, memory::device>&,
                           cudaStream_t);

}  // namespace unmask::testing
